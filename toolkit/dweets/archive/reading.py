"""What an archive holds, as frames: its things, its gaps, and histories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.dweets.archive.epochs import gaps_of
from toolkit.dweets.archive.files import ArchiveFile, thing_files
from toolkit.dweets.archive.parquet import Footer, read_rows
from toolkit.dweets.calls import checked_name
from toolkit.dweets.history_frame import content_frame
from toolkit.errors import InvalidArgument
from toolkit.frames import declared_frame

Moment = str | date | datetime | pd.Timestamp | None

_INTEGER, _MICROSECONDS, _DAY = "int64", "datetime64[us, UTC]", "datetime64[us]"
_THINGS = {"thing": "str", "first": _MICROSECONDS, "last": _MICROSECONDS}
_THINGS |= dict.fromkeys(("dweets", "missing", "files", "bytes"), _INTEGER)
_GAPS = {"thing": "str", **dict.fromkeys(("epoch", "first", "last", "missing"), _INTEGER)}
_GAPS |= {"after": _DAY, "before": _DAY}
_TIME = pa.timestamp("us", "UTC")
_HISTORY = pa.schema({"thing": pa.string(), "created": _TIME, "content": pa.string()})


def things_frame(files: Mapping[str, Sequence[tuple[ArchiveFile, Footer]]]) -> pd.DataFrame:
    """Return one row per thing."""
    rows = [
        {
            "thing": thing,
            "first": pd.Timestamp(min(footer.first for _, footer in its), unit="us", tz="UTC"),
            "last": pd.Timestamp(max(footer.last for _, footer in its), unit="us", tz="UTC"),
            "dweets": sum(file.rows for file, _ in its),
            "missing": sum(last - first + 1 for first, last, _, _ in gaps_of([file for file, _ in its])),
            "files": len(its),
            "bytes": sum(footer.size for _, footer in its),
        }
        for thing, its in files.items()
    ]
    return declared_frame(rows, _THINGS)


def gaps_frame(files: Mapping[str, Sequence[ArchiveFile]]) -> pd.DataFrame:
    """Return one row per gap."""
    rows = [
        {
            "thing": thing,
            "epoch": after.epoch,
            "first": first,
            "last": last,
            "missing": last - first + 1,
            "after": pd.NaT if before is None else pd.Timestamp(before.last_day),
            "before": pd.Timestamp(after.first_day),
        }
        for thing, its in files.items()
        for first, last, before, after in gaps_of(its)
    ]
    return declared_frame(rows, _GAPS)


def history_of(folder: Path, things: str | Iterable[str], since: Moment, until: Moment) -> pd.DataFrame:
    """Return the dweets created from `since` on and before `until`, oldest first."""
    start, end = _timestamp(since, "since"), _timestamp(until, "until")
    names = [things] if isinstance(things, str) else list(dict.fromkeys(things))
    table = pa.concat_tables([_HISTORY.empty_table(), *(_read(folder, name, start, end) for name in names)])
    if len(names) > 1:
        table = table.take(pc.sort_indices(table.column("created")))  # the sort is stable
    times = pd.DatetimeIndex(table.column("created").to_pandas(), name="created")
    contents = [orjson.loads(content) for content in table.column("content").to_pylist()]
    return content_frame(contents, times, None if isinstance(things, str) else table.column("thing").to_pylist())


def _read(folder: Path, thing: str, start: pd.Timestamp, end: pd.Timestamp) -> pa.Table:
    created = pc.field("created")
    wanted = (created >= pa.scalar(start, _TIME)) & (created < pa.scalar(end, _TIME))
    tables = [_HISTORY.empty_table()]
    for file in thing_files(folder, checked_name(thing)):
        if file.first_day <= end.date().isoformat() and start.date().isoformat() <= file.last_day:
            tables.append(read_rows(file, _HISTORY.names, wanted).cast(_HISTORY))
    return pa.concat_tables(tables)


def _timestamp(moment: Moment, name: str) -> pd.Timestamp:
    if moment is None:
        moment = datetime.min if name == "since" else datetime.max
    try:
        read = pd.Timestamp(moment)
        utc = read.tz_localize("UTC") if read.tzinfo is None else read.tz_convert("UTC")
        if pd.isna(utc):
            raise ValueError
        return utc.as_unit("us")
    except (ValueError, TypeError, OverflowError):
        raise InvalidArgument(f"{name} must be a time, such as 2026-01-31 or 2026-01-31T12:00Z") from None
