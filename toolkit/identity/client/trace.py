"""What happened, step by step, without a single secret: for ``trace()`` and for the panes of the widget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from toolkit.frames import declared_frame
from toolkit.identity.flow import MOVES, Call, State
from toolkit.identity.wire import GUESSABLE_FIELDS, SECRET_FIELDS
from toolkit.secret import Secret

TRACE_COLUMNS = {
    "n": "int64",
    "operation": "str",
    "http": "Int64",
    "status": "Int64",
    "description": "str",
    "transition": "str",
    "ms": "float64",
    "seconds_left": "float64",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One call: what went out and came back, redacted; where the flow stood before and after."""

    n: int
    operation: str
    http: int | None
    status: int | None
    description: str
    before: frozenset[State]
    after: frozenset[State]
    ms: float
    seconds_left: float | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    response: Mapping[str, Any] = field(default_factory=dict)

    @property
    def transition(self) -> str:
        """``started → failed or proven``; empty where the call moved nothing."""
        before, after = (" or ".join(sorted(states)) for states in (self.before, self.after))
        return "" if before == after else f"{before} → {after}"


def trace_frame(steps: Iterable[Step]) -> pd.DataFrame:
    """Return one row a step; see ``IdentityClient.trace``."""
    rows = [{name: getattr(step, name) for name in TRACE_COLUMNS} for step in steps]
    return declared_frame(rows, TRACE_COLUMNS)


def states_after(states: Iterable[State], call: Call, status: int) -> frozenset[State]:
    """Return where the flow may stand after a call was answered with this status."""
    rows = [row for row in MOVES if row.call is call and row.status == status]
    # An answer may say that the flow stood elsewhere: expired or revoked, which the caller could not know.
    told = [row for row in rows if row.state in states] or rows
    return frozenset(row.next for row in told) or frozenset(states)


def redacted(value: Any, name: str = "") -> Any:  # noqa: ANN401
    """Return JSON content with every secret replaced by its short hash."""
    if isinstance(value, Secret):
        return repr(value)
    if name in SECRET_FIELDS or name == "vfp":
        return repr(Secret(value, guessable=name in GUESSABLE_FIELDS)) if isinstance(value, str) else "Secret(***)"
    if isinstance(value, Mapping):
        return {key: redacted(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner) for inner in value]
    return value
