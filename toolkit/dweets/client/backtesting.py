"""Which past dweets would have met an alert's condition."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson
import pandas as pd

from toolkit.dweets.conditions import FAULTS_TO_STOP, ConditionWorker, Verdict, evaluate_all
from toolkit.errors import InvalidArgument, MalformedRequest

_TOO_DEEP = Verdict(None, "the content is nested too deeply to be evaluated here")


@contextmanager
def backtesting(condition: str) -> Iterator[Callable[[Sequence[Mapping[str, Any]], pd.DataFrame], pd.DataFrame]]:
    """Compile a condition in a child process, and give a function that evaluates it there until the block ends.

    The function takes records, oldest first, and their history, and returns the history with four columns in front.

    Raises
    ------
    InvalidArgument
        The condition does not compile.
    """
    with ConditionWorker() as worker:
        try:
            worker.compile(condition)
        except MalformedRequest as error:
            raise InvalidArgument(error.message) from None
        yield partial(_backtested, worker, condition)


def _backtested(
    worker: ConditionWorker, condition: str, records: Sequence[Mapping[str, Any]], history: pd.DataFrame
) -> pd.DataFrame:
    contents = [_encoded(record["content"]) for record in records]
    writable = [content for content in contents if content is not None]
    found = iter(evaluate_all(worker, condition, writable, FAULTS_TO_STOP))
    verdicts = [_TOO_DEEP if content is None else next(found) for content in contents]
    _warn_if_useless(verdicts)
    columns = {
        "alert.met": pd.Series([verdict.met for verdict in verdicts], index=history.index, dtype="bool"),
        "alert.message": pd.Series([verdict.message for verdict in verdicts], index=history.index, dtype="str"),
        "alert.mails": pd.Series(_mails(verdicts), index=history.index, dtype="bool"),
        "alert.fault": pd.Series([verdict.fault for verdict in verdicts], index=history.index, dtype="str"),
    }
    return pd.concat([pd.DataFrame(columns, index=history.index), history], axis=1)


def _encoded(content: Any) -> bytes | None:  # noqa: ANN401
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:  # orjson reads four times deeper than it writes
        return None


def _warn_if_useless(verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        return
    if all(verdict.fault is not None for verdict in verdicts):
        text = f"the condition failed at each of the {len(verdicts)} dweets: {verdicts[-1].fault}"
    elif not any(verdict.returned for verdict in verdicts):
        text = (
            f"the condition returned neither a text nor true or false at any of the {len(verdicts)} dweets; "
            "write it as dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'"
        )
    else:
        return
    warnings.warn(text, stacklevel=4)  # the caller of `backtest`


def _mails(verdicts: Sequence[Verdict]) -> list[bool]:
    """Tell for each verdict whether it opens the alert or changes its message; a fault changes nothing."""
    mails, open_with = [], None
    for verdict in verdicts:
        mails.append(verdict.met and verdict.message != open_with)
        if verdict.fault is None:
            open_with = verdict.message
    return mails
