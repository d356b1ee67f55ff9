"""Records as DataFrames with declared columns and dtypes, also if there are no records; DataFrames as files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InvalidArgument
from toolkit.system.files import escaped_formula

#: What callers may pass as a time; a time without a zone is in UTC.
TimeLike = str | date | datetime | pd.Timestamp | np.datetime64


def declared_frame(
    records: Iterable[Mapping[str, Any]], columns: Mapping[str, Any], index: str | None = None
) -> pd.DataFrame:
    """Return a frame with one row per record and exactly these columns (dtype by name); missing values are NA."""
    rows: Sequence[Mapping[str, Any]] = list(records)
    series = {name: pd.Series([row.get(name) for row in rows], dtype=dtype) for name, dtype in columns.items()}
    frame = pd.DataFrame(series, columns=list(columns))
    return frame if index is None else frame.set_index(index)


def check_columns_differ(frame: pd.DataFrame) -> None:
    if not frame.columns.is_unique:
        raise InvalidArgument("two columns have the same name: rename one of them")


def utc_from_iso(texts: Sequence[str]) -> pd.DatetimeIndex:
    """Convert ISO 8601 texts that end in ``Z`` to UTC timestamps with microseconds; ValueError for any other text.

    The texts may have different numbers of decimal places. Much faster than a general parser.
    """
    if {text[-1:] for text in texts} - {"Z"}:
        raise ValueError("a time in UTC ends in Z")
    naive = np.array([text[:-1] for text in texts], dtype="datetime64[us]")
    return pd.DatetimeIndex(naive, tz="UTC")


def utc_timestamp(moment: TimeLike, name: str) -> pd.Timestamp:
    """Convert `moment` to UTC with microseconds; for an invalid time, InvalidArgument says that `name` is wrong."""
    try:
        if isinstance(moment, str) and not re.match(r"\s*[0-9]{4}", moment):
            raise ValueError  # pandas reads 1.2.2026 as 2 January, and "now" as a local time
        utc = pd.to_datetime(moment, utc=True)
        if pd.isna(utc):
            raise ValueError
        return utc.as_unit("us")
    except (ValueError, TypeError, OverflowError):
        given = str(moment)[:40]
        raise InvalidArgument(f"{name} must be a time, such as 2026-01-31 or 2026-01-31T12:00Z, not {given}") from None


def utc_range(since: TimeLike | None, until: TimeLike | None) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return both ends in UTC, for None the earliest or the latest possible time; InvalidArgument for a wrong range."""
    start = utc_timestamp(datetime.min if since is None else since, "since")
    end = utc_timestamp(datetime.max if until is None else until, "until")
    if start > end:
        raise InvalidArgument(f"since ({start}) is later than until ({end})")
    return start, end


def table_bytes(frame: pd.DataFrame, suffix: str) -> bytes:
    """Return a frame as ``.csv`` or ``.parquet``; InvalidArgument for another suffix.

    In CSV, texts that a spreadsheet would execute as a formula begin with an apostrophe.
    """
    if suffix == ".csv":
        return _without_formulas(frame).to_csv(lineterminator="\n").encode()
    if suffix == ".parquet":
        file = BytesIO()
        frame.to_parquet(file)
        return file.getvalue()
    raise InvalidArgument("name a file that ends in .csv or .parquet")


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    # Names and texts come from devices, so they may be formulas; all other cells are times and numbers.
    safe = frame.rename(columns=escaped_formula).rename_axis(escaped_formula(frame.index.name))
    texts = [name for name in safe.columns if pd.api.types.is_string_dtype(safe[name].dtype)]
    return safe.assign(**{name: safe[name].map(escaped_formula) for name in texts})
