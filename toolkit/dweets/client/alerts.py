"""Alerts as frames, and which past dweets would have met an alert's condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pandas as pd

from toolkit.dweets import wire
from toolkit.dweets.conditions import FAULTS_TO_STOP, ConditionWorker, Verdict, evaluate_all
from toolkit.dweets.content_frame import Columns, history_frame, warn_caller
from toolkit.errors import InvalidArgument, MalformedRequest, UnexpectedReply
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
_TOO_DEEP = Verdict(None, "the content is nested too deeply to be evaluated here")


def alert_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return alerts with their status, one row each."""
    try:
        return declared_frame([_alert_row(record) for record in records], ALERT_COLUMNS)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnexpectedReply("the response is not the record of an alert") from None


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


def backtested(condition: str, read: Callable[[], Sequence[Mapping[str, Any]]], columns: Columns) -> pd.DataFrame:
    """Compile a condition in a child process, read records and evaluate it on each: four columns before the history."""
    with ConditionWorker() as worker:
        try:
            worker.compile(condition)
        except MalformedRequest as error:
            raise InvalidArgument(error.message) from None
        records = read()
        contents = [_encoded(record["content"]) for record in records]
        writable = [content for content in contents if content is not None]
        found = iter(evaluate_all(worker, condition, writable, FAULTS_TO_STOP))
    verdicts = [_TOO_DEEP if content is None else next(found) for content in contents]
    _warn_if_useless(verdicts)
    history = history_frame(records, columns)
    results = {
        "alert.met": pd.Series([verdict.met for verdict in verdicts], index=history.index, dtype="bool"),
        "alert.message": pd.Series([verdict.message for verdict in verdicts], index=history.index, dtype="str"),
        "alert.mails": pd.Series(_mails(verdicts), index=history.index, dtype="bool"),
        "alert.fault": pd.Series([verdict.fault for verdict in verdicts], index=history.index, dtype="str"),
    }
    return pd.concat([pd.DataFrame(results, index=history.index), history], axis=1)


def _encoded(content: Any) -> bytes | None:  # noqa: ANN401
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:  # orjson reads four times deeper than it writes
        return None


def _warn_if_useless(verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        return
    if all(verdict.fault is not None for verdict in verdicts):
        warn_caller(f"the condition failed at each of the {len(verdicts)} dweets: {verdicts[-1].fault}")
    elif not any(verdict.returned for verdict in verdicts):
        warn_caller(
            f"the condition returned neither a text nor true or false at any of the {len(verdicts)} dweets; "
            "write it as dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'"
        )


def _mails(verdicts: Sequence[Verdict]) -> list[bool]:
    """Return for each verdict whether it opens the alert or changes its message; a fault changes nothing."""
    mails, open_with = [], None
    for verdict in verdicts:
        mails.append(verdict.met and verdict.message != open_with)
        if verdict.fault is None:
            open_with = verdict.message
    return mails
