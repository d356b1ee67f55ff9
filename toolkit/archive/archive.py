"""Read an archive as frames, and add frames: `Archive`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm.auto import tqdm

from toolkit.archive.file_names import ArchiveFile, all_files, gaps_of, thing_files
from toolkit.archive.parquet_files import Footer, read_footer, read_rows, table_of_frame
from toolkit.archive.queries import ArchiveQueries, dask_frame
from toolkit.archive.writer import ArchiveWriter
from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.dweets.checked_values import checked_count, checked_name, checked_names, checked_times
from toolkit.dweets.content_frame import Columns, content_frame
from toolkit.dweets.content_leaves import CREATED
from toolkit.dweets.frame_time import TimedRows, TimeSelection, timed_rows
from toolkit.errors import ArchiveUnusable, InvalidArgument, counted, warn_caller
from toolkit.frames import TimeLike, declared_frame, utc_range
from toolkit.system.nearest_name import missing_names

if TYPE_CHECKING:
    import dask.dataframe as dd

T = TypeVar("T")
IfExists = Literal["error", "skip", "append"]

_INTEGER, _MICROSECONDS, _DAY = "int64", "datetime64[us, UTC]", "datetime64[us]"
_THINGS = {"thing": "str", "first": _MICROSECONDS, "last": _MICROSECONDS}
_THINGS |= dict.fromkeys(("dweets", "missing", "files", "bytes"), _INTEGER)
_DELETED = {"thing": "str", **dict.fromkeys(("epoch", "first", "last", "missing"), _INTEGER)}
_DELETED |= {"after": _DAY, "before": _DAY}
_TIME = pa.timestamp("us", "UTC")
_HISTORY = pa.schema({"thing": pa.string(), "created": _TIME, "content": pa.string()})
# A writer may merge files while they are read. Then reading starts again, for at most this many seconds.
_SECONDS_TO_READ = 30.0
# `add_frames` encodes some frames while the files of others are synced.
_THREADS = 4


@checked_arguments
class Archive:
    """An archive of dweets: a folder of Parquet files that a gateway or `add_frame` writes.

    Reading needs no gateway and no keys, and works while another process writes. Archive files are not encrypted;
    locks do not protect them.

    Raises
    ------
    InvalidArgument
        There is no such folder.
    ArchiveUnusable
        A file is damaged or does not belong here (the message names it); or a method that writes finds that another
        process is writing to the archive.
    ExtraMissing
        `sql`, `dask` or a method that writes needs the extra ``archive``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> times = pd.date_range("2026-01-01", periods=3, freq="h", tz="UTC")
    >>> folder = TemporaryDirectory()
    >>> archive = Archive(folder.name)
    >>> archive.add_frame("roof", pd.DataFrame({"celsius": [1.5, 2.0, 2.5]}, index=times))
    3
    >>> archive.add_frames((f"sensor-{n}", pd.DataFrame({"n": range(3)}, index=times)) for n in range(2))
    6
    >>> archive.compact()[["thing", "dweets", "missing"]].values.tolist()
    [['roof', 3, 0], ['sensor-0', 3, 0], ['sensor-1', 3, 0]]
    >>> archive.history("roof", since="2026-01-01T01:00")["celsius"].tolist()
    [2.0, 2.5]
    >>> archive.sql("SELECT thing, max(celsius) AS most FROM dweets GROUP BY thing ORDER BY thing")["most"].tolist()
    [2.5, nan, nan]
    >>> int(archive.dask()["n"].sum().compute()), len(archive.things()), len(archive.deleted())
    (6, 3, 0)
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = absolute_path(folder)
        if not self.folder.is_dir():
            raise InvalidArgument(f"there is no folder {folder}; `toolkit gateway --archive FOLDER` creates one")
        self._footers: dict[ArchiveFile, Footer] = {}
        # By process ID: a DuckDB connection needs its threads, which a forked process does not have.
        self._queries: dict[int, ArchiveQueries] = {}
        self._writing = threading.RLock()

    def __reduce__(self) -> tuple[type[Archive], tuple[Path]]:
        return Archive, (self.folder,)  # for other processes, without connections and locks

    def __repr__(self) -> str:
        try:
            things = all_files(self.folder)
        except ArchiveUnusable:
            return f"<Archive in {self.folder}, damaged>"
        files = list(chain.from_iterable(things.values()))
        if not files:
            return f"<Archive in {self.folder}, empty>"
        first, last = min(file.first_day for file in files), max(file.last_day for file in files)
        counts = f"{counted(sum(file.rows for file in files), 'dweet')} of {counted(len(things), 'thing')}"
        return f"<Archive in {self.folder}: {counts}, {first} to {last}>"

    def things(self) -> pd.DataFrame:
        """Return one row per thing, sorted by name: thing, first, last (UTC), dweets, missing, files, bytes."""
        by_thing = groupby(self._retry(self._read_footers), key=lambda footer: footer.file.thing)
        return declared_frame([_thing_row(thing, list(footers)) for thing, footers in by_thing], _THINGS)

    def deleted(self) -> pd.DataFrame:
        """Return the dweets that the server had deleted before they were archived.

        Returns
        -------
        pandas.DataFrame
            One row per run: thing, epoch (1, plus 1 for each restart of the server's numbers), first, last (the missing
            numbers), missing (how many), after, before (days in UTC of the dweets around them; NaT at the start).
        """
        gaps = ((thing, gap) for thing, files in all_files(self.folder).items() for gap in gaps_of(files))
        rows = [{"thing": thing, "missing": gap.missing, **gap._asdict()} for thing, gap in gaps]
        return pd.DataFrame(rows, columns=list(_DELETED)).astype(_DELETED)

    def history(
        self,
        things: str | Iterable[str],
        *,
        n: int | None = None,
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        time: str = CREATED,
        columns: Columns = None,
    ) -> pd.DataFrame:
        """Return archived dweets, as ``tk.dweets.history`` returns those that a gateway keeps.

        Parameters
        ----------
        things, n, since, until, columns
            As in ``tk.dweets.history``.
        time
            The field with the times that `n`, `since` and `until` mean: all dweets of the things are read first.

        Returns
        -------
        pandas.DataFrame
            Oldest first, with the index, columns and dtypes of ``tk.dweets.history``. A warning names things without
            any dweet, or fields in `columns` that no dweet has, with the nearest name.
        """
        start, end = utc_range(since, until)
        names, count = checked_names(things), None if n is None else checked_count(n)
        by_field = TimeSelection(time, count, start, end) if time != CREATED else None
        if by_field is not None:
            (start, end), count = utc_range(None, None), None
        tables = self._retry(lambda: [self._history_table(name, start, end, count) for name in names])
        empty = [name for name, table in zip(names, tables, strict=True) if not len(table)]
        if unknown := [name for name in empty if not thing_files(self.folder, name)]:
            known = list(all_files(self.folder))
            warn_caller(missing_names("the archive has no dweet of", "thing", unknown, len(names), known))
        table = pa.concat_tables([_HISTORY.empty_table(), *tables])
        times = pd.DatetimeIndex(table.column("created").to_pandas(), name="created")
        if not times.is_monotonic_increasing:  # several things, a clock that was set back, or a frame added late
            order = pc.sort_indices(table.column("created"))  # the sort is stable
            table, times = table.take(order), times[order.to_numpy()]
        contents = [orjson.loads(content) for content in table.column("content").to_pylist()]
        names_of_rows, own_times = table.column("thing").to_pylist(), None
        if by_field is not None:
            order, own_times = by_field.positions(names_of_rows, contents)
            names_of_rows, contents = ([values[row] for row in order] for values in (names_of_rows, contents))
            times = times[order]
        return content_frame(contents, times, None if isinstance(things, str) else names_of_rows, columns, own_times)

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a SQL query (DuckDB) on the table ``dweets``, which has all archived dweets.

        The query is one SELECT. It reads no files outside of the folder, and writes none.

        Parameters
        ----------
        query
            Columns: thing, sequence, created (UTC), day, transaction, content (JSON text), and one for each name
            of numbers, booleans or short texts in the contents, as in `history`. Quote a name with a dot:
            ``"air.celsius"``. A ``thing``, ``created``, ... inside a content is ``"content.thing"`` and so on.
        parameters
            A list of values for each ``?`` in the query, or a dict of values for each ``$name``.

        Raises
        ------
        InvalidArgument
            DuckDB rejects the query, or it is not one SELECT; the message says why.
        """
        queries = self._queries.get(os.getpid()) or self._queries.setdefault(os.getpid(), ArchiveQueries(self.folder))
        return self._retry(lambda: queries.sql(query, self._read_footers(), parameters))

    def dask(self) -> dd.DataFrame:
        """Return a Dask DataFrame of all archived dweets, to compute on several machines.

        It has the columns of `sql`, sorted by thing and sequence. Only the columns that are used are read.
        """
        return self._retry(lambda: dask_frame(self._read_footers()))

    def add_frame(
        self, thing: str, frame: pd.DataFrame, *, time: str | None = None, if_exists: IfExists = "error"
    ) -> int:
        """Append a frame to a thing, each row as one dweet, and return the number of rows that were added.

        Parameters
        ----------
        frame
            Its index is the time of each dweet: an ascending DatetimeIndex, in UTC if it has no time zone. The columns
            become the content as in ``tk.dweets.post_frame``, and so does the index if it has a name of its own (other
            than ``created``). After an InvalidArgument nothing was written.
        time
            The column with the time of each dweet; or the name of the field in which the DatetimeIndex travels.
        if_exists
            What to do with rows that are not later than the newest dweet, as when a cell runs again: ``"error"``
            refuses the frame (InvalidArgument), ``"append"`` adds all rows. ``"skip"`` adds only the later rows, and
            of the rows at the time of the newest dweet as many as the frame has more than the archive. So
            ``add_frame(thing, tk.dweets.history(thing), if_exists="skip")``, run again, copies each dweet once.
        """
        return self.add_frames([(thing, frame)], time=time, if_exists=if_exists)

    def add_frames(
        self,
        frames: Iterable[tuple[str, pd.DataFrame]],
        *,
        time: str | None = None,
        if_exists: IfExists = "error",
        progress: bool = False,
    ) -> int:
        """Append many frames, each as `add_frame` does, and return the number of rows that were added.

        Parameters
        ----------
        frames
            Pairs of a thing and its frame; a generator, if not all frames fit into memory. If one cannot be added,
            all frames before it are stored, and perhaps some after it.
        progress
            Show a progress bar.
        """
        count = 0
        running: dict[str, Future[int]] = {}
        with self._writing, ArchiveWriter(self.folder) as writer, ThreadPoolExecutor(_THREADS, "archive") as threads:
            for thing, frame in tqdm(frames, unit="thing", disable=not progress):
                checked_name(thing)
                if thing in running:  # its numbers continue those of the previous frame
                    count += running.pop(thing).result()
                elif len(running) > _THREADS:
                    count += running.pop(next(iter(running))).result()
                rows = timed_rows(frame, time, keeps_created=True)
                warn_caller(*rows.notes)  # here, because a thread has no caller
                running[thing] = threads.submit(_add_rows, writer, thing, rows, if_exists)
            return count + sum(future.result() for future in running.values())

    def compact(self) -> pd.DataFrame:
        """Merge small files and return `things`."""
        with self._writing, ArchiveWriter(self.folder) as writer:
            writer.compact()
        return self.things()

    def _read_footers(self) -> list[Footer]:
        files = chain.from_iterable(all_files(self.folder).values())
        # A file never changes. Files that were merged into others are forgotten.
        self._footers = footers = {file: self._footers.get(file) or read_footer(file) for file in files}
        return list(footers.values())

    def _history_table(self, thing: str, start: pd.Timestamp, end: pd.Timestamp, n: int | None) -> pa.Table:
        created = pc.field("created")
        wanted = (created >= pa.scalar(start, _TIME)) & (created < pa.scalar(end, _TIME))
        tables = [_HISTORY.empty_table()]
        for file in thing_files(self.folder, thing):
            if file.first_day <= end.date().isoformat() and start.date().isoformat() <= file.last_day:
                tables.append(read_rows(file, _HISTORY.names, wanted).cast(_HISTORY))
        table = pa.concat_tables(tables)
        if n is not None:  # by time, because rows that were appended late are not the newest
            table = table.take(pc.sort_indices(table.column("created"))[-n:])
        return table

    def _retry(self, read: Callable[[], T]) -> T:
        end = time.monotonic() + _SECONDS_TO_READ
        while time.monotonic() < end:
            with suppress(FileNotFoundError):  # a file was merged into another one after it was listed
                return read()
        raise ArchiveUnusable(f"files of the archive {self.folder} keep disappearing while they are read")


def _thing_row(thing: str, footers: Sequence[Footer]) -> dict[str, Any]:
    return {
        "thing": thing,
        "first": pd.Timestamp(min(footer.earliest for footer in footers), unit="us", tz="UTC"),
        "last": pd.Timestamp(max(footer.latest for footer in footers), unit="us", tz="UTC"),
        "dweets": sum(footer.file.rows for footer in footers),
        "missing": sum(gap.missing for gap in gaps_of([footer.file for footer in footers])),
        "files": len(footers),
        "bytes": sum(footer.size for footer in footers),
    }


def _add_rows(writer: ArchiveWriter, thing: str, rows: TimedRows, if_exists: IfExists) -> int:
    fields, utc = rows.fields, pd.to_datetime(checked_times(rows.times), utc=True)
    if len(utc) and not (utc[0].year >= 1 and utc[-1].year <= 9999):
        raise InvalidArgument(f"a dweet has a time in the years 1 to 9999 (UTC), not {utc[0]} to {utc[-1]}")
    utc = utc.as_unit("us")  # as in the archive; otherwise a stored row would seem some nanoseconds later
    if if_exists != "append" and (stored := _stored_rows(writer, thing, utc, if_exists)):
        fields, utc = fields.iloc[stored:], utc[stored:]
    if len(fields):
        first, times = writer.position(thing).sequence + 1, utc.asi8
        writer.append_table(thing, table_of_frame(thing, first, times, fields))
    return len(fields)


def _stored_rows(writer: ArchiveWriter, thing: str, times: pd.DatetimeIndex, if_exists: IfExists) -> int:
    """Return how many of the first rows the archive has already; InvalidArgument if there are some, unless "skip"."""
    newest, at_newest = writer.newest(thing)
    if newest is None:
        return 0
    earlier, not_later = (int(times.searchsorted(newest, side=side)) for side in ("left", "right"))
    if not_later and if_exists == "error":
        raise InvalidArgument(
            f"{not_later:,} of {len(times):,} rows are not later than the last dweet of {thing!r} ({newest}): add the "
            "later rows with if_exists='skip', or all of them with if_exists='append'"
        )
    # Dweets may share a millisecond, and the archive may have only the first of those at its newest time.
    return min(earlier + at_newest, not_later)
