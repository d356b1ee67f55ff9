"""Which past dweets would have met an alert's condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pandas as pd

from toolkit.dweets.alert_conditions import Condition, Verdict, compile_condition
from toolkit.errors import InvalidArgument, MalformedRequest


def judge_of(condition: str) -> Condition:
    """Compile a condition.

    Raises
    ------
    InvalidArgument
        It does not compile.
    """
    try:
        return compile_condition(condition)
    except MalformedRequest as error:
        raise InvalidArgument(error.message) from None


def backtested(judge: Condition, records: Sequence[Mapping[str, Any]], history: pd.DataFrame) -> pd.DataFrame:
    """Return `history` with what the condition says of each record, oldest first, in front.

    Parameters
    ----------
    judge
        From `judge_of`.
    records, history
        The same dweets as they came and as a frame.
    """
    verdicts = [_verdict(judge, record["content"]) for record in records]
    columns = {
        "alert.met": pd.Series([verdict.met for verdict in verdicts], index=history.index, dtype="bool"),
        "alert.message": pd.Series([verdict.message for verdict in verdicts], index=history.index, dtype="str"),
        "alert.mails": pd.Series(_mails(verdicts), index=history.index, dtype="bool"),
        "alert.fault": pd.Series([verdict.fault for verdict in verdicts], index=history.index, dtype="str"),
    }
    return pd.concat([pd.DataFrame(columns, index=history.index), history], axis=1)


def _verdict(judge: Condition, content: Any) -> Verdict:  # noqa: ANN401
    try:
        return judge(orjson.dumps(content))
    except orjson.JSONEncodeError:  # orjson reads four times deeper than it writes
        return Verdict(None, "the content is nested too deeply to be judged here")


def _mails(verdicts: Sequence[Verdict]) -> list[bool]:
    """Tell for each verdict whether it opens the alert or changes its message; a fault changes nothing."""
    mails, open_with = [], None
    for verdict in verdicts:
        mails.append(verdict.met and verdict.message != open_with)
        if verdict.fault is None:
            open_with = verdict.message
    return mails
