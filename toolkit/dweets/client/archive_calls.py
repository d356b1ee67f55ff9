"""The part of ``tk.dweets`` for archives: read one, record to one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.dweets.client.calls import DweetCalls, Key, checked_name
from toolkit.errors import InvalidArgument

if TYPE_CHECKING:
    from toolkit.dweets.archive.archive import Archive
    from toolkit.dweets.archive.follower import Follower


class ArchiveCalls(DweetCalls):
    """Years of history in a folder."""

    def archive(self, folder: str | os.PathLike[str]) -> Archive:
        """Open an archive, a folder written by ``toolkit record`` or ``Gateway(archive=...)``. No request is sent.

        Returns
        -------
        Archive
            With ``.history``, ``.things``, ``.gaps``, ``.sql``, ``.dask``, ``.add_frame`` and ``.compact``. It needs no
            key: archive files are not encrypted, and locks do not protect them.

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
    ) -> Follower:
        """Write every dweet of some things to an archive, beginning with the oldest one that the gateway still has.

        Parameters
        ----------
        things
            One name, or several.
        folder
            Of the archive; created if missing. A recorder resumes where the last one on this folder ended.
        key
            For locked things: one key, or a mapping of names to keys.
        seconds, rows
            Dweets are written after so many seconds, or as soon as so many have been received.

        Returns
        -------
        Follower
            Runs in the background and reconnects until ``.stop()``; ``.flush()`` writes what has been received.

        Raises
        ------
        KeyRejected, Unreachable
            A thing cannot be listened to now.
        ArchiveUnusable
            The folder cannot be written, or another process is writing to it.

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
        from toolkit.dweets.archive.follower import Follower
        from toolkit.dweets.archive.http_source import HttpSource, log

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
        source = HttpSource(lambda thing, since: self._stream(thing, keys.get(thing), since), names, rows)
        return Follower(Path(folder).expanduser(), source, seconds, log)
