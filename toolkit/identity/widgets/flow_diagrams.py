"""Two drawings of a flow: who said what to whom so far, and where the state table says it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from toolkit.identity.client.trace import Step
from toolkit.identity.flow import MOVES, Call, State
from toolkit.identity.widgets.drawing import Arrow, Box, Drawing, Label, Tone

WIDTH = 820.0
_ROW = 26.0
_HEADS = 44.0
_CALLER, _GATEWAY, _CARRIER, _PHONE = 70.0, 370.0, 560.0, 750.0
_PEOPLE = {"your program": _CALLER, "gateway": _GATEWAY, "carrier": _CARRIER, "phone": _PHONE}

#: What comes back when a call succeeds, as the words of the diagram.
_BROUGHT = {
    Call.START.value: "TargetUrl, first fingerprint",
    "authenticateByRedirectFinish": "alias, code",
    "getEligibility": "eligible or not, challenge",
    "getPaymentList": "payments, masked",
    "getPaymentDetails": "details, masked",
    "accountEcho": "the same text",
}

_NODE = (92.0, 26.0)
_PLACES: dict[State, tuple[float, float]] = {
    State.NEW: (60, 65),
    State.STARTED: (195, 65),
    State.PROVEN: (330, 65),
    State.FINISHED: (465, 65),
    State.ELIGIBLE: (620, 28),
    State.LOCKED: (620, 102),
    State.NOT_ELIGIBLE: (620, 144),
    State.UNLOCKED: (765, 65),
    State.FAILED: (330, 125),
    State.REFUSED: (465, 125),
    State.EXPIRED: (60, 190),
    State.REVOKED: (465, 190),
}
#: The two ends open from almost everywhere: words say it better than a dozen arrows.
_ENDS_IN_WORDS = {
    State.EXPIRED: ((238.0, 190.0), "the life of a fingerprint or a code is over"),
    State.REVOKED: ((620.0, 190.0), "used twice, or a newer code came"),
}
_BAD = {State.FAILED, State.REFUSED, State.NOT_ELIGIBLE, State.LOCKED, State.EXPIRED, State.REVOKED}


class _Said(NamedTuple):
    start: float
    end: float
    text: str
    tone: Tone = "plain"
    dashed: bool = False


def sequence_diagram(steps: Sequence[Step]) -> Drawing:
    """Return who said what to whom; a refusal is red and begins with a cross and its status."""
    said = [one for step in steps for one in _said_in(step)]
    height = _HEADS + _ROW * max(1, len(said)) + 12
    shapes: list[Arrow | Box | Label] = []
    for name, x in _PEOPLE.items():
        shapes.append(Arrow((x, _HEADS - 14), (x, height - 4), "faint", head=False))
        shapes.append(Box((x, 16), (110, 26), name))
    for place, one in enumerate(said):
        y = _HEADS + _ROW * (place + 0.75)
        shapes.append(Arrow((one.start, y), (one.end, y), one.tone, one.dashed))
        # Beside the gateway's line, not on it, where an arrow passes by.
        middle = (_CALLER + _GATEWAY) / 2 if {one.start, one.end} == {_CALLER, _PHONE} else (one.start + one.end) / 2
        shapes.append(Label((middle, y - 9), one.text, one.tone))
    spoken = "; ".join(one.text for one in said) or "nothing was said yet"
    return Drawing(WIDTH, height, f"Sequence of calls: {spoken}", shapes)


def _said_in(step: Step) -> list[_Said]:
    refused = step.status != 0
    answer = f"✗ {step.status or step.http or ''} {step.description}".replace("  ", " ") if refused else ""
    tone: Tone = "bad" if refused else "good"
    if step.operation != Call.OPEN:
        back = _Said(_GATEWAY, _CALLER, _cut(answer) or _BROUGHT[step.operation], tone, True)
        return [_Said(_CALLER, _GATEWAY, step.operation), back]
    opening = [
        _Said(_CALLER, _PHONE, "TargetUrl", dashed=True),
        _Said(_PHONE, _GATEWAY, "deviceAuthenticate, over its network"),
    ]
    if refused:
        return [*opening, _Said(_GATEWAY, _PHONE, _cut(answer), tone, True)]
    return [
        *opening,
        _Said(_GATEWAY, _CARRIER, "whose phone is this?"),
        _Said(_GATEWAY, _PHONE, "final fingerprint", tone, True),
        _Said(_PHONE, _CALLER, "final fingerprint", dashed=True),
    ]


def _cut(text: str, most: int = 46) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def state_diagram(current: Iterable[State]) -> Drawing:
    """Return the state table as a drawing, the present state filled.

    Every arrow is a row of the table. Left out is what asking for eligibility again may change.
    """
    here = frozenset(current)
    shapes: list[Arrow | Box | Label] = [_edge(start, end) for start, end in _edges()]
    for state, place in _PLACES.items():
        is_here = state in here
        tone: Tone = ("bad" if state in _BAD else "good") if is_here else "plain"
        shapes.append(Box(place, _NODE, f"● {state}" if is_here else str(state), tone, is_here))
    shapes += [Label(place, text) for place, text in _ENDS_IN_WORDS.values()]
    where = " or ".join(sorted(here)) or "new"
    return Drawing(WIDTH, 216, f"State diagram, the flow is {where}", shapes)


def _edges() -> list[tuple[State, State]]:
    again = {row for row in MOVES if row.call is Call.ELIGIBILITY and row.state is not State.FINISHED}
    rows = [row for row in MOVES if row not in again and row.next not in _ENDS_IN_WORDS]
    return sorted({(row.state, row.next) for row in rows if row.state is not row.next})


def _edge(start: State, end: State) -> Arrow:
    (x1, y1), (x2, y2) = _PLACES[start], _PLACES[end]
    half_width, half_height = _NODE[0] / 2, _NODE[1] / 2
    if x1 != x2:
        side = half_width if x2 > x1 else -half_width
        return Arrow((x1 + side, y1), (x2 - side, y2))
    side = half_height if y2 > y1 else -half_height
    # There and back again are two arrows beside each other.
    shift = -8.0 if y2 > y1 else 8.0
    return Arrow((x1 + shift, y1 + side), (x2 + shift, y2 - side))
