"""Alerts as frames, and which past dweets would have met an alert's condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
import pandas as pd

from toolkit.dweets import wire
from toolkit.dweets.conditions import ConditionWorker, Verdict, evaluate_all
from toolkit.dweets.content_frame import Columns, history_frame
from toolkit.dweets.content_json import row_contents
from toolkit.errors import InvalidArgument, MalformedRequest, UnexpectedReply, warn_caller
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
_RESULT_COLUMNS = ["alert.met", "alert.message", "alert.mails", "alert.fault"]
_TOO_DEEP_VERDICT = Verdict(None, "the content is nested too deeply to be evaluated here")


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
    """Evaluate a condition on records, in a child process; return the history with four result columns in front."""
    with _compiled(condition) as evaluate:
        records = read()
        contents = [_encoded_content(record["content"]) for record in records]
        verdicts = evaluate(contents)
    _warn_if_misspelt(condition, contents, verdicts)
    return _with_verdicts(history_frame(records, columns), verdicts, _causes_mail(verdicts))


def backtested_frame(condition: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a condition on each row of a frame; each thing in a column ``thing`` has its own alert."""
    frame = frame.drop(columns=_RESULT_COLUMNS, errors="ignore")
    values = frame.reset_index(drop=True)
    if "thing" in frame.columns:  # such as a `history` of several things
        values = values.drop(columns="thing").rename(columns={"content.thing": "thing"})
        groups = list(pd.Series(range(len(frame))).groupby(frame["thing"].array, dropna=False, sort=False))
    else:
        groups = [(None, pd.Series(range(len(frame))))]
    contents = row_contents(values)
    verdicts, mails = [_TOO_DEEP_VERDICT] * len(frame), [False] * len(frame)
    with _compiled(condition) as evaluate:
        for _, places in groups:
            found = evaluate([contents[place] for place in places])
            for place, verdict, mailed in zip(places, found, _causes_mail(found), strict=True):
                verdicts[place], mails[place] = verdict, mailed
    _warn_if_misspelt(condition, contents, verdicts)
    return _with_verdicts(frame, verdicts, mails)


@contextmanager
def _compiled(condition: str) -> Iterator[Callable[[Sequence[bytes | None]], list[Verdict]]]:
    """Yield a function that evaluates the condition on contents; a content of None is nested too deeply."""

    def evaluate(contents: Sequence[bytes | None]) -> list[Verdict]:
        writable = [content for content in contents if content is not None]
        found = iter(evaluate_all(worker, condition, writable))
        return [_TOO_DEEP_VERDICT if content is None else next(found) for content in contents]

    with ConditionWorker() as worker:
        try:
            worker.check_compiles(condition)
        except MalformedRequest as error:
            raise InvalidArgument(error.message) from None
        yield evaluate


def _with_verdicts(history: pd.DataFrame, verdicts: Sequence[Verdict], mails: Sequence[bool]) -> pd.DataFrame:
    _warn_if_useless(verdicts)
    met, messages, faults = ([getattr(verdict, name) for verdict in verdicts] for name in ("met", "message", "fault"))
    results = zip(_RESULT_COLUMNS, (met, messages, mails, faults), ("bool", "str", "bool", "str"), strict=True)
    columns = {name: pd.Series(values, index=history.index, dtype=dtype) for name, values, dtype in results}
    return pd.concat([pd.DataFrame(columns, index=history.index), history], axis=1)


def _encoded_content(content: Any) -> bytes | None:  # noqa: ANN401
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:  # orjson reads JSON of four times the depth that it writes
        return None


def _warn_if_misspelt(condition: str, contents: Sequence[bytes | None], verdicts: Sequence[Verdict]) -> None:
    """Warn if the condition is never met and reads a field that no content has."""
    written = [content for content in contents if content is not None]
    if not written or any(verdict.met for verdict in verdicts):
        return
    for name in dict.fromkeys(re.findall(r"\bdweet\.([A-Za-z_]\w*)\b(?!\s*\()", condition)):
        if not any(b'"%s":' % name.encode() in content for content in written):
            fields = ", ".join(orjson.loads(written[-1]))
            warn_caller(f"no dweet has the field {name}; the last one has {fields}")


def _warn_if_useless(verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        return
    if all(verdict.fault is not None for verdict in verdicts):
        warn_caller(f"the condition failed at every dweet: {verdicts[-1].fault}")
    elif not any(verdict.returned for verdict in verdicts):
        warn_caller(
            "the condition returned neither a text nor true or false at any dweet; "
            "write it as dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'"
        )


def _causes_mail(verdicts: Sequence[Verdict]) -> list[bool]:
    """Return for each verdict whether it causes a mail: it opens the alert or changes the alert's message."""
    mails, open_with = [], None
    for verdict in verdicts:
        mails.append(verdict.met and verdict.message != open_with)
        if verdict.fault is None:
            open_with = verdict.message
    return mails
