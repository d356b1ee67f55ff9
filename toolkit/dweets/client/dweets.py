"""The client of section A, thing messaging: ``tk.dweets``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.dweets import wire
from toolkit.dweets.checked_values import Key, checked_date, checked_name, checked_names, joined_addresses
from toolkit.dweets.client.alerts import (
    KEPT_MAILS,
    alert_frame,
    backtest_frame,
    backtest_records,
    fields_read,
    missing_fields_text,
)
from toolkit.dweets.client.calls import DweetCalls, checked_records
from toolkit.dweets.client.listening import Listener, collect_records
from toolkit.dweets.client.posting import Playback, post_rows
from toolkit.dweets.client.reading import Selection, read_history
from toolkit.dweets.content_frame import Columns, history_frame, receipt_frame
from toolkit.dweets.content_leaves import CREATED
from toolkit.dweets.frame_rows import content_bytes
from toolkit.dweets.frame_time import TimeSelection
from toolkit.errors import InvalidArgument, NotFound, warn_caller
from toolkit.frames import TimeLike, declared_frame
from toolkit.http_client import HttpSession
from toolkit.public_api import PublicNames

ThingNames = str | Iterable[str]
LOCK_COLUMNS = {"thing": "str", "lock": "str", "locked": "boolean"}


@checked_arguments
class DweetClient(PublicNames):
    """Thing messaging: post, read, listen, lock, alert. Use it as ``tk.dweets``.

    A `key` (a `Secret` or plain text) is needed for locked things only; no output shows the key. A call for a locked
    thing raises KeyRejected if the key is missing or wrong.

    Contents become typed columns (int64, float64, boolean, str or object). Nested names are joined with dots (a key
    that itself has the dots wins), missing values are NA, and a content without fields is in the column ``content``. A
    frame has the 200 most frequent names as columns; a warning says how many are left out, ``columns=`` selects others.
    """

    def __init__(self, session: HttpSession) -> None:
        self._calls = DweetCalls(session)

    def __repr__(self) -> str:
        return f"<Thing messaging at {self._calls.session.base_url}>"

    def post(self, thing: str | None, content: Any, *, key: Key = None) -> pd.DataFrame:  # noqa: ANN401
        """Send one dweet: ``POST /dweet/for/{thing}``, or ``POST /dweet`` for a thing without a name.

        Parameters
        ----------
        thing
            The name of the thing; None lets the gateway choose a readable name.
        content
            Any JSON value: a dict, a list, a number, a text, None.

        Returns
        -------
        pandas.DataFrame
            One row: index ``created`` (UTC), columns ``thing`` and ``transaction``.

        Raises
        ------
        InvalidArgument
            The content cannot be written as JSON, or the name is not valid; nothing was sent.
        RateLimited
            The thing got more posts per second than the gateway allows.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.dweets.post("kitchen", {"celsius": 21.5})["thing"].tolist()
        ['kitchen']
        """
        body = content_bytes(content)
        if thing is None:
            answer = self._calls.call(wire.POST_UNNAMED, {}, body=body)
        else:
            answer = self._calls.call(wire.POST_DWEET, {"thing": thing}, key, body=body)
        return receipt_frame(checked_records([answer.data]))

    def post_frame(
        self,
        thing: str | None = None,
        frame: pd.DataFrame | None = None,
        *,
        thing_column: str | None = None,
        time: str | None = None,
        key: Key = None,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Send each row as one dweet, in order for each thing, 1,000 rows per request: ``POST /dweets/for/{thing}``.

        Returns one row per dweet, as `post` does.

        Parameters
        ----------
        frame
            Column names become names in the content (``position.lat`` nested, ``content.created`` the field
            ``created``), missing values are left out. A DatetimeIndex travels as the field of its name, or as ``time``
            if it has none or is called ``created``; another index travels if it has a name. If a value cannot be JSON
            or a row is too large (InvalidArgument), nothing is sent.
        thing_column
            The column with the name of each row's thing, instead of `thing`; not part of the content.
        time
            The name of the field in which a DatetimeIndex travels; or the column with the time of each row, which is
            then checked.
        progress
            Show a progress bar if there is more than one request.

        Warns
        -----
        DataWarning
            The frame has more rows than the gateway keeps; or some columns are read again with another name or with
            values of another kind (``history(thing, time=...)`` gives back everything else).

        Examples
        --------
        >>> import toolkit
        >>> times = pd.date_range("2026-01-01", periods=3, freq="h", name="measured")
        >>> with toolkit.connect() as tk:
        ...     _ = tk.dweets.post_frame("roof", pd.DataFrame({"celsius": [1.5, 2.0, 2.5]}, index=times))
        ...     tk.dweets.history("roof", time="measured", since="2026-01-01T01:00")["celsius"].tolist()
        [2.0, 2.5]
        """
        return receipt_frame(post_rows(self._calls, thing, frame, thing_column, time, key, progress))

    def replay(
        self, thing: str, frame: pd.DataFrame, *, time: str | None = None, speed: float = 1.0, key: Key = None
    ) -> Playback:
        """Play a frame back as a live thing: send each row, as in `post_frame`, at its time.

        The `Playback` runs in the background: ``.wait()`` waits for its end, ``.close()`` ends it, ``.sent`` is the row
        count so far.

        Parameters
        ----------
        frame
            A frame with ascending times.
        time
            The column with the times; or the name of the field in which the DatetimeIndex travels, as in `post_frame`.
        speed
            1 is the recorded speed, 2 is twice as fast; above 0. ``float("inf")`` sends all rows at once.
        """
        checked_name(thing)
        return Playback(frame, time, speed, lambda contents: self._calls.post_rows(thing, contents, key))

    def latest(self, thing: str, *, time: str = CREATED, columns: Columns = None, key: Key = None) -> pd.DataFrame:
        """Return the newest dweet as in `history`; no row without a dweet: ``GET /get/latest/dweet/for/{thing}``.

        With `time`, the dweet that is the newest by this field, for which `history` reads all that the gateway keeps.
        """
        if time != CREATED:
            return self.history(thing, n=1, time=time, columns=columns, key=key, progress=False)
        return history_frame(self._calls.records(wire.GET_LATEST, thing, key), columns)

    def history(
        self,
        things: ThingNames,
        *,
        n: int | None = None,
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        time: str = CREATED,
        columns: Columns = None,
        key: Key = None,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Return the dweets that the gateway keeps: the last 500 of a thing, and older ones day by day.

        ``GET /get/dweets/for/{thing}``, and ``GET /get/stored/dweets/for/{thing}`` for each earlier day.

        Parameters
        ----------
        things
            One name, or several; with several, the frame has a column ``thing``.
        n
            How many of the newest dweets of each thing; None for all. Up to 500 take one request.
        since, until
            Start (included) and end (excluded): ISO 8601 text, date or datetime, in UTC if it has no time zone.
        time
            The field with the times that `n`, `since` and `until` mean, such as the device's own ``"measured"``; it
            becomes the index. The gateway cannot select by it: every dweet that it keeps of the things is read, day by
            day, and then selected (1,000,000 dweets take about a minute).
        columns
            Names in the content, such as ``["celsius", "position.lat"]``; None for the 200 most frequent.
        progress
            Show a progress bar if there is more than one day to read.

        Returns
        -------
        pandas.DataFrame
            Oldest first. Index ``created`` (UTC), one typed column for each name in the contents; with `time`, that
            field is the index (in UTC; without a zone if no time has one), and ``created`` is a column. A field that is
            itself called ``created`` or ``thing`` is the column ``content.created`` or ``content.thing``. Values stay
            as they were posted: one ``"n/a"`` among numbers makes a column of objects, and analysis uses its numbers
            (``frame.dweets.numeric()`` converts it). A content without a name, such as ``{}`` or a bare number, is in
            the column ``content``, which exists only then.

        Warns
        -----
        DataWarning
            The gateway has deleted dweets, and some of them may be in the requested range; no dweet of a thing, or no
            field of `columns`, is there (with the nearest name); or dweets without a time in the field `time` are left
            out, arrived out of order, or have times with and without a zone.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     _ = tk.dweets.post("kitchen", {"celsius": 21.5})
        ...     len(tk.dweets.history("kitchen", until="2026-01-01"))
        0
        """
        selection, names = Selection.checked(n, since, until), checked_names(things)
        asked = selection if time == CREATED else Selection.checked(None, None, None)
        records, without_dweet = read_history(self._calls, names, key, asked, progress)
        if without_dweet:
            warn_caller(self._calls.no_dweet_text(without_dweet, len(names)))
        times = None
        if time != CREATED:
            records, times = TimeSelection(time, *selection).select(records)
        return history_frame(records, columns, with_thing=not isinstance(things, str), times=times)

    def things(self) -> pd.DataFrame:
        """Return the public things that were active last, newest first, with the names in their newest content.

        ``GET /get/stats``; the columns are ``thing`` and ``keywords``, comma-separated.
        """
        return declared_frame(self._calls.active_things(), {"thing": "str", "keywords": "str"})

    def listen(self, thing: str, *, key: Key = None, since: int | None = None, patience: float = 60.0) -> Listener:
        """Iterate over dweets as they arrive: ``GET /listen/for/dweets/from/{thing}``.

        Parameters
        ----------
        since
            A sequence number (see `Listener.position`): first replay the dweets after it. None: only new dweets.
        patience
            Seconds without a connection after which the listener raises the last error, usually Unreachable. With
            ``math.inf`` it tries for ever, also to connect for the first time.

        Returns
        -------
        Listener
            Yields each `Dweet`, reconnects and resumes without loss or duplicate; any thread may ``.close()`` it. A
            warning says if the thing has no dweet yet, and a public thing has nearly its name.
        """
        misspelt = partial(self._calls.misspelt_text, thing)
        return Listener(lambda position: self._calls.stream(thing, key, position), since, patience, misspelt)

    def collect(
        self,
        thing: str,
        *,
        n: int | None = None,
        seconds: float | None = None,
        columns: Columns = None,
        key: Key = None,
    ) -> pd.DataFrame:
        """Listen until `n` dweets have come or `seconds` have passed, and return them as in `history`."""
        records = collect_records(lambda: self.listen(thing, key=key), n, seconds)
        if not records and not self._calls.has_dweet(thing, key):
            warn_caller(self._calls.no_dweet_text([thing]))
        return history_frame(records, columns)

    def lock(self, thing: str, *, lock: str, key: Key) -> pd.DataFrame:
        """Lock a thing with a lock and its master key: ``GET /lock/{thing}``.

        Returns one row, as `unlock` and `remove_lock`: ``thing``, ``lock``, ``locked``.

        Raises
        ------
        ThingAlreadyLocked, Conflict
            The thing already has a lock, or the lock is on another thing.
        """
        self._calls.call(wire.SET_LOCK, {"thing": thing}, key, {"lock": lock})
        return declared_frame([{"thing": thing, "lock": lock, "locked": True}], LOCK_COLUMNS)

    def unlock(self, thing: str, *, key: Key) -> pd.DataFrame:
        """Unlock a thing with its master key: ``GET /unlock/{thing}``. This also removes its alert."""
        self._calls.call(wire.UNLOCK, {"thing": thing}, key)
        return declared_frame([{"thing": thing, "locked": False}], LOCK_COLUMNS)

    def remove_lock(self, lock: str, *, key: Key) -> pd.DataFrame:
        """Take a lock off its thing, or raise NotFound if no thing uses it: ``GET /remove/lock/{lock}``."""
        self._calls.call(wire.REMOVE_LOCK, {"lock": lock}, key)
        return declared_frame([{"lock": lock, "locked": False}], LOCK_COLUMNS)

    def set_alert(self, thing: str, *, who: str | Sequence[str], condition: str, key: Key) -> pd.DataFrame:
        """Set the alert of a locked thing, return it as in `get_alert`: ``GET /alert/{who}/when/{thing}/{condition}``.

        Parameters
        ----------
        who
            1 to 20 e-mail addresses.
        condition
            JavaScript that reads ``dweet``, the content: an expression, as ``dweet.celsius > 30``, or the body of a
            function, as ``if (dweet.celsius > 30) return 'too hot'``. It is met if its value is a text or true.
            Try it first with `backtest`.

        Returns
        -------
        pandas.DataFrame
            As `get_alert`. A warning says which fields the condition reads that no dweet has, with the nearest name,
            or that the gateway has no mail server.

        Raises
        ------
        ThingNotLocked, KeyRejected
            An alert needs a locked thing and its master key.
        InvalidArgument, MalformedRequest
            An address is not valid; or the condition does not compile or has no value.
        """
        values = {"who": joined_addresses(who), "thing": thing, "condition": condition}
        answer = self._calls.call(wire.SET_ALERT, values, key)
        contents = self._contents_read_by(condition, thing, key)
        warn_caller(missing_fields_text(condition, contents), KEPT_MAILS if answer.keeps_mails else "")
        return alert_frame([answer.data], contents)

    def get_alert(self, thing: str, *, key: Key) -> pd.DataFrame:
        """Return the alert of a thing with its status: ``GET /get/alert/for/{thing}``.

        One row, or none: ``thing, condition, recipients, open, message, since, sent_today, allowed_today`` and
        ``unknown_fields``: those that the condition reads and none of the last 500 dweets has.
        """
        try:
            record = self._calls.call(wire.GET_ALERT, {"thing": thing}, key).data
        except NotFound:
            return alert_frame([])
        condition = record.get("condition") if isinstance(record, dict) else None  # or `alert_frame` raises
        return alert_frame([record], self._contents_read_by(str(condition), thing, key))

    def _contents_read_by(self, condition: str, thing: str, key: Key) -> list[Any]:
        """Return the last contents of a thing; none if the condition reads no field of them."""
        records = self._calls.records_and_deleted(wire.GET_HISTORY, thing, key)[0] if fields_read(condition) else []
        return [record["content"] for record in records]

    def remove_alert(self, thing: str, *, key: Key) -> pd.DataFrame:
        """Remove the alert of a thing (else NotFound), return an empty frame: ``GET /remove/alert/for/{thing}``."""
        self._calls.call(wire.REMOVE_ALERT, {"thing": thing}, key)
        return alert_frame([])

    def backtest(
        self,
        thing: str | pd.DataFrame,
        condition: str,
        *,
        date: TimeLike | None = None,
        columns: Columns = None,
        key: Key = None,
    ) -> pd.DataFrame:
        """Return which past dweets would have triggered an alert, before the alert is set.

        Parameters
        ----------
        thing
            The name of a thing; or a frame, such as a `history`, in which each row is a dweet, in order: the columns
            become the content as in `post_frame`, the index does not. A column ``thing`` tells things apart.
        condition
            As in `set_alert`; it runs in a process on this machine. As in the gateway, the condition is stopped after
            20 failures in a row or too much CPU time: then the rest of ``alert.fault`` repeats the last fault.
        date
            A day in UTC: ``YYYY-MM-DD``, a date or a Timestamp; None for the last 500 dweets. Leave out `date`,
            `columns` and `key` for a frame.

        Returns
        -------
        pandas.DataFrame
            `history`, or the frame, with the columns ``alert.met``, ``alert.message``, ``alert.mails`` (an e-mail would
            be sent: the alert opens or its message changes) and ``alert.fault`` in front. A warning says if the
            condition failed at every dweet, never returned a text, true or false, or is never met and reads a field
            that no dweet has. The warning of `history` is possible too.
        """
        if isinstance(thing, pd.DataFrame):
            if (date, columns, key) != (None,) * 3:
                raise InvalidArgument("date, columns and key are for the name of a thing, not for a frame")
            return backtest_frame(condition, thing)
        endpoint = wire.GET_HISTORY if date is None else wire.GET_STORED
        query = None if date is None else {"date": checked_date(date)}
        return backtest_records(condition, lambda: self._calls.records(endpoint, thing, key, query), columns)
