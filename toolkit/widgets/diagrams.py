"""Diagrams of lines, boxes and texts, described once: a browser draws them in notebooks, matplotlib in PNG files.

`DrawingPane` uses anywidget, because a person can choose arrows by mouse and keyboard only if the widget has a script,
and ``ipywidgets.HTML`` removes scripts. The script also draws in 1 ms (an SVG of matplotlib takes 50 ms) and uses the
colours of the theme.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anywidget
import traitlets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The colour of a shape: ``plain`` is the text colour of the theme. Colour is never the only sign of a meaning.
Tone = Literal["plain", "quiet", "good", "bad"]
Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

# Colours in a PNG, on white; the colours on a page are in base.css.
_COLOURS: dict[str, str] = {"plain": "#333333", "quiet": "#6b6b6b", "good": "#1b5e20", "bad": "#b71c1c"}
_ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}
_OPACITY = 0.18
_FONT_SIZE = 9.0
_PIXELS_PER_INCH, _DPI = 80, 110  # of a drawing, and of its PNG


class Drawing:
    """Shapes, with positions in pixels from the top left; a screen reader reads `description`.

    Shapes that are added within `part` form a part, which a person can choose. With a `pace`, the parts appear one
    after the other, `pace` milliseconds apart.
    """

    def __init__(self, width: float, height: float, description: str, *, pace: int = 0) -> None:
        self.width, self.height, self.description, self.pace = width, height, description, pace
        self.shapes: list[dict[str, Any]] = []
        self.parts: list[dict[str, Any]] = []
        self._part: int | None = None

    @contextmanager
    def part(self, description: str, top: float, height: float) -> Iterator[None]:
        """Group the shapes of the block into a part; a click between `top` and `top + height` chooses the part."""
        self._part = len(self.parts)
        self.parts.append({"description": description, "top": top, "height": height})
        yield
        self._part = None

    def line(
        self, start: Point, end: Point, tone: Tone = "plain", *, dashed: bool = False, arrow: bool = False,
        width: float = 1.0,
    ) -> None:  # fmt: skip
        self._add("line", tone, start=start, end=end, dashed=dashed, arrow=arrow, width=width)

    def box(
        self, corner: Point, size: Point, tone: Tone = "plain", *, filled: bool = False, solid: bool = False
    ) -> None:
        """Add a rectangle, with a light fill if `filled`, or with a full fill and no edge if `solid`."""
        self._add("box", tone, corner=corner, size=size, fill=1 if solid else _OPACITY if filled else 0, edge=not solid)

    def dot(self, middle: Point, tone: Tone = "plain", *, hollow: bool = False) -> None:
        self._add("dot", tone, middle=middle, fill=0 if hollow else 1)

    def text(
        self, position: Point, text: str, tone: Tone = "plain", *, anchor: Anchor = "middle", bold: bool = False
    ) -> None:
        self._add("text", tone, position=position, text=text, anchor=anchor, bold=bold)

    def label(self, middle: Point, size: Point, text: str, tone: Tone = "plain", *, filled: bool = False) -> None:
        self.box((middle[0] - size[0] / 2, middle[1] - size[1] / 2), size, tone, filled=filled)
        self.text(middle, text, tone, bold=filled)

    def _add(self, kind: str, tone: Tone, **properties: Any) -> None:  # noqa: ANN401
        self.shapes.append({"kind": kind, "tone": tone, "part": self._part, **properties})

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("width", "height", "description", "pace", "shapes", "parts")}


class DrawingPane(anywidget.AnyWidget):
    """Shows a drawing; ``chosen`` is the part that a person clicked or reached with the arrow keys, -1 for none."""

    _esm = Path(__file__).with_suffix(".js")

    drawing = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)

    def show(self, drawing: Drawing, chosen: int = -1) -> None:
        with self.hold_sync():
            self.chosen = chosen
            self.drawing = drawing.as_json()


def png(*drawings: Drawing) -> bytes:
    """Return a PNG of the drawings, one below the other, on white."""
    from matplotlib.figure import Figure

    width, height = max(drawing.width for drawing in drawings), sum(drawing.height for drawing in drawings)
    figure = Figure(figsize=(width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH), dpi=_DPI)
    top = 0.0
    for drawing in drawings:
        bottom = 1 - (top + drawing.height) / height
        axes = figure.add_axes((0, bottom, drawing.width / width, drawing.height / height))
        axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
        axes.set_axis_off()
        _draw_shapes(axes, drawing.shapes)
        top += drawing.height
    file = io.BytesIO()
    # The name of the software would make the bytes depend on its version.
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _draw_shapes(axes: Axes, shapes: Sequence[dict[str, Any]]) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    for shape in shapes:
        colour = _COLOURS[shape["tone"]]
        if shape["kind"] == "line":
            style = {"color": colour, "linestyle": "--" if shape["dashed"] else "-", "linewidth": shape["width"]}
            head = "-|>" if shape["arrow"] else "-"
            arrow_props = {"arrowstyle": head, "shrinkA": 0, "shrinkB": 0, **style}
            axes.annotate("", shape["end"], shape["start"], arrowprops=arrow_props)
        elif shape["kind"] == "box":
            edge = colour if shape["edge"] else "none"
            fill = to_rgba(colour, shape["fill"])
            axes.add_patch(Rectangle(shape["corner"], *shape["size"], facecolor=fill, edgecolor=edge))
        elif shape["kind"] == "dot":
            fill_colour = colour if shape["fill"] else "white"
            axes.plot(*shape["middle"], "o", color=colour, markersize=5.5, markerfacecolor=fill_colour)
        else:
            weight = "bold" if shape["bold"] else "normal"
            (x, y), alignment = shape["position"], _ALIGNMENTS[shape["anchor"]]
            style = {"color": colour, "fontsize": _FONT_SIZE, "fontweight": weight}
            label = axes.text(x, y, shape["text"], ha=alignment, va="center", **style)
            # Otherwise a dollar sign would begin a formula.
            label.set_parse_math(False)
