"""Years of dweets in a folder, as frames: what ``tk.dweets.archive(folder)`` gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from toolkit.dweets.archive.contents import gaps_frame, things_frame
from toolkit.dweets.archive.files import ArchiveFile, all_files
from toolkit.dweets.archive.frame_rows import write_frames
from toolkit.dweets.archive.frames import FIRST, LAST, Moment, microseconds
from toolkit.dweets.archive.history import history_of
from toolkit.dweets.archive.joining import Footer, read_footer
from toolkit.dweets.archive.queries import ArchiveQueries, partitions
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.errors import ArchiveUnusable, InvalidArgument

if TYPE_CHECKING:
    import dask.dataframe as dd

T = TypeVar("T")

# A writer may join files while they are read: then what is there is looked up again.
_ATTEMPTS = 5


class Archive:
    """An archive of dweets: a folder of Parquet files that `toolkit record` or a gateway writes.

    It is read without a gateway and without keys, also while somebody writes to it: whoever may read the folder may
    read what is in it, of locked things too.

    Parameters
    ----------
    folder
        Of the archive.

    Raises
    ------
    InvalidArgument
        There is no such folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> times = pd.date_range("2026-01-01", periods=3, freq="h", tz="UTC")
    >>> with TemporaryDirectory() as folder:
    ...     archive = Archive(folder)
    ...     archive.add_frame(pd.DataFrame({"celsius": [1.5, 2.0, 2.5]}, index=times), "roof")
    ...     archive.history("roof", since="2026-01-01T01:00")["celsius"].tolist()
    3
    [2.0, 2.5]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        if not self.folder.is_dir():
            raise InvalidArgument(f"there is no folder {self.folder}; `toolkit record THING --to FOLDER` makes one")
        self._footers: dict[Path, Footer] = {}
        self._queries = ArchiveQueries()

    # -- what is there ------------------------------------------------------------------------------------

    def things(self) -> pd.DataFrame:
        """Return what is archived of each thing.

        Returns
        -------
        pandas.DataFrame
            By name: thing, first and last time (UTC), dweets, missing (see `gaps`), files, bytes.

        Raises
        ------
        ArchiveUnusable
            A file is damaged or does not belong here; its name is told.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     len(Archive(folder).things())
        0
        """
        return self._attempt(lambda: things_frame(self._all(), self._footer))

    def gaps(self) -> pd.DataFrame:
        """Return which sequence numbers are missing: dweets that the server no longer kept when it was asked for them.

        Returns
        -------
        pandas.DataFrame
            By thing: thing, epoch (how often its server began to count anew, from 1), first and last missing number,
            missing, and the days (UTC) of the dweets around: after (missing at the beginning) and before.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     len(Archive(folder).gaps())
        0
        """
        return gaps_frame(self._all())

    def __repr__(self) -> str:
        try:
            found = self._all()
        except ArchiveUnusable:
            return f"<Archive in {self.folder}, damaged>"
        files = [file for its in found.values() for file in its]
        if not files:
            return f"<Archive in {self.folder}, empty>"
        dweets = sum(file.rows for file in files)
        first, last = min(file.first_day for file in files), max(file.last_day for file in files)
        return f"<Archive in {self.folder}: {dweets:,} dweets of {len(found):,} things, {first} to {last}>"

    # -- reading ------------------------------------------------------------------------------------------

    def history(self, things: str | Iterable[str], since: Moment = None, until: Moment = None) -> pd.DataFrame:
        """Return dweets as ``tk.dweets.history`` does, however many there are.

        Parameters
        ----------
        things
            One name, or several: then a column ``thing`` tells them apart.
        since, until
            From this time on, and before that one; text, date or datetime, UTC where no zone is told.

        Returns
        -------
        pandas.DataFrame
            Oldest first, with the same index, columns and dtypes. Of a thing that is not archived: no rows.

        Raises
        ------
        InvalidArgument
            No name, or a time that cannot be read.
        ArchiveUnusable
            A file is damaged or does not belong here; its name is told.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     len(Archive(folder).history("kitchen"))
        0
        """
        start = microseconds(since, name="since", otherwise=FIRST)
        end = microseconds(until, name="until", otherwise=LAST)
        named = things if isinstance(things, str) else list(things)
        return self._attempt(lambda: history_of(self.folder, named, start, end))

    def sql(self, query: str) -> pd.DataFrame:
        """Ask in SQL (DuckDB) over all that is archived; the table is called ``dweets``.

        Parameters
        ----------
        query
            Columns: thing, sequence, created (UTC), day, transaction, content (JSON text), and one for each number,
            truth value or short text in the contents, named as in `history`: ``"air.celsius"`` in quotes, as it has
            a dot. A content's own ``thing`` or ``created`` is ``"content.thing"``.

        Returns
        -------
        pandas.DataFrame
            What the query asks for.

        Raises
        ------
        InvalidArgument
            The query cannot be answered; DuckDB says why.
        ExtraMissing
            DuckDB is not installed.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Archive(folder).sql("SELECT count(*) AS dweets FROM dweets")["dweets"].tolist()
        [0]
        """
        return self._attempt(lambda: self._queries.sql(query, self._listed()))

    def dask(self) -> dd.DataFrame:
        """Return a Dask DataFrame on the same files, for when one machine is not enough.

        Returns
        -------
        dask.dataframe.DataFrame
            The columns of `sql`, in the order of things and sequences. Only the columns that are used are read.

        Raises
        ------
        ExtraMissing
            Dask is not installed.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     len(Archive(folder).dask())
        0
        """
        return self._attempt(lambda: partitions(self._listed()))

    # -- writing ------------------------------------------------------------------------------------------

    def add_frame(self, frame: pd.DataFrame, thing: str) -> int:
        """Add a recorded frame: each row is one dweet, behind what is archived of the thing; returns how many.

        Parameters
        ----------
        frame
            With a DatetimeIndex, ascending (UTC where it has no zone): when each dweet was created. Columns become
            the content as in ``tk.dweets.post_frame``.

        Raises
        ------
        InvalidArgument
            No such index, or a value that cannot be JSON; nothing was written.
        ArchiveUnusable
            A recorder or gateway is writing to the archive, or the disk does not take it.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> times = pd.date_range("2026-01-01", periods=2, freq="D")
        >>> with TemporaryDirectory() as folder:
        ...     Archive(folder).add_frame(pd.DataFrame({"rain": [0, 12]}, index=times), "garden")
        2
        """
        return self.add_frames([(thing, frame)])

    def add_frames(self, frames: Iterable[tuple[str, pd.DataFrame]], *, progress: bool = False) -> int:
        """Add many recorded frames, each as `add_frame` does; returns how many dweets they are.

        Parameters
        ----------
        frames
            Pairs of a thing and its frame. They may be made while they are asked for, so that not all of them need
            to be in memory.
        progress
            Show a bar.

        Raises
        ------
        InvalidArgument, ArchiveUnusable
            As of `add_frame`, at the first frame that cannot be added. Earlier ones are, each of them whole.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> day = pd.DataFrame({"n": range(24)}, index=pd.date_range("2026-01-01", periods=24, freq="h"))
        >>> with TemporaryDirectory() as folder:
        ...     Archive(folder).add_frames((f"sensor-{n}", day) for n in range(10))
        240
        """
        with ArchiveWriter(self.folder) as writer:
            return write_frames(writer, frames, progress=progress)

    def compact(self) -> pd.DataFrame:
        """Join small files as far as they may grow; who writes does so by itself, a little later. Returns `things`.

        Raises
        ------
        ArchiveUnusable
            A recorder or gateway is writing to the archive.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     int(Archive(folder).compact()["files"].sum())
        0
        """
        with ArchiveWriter(self.folder) as writer:
            writer.clean()
            for thing in writer.things():
                writer.join(thing, fully=True)
        return self.things()

    # -- files --------------------------------------------------------------------------------------------

    def _all(self) -> dict[str, list[ArchiveFile]]:
        return all_files(self.folder)

    def _listed(self) -> list[tuple[ArchiveFile, Footer]]:
        return [(file, self._footer(file)) for files in self._all().values() for file in files]

    def _footer(self, file: ArchiveFile) -> Footer:
        # A file is never changed, so what it told once stays true.
        if file.path not in self._footers:
            self._footers[file.path] = read_footer(file)
        return self._footers[file.path]

    def _attempt(self, read: Callable[[], T]) -> T:
        for _ in range(_ATTEMPTS):
            try:
                return read()
            except FileNotFoundError:
                continue  # it was joined into another file after it was listed
        raise ArchiveUnusable(f"files of the archive {self.folder} go away while they are read")
