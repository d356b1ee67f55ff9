"""The list of glyphs whose strokes have another form than their outline, and the gate that lets no other one pass."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from toolkit.handwriting.hands.quality import Form

TABLE = Path(__file__).with_name("known_losses.json")


class UnknownLoss(Exception):
    """A compiled hand differs from its outlines in another way than ``known_losses.json`` says."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A glyph whose strokes have another number of counters or parts than its outline.

    Attributes
    ----------
    hand : str
        Name of the pack.
    number : int
        Number of the glyph in the pack.
    glyph : str
        Its name in the font.
    text : str
        Characters it is drawn for; empty for an alternate form.
    outline, strokes : Form
        Counters and parts of each.
    """

    hand: str
    number: int
    glyph: str
    text: str
    outline: Form
    strokes: Form


def known_losses() -> tuple[Loss, ...]:
    """Return the list as committed. Rows are only ever deleted: the next compilation then repairs their glyphs."""
    rows = json.loads(TABLE.read_text("utf-8"))
    return tuple(Loss(**row | {side: Form(*row[side]) for side in ("outline", "strokes")}) for row in rows)


def check_losses(hand: str, found: Iterable[Loss]) -> None:
    """Compare what the compilation of `hand` found with the list.

    Raises
    ------
    UnknownLoss
        A glyph lost its form and is not listed, or a listed one has another form than the list says.
    """
    now, listed = set(found), {loss for loss in known_losses() if loss.hand == hand}
    if now == listed:
        return
    lines = [f"{hand}: the compiled glyphs do not agree with {TABLE.name}."]
    lines += [f"  not listed, repair it:        {_row(loss)}" for loss in sorted(now - listed, key=_place)]
    lines += [f"  no longer so, delete the row: {_row(loss)}" for loss in sorted(listed - now, key=_place)]
    raise UnknownLoss("\n".join(lines))


def _place(loss: Loss) -> int:
    return loss.number


def _row(loss: Loss) -> str:
    return json.dumps(asdict(loss), ensure_ascii=False)
