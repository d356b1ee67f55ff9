"""Archives, as one types them: read one, record into one; one part of ``tk.dweets``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.dweets.calls import DweetCalls, Key, checked_name
from toolkit.errors import InvalidArgument

if TYPE_CHECKING:
    from toolkit.dweets.archive.archive import Archive
    from toolkit.dweets.archive.recording import Recording


class ArchiveCalls(DweetCalls):
    """Years of history in a folder."""

    def archive(self, folder: str | os.PathLike[str]) -> Archive:
        """Open a folder that ``toolkit record`` or ``Gateway(archive=...)`` writes, or wrote. No call is made.

        Returns
        -------
        Archive
            With ``.history``, ``.things``, ``.gaps``, ``.sql``, ``.dask``, ``.add_frame`` and ``.compact``. No key is
            asked for: whoever may read the folder may read all that is in it.

        Raises
        ------
        InvalidArgument
            There is no such folder.

        Examples
        --------
        >>> import toolkit
        >>> from tempfile import TemporaryDirectory
        >>> with toolkit.connect() as tk, TemporaryDirectory() as folder:
        ...     len(tk.dweets.archive(folder).history("kitchen"))
        0
        """
        from toolkit.dweets.archive.archive import Archive

        return Archive(folder)

    def record(
        self,
        things: str | Iterable[str],
        folder: str | os.PathLike[str],
        *,
        key: Key | Mapping[str, Key] = None,
        seconds: float = 10.0,
        rows: int = 10_000,
    ) -> Recording:
        """Write every dweet of some things to an archive, from what the gateway still keeps on, until it is stopped.

        Parameters
        ----------
        things
            One name, or several.
        folder
            Of the archive; made if missing. A recorder resumes where the last one on this folder ended.
        key
            For locked things: one key, or one for each name.
        seconds, rows
            What has come is written after so many seconds, or once it is so many dweets.

        Returns
        -------
        Recording
            Runs by itself; ``.flush()`` writes what has come, ``.stop()`` ends it. It reconnects for ever.

        Raises
        ------
        KeyRejected, Unreachable
            A thing cannot be listened to now.
        ArchiveUnusable
            The folder cannot be written, or somebody else writes to it.

        Examples
        --------
        >>> import toolkit
        >>> from tempfile import TemporaryDirectory
        >>> with toolkit.connect() as tk, TemporaryDirectory() as folder:
        ...     _ = tk.dweets.post("kitchen", {"celsius": 21.5})
        ...     with tk.dweets.record("kitchen", folder) as recording:
        ...         _ = recording.wait(dweets=1)
        ...     tk.dweets.archive(folder).history("kitchen")["celsius"].tolist()
        [21.5]
        """
        from toolkit.dweets.archive.recording import Recording

        names = [things] if isinstance(things, str) else list(dict.fromkeys(things))
        if not names:
            raise InvalidArgument("name at least one thing to record")
        if not (seconds > 0 and rows > 0):
            raise InvalidArgument("seconds and rows must be above 0")
        keys = dict(key) if isinstance(key, Mapping) else dict.fromkeys(names, key)
        if unknown := set(keys) - set(names):
            raise InvalidArgument(f"there are keys of things that are not recorded: {', '.join(sorted(unknown))}")
        for name in names:
            checked_name(name)
        return Recording(
            lambda thing, since: self._stream(thing, keys.get(thing), since),
            names,
            Path(folder).expanduser(),
            seconds=seconds,
            rows=rows,
        )
