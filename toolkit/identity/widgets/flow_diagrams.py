"""Two diagrams of a flow: the calls so far, and its state in the state table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolkit.identity.client.calls import Step
from toolkit.identity.flow import MOVES, Call, State
from toolkit.themed_svg import INK, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: ``plain`` follows the theme; ``good`` and ``bad`` have a colour and always a word as well.
Tone = Literal["plain", "good", "bad"]
Point = tuple[float, float]

_COLOURS: dict[Tone, str] = {"plain": INK, "good": "#2e7d32", "bad": "#c62828"}
_IN_A_PAGE = {colour: f"var(--toolkit-{tone}, {colour})" for tone, colour in _COLOURS.items() if colour != INK}
_WIDTH = 820.0
_ROW = 26.0
_HEADS = 44.0
_CALLER, _GATEWAY, _CARRIER, _PHONE = 70.0, 370.0, 560.0, 750.0
_PEOPLE = {"your program": _CALLER, "gateway": _GATEWAY, "carrier": _CARRIER, "phone": _PHONE}

#: What the diagram says when a call succeeds.
_BROUGHT = {
    Call.START.value: "TargetUrl, first fingerprint",
    "authenticateByRedirectFinish": "alias, code",
    "getEligibility": "eligible or not, challenge",
    "getPaymentList": "payments, masked",
    "getPaymentDetails": "details, masked",
    "accountEcho": "the same text",
}

_STATES_HEIGHT = 216.0
_NODE = (92.0, 26.0)
_PLACES: dict[State, Point] = {
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
#: Almost every state can end in these two, so words replace a dozen arrows.
_ENDS_IN_WORDS: dict[State, tuple[Point, str]] = {
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


def states_svg(current: Iterable[State]) -> str:
    """Return the state table as SVG, the present state filled; moves by a repeated getEligibility are left out."""
    here = frozenset(current)
    figure, axes = _sheet(_STATES_HEIGHT)
    _draw_states(axes, here)
    return themed_svg(figure, f"State diagram, the flow is {' or '.join(sorted(here)) or 'new'}", _IN_A_PAGE)


def calls_svg(steps: Sequence[Step]) -> str:
    """Return a sequence diagram of the calls as SVG; a refusal is red and begins with a cross and its status."""
    said = [one for step in steps for one in _said_in(step)]
    figure, axes = _sheet(_calls_height(said))
    _draw_calls(axes, said)
    spoken = "; ".join(one.text for one in said) or "nothing was said yet"
    return themed_svg(figure, f"Sequence of calls: {spoken}", _IN_A_PAGE)


def diagrams_png(current: Iterable[State], steps: Sequence[Step]) -> bytes:
    """Return both diagrams as one PNG on white."""
    said = [one for step in steps for one in _said_in(step)]
    figure, axes = _sheet(_STATES_HEIGHT + _calls_height(said))
    _draw_states(axes, frozenset(current))
    _draw_calls(axes, said, _STATES_HEIGHT)
    out = io.BytesIO()
    # Without a software name the same diagrams are the same bytes.
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _calls_height(said: Sequence[_Said]) -> float:
    return _HEADS + _ROW * max(1, len(said)) + 12


def _draw_calls(axes: Axes, said: Sequence[_Said], top: float = 0.0) -> None:
    for name, x in _PEOPLE.items():
        axes.plot([x, x], [top + _HEADS - 14, top + _calls_height(said) - 4], color=INK, alpha=0.3, linewidth=1)
        _box(axes, (x, top + 16), (110, 26), name)
    for place, one in enumerate(said):
        y = top + _HEADS + _ROW * (place + 0.75)
        _arrow(axes, (one.start, y), (one.end, y), one.tone, dashed=one.dashed)
        # Beside the gateway's line, not on it, where an arrow passes by.
        middle = (_CALLER + _GATEWAY) / 2 if {one.start, one.end} == {_CALLER, _PHONE} else (one.start + one.end) / 2
        _label(axes, (middle, y - 9), one.text, one.tone)


def _said_in(step: Step) -> list[_Said]:
    refused = step.status != 0
    answer = f"✗ {step.status or step.http or ''} {step.description}".replace("  ", " ") if refused else ""
    shown = answer if len(answer) <= 46 else f"{answer[:45]}…"
    tone: Tone = "bad" if refused else "good"
    if step.operation != Call.OPEN:
        back = _Said(_GATEWAY, _CALLER, shown or _BROUGHT[step.operation], tone, True)
        return [_Said(_CALLER, _GATEWAY, step.operation), back]
    opening = [
        _Said(_CALLER, _PHONE, "TargetUrl", dashed=True),
        _Said(_PHONE, _GATEWAY, "deviceAuthenticate, over its network"),
    ]
    if refused:
        return [*opening, _Said(_GATEWAY, _PHONE, shown, tone, True)]
    return [
        *opening,
        _Said(_GATEWAY, _CARRIER, "whose phone is this?"),
        _Said(_GATEWAY, _PHONE, "final fingerprint", tone, True),
        _Said(_PHONE, _CALLER, "final fingerprint", dashed=True),
    ]


def _draw_states(axes: Axes, here: frozenset[State]) -> None:
    for start, end in _edges():
        _arrow(axes, *_between(_PLACES[start], _PLACES[end]))
    for state, place in _PLACES.items():
        is_here = state in here
        tone: Tone = ("bad" if state in _BAD else "good") if is_here else "plain"
        _box(axes, place, _NODE, f"● {state}" if is_here else str(state), tone)
    for place, text in _ENDS_IN_WORDS.values():
        _label(axes, place, text)


def _edges() -> list[tuple[State, State]]:
    again = {row for row in MOVES if row.call is Call.ELIGIBILITY and row.state is not State.FINISHED}
    rows = [row for row in MOVES if row not in again and row.next not in _ENDS_IN_WORDS]
    return sorted({(row.state, row.next) for row in rows if row.state is not row.next})


def _between(start: Point, end: Point) -> tuple[Point, Point]:
    (x1, y1), (x2, y2) = start, end
    if x1 != x2:
        side = _NODE[0] / 2 if x2 > x1 else -_NODE[0] / 2
        return (x1 + side, y1), (x2 - side, y2)
    side = _NODE[1] / 2 if y2 > y1 else -_NODE[1] / 2
    # Two arrows in opposite directions stand beside each other.
    shift = -8.0 if y2 > y1 else 8.0
    return (x1 + shift, y1 + side), (x2 + shift, y2 - side)


# -- shapes, in pixels from the top left ---------------------------------------------------------------------


def _sheet(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 80, height / 80), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _arrow(axes: Axes, start: Point, end: Point, tone: Tone = "plain", *, dashed: bool = False) -> None:
    line = {"color": _COLOURS[tone], "linestyle": "--" if dashed else "-", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "linewidth": 1, **line})


def _box(axes: Axes, middle: Point, size: tuple[float, float], text: str, tone: Tone = "plain") -> None:
    """Draw a box with a text; only a plain one is not filled."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    corner = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    fill, style = "none" if tone == "plain" else to_rgba(_COLOURS[tone], 0.18), "round,pad=0,rounding_size=6"
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, facecolor=fill, edgecolor=_COLOURS[tone]))
    _label(axes, middle, text, tone, weight="normal" if tone == "plain" else "bold")


def _label(axes: Axes, middle: Point, text: str, tone: Tone = "plain", *, weight: str = "normal") -> None:
    shown = axes.text(*middle, text, ha="center", va="center", color=_COLOURS[tone], fontsize=9, fontweight=weight)
    shown.set_parse_math(False)
