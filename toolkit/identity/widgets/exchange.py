"""One request and its response as HTML, and the outcome of an attack as HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from toolkit.identity.client.attacks import Outcome
from toolkit.identity.client.request_recorder import Step
from toolkit.identity.widgets.flow_diagrams import in_words

_HINT = '<p class="toolkit-hint">Click an arrow to see its request and response.</p>'


def exchange_html(step: Step | None) -> str:
    """Return a request and its response, or a hint if none is chosen."""
    if step is None:
        return _HINT
    before, after = in_words(step.before), in_words(step.after)
    moved = after if before == after else f"{before} → {after}" if before else after
    heads = f"<p><b>{step.n} {escape(step.operation)}</b><br>{escape(moved)}</p>" if moved else ""
    answered = f"HTTP {step.http}" if step.http is not None else "none"
    return heads + _pane("Request", step.request) + _pane(f"Response: {answered}", step.response or step.description)


def outcome_html(outcome: Outcome | None) -> str:
    """Return which rule refused an attack, and why."""
    if outcome is None:
        return ""
    mark = "✓ Refused" if outcome.refused else "✗ Not refused"
    return (
        f'<div role="status"><b>{mark} by rule {escape(outcome.rule)}</b>, status {outcome.status}: '
        f"{escape(outcome.answer)} Because {escape(outcome.because)}.</div>"
    )


def _pane(title: str, content: Mapping[str, Any] | str) -> str:
    shown = json.dumps(content, indent=1, ensure_ascii=False)
    return f'<b>{escape(title)}</b><pre tabindex="0" role="region" aria-label="{escape(title)}">{escape(shown)}</pre>'
