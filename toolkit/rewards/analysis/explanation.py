"""One decision in words: as a sentence, and as a table of the rules that were checked."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument

TraceLine = Mapping[str, Any]


@checked_arguments
def explain(decision: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
    """Return the trace of one decision as a table: rule, ok, detail; in the order of the rules.

    Give a row of decisions, as ``decisions.iloc[0]``, or a frame of one row. It must have a trace, which decisions keep
    in a Parquet file but not in CSV. ``attrs["sentence"]`` of the table explains the decision in words.
    """
    row = _decision_row(decision)
    rows = [(line["rule"], line["ok"], _detail_text(line)) for line in row["trace"]]
    table = pd.DataFrame(rows, columns=["rule", "ok", "detail"])
    table.attrs["sentence"] = sentence(row)
    return table


@checked_arguments
def sentence(decision: Mapping[str, Any] | pd.Series | pd.DataFrame) -> str:
    """Return why a moment was rewarded or not, as one sentence.

    Examples
    --------
    >>> sentence({"reason": "DRAW", "trace": [{"rule": "draw", "ok": False, "u": 0.812345, "p": 0.3}]})
    'Not rewarded: the draw was 0.812, and only numbers below 0.3 win.'
    """
    row = _decision_row(decision)
    if row.get("reason") not in SENTENCES:
        raise InvalidArgument(f"the reason {row.get('reason')} is unknown")
    line = row["trace"][-1]
    return SENTENCES[row["reason"]].format(**line, next=_next_reward_text(line))


def _decision_row(decision: Mapping[str, Any] | pd.Series | pd.DataFrame) -> Mapping[str, Any]:
    if isinstance(decision, pd.DataFrame):
        if len(decision) != 1:
            raise InvalidArgument(f"give one decision, not {len(decision)}")
        decision = decision.iloc[0]
    row = {str(k): v for k, v in decision.items()}
    trace = row.get("trace")
    if not (isinstance(trace, list | np.ndarray) and len(trace)):
        raise InvalidArgument("the decision has no trace: simulate without trace=False, and store Parquet, not CSV")
    # In a frame from a Parquet file, a line has the names of all lines, and None for those it did not have.
    return row | {"trace": [{k: v for k, v in line.items() if v is not None} for line in trace]}


def _detail_text(line: TraceLine) -> str:
    compared = {name: value for name, value in line.items() if name not in ("rule", "ok")}
    return ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in compared.items())


def _next_reward_text(line: TraceLine) -> str:
    """Return when a cap allows the next reward, as the end of a sentence; other rules have no use for the result."""
    if "frees_at" not in line:
        return ", so none is ever possible"
    at = datetime.fromisoformat(line["frees_at"])
    return f"; the next is possible on {at:%d %B} at {at:%H:%M} UTC"


#: Every reason in the order of the rules, each with a sentence about the last line of the trace.
SENTENCES = {
    "TEST": "Rewarded: a test is always rewarded; it uses no stock and counts nowhere.",
    "NO_SESSION": "Refused: this device has no live session; a session ends {lives_min:g} minutes after the last call.",
    "APP_DISABLED": "Refused: this application has been disabled.",
    "MOMENT_DISABLED": "Refused: this moment has been disabled.",
    "QUIET_PERIOD": "Refused: these are quiet hours, until {until} ({zone}).",
    "DEVICE_CAP": "Refused: this device already has {used:g} of {limit:g} rewards in 24 hours{next}.",
    "MOMENT_CAP": "Refused: this device already has {used:g} of {limit:g} rewards for this moment in 24 hours{next}.",
    "MIN_GAP": "Refused: the last reward was {gap_s:g} seconds ago, and {needed_s:g} must pass.",
    "PACING": "Refused: {spent:.0f} units are spent, and the campaign's plan allows {allowed:g} by now.",
    "NO_INVENTORY": "Refused: nothing is left in stock.",
    "DRAW": "Not rewarded: the draw was {u:.3f}, and only numbers below {p:g} win.",
    "REWARDED": "Rewarded: every rule passed, and one unit of {reward} was reserved.",
}
