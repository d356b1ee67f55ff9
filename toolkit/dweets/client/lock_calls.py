"""Locks and alerts, as one types them: one half of ``tk.dweets``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from toolkit.dweets import wire
from toolkit.dweets.client.backtesting import backtesting
from toolkit.dweets.client.calls import DweetCalls, Key, checked_date, checked_name
from toolkit.dweets.client.history_frame import history_frame
from toolkit.errors import InvalidArgument, MalformedRequest, NotFound, UnexpectedReply
from toolkit.frames import declared_frame

ALERT_COLUMNS = {
    "thing": "str",
    "condition": "str",
    "recipients": "str",
    "open": "bool",
    "message": "str",
    "since": "datetime64[us, UTC]",
    "sent_today": "int64",
    "allowed_today": "int64",
}
LOCK_COLUMNS = {"thing": "str", "lock": "str", "locked": "boolean"}


class LockCalls(DweetCalls):
    """Lock, unlock, set an alert and try it on the past."""

    def lock(self, thing: str, *, lock: str, key: Key) -> pd.DataFrame:
        """Lock a thing with a lock and its master key: ``GET /lock/{thing}``.

        Returns
        -------
        pandas.DataFrame
            One row: ``thing``, ``lock``, ``locked``.

        Raises
        ------
        KeyRejected
            There is no such lock, or the key is not its master key.
        ThingAlreadyLocked, Conflict
            The thing has a lock; the lock is on another thing.
        """
        self._call(wire.SET_LOCK, {"thing": checked_name(thing)}, key=key, query={"lock": lock})
        return declared_frame([{"thing": thing, "lock": lock, "locked": True}], LOCK_COLUMNS)

    def unlock(self, thing: str, *, key: Key) -> pd.DataFrame:
        """Unlock a thing with its master key: ``GET /unlock/{thing}``. Its alert goes with the lock.

        Raises
        ------
        KeyRejected, ThingNotLocked
            The key does not fit; there is nothing to unlock.
        """
        self._call(wire.UNLOCK, {"thing": checked_name(thing)}, key=key)
        return declared_frame([{"thing": thing, "locked": False}], LOCK_COLUMNS)

    def remove_lock(self, lock: str, *, key: Key) -> pd.DataFrame:
        """Take a lock off whatever thing it is on: ``GET /remove/lock/{lock}``.

        Raises
        ------
        KeyRejected, NotFound
            The key does not fit; the lock is on no thing.
        """
        self._call(wire.REMOVE_LOCK, {"lock": lock}, key=key)
        return declared_frame([{"lock": lock, "locked": False}], LOCK_COLUMNS)

    def set_alert(self, thing: str, *, who: str | Sequence[str], condition: str, key: Key) -> pd.DataFrame:
        """Set the alert of a locked thing: ``GET /alert/{who}/when/{thing}/{condition}``.

        Parameters
        ----------
        who
            1 to 20 e-mail addresses.
        condition
            JavaScript of ``dweet``, the content: an expression, as in ``dweet.celsius > 30``, or the body of a
            function, as in ``if (dweet.celsius > 30) return 'too hot'``. It is met when its value is a text or true.
            Try it first with `backtest`.

        Returns
        -------
        pandas.DataFrame
            One row as in `get_alert`.

        Raises
        ------
        ThingNotLocked, KeyRejected
            An alert needs a locked thing and its master key.
        MalformedRequest
            The condition does not compile or returns nothing, or an address cannot be one.
        """
        addresses = who if isinstance(who, str) else ",".join(who)
        try:
            wire.checked_recipients(addresses)
        except MalformedRequest as error:
            raise InvalidArgument(error.message) from None
        values = {"who": addresses, "thing": checked_name(thing), "condition": condition}
        return _alert_frame([self._call(wire.SET_ALERT, values, key=key)])

    def get_alert(self, thing: str, *, key: Key) -> pd.DataFrame:
        """Return the alert of a thing with its state: ``GET /get/alert/for/{thing}``.

        Returns
        -------
        pandas.DataFrame
            One row, none where no alert is set: ``thing, condition, recipients, open, message, since, sent_today,
            allowed_today``.
        """
        try:
            return _alert_frame([self._call(wire.GET_ALERT, {"thing": checked_name(thing)}, key=key)])
        except NotFound:
            return _alert_frame([])

    def remove_alert(self, thing: str, *, key: Key) -> pd.DataFrame:
        """Remove the alert of a thing: ``GET /remove/alert/for/{thing}``. Returns an empty frame of alerts.

        Raises
        ------
        NotFound
            The thing has no alert.
        """
        self._call(wire.REMOVE_ALERT, {"thing": checked_name(thing)}, key=key)
        return _alert_frame([])

    def backtest(self, thing: str, condition: str, *, date: str | None = None, key: Key = None) -> pd.DataFrame:
        """Tell which past dweets would have met an alert's condition, before the alert is set.

        Parameters
        ----------
        condition
            As in `set_alert`; it runs on this machine, in a process like the gateway's. As in the gateway it is
            stopped after 20 failures in a row, or when it runs past its limit of CPU time: then the rest of
            ``alert.fault`` is the last fault.
        date
            A day (``YYYY-MM-DD``, UTC) of what is kept; None for the last 500 dweets.

        Returns
        -------
        pandas.DataFrame
            `history` with the columns ``alert.met``, ``alert.message``, ``alert.mails`` (a mail would go out: the
            alert opens or its message changes) and ``alert.fault`` in front.

        Raises
        ------
        InvalidArgument
            The condition does not compile or returns nothing.

        Warns
        -----
        UserWarning
            The condition failed at every dweet, or returned neither a text nor true or false at any.
        """
        with backtesting(condition) as backtest:
            if date is None:
                records = self._records(wire.HISTORY, thing, key)[::-1]
            else:
                records = self._records(wire.STORED, thing, key, {"date": checked_date(date)})[::-1]
            return backtest(records, history_frame(records))


def _alert_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    try:
        return declared_frame([_alert_row(record) for record in records], ALERT_COLUMNS)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnexpectedReply("the answer is not the record of an alert") from None


def _alert_row(record: Mapping[str, Any]) -> dict[str, Any]:
    status = record.get("status", {})
    return {
        "thing": record["thing"],
        "condition": record["condition"],
        "recipients": ", ".join(each["address"] for each in record["recipients"]),
        "open": status.get("open", False),
        "message": status.get("message", ""),
        "since": pd.to_datetime(status.get("since"), utc=True),
        "sent_today": status.get("alerts_sent_today", 0),
        "allowed_today": status.get("alerts_allowed_today", wire.ALERTS_A_DAY),
    }
