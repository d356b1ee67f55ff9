"""Boxes, arrows and labels: as SVG in the colours of the notebook's theme, and as PNG for a saved notebook."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from toolkit.themed_svg import INK, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: ``plain`` follows the theme, ``faint`` does so quietly, ``good`` and ``bad`` have a colour and always a word as well.
Tone = Literal["plain", "faint", "good", "bad"]

_COLOURS: dict[Tone, str] = {"plain": INK, "faint": INK, "good": "#2e7d32", "bad": "#c62828"}
_IN_A_PAGE = {colour: f"var(--toolkit-{tone}, {colour})" for tone, colour in _COLOURS.items() if colour != INK}
_HEAD = 6.0


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line from one point to another, with a head unless it is a plain line."""

    start: tuple[float, float]
    end: tuple[float, float]
    tone: Tone = "plain"
    dashed: bool = False
    head: bool = True


@dataclass(frozen=True, slots=True)
class Box:
    """A rounded box around its middle, filled where it is the one that counts."""

    middle: tuple[float, float]
    size: tuple[float, float]
    text: str
    tone: Tone = "plain"
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A text with its middle at a point."""

    middle: tuple[float, float]
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on a sheet of this size, and what they say to somebody who cannot see them."""

    width: float
    height: float
    said: str
    shapes: Sequence[Arrow | Box | Label]


def as_svg(drawing: Drawing) -> str:
    """Return the drawing as SVG that follows the theme of the page."""
    return themed_svg(_figure([drawing]), drawing.said, _IN_A_PAGE)


def as_png(drawings: Sequence[Drawing]) -> bytes:
    """Return the drawings below each other as one PNG on white."""
    out = io.BytesIO()
    # No software name or date in the file: the same drawing is the same bytes.
    _figure(drawings).savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _head_of(arrow: Arrow) -> list[tuple[float, float]]:
    (x1, y1), (x2, y2) = arrow.start, arrow.end
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
    across, down = (x2 - x1) / length, (y2 - y1) / length
    back_x, back_y = x2 - _HEAD * across, y2 - _HEAD * down
    half = _HEAD / 2
    return [(x2, y2), (back_x - half * down, back_y + half * across), (back_x + half * down, back_y - half * across)]


def _figure(drawings: Sequence[Drawing]) -> Figure:
    from matplotlib.figure import Figure

    width, height = max(one.width for one in drawings), sum(one.height for one in drawings)
    figure = Figure(figsize=(width / 80, height / 80), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    top = 0.0
    for drawing in drawings:
        for shape in drawing.shapes:
            _draw(axes, shape, top)
        top += drawing.height
    return figure


def _draw(axes: Axes, shape: Arrow | Box | Label, top: float) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch, Polygon

    colour, alpha = _COLOURS[shape.tone], 0.3 if shape.tone == "faint" else 1.0
    if isinstance(shape, Arrow):
        (x1, y1), (x2, y2) = shape.start, shape.end
        dash = "--" if shape.dashed else "-"
        axes.plot([x1, x2], [y1 + top, y2 + top], color=colour, alpha=alpha, linewidth=1, linestyle=dash)
        if shape.head:
            axes.add_patch(Polygon([(x, y + top) for x, y in _head_of(shape)], color=colour, alpha=alpha))
        return
    x, y = shape.middle
    bold = "bold" if isinstance(shape, Box) and shape.filled else "normal"
    if isinstance(shape, Box):
        width, height = shape.size
        corner = (x - width / 2, y - height / 2 + top)
        fill = to_rgba(colour, 0.18) if shape.filled else "none"
        style = "round,pad=0,rounding_size=6"
        axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=fill, edgecolor=colour))
    words = axes.text(x, y + top, shape.text, ha="center", va="center", color=colour, fontsize=9, fontweight=bold)
    words.set_parse_math(False)
