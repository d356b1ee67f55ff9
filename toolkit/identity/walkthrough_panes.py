"""The panes of the walkthrough as HTML; whatever a server sent is escaped, and no secret ever gets here."""

from __future__ import annotations

import json
from html import escape

from toolkit.identity.attacks import Outcome
from toolkit.identity.held_secrets import AuthenticatedUser
from toolkit.identity.trace import Step


def exchange_html(step: Step) -> str:
    """Return request and response beside each other, redacted, each in a pane that can be scrolled."""
    panes = "".join(
        f'<div style="flex:1 1 22em;min-width:0"><b>{escape(title)}</b>'
        f'<pre tabindex="0" role="region" aria-label="{escape(title)}" '
        'style="overflow:auto;max-height:18em;margin:0;font-size:12px">'
        f"{escape(json.dumps(content, indent=1, ensure_ascii=False))}</pre></div>"
        for title, content in (
            (f"Request {step.n}: {step.operation}", step.request),
            (f"Response: HTTP {step.http}", step.response),
        )
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{panes}</div>'


def life_html(user: AuthenticatedUser | None, now: int) -> str:
    """Return until when the code is good: a time, and what was left of it at the last call."""
    if user is None:
        return "no code yet"
    left = user.seconds_left(now)
    until = f"{user.expires_at:%H:%M:%S} UTC"
    return f"the code is valid until {until}, {left:.0f} s left" if left else f"the code ended at {until}"


def outcome_html(outcome: Outcome) -> str:
    """Return what came of an attack: the rule in words, not only in colour."""
    mark = "✓ Refused" if outcome.refused else "✗ Not refused"
    return (
        f'<div role="status"><b>{mark} by rule {escape(outcome.rule)}</b>, status {outcome.status}: '
        f"{escape(outcome.answer)}<br>Because {escape(outcome.because)}.</div>"
    )
