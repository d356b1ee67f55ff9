"""The list of glyphs whose strokes differ in form from their outline, and the check that allows no others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from toolkit.handwriting.hands.tracing import Form

TABLE = Path(__file__).with_name("known_losses.json")


class UnknownLoss(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Loss:
    """A glyph whose strokes have another number of counters or parts than its outline."""

    hand: str
    number: int  # of the glyph in the pack
    glyph: str  # its name in the font
    text: str  # the characters it is drawn for; empty for an alternate form
    outline: Form
    strokes: Form


def known_losses() -> tuple[Loss, ...]:
    """Return the list. Never add a row; after one is deleted, the next compilation repairs its glyph."""
    return msgspec.json.decode(TABLE.read_bytes(), type=tuple[Loss, ...])


def check_losses(hand: str, found: Iterable[Loss]) -> None:
    """Raise UnknownLoss if the glyphs that lost their form are not exactly those on the list."""
    now, listed = set(found), {loss for loss in known_losses() if loss.hand == hand}
    if now == listed:
        return
    lines = [f"{hand}: the compiled glyphs do not agree with {TABLE.name}."]
    for advice, losses in (("not listed, repair it", now - listed), ("no longer so, delete the row", listed - now)):
        rows = sorted(losses, key=lambda loss: loss.number)
        lines += [f"  {advice}: {json.dumps(asdict(loss), ensure_ascii=False)}" for loss in rows]
    raise UnknownLoss("\n".join(lines))
