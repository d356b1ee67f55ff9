"""A flow as a state diagram and as a sequence diagram of its requests; one request and its response as HTML."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple

from toolkit.identity.client.attacks import Entry, Outcome
from toolkit.identity.client.request_recorder import Step
from toolkit.identity.flow import TRANSITIONS, Event, State, in_words
from toolkit.widgets.diagrams import Drawing, Point, Tone

# Sizes and positions are in pixels.
WIDTH = 548.0
_ROW_HEIGHT = 23.0
_HEADER_HEIGHT = 27.0
_BOX_SIZE = (86.0, 22.0)
# In the diagram of an attack, the attacker is the leftmost participant.
_ATTACKER, _CALLER, _GATEWAY, _CARRIER, _PHONE = range(5)
_PARTICIPANTS = ("attacker", "your program", "gateway", "carrier", "phone")
_PARTICIPANTS_X_IN_FLOW = (0.0, 46.0, 296.0, 408.0, 502.0)
_PARTICIPANTS_X_IN_ATTACK = (44.0, 136.0, 318.0, 410.0, 502.0)
#: The width of a letter, rather too wide, to break a text that is longer than its arrow; the height of a further line.
_LETTER_WIDTH, _LINE_HEIGHT = 6.4, 13.0
#: The messages of an attack appear one after another, with this delay.
_MESSAGE_DELAY_MS = 120

#: The label of the response when a request succeeds.
_RESPONSE_LABELS = {
    Event.START.value: "TargetUrl, first fingerprint",
    "authenticateByRedirectFinish": "alias, code",
    "getEligibility": "eligible or not, question",
    "getPaymentList": "payments, masked",
    "getPaymentDetails": "details, masked",
}

_STATES_HEIGHT = 142.0
_STATE_BOX_SIZE = (78.0, 22.0)
#: Wider, for its long name.
_NOT_ELIGIBLE_WIDTH = 106.0
_STATE_CENTRES: dict[State, Point] = {
    State.NEW: (41, 40),
    State.STARTED: (133, 40),
    State.PROVEN: (225, 40),
    State.FINISHED: (317, 40),
    State.ELIGIBLE: (412, 14),
    State.LOCKED: (412, 61),
    State.NOT_ELIGIBLE: (426, 92),
    State.UNLOCKED: (506, 40),
    State.FAILED: (225, 82),
    State.REFUSED: (317, 82),
    State.EXPIRED: (41, 127),
    State.REVOKED: (317, 127),
}
#: Almost every state leads to these two, so a text replaces a dozen arrows.
_TEXT_INSTEAD_OF_ARROWS = {
    State.EXPIRED: "a fingerprint or code is too old",
    State.REVOKED: "used twice, replaced, or reset",
}
_HINT = '<p class="toolkit-hint">Click an arrow to see its request and response.</p>'
_BAD_STATES = {State.FAILED, State.REFUSED, State.NOT_ELIGIBLE, State.LOCKED, State.EXPIRED, State.REVOKED}


class _Message(NamedTuple):
    start: int
    end: int
    text: str
    tone: Tone = "plain"
    dashed: bool = False


def states_drawing(current: Iterable[State]) -> Drawing:
    """Draw all states, the `current` ones filled, and the transitions that `state_arrows` returns."""
    filled = frozenset(current)
    drawing = Drawing(WIDTH, _STATES_HEIGHT, f"State diagram, the flow is {in_words(filled)}")
    for start, end in state_arrows():
        drawing.line(*_arrow_between(start, end), "quiet", arrow=True)
    for state, centre in _STATE_CENTRES.items():
        tone: Tone = "plain" if state not in filled else "bad" if state in _BAD_STATES else "good"
        size = _state_width(state), _STATE_BOX_SIZE[1]
        drawing.label(centre, size, f"● {state}" if state in filled else str(state), tone, filled=state in filled)
    for state, text in _TEXT_INSTEAD_OF_ARROWS.items():
        x, y = _STATE_CENTRES[state]
        drawing.text((x + _STATE_BOX_SIZE[0] / 2 + 7, y), text, anchor="start")
    return drawing


def sequence_drawing(entries: Sequence[Entry]) -> tuple[Drawing, list[Step]]:
    """Draw a sequence diagram; return the drawing, and the step of each message that can be chosen.

    A refusal is red and starts with a cross and the status. The messages of an attack appear one after another.
    """
    is_attack = any(entry.is_attack for entry in entries)
    columns_x = _PARTICIPANTS_X_IN_ATTACK if is_attack else _PARTICIPANTS_X_IN_FLOW
    rows = [(entry, message, _lines(message, columns_x)) for entry in entries for message in _messages_of(entry)]
    calls = "; ".join(message.text for _, message, _ in rows) or "no requests yet"
    heights = [_ROW_HEIGHT + _LINE_HEIGHT * (len(lines) - 1) for _, _, lines in rows] or [_ROW_HEIGHT]
    height, pace = _HEADER_HEIGHT + sum(heights) + 4, _MESSAGE_DELAY_MS if is_attack else 0
    drawing = Drawing(WIDTH, height, f"{'Attack' if is_attack else 'Sequence of calls'}: {calls}", pace=pace)
    for column in range(_ATTACKER if is_attack else _CALLER, len(_PARTICIPANTS)):
        drawing.line((columns_x[column], _HEADER_HEIGHT - 4), (columns_x[column], height - 2), "quiet", width=0.6)
        tone: Tone = "bad" if column == _ATTACKER else "plain"
        drawing.label((columns_x[column], _BOX_SIZE[1] / 2 + 1), _BOX_SIZE, _PARTICIPANTS[column], tone)
    steps, top = [], _HEADER_HEIGHT
    for (entry, message, lines), row_height in zip(rows, heights, strict=False):
        if entry.step is None:
            start, end, y = columns_x[message.start], columns_x[message.end], top + _ROW_HEIGHT
            drawing.line((start, y - 10), (end, y - 10), "quiet", dashed=True)
            drawing.text(((start + end) / 2, y - 17), message.text, "quiet", bold=True)
        else:
            with drawing.part(f"{entry.step.n} {message.text}", top + 1, row_height - 1):
                _draw_message(drawing, top + row_height, columns_x, message, lines)
            steps.append(entry.step)
        top += row_height
    return drawing, steps


def _draw_message(
    drawing: Drawing, bottom: float, columns_x: Sequence[float], message: _Message, lines: Sequence[str]
) -> None:
    y, (left, right) = bottom - 5, _text_ends(message, columns_x)
    ends = (columns_x[message.start], y), (columns_x[message.end], y)
    drawing.line(*ends, message.tone, dashed=message.dashed, arrow=True)
    for index, line in enumerate(reversed(lines)):
        drawing.text(((left + right) / 2, y - 8 - _LINE_HEIGHT * index), line, message.tone)


def _text_ends(message: _Message, columns_x: Sequence[float]) -> tuple[float, float]:
    start, end = columns_x[message.start], columns_x[message.end]
    # If an arrow crosses the gateway's line, the text stays to the left of this line.
    crosses_gateway = {message.start, message.end} == {_CALLER, _PHONE}
    return min(start, end), columns_x[_GATEWAY] if crosses_gateway else max(start, end)


def _lines(message: _Message, columns_x: Sequence[float]) -> list[str]:
    left, right = _text_ends(message, columns_x)
    return wrap(message.text, int((right - left) / _LETTER_WIDTH)) or [""]


def _messages_of(entry: Entry) -> list[_Message]:
    step = entry.step
    if step is None:
        return [_Message(_CALLER, _PHONE, entry.note)]
    caller = _ATTACKER if entry.is_attack else _CALLER
    refused = step.status != 0
    number = step.status or step.http or ""
    text = f"✗ {number} {step.description}".replace("  ", " ") if refused else _RESPONSE_LABELS.get(step.operation, "")
    tone: Tone = "bad" if refused else "good"
    if step.operation != Event.OPEN or entry.is_attack:
        request = _Message(caller, _GATEWAY, step.operation, "bad" if entry.is_attack else "plain")
        return [request, _Message(_GATEWAY, caller, text or "final fingerprint", tone, True)]
    opening = [
        _Message(_CALLER, _PHONE, "TargetUrl", dashed=True),
        _Message(_PHONE, _GATEWAY, "deviceAuthenticate, mobile"),
    ]
    if refused:
        return [*opening, _Message(_GATEWAY, _PHONE, text, tone, True)]
    return [
        *opening,
        _Message(_GATEWAY, _CARRIER, "whose phone?"),
        _Message(_GATEWAY, _PHONE, "final fingerprint", tone, True),
        _Message(_PHONE, _CALLER, "final fingerprint", dashed=True),
    ]


def state_arrows() -> list[tuple[State, State]]:
    """Return the transitions that are drawn as arrows; not those of a repeated getEligibility."""
    repeated = {row for row in TRANSITIONS if row.event is Event.ELIGIBILITY and row.state is not State.FINISHED}
    rows = [row for row in TRANSITIONS if row not in repeated and row.next not in _TEXT_INSTEAD_OF_ARROWS]
    return sorted({(row.state, row.next) for row in rows if row.state is not row.next})


def _arrow_between(first: State, second: State) -> tuple[Point, Point]:
    (x1, y1), (x2, y2) = _STATE_CENTRES[first], _STATE_CENTRES[second]
    if abs(x1 - x2) > _STATE_BOX_SIZE[1]:
        direction = 1 if x2 > x1 else -1
        start = x1 + direction * _state_width(first) / 2
        return (start, y1), (x2 - direction * _state_width(second) / 2, y2)
    side = _STATE_BOX_SIZE[1] / 2 if y2 > y1 else -_STATE_BOX_SIZE[1] / 2
    # Arrows in opposite directions are drawn side by side.
    shift = -8.0 if y2 > y1 else 8.0
    return (x1 + shift, y1 + side), (x1 + shift, y2 - side)


def _state_width(state: State) -> float:
    return _NOT_ELIGIBLE_WIDTH if state is State.NOT_ELIGIBLE else _STATE_BOX_SIZE[0]


def exchange_html(step: Step | None) -> str:
    if step is None:
        return _HINT
    before, after = in_words(step.before), in_words(step.after)
    state_change = after if before == after else f"{before} → {after}"
    head = f"<p><b>{step.n} {escape(step.operation)}</b><br>{escape(state_change)}</p>"
    http_status = f"HTTP {step.http}" if step.http is not None else "none"
    title, content = f"Response: {http_status}", step.response or step.description
    return head + _json_pane("Request", step.request) + _json_pane(title, content)


def outcome_html(outcome: Outcome | None) -> str:
    """Return as HTML whether the service refused an attack, by which rule, and why; empty without an attack."""
    if outcome is None:
        return ""
    mark = "✓ Refused" if outcome.refused else "✗ Not refused"
    return (
        f'<div role="status"><b>{mark} by rule {escape(outcome.rule)}</b>, status {outcome.status}: '
        f"{escape(outcome.answer)} Because {escape(outcome.because)}.</div>"
    )


def _json_pane(title: str, content: Mapping[str, Any] | str) -> str:
    shown = json.dumps(content, indent=1, ensure_ascii=False)
    return f'<b>{escape(title)}</b><pre tabindex="0" role="region" aria-label="{escape(title)}">{escape(shown)}</pre>'
