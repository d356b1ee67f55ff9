"""What one types in a notebook for section A: ``tk.dweets``."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pandas as pd

import toolkit.dweets.client.accessor  # noqa: F401 - gives every frame .dweets
from toolkit.dweets import wire
from toolkit.dweets.client.archive_calls import ArchiveCalls
from toolkit.dweets.client.calls import Key, checked_date
from toolkit.dweets.client.history_frame import history_frame
from toolkit.dweets.client.listening import Listener
from toolkit.dweets.client.lock_calls import LockCalls
from toolkit.dweets.client.post_calls import PostCalls
from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.frames import declared_frame

_PATIENCE = 60.0


class DweetClient(PostCalls, LockCalls, ArchiveCalls):
    """Thing messaging: post, read, listen, lock, alert. Use it as ``tk.dweets``.

    A key is needed for locked things only; a `Secret` or plain text. It is never shown again.
    """

    # -- reading ------------------------------------------------------------------------------------------

    def latest(self, thing: str, *, key: Key = None) -> pd.DataFrame:
        """Return the newest dweet: ``GET /get/latest/dweet/for/{thing}``.

        Returns
        -------
        pandas.DataFrame
            One row as in `history`, or none where nothing was posted yet.

        Raises
        ------
        KeyRejected
            The thing is locked and the key is missing or wrong.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     _ = tk.dweets.post("kitchen", {"celsius": 21.5})
        ...     tk.dweets.latest("kitchen")["celsius"].tolist()
        [21.5]
        """
        return history_frame(self._records(wire.LATEST, thing, key))

    def history(self, things: str | Iterable[str], *, key: Key = None) -> pd.DataFrame:
        """Return the last dweets, at most 500 a thing: ``GET /get/dweets/for/{thing}``.

        Parameters
        ----------
        things
            One name, or several: then a column ``thing`` tells them apart.

        Returns
        -------
        pandas.DataFrame
            Oldest first. Index ``created`` (UTC); nested content flattened with dots into typed columns (int64,
            float64, boolean, str, object; gaps as NA); content that is no object in a column ``content``.

        Raises
        ------
        KeyRejected
            The thing is locked and the key is missing or wrong.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     _ = tk.dweets.post("kitchen", {"air": {"celsius": 21.5}})
        ...     tk.dweets.history("kitchen").columns.tolist()
        ['air.celsius']
        """
        return self._frame_of(wire.HISTORY, things, key)

    def stored(
        self, things: str | Iterable[str], date: str, *, hour: int | None = None, key: Key = None
    ) -> pd.DataFrame:
        """Return all dweets kept of one day or hour: ``GET /get/stored/dweets/for/{thing}``.

        Parameters
        ----------
        things
            One name, or several: then a column ``thing`` tells them apart.
        date
            ``YYYY-MM-DD``, in UTC.
        hour
            0 to 23; None for the whole day.

        Returns
        -------
        pandas.DataFrame
            As in `history`, oldest first, however many there are.

        Raises
        ------
        InvalidArgument
            No such day or hour.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     len(tk.dweets.stored("kitchen", "2026-01-01"))
        0
        """
        if hour is not None and hour not in range(24):
            raise InvalidArgument("hour must be 0 to 23")
        query = {"date": checked_date(date), "hour": None if hour is None else f"{hour:02d}"}
        return self._frame_of(wire.STORED, things, key, query)

    def things(self) -> pd.DataFrame:
        """Return the public things that were active last: ``GET /get/stats``.

        Returns
        -------
        pandas.DataFrame
            Columns ``thing`` and ``keywords`` (comma-separated names of its newest content), newest first.
        """
        found = self._call(wire.STATS, {})
        try:
            things = found["active_things"]
            rows = [{"thing": each["thing"], "keywords": ", ".join(each["keywords"])} for each in things]
        except (KeyError, TypeError):
            raise UnexpectedReply("the answer does not hold active things") from None
        return declared_frame(rows, {"thing": "str", "keywords": "str"})

    def listen(self, thing: str, *, key: Key = None, since: int | None = None, patience: float = _PATIENCE) -> Listener:
        """Iterate over dweets as they arrive: ``GET /listen/for/dweets/from/{thing}``.

        Parameters
        ----------
        since
            A sequence number (see `Listener.position`): first replay what came after it. None: only what is new.
        patience
            Seconds without a connection after which it gives up.

        Returns
        -------
        Listener
            Yields `Dweet`; reconnects and resumes without loss or duplicate; ``.close()`` from any thread ends it.

        Raises
        ------
        KeyRejected
            The thing is locked and the key is missing or wrong.
        Unreachable
            No answer for `patience` seconds.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk, tk.dweets.listen("door") as doors:
        ...     _ = tk.dweets.post("door", {"open": True})
        ...     next(doors).content
        {'open': True}
        """
        return Listener(lambda position: self._stream(thing, key, position), since, patience)

    def collect(
        self, thing: str, *, n: int | None = None, seconds: float | None = None, key: Key = None
    ) -> pd.DataFrame:
        """Listen until `n` dweets have come or `seconds` have passed.

        Returns
        -------
        pandas.DataFrame
            As in `history`, with what came in that time.

        Raises
        ------
        InvalidArgument
            Neither `n` nor `seconds` is given.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     len(tk.dweets.collect("door", seconds=0.1))
        0
        """
        if n is None and seconds is None:
            raise InvalidArgument("say when to stop: give n, seconds or both")
        records: list[dict[str, Any]] = []
        with self.listen(thing, key=key) as listener:
            timer = threading.Timer(seconds if seconds is not None else threading.TIMEOUT_MAX, listener.close)
            timer.daemon = True
            timer.start()
            try:
                while n is None or len(records) < n:
                    dweet = next(listener, None)
                    if dweet is None:
                        break
                    records.append({"thing": dweet.thing, "created": dweet.created, "content": dweet.content})
            finally:
                timer.cancel()
        return history_frame(records)
