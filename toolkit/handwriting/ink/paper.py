"""The sheet under the writing: its colour and its rules, and how crooked it lay on the scanner.

The rules have the pitch of the lines, and the writing hangs on them loosely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toolkit.handwriting.parameters import RGB, Margin, Parameters
from toolkit.keyed_noise import Floats, KeyedNoise

if TYPE_CHECKING:
    from toolkit.handwriting.ink.page import Page

MARGIN = 1.6  # handwriting sizes around a text without padding
LEAST_TURN, MOST_TURN = 0.0052, 0.014  # 0.3 and 0.8 degrees
HANG, BELOW = 0.035, 0.05  # handwriting sizes: how loosely a line hangs on its rule, and how far above it lies
FINEST_PITCH = 6.0  # points; closer rules are left out
RULE_WIDTH = 0.028  # handwriting sizes


class Stock(NamedTuple):
    """What a kind of paper looks like."""

    colour: RGB
    texture: float  # change of brightness by fibres, in levels of 255
    rule: RGB | None = None
    columns: float = 0.0  # width of the squares in line pitches, 0 for none


STOCKS = {
    "blank": Stock(RGB(249, 247, 240), 1.2),
    "ruled": Stock(RGB(250, 249, 245), 1.2, RGB(152, 182, 218)),
    "grid": Stock(RGB(249, 249, 246), 1.2, RGB(176, 202, 226), 0.5),
    "kraft": Stock(RGB(196, 161, 119), 6.0),
}
MARGIN_LINE = RGB(226, 128, 140)


class Line(NamedTuple):
    """A printed line through a point, with its slope: of y over x, or of x over y if it is upright."""

    at: float  # where it crosses the left edge of the page, or the top edge if it is upright
    slope: float
    upright: bool
    colour: RGB

    def ends(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Return x and y of both ends on a page of this size."""
        if self.upright:
            return self.at, 0.0, self.at + self.slope * height, height
        return 0.0, self.at, width, self.at + self.slope * width


@dataclass(frozen=True, slots=True)
class Sheet:
    stock: Stock
    lines: tuple[Line, ...]
    rule_width: float  # points
    noise: KeyedNoise


def with_margin(parameters: Parameters) -> Parameters:
    """Return parameters that keep the text from the edges of the paper, if there is one."""
    if parameters.paper == "none" or parameters.min_padding is not None or parameters.margin is not None:
        return parameters
    sides = [side / 5 for side in (parameters.width, parameters.height) if side is not None]
    return replace(parameters, margin=Margin(*[min([MARGIN * parameters.handwriting_size, *sides])] * 4))


def laid_on_paper(page: Page, parameters: Parameters, noise: KeyedNoise) -> Page:
    """Return the page on its sheet, turned as it lay on the scanner."""
    stock = STOCKS.get(parameters.paper)
    if stock is None:
        return page
    size = parameters.handwriting_size
    pitch = size * (parameters.line_spacing or 0.0)
    turn = (LEAST_TURN + (MOST_TURN - LEAST_TURN) * noise.number("turn")) * (1 if noise.number("turned") < 0.5 else -1)
    lines = _printed(page, stock, pitch, BELOW * size, turn)
    sheet = Sheet(stock, lines, max(RULE_WIDTH * size, 0.4), noise)
    hang = HANG * size * noise.gaussian("hang", page.layout.lines)
    strokes, word_line = page.strokes, page.layout.line
    at = np.repeat(word_line[page.stroke_word], strokes.length)
    x, y = _turned(page, turn, strokes.x, strokes.y + hang[at])
    word_x, word_y = _turned(page, turn, page.word_x, page.word_y + hang[word_line])
    return replace(
        page, strokes=replace(strokes, x=x, y=y), word_x=word_x, word_y=word_y,
        word_end=word_x + page.word_end - page.word_x, sheet=sheet,
    )  # fmt: skip


def _turned(page: Page, turn: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Turn points around the middle of the page; `turn` is the tangent of the angle."""
    cosine = 1 / np.sqrt(1 + turn * turn)
    dx, dy = x - page.width / 2, y - page.height / 2
    return page.width / 2 + cosine * (dx - turn * dy), page.height / 2 + cosine * (dy + turn * dx)


def _printed(page: Page, stock: Stock, pitch: float, below: float, turn: float) -> tuple[Line, ...]:
    """Return all lines of the paper; those of the text are a little below its baselines."""
    if stock.rule is None or pitch < FINEST_PITCH:
        return ()
    middle_x, middle_y = page.width / 2, page.height / 2
    phase = float((page.baseline - pitch * np.arange(len(page.baseline))).mean()) + below
    squares = pitch * (stock.columns or 1.0)
    reach = abs(turn) * max(page.width, page.height)
    across = _steps(phase, squares, page.height, reach)
    lines = [Line(middle_y + (y - middle_y) - turn * middle_x, turn, False, stock.rule) for y in across]
    upright = _steps(squares / 3, squares, page.width, reach) if stock.columns else []
    lines += [Line(x + turn * middle_y, -turn, True, stock.rule) for x in upright]
    left = float(page.word_x.min()) if len(page.word_x) else 0.0
    if not stock.columns and left > pitch:
        lines.append(Line(left - 0.3 * pitch + turn * middle_y, -turn, True, MARGIN_LINE))
    return tuple(lines)


def _steps(phase: float, step: float, length: float, reach: float) -> list[float]:
    first, last = int(-(phase + reach) // step), int((length + reach - phase) // step) + 1
    return [phase + n * step for n in range(first, last + 1)]
