"""Kinds of paper, and a sheet of one: its colour, its printed lines, and how it was turned on the scanner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from toolkit_gateway.ink.parameters import RGB
from toolkit_gateway.ink.random_streams import RandomStreams

MARGIN_LINE_COLOUR = RGB(226, 128, 140)


class Stock(NamedTuple):
    """A kind of paper; the colour of a sheet is close to one of these."""

    colours: tuple[RGB, ...]
    texture: float  # strength of the fibres, in brightness levels of 255
    rules: tuple[RGB, ...] = ()
    is_squared: bool = False


STOCKS = {
    "blank": Stock(
        (RGB(249, 247, 240), RGB(248, 248, 246), RGB(251, 247, 232), RGB(241, 240, 235), RGB(245, 247, 249)), 1.2,
    ),
    "ruled": Stock(
        (RGB(250, 249, 245), RGB(247, 248, 249), RGB(251, 247, 231), RGB(243, 242, 238)), 1.2,
        (RGB(152, 182, 218), RGB(164, 176, 196), RGB(133, 168, 212), RGB(172, 164, 204)),
    ),
    "grid": Stock(
        (RGB(249, 249, 246), RGB(246, 247, 249), RGB(250, 247, 236)), 1.2,
        (RGB(176, 202, 226), RGB(178, 186, 202), RGB(160, 190, 224), RGB(190, 182, 214)), is_squared=True,
    ),
    "kraft": Stock((RGB(196, 161, 119), RGB(205, 174, 134), RGB(184, 149, 110)), 6.0),
}  # fmt: skip


class PrintedLine(NamedTuple):
    """A printed line; `slope` is y over x, or x over y for an upright line."""

    position: float  # y at the left edge of the page, or x at the top edge for an upright line
    slope: float
    is_upright: bool
    colour: RGB

    def ends(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Return x and y of both ends on a page of this size."""
        if self.is_upright:
            return self.position, 0.0, self.position + self.slope * height, height
        return 0.0, self.position, width, self.position + self.slope * width


@dataclass(frozen=True, slots=True)
class Sheet:
    stock: Stock
    colour: RGB
    rule: RGB  # colour of the rules
    lines: tuple[PrintedLine, ...]
    rule_width: float  # points
    turn: float  # tangent of the angle by which the sheet is turned on the scanner
    noise: RandomStreams  # random numbers of this sheet

    def scaled(self, factor: float) -> Sheet:
        """Return the sheet with all lengths multiplied by `factor`."""
        lines = tuple(line._replace(position=line.position * factor) for line in self.lines)
        return replace(self, lines=lines, rule_width=self.rule_width * factor)
