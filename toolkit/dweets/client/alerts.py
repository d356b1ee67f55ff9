"""Alerts as frames, and conditions of alerts that are tried: on past dweets, or on those that a widget shows."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pandas as pd

from toolkit.dweets import wire
from toolkit.dweets.checked_values import as_invalid_argument
from toolkit.dweets.conditions import ConditionWorker, Verdict, evaluate_all
from toolkit.dweets.content_frame import Columns, history_frame
from toolkit.dweets.content_leaves import frequent_leaf_columns
from toolkit.dweets.frame_rows import row_contents
from toolkit.dweets.frame_time import as_fields
from toolkit.errors import UnexpectedReply, warn_caller
from toolkit.frames import check_columns_differ, declared_frame
from toolkit.system.nearest_name import missing_names

ALERT_COLUMNS = {
    "thing": "str",
    "condition": "str",
    "recipients": "str",
    "open": "bool",
    "message": "str",
    "since": "datetime64[us, UTC]",
    "sent_today": "int64",
    "allowed_today": "int64",
    "unknown_fields": "str",
}
KEPT_MAILS = "the gateway has no mail server, so mails stay in the outbox: start it with --smtp or Gateway(smtp=...)"
_RESULT_COLUMNS = {"alert.met": "bool", "alert.message": "str", "alert.mails": "bool", "alert.fault": "str"}
#: The contents as JSON (None: nested too deeply), the thing of each content, and the frame to put the results into.
_BacktestInput = tuple[Sequence[bytes | None], Sequence[Any], pd.DataFrame]
# In a condition: texts outside of brackets; the steps from `dweet` to a field, and whether it is called; one step.
_TEXT = re.compile(r"""(\[(?:'[^'\\]*'|"[^"\\]*")\])|'(?:\\.|[^'\\])*+'|"(?:\\.|[^"\\])*+\"""")
_FIELD = re.compile(r"""(?<![\w$.])dweet((?:\??\.[A-Za-z_$][\w$]*+|(?:\?\.)?\[(?:'[^']*'|"[^"]*")\])++)\s*(\(?)""")
_STEP = re.compile(r"""\.([A-Za-z_$][\w$]*)|\[["'](.*?)["']\]""")
# In a condition: the comparison of a field with a number.
_NAME, _NUMBER, _COMPARED = r"dweet\.([\w$.]+)", r"(-?\d+(?:\.\d+)?)", r"\s*(?:[<>]=?|===?)\s*"
_LIMIT = re.compile(rf"{_NAME}{_COMPARED}{_NUMBER}(?![\w.])|(?<![\w.]){_NUMBER}{_COMPARED}{_NAME}")
_TOO_DEEP_VERDICT = Verdict(None, "the content is nested too deeply to be evaluated here")


def alert_frame(records: Sequence[Mapping[str, Any]], contents: Sequence[Any] = ()) -> pd.DataFrame:
    """Return alerts with their status, one row per alert, and the fields of conditions that no content has."""
    try:
        rows = [_alert_row(record) for record in records]
        for row in rows:
            row["unknown_fields"] = ", ".join(missing_fields(row["condition"], contents))
        return declared_frame(rows, ALERT_COLUMNS)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnexpectedReply("the response is not the record of an alert") from None


def _alert_row(record: Mapping[str, Any]) -> dict[str, Any]:
    status = record.get("status", {})
    return {
        "thing": record["thing"],
        "condition": record["condition"],
        "recipients": ", ".join(recipient["address"] for recipient in record["recipients"]),
        "open": status.get("open", False),
        "message": status.get("message", ""),
        "since": pd.to_datetime(status.get("since"), utc=True),
        "sent_today": status.get("alerts_sent_today", 0),
        "allowed_today": status.get("alerts_allowed_today", wire.ALERTS_PER_DAY),
    }


def backtest_records(condition: str, read: Callable[[], Sequence[Mapping[str, Any]]], columns: Columns) -> pd.DataFrame:
    """Evaluate a condition on the dweets of one thing; return the history with four result columns in front."""

    def backtest_input() -> _BacktestInput:
        records = read()
        contents = [encoded_content(record["content"]) for record in records]
        return contents, [""] * len(records), history_frame(records, columns)

    return _backtest(condition, backtest_input)


def backtest_frame(condition: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a condition on each row of a frame; each thing in a column ``thing`` has its own alert."""
    frame = frame.drop(columns=list(_RESULT_COLUMNS), errors="ignore")
    check_columns_differ(frame)
    values, things = frame.reset_index(drop=True), [""] * len(frame)
    if "thing" in frame.columns:  # such as a `history` of several things
        values = values.drop(columns="thing")
        things = frame["thing"].tolist()
    contents = row_contents(as_fields(values))
    return _backtest(condition, lambda: (contents, things, frame))


def _backtest(condition: str, read: Callable[[], _BacktestInput]) -> pd.DataFrame:
    """Evaluate the contents of each thing in a child process; call `read` only if the condition compiles."""
    with ConditionWorker() as worker:
        with as_invalid_argument():
            worker.check_compiles(condition)
        contents, things, history = read()
        verdicts, mails = [_TOO_DEEP_VERDICT] * len(contents), [False] * len(contents)
        by_thing = pd.Series(range(len(contents))).groupby(pd.Series(things, dtype="object"), dropna=False, sort=False)
        for _, rows in by_thing:
            encoded = [row for row in rows if contents[row] is not None]
            evaluated = evaluate_all(worker, condition, [contents[row] or b"" for row in encoded])
            for row, verdict in zip(encoded, evaluated, strict=True):
                verdicts[row] = verdict
            for row, mailed in zip(rows, _which_mail([verdicts[row] for row in rows]), strict=True):
                mails[row] = mailed
    _warn_if_useless(condition, [content for content in contents if content is not None], verdicts)
    pairs = zip(verdicts, mails, strict=True)
    cells = [(verdict.met, verdict.message, mailed, verdict.fault) for verdict, mailed in pairs]
    results = pd.DataFrame(cells, history.index, list(_RESULT_COLUMNS)).astype(_RESULT_COLUMNS)
    return pd.concat([results, history], axis=1)


def encoded_content(content: Any) -> bytes | None:  # noqa: ANN401
    """Return a content as JSON; None if it is nested too deeply."""
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:  # orjson reads JSON of four times the depth that it writes
        return None


def fields_read(condition: str) -> list[tuple[str, ...]]:
    """Return the path of each field that a condition reads: ``("position", "lat")`` for ``dweet.position.lat``."""
    paths = []
    for steps, is_called in _FIELD.findall(_TEXT.sub(lambda found: found[1] or "''", condition)):
        names = [name or quoted for name, quoted in _STEP.findall(steps)]
        paths.append(tuple(names[:-1] if is_called else names))  # the last name is that of a method
    return [path for path in dict.fromkeys(paths) if path]


def missing_fields(condition: str, contents: Sequence[Any]) -> list[str]:
    """Return the fields that a condition reads and no content has; none if there are no contents."""
    unknown = [path for path in fields_read(condition) if not any(_has_field(content, path) for content in contents)]
    return [".".join(path) for path in unknown] if contents else []


def _has_field(content: Any, path: Sequence[str]) -> bool:  # noqa: ANN401
    if not isinstance(content, dict):
        return path[0] == "length" and isinstance(content, str | list)
    for key in path:
        if not isinstance(content, dict):
            return True  # a property of a value, such as the length of a text
        if key not in content:
            return False
        content = content[key]
    return True


def missing_fields_text(condition: str, contents: Sequence[Any]) -> str:
    """Return the sentence about the fields of a condition that no content has; an empty text if all are there."""
    if not (missing := missing_fields(condition, contents)):
        return ""
    known = list(frequent_leaf_columns([content for content in contents if isinstance(content, dict) and content])[0])
    return missing_names("no dweet has", "field", missing, len(fields_read(condition)), known)


def _warn_if_useless(condition: str, contents: Sequence[bytes], verdicts: Sequence[Verdict]) -> None:
    problems = []
    if not any(verdict.met for verdict in verdicts):
        problems.append(missing_fields_text(condition, list(map(orjson.loads, contents))))
    if verdicts and all(verdict.fault is not None for verdict in verdicts):
        problems.append(f"the condition failed at every dweet: {verdicts[-1].fault}")
    elif verdicts and not any(verdict.returned for verdict in verdicts):
        problems.append(
            "the condition returned neither a text nor true or false at any dweet; "
            "write it as dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'"
        )
    warn_caller(*problems)


def _which_mail(verdicts: Sequence[Verdict]) -> list[bool]:
    """Return for each verdict whether it causes a mail: it opens the alert or changes the alert's message."""
    mails, open_message = [], None  # None: the alert is not open
    for verdict in verdicts:
        mails.append(verdict.met and verdict.message != open_message)
        if verdict.fault is None:
            open_message = verdict.message
    return mails


class TriedCondition:
    """Evaluates a condition in a child process, each dweet once; `close` ends the process."""

    def __init__(self) -> None:
        self.condition = ""
        self._worker = ConditionWorker()
        self._verdicts: dict[int, tuple[object, Verdict]] = {}

    def set(self, condition: str) -> None:
        """Try another condition; InvalidArgument if it does not compile. An empty one tries nothing."""
        self.condition, self._verdicts = "", {}
        if condition.strip():
            with as_invalid_argument():
                self._worker.check_compiles(condition)
            self.condition = condition

    def close(self) -> None:
        """End the child process; the next new dweet starts another one."""
        self._worker.close()
        self._worker = ConditionWorker()

    @property
    def limits(self) -> dict[str, list[float]]:
        """The numbers with which the condition compares fields, by field."""
        limits: dict[str, list[float]] = {}
        for field, number, first_number, last_field in _LIMIT.findall(self.condition):
            limits.setdefault(field or last_field, []).append(float(number or first_number))
        return limits

    def text(self, records: Sequence[dict[str, Any]]) -> str:
        """Say how many of these dweets meet the condition; empty without a condition."""
        if not self.condition:
            return ""
        known = self._verdicts
        if new := [record for record in records if id(record) not in known]:
            contents = [encoded_content(record["content"]) or b"null" for record in new]
            found = evaluate_all(self._worker, self.condition, contents)
            known |= {id(one): (one, verdict) for one, verdict in zip(new, found, strict=True)}
        self._verdicts = {id(record): known[id(record)] for record in records}
        verdicts = [verdict for _, verdict in self._verdicts.values()]
        if faults := [verdict.fault for verdict in verdicts if verdict.fault is not None]:
            return f"the condition failed at {len(faults):,} of {len(verdicts):,} dweets: {faults[-1]}"
        met = sum(verdict.met for verdict in verdicts)
        return f"the condition is met by {met:,} of the {len(verdicts):,} dweets that are shown"
