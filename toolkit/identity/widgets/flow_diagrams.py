"""Two diagrams of a flow: the sequence of its requests, and its state among all states."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolkit.identity.client.request_recorder import Step
from toolkit.identity.flow import TRANSITIONS, Event, State
from toolkit.themed_svg import INK, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: ``plain`` has the colour of the theme; ``good`` and ``bad`` are never shown by colour alone.
Tone = Literal["plain", "good", "bad"]
Point = tuple[float, float]

_COLOURS: dict[Tone, str] = {"plain": INK, "good": "#2e7d32", "bad": "#c62828"}
_IN_A_PAGE = {colour: f"var(--toolkit-{tone}, {colour})" for tone, colour in _COLOURS.items() if colour != INK}
_WIDTH = 820.0
_ROW = 26.0
_HEADS = 44.0
_CALLER, _GATEWAY, _CARRIER, _PHONE = 70.0, 370.0, 560.0, 750.0
_PEOPLE = {"your program": _CALLER, "gateway": _GATEWAY, "carrier": _CARRIER, "phone": _PHONE}

#: The label of the response when a request succeeds.
_RESPONSE_LABELS = {
    Event.START.value: "TargetUrl, first fingerprint",
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
#: Almost every state leads to these two, so a text replaces a dozen arrows.
_TEXT_INSTEAD_OF_ARROWS: dict[State, tuple[Point, str]] = {
    State.EXPIRED: ((238.0, 190.0), "the life of a fingerprint or a code is over"),
    State.REVOKED: ((620.0, 190.0), "used twice, or a newer code came"),
}
_BAD = {State.FAILED, State.REFUSED, State.NOT_ELIGIBLE, State.LOCKED, State.EXPIRED, State.REVOKED}


class _Message(NamedTuple):
    start: float
    end: float
    text: str
    tone: Tone = "plain"
    dashed: bool = False


def states_svg(current: Iterable[State]) -> str:
    """Return the states as SVG, the current one filled; transitions of a repeated getEligibility are left out."""
    here = frozenset(current)
    figure, axes = _sheet(_STATES_HEIGHT)
    _draw_states(axes, here)
    return themed_svg(figure, f"State diagram, the flow is {' or '.join(sorted(here)) or 'new'}", _IN_A_PAGE)


def calls_svg(steps: Sequence[Step]) -> str:
    """Return a sequence diagram as SVG; a refusal is red and starts with a cross and its status."""
    messages = [message for step in steps for message in _messages_of(step)]
    figure, axes = _sheet(_calls_height(messages))
    _draw_calls(axes, messages)
    description = "; ".join(message.text for message in messages) or "no requests yet"
    return themed_svg(figure, f"Sequence of calls: {description}", _IN_A_PAGE)


def diagrams_png(current: Iterable[State], steps: Sequence[Step]) -> bytes:
    """Return both diagrams as one PNG on white."""
    messages = [message for step in steps for message in _messages_of(step)]
    figure, axes = _sheet(_STATES_HEIGHT + _calls_height(messages))
    _draw_states(axes, frozenset(current))
    _draw_calls(axes, messages, _STATES_HEIGHT)
    out = io.BytesIO()
    # The name of the software would make the bytes depend on its version.
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _calls_height(messages: Sequence[_Message]) -> float:
    return _HEADS + _ROW * max(1, len(messages)) + 12


def _draw_calls(axes: Axes, messages: Sequence[_Message], top: float = 0.0) -> None:
    for name, x in _PEOPLE.items():
        axes.plot([x, x], [top + _HEADS - 14, top + _calls_height(messages) - 4], color=INK, alpha=0.3, linewidth=1)
        _box(axes, (x, top + 16), (110, 26), name)
    for place, message in enumerate(messages):
        y = top + _HEADS + _ROW * (place + 0.75)
        _arrow(axes, (message.start, y), (message.end, y), message.tone, dashed=message.dashed)
        # An arrow that crosses the line of the gateway has its text beside the line.
        middle = (
            (_CALLER + _GATEWAY) / 2
            if {message.start, message.end} == {_CALLER, _PHONE}
            else (message.start + message.end) / 2
        )
        _label(axes, (middle, y - 9), message.text, message.tone)


def _messages_of(step: Step) -> list[_Message]:
    refused = step.status != 0
    answer = f"✗ {step.status or step.http or ''} {step.description}".replace("  ", " ") if refused else ""
    shown = answer if len(answer) <= 46 else f"{answer[:45]}…"
    tone: Tone = "bad" if refused else "good"
    if step.operation != Event.OPEN:
        back = _Message(_GATEWAY, _CALLER, shown or _RESPONSE_LABELS[step.operation], tone, True)
        return [_Message(_CALLER, _GATEWAY, step.operation), back]
    opening = [
        _Message(_CALLER, _PHONE, "TargetUrl", dashed=True),
        _Message(_PHONE, _GATEWAY, "deviceAuthenticate, over its network"),
    ]
    if refused:
        return [*opening, _Message(_GATEWAY, _PHONE, shown, tone, True)]
    return [
        *opening,
        _Message(_GATEWAY, _CARRIER, "whose phone is this?"),
        _Message(_GATEWAY, _PHONE, "final fingerprint", tone, True),
        _Message(_PHONE, _CALLER, "final fingerprint", dashed=True),
    ]


def _draw_states(axes: Axes, here: frozenset[State]) -> None:
    for start, end in _edges():
        _arrow(axes, *_between(_PLACES[start], _PLACES[end]))
    for state, place in _PLACES.items():
        is_here = state in here
        tone: Tone = ("bad" if state in _BAD else "good") if is_here else "plain"
        _box(axes, place, _NODE, f"● {state}" if is_here else str(state), tone)
    for place, text in _TEXT_INSTEAD_OF_ARROWS.values():
        _label(axes, place, text)


def _edges() -> list[tuple[State, State]]:
    repeated = {row for row in TRANSITIONS if row.event is Event.ELIGIBILITY and row.state is not State.FINISHED}
    rows = [row for row in TRANSITIONS if row not in repeated and row.next not in _TEXT_INSTEAD_OF_ARROWS]
    return sorted({(row.state, row.next) for row in rows if row.state is not row.next})


def _between(start: Point, end: Point) -> tuple[Point, Point]:
    (x1, y1), (x2, y2) = start, end
    if x1 != x2:
        side = _NODE[0] / 2 if x2 > x1 else -_NODE[0] / 2
        return (x1 + side, y1), (x2 - side, y2)
    side = _NODE[1] / 2 if y2 > y1 else -_NODE[1] / 2
    # Arrows in opposite directions are drawn side by side.
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
    """Draw a box with a text; a box that is not plain is filled."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    corner = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    fill, style = "none" if tone == "plain" else to_rgba(_COLOURS[tone], 0.18), "round,pad=0,rounding_size=6"
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, facecolor=fill, edgecolor=_COLOURS[tone]))
    _label(axes, middle, text, tone, weight="normal" if tone == "plain" else "bold")


def _label(axes: Axes, middle: Point, text: str, tone: Tone = "plain", *, weight: str = "normal") -> None:
    shown = axes.text(*middle, text, ha="center", va="center", color=_COLOURS[tone], fontsize=9, fontweight=weight)
    shown.set_parse_math(False)
