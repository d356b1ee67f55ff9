"""Boxes, arrows and labels, drawn twice: as SVG in the colours of the notebook's theme, and as PNG for a saved one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: ``plain`` follows the theme, ``faint`` does so quietly, ``good`` and ``bad`` have a colour and always a word as well.
Tone = Literal["plain", "faint", "good", "bad"]

_SVG_COLOURS: dict[Tone, str] = {
    "plain": "currentColor",
    "faint": "currentColor",
    "good": "var(--toolkit-good, #2e7d32)",
    "bad": "var(--toolkit-bad, #c62828)",
}
_PNG_COLOURS: dict[Tone, str] = {"plain": "#333333", "faint": "#bbbbbb", "good": "#2e7d32", "bad": "#c62828"}
_FONT = 'font-size="12" font-family="system-ui,sans-serif"'
_HEAD = 6.0
#: Of its size: where the page is narrower, the drawing scrolls.
_LEAST = 0.85


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
    """Return the drawing as SVG that fills its column, at most as wide as it was made, and never too small to read."""
    body = "".join(_svg_of(shape) for shape in drawing.shapes)
    wide = f"width:{drawing.width:g}px;max-width:100%;min-width:{_LEAST * drawing.width:.0f}px"
    return (
        f'<svg role="img" aria-label="{escape(drawing.said)}" viewBox="0 0 {drawing.width:g} {drawing.height:g}" '
        f'style="{wide};height:auto" {_FONT}>{body}</svg>'
    )


def _svg_of(shape: Arrow | Box | Label) -> str:
    colour = _SVG_COLOURS[shape.tone]
    fade = ' opacity="0.3"' if shape.tone == "faint" else ""
    if isinstance(shape, Arrow):
        return f"<g{fade}>{_svg_arrow(shape, colour)}</g>"
    x, y = shape.middle
    frame = weight = ""
    if isinstance(shape, Box):
        width, height = shape.size
        fill = f'fill="{colour}" fill-opacity="0.18" stroke-width="2.5"' if shape.filled else 'fill="none"'
        corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}"'
        frame = f'<rect {corner} width="{width:g}" height="{height:g}" rx="6" {fill} stroke="{colour}"/>'
        weight = ' font-weight="bold"' if shape.filled else ""
    text = f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" fill="{colour}"{weight}>{escape(shape.text)}</text>'
    return f"<g{fade}>{frame}{text}</g>"


def _svg_arrow(arrow: Arrow, colour: str) -> str:
    (x1, y1), (x2, y2) = arrow.start, arrow.end
    dash = ' stroke-dasharray="5 4"' if arrow.dashed else ""
    line = f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}"{dash}/>'
    if not arrow.head:
        return line
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _head_of(arrow))
    return f'{line}<polygon points="{points}" fill="{colour}"/>'


def _head_of(arrow: Arrow) -> list[tuple[float, float]]:
    (x1, y1), (x2, y2) = arrow.start, arrow.end
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
    across, down = (x2 - x1) / length, (y2 - y1) / length
    back_x, back_y = x2 - _HEAD * across, y2 - _HEAD * down
    half = _HEAD / 2
    return [(x2, y2), (back_x - half * down, back_y + half * across), (back_x + half * down, back_y - half * across)]


def as_png(drawings: Sequence[Drawing]) -> bytes:
    """Return the drawings under each other as one PNG on white."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = max(one.width for one in drawings), sum(one.height for one in drawings)
    figure = Figure(figsize=(width / 80, height / 80), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    top = 0.0
    for drawing in drawings:
        for shape in drawing.shapes:
            _draw(axes, shape, top)
        top += drawing.height
    out = io.BytesIO()
    # No software name or date in the file: the same drawing is the same bytes.
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _draw(axes: Axes, shape: Arrow | Box | Label, top: float) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch, Polygon

    colour = _PNG_COLOURS[shape.tone]
    if isinstance(shape, Arrow):
        (x1, y1), (x2, y2) = shape.start, shape.end
        axes.plot([x1, x2], [y1 + top, y2 + top], color=colour, linewidth=1, linestyle="--" if shape.dashed else "-")
        if shape.head:
            axes.add_patch(Polygon([(x, y + top) for x, y in _head_of(shape)], color=colour))
        return
    x, y = shape.middle
    bold = "bold" if isinstance(shape, Box) and shape.filled else "normal"
    if isinstance(shape, Box):
        width, height = shape.size
        corner = (x - width / 2, y - height / 2 + top)
        fill = to_rgba(colour, 0.18) if shape.filled else "none"
        style = "round,pad=0,rounding_size=6"
        axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=fill, edgecolor=colour))
    axes.text(x, y + top, shape.text, ha="center", va="center", color=colour, fontsize=9, fontweight=bold)
