"""SVG: the ink as one path, or a replay that shows the text stroke by stroke.

In a replay, a thick line grows along the centre of each stroke and uncovers the ink. The animation is CSS only, so it
plays in a notebook and in an image file. Readers who prefer reduced motion see the finished text.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape
from io import BytesIO
from itertools import chain

import numpy as np

from toolkit_gateway.ink.canvases.curves import ink_opacity, outline_curves, units_per_point
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import CMYK, RGB
from toolkit_gateway.ink.pen import slowness
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG
from toolkit_gateway.ink.sheet import Sheet

WRITING_SPEED = 11.0  # handwriting sizes per second, where the slowness of the hand is 0.4
LIFT_PAUSE, WORD_PAUSE, LINE_PAUSE = 0.05, 0.12, 0.25  # seconds
_MIN_STROKE_SECONDS = 0.04
_PROGRESS_STOPS = 7  # moments of a stroke at which the animation is exact
MAX_REPLAY_SECONDS = 60.0  # a replay that would take longer is faster

_STYLE_ELEMENT = (
    "<style>.w{stroke-dasharray:1 2;stroke-dashoffset:1;animation:w linear both}@keyframes w{to{stroke-dashoffset:0}}"
    "@media(prefers-reduced-motion:reduce){.w{animation:none;stroke-dashoffset:0}}</style>"
)


def draw_svg(page: Page, ink: RGB | CMYK, size: float) -> bytes:
    units = units_per_point(size)
    return _document(page, units, _ink_paths(page.scaled(units), ink, size * units))


def _ink_paths(page: Page, ink: RGB | CMYK, size: float) -> Iterator[str]:
    yield f'<path fill="{_css_colour(ink)}"{_opacity(page, "fill")} d="'
    yield from (_path_data(curve, size) for _, curve in outline_curves(page.strokes, relative=True))
    yield '"/>'


def _opacity(page: Page, paint: str) -> str:
    """Return the attribute for the opacity of the ink; empty for plain ink."""
    opacity = ink_opacity(page)
    return "" if opacity is None else f' {paint}-opacity="{opacity:.3f}"'


def draw_replay(page: Page, ink: RGB | CMYK, size: float) -> bytes:
    units = units_per_point(size)
    return _document(page, units, _animated_strokes(page.scaled(units), ink, size * units))


def _animated_strokes(page: Page, ink: RGB | CMYK, size: float) -> Iterator[str]:
    strokes, start, letter = page.strokes, page.strokes.start, page.letter_of_stroke.tolist()
    is_contour = (strokes.flags & OUTLINE_FLAG) > 0
    animation = _animations(page, size)  # first, since it takes much memory
    first_contour: dict[int, int] = {}  # by letter: all contours of a letter appear together with the first
    shapes: dict[int, str] = {}
    for stroke, curve in outline_curves(strokes, relative=True):
        first = first_contour.setdefault(letter[stroke], stroke) if is_contour[stroke] else stroke
        shapes[first] = shapes.get(first, "") + _path_data(curve, size)
    widest = np.maximum.reduceat(strokes.radius, start)
    width = np.where(is_contour, 1.5 * size, np.maximum(2.4 * widest, 0.2 * size))
    centre = np.rint(np.stack([strokes.x, strokes.y], axis=1)).astype(np.int64)
    shapes_hash = hashlib.blake2b(digest_size=4)
    for shape in shapes.values():
        shapes_hash.update(shape.encode())
    prefix = shapes_hash.hexdigest()  # a notebook may show several replays, and ids must differ within a web page
    # Attributes, not CSS: on a site that removes the style element, as code hosting sites do, the finished text shows.
    pen = f'fill="none" stroke="{_css_colour(ink)}"{_opacity(page, "stroke")} stroke-linecap="round"'
    yield f'{_STYLE_ELEMENT}<g {pen} stroke-linejoin="round">'
    for n in list(shapes):
        shape = shapes.pop(n)  # frees the memory of a shape that is in the file
        points = centre[start[n] : start[n] + strokes.length[n]].tolist()
        line = "M" + " ".join(f"{x} {y}" for x, y in points)
        yield (
            f'<clipPath id="s{prefix}-{n}"><path d="{shape}"/></clipPath><g clip-path="url(#s{prefix}-{n})">'
            f'<path class="w" pathLength="1" d="{line}" stroke-width="{int(width[n])}" '
            f'style="{animation[n]}"/></g>'
        )
    yield "</g>"


def _animations(page: Page, size: float) -> list[str]:
    """Return the CSS of each stroke, for writing that is slow in tight curves and pauses between words and lines."""
    strokes, word = page.strokes, page.word_of_stroke
    if not len(strokes.length):
        return []
    start, end = strokes.start, strokes.start + strokes.length - 1
    step = strokes.steps() / size
    path = np.cumsum(step) - step
    spent = step / (WRITING_SPEED * (1.4 - slowness(replace(strokes, x=strokes.x / size, y=strokes.y / size), path)))
    clock = np.cumsum(spent) - spent
    duration = np.maximum(clock[end] - clock[start], _MIN_STROKE_SECONDS)
    jump = np.hypot(strokes.x[start[1:]] - strokes.x[end[:-1]], strokes.y[start[1:]] - strokes.y[end[:-1]]) / size
    pause = LIFT_PAUSE * (jump > 0.05) + np.minimum(jump / (2 * WRITING_SPEED), WORD_PAUSE)
    pause += WORD_PAUSE * (np.diff(word) != 0) + LINE_PAUSE * (np.diff(page.layout.line[word]) != 0)
    begin = np.concatenate([[0.0], np.cumsum(duration[:-1] + pause)])
    time_scale = min(1.0, MAX_REPLAY_SECONDS / float(begin[-1] + duration[-1]))
    moments = np.linspace(0.0, 1.0, _PROGRESS_STOPS)
    # All strokes share one clock, so one interpolation is enough for all of them.
    reached = np.interp(clock[start][:, None] + moments * (clock[end] - clock[start])[:, None], clock, path)
    length = np.maximum(path[end] - path[start], 1e-9)[:, None]
    progress = np.where(length > 1e-6, (reached - path[start][:, None]) / length, moments)[:, 1:-1]
    easing = [",".join(f"{share:.2f}".lstrip("0") or "0" for share in row) for row in progress.tolist()]
    return [
        f"animation-delay:{delay:.2f}s;animation-duration:{seconds:.2f}s;animation-timing-function:linear(0,{shares},1)"
        for delay, seconds, shares in zip(time_scale * begin, time_scale * duration, easing, strict=True)
    ]


def _path_data(curve: list[int], size: float) -> str:
    """Convert a closed, relative curve of `outline_curves` to SVG path data.

    Where the first control point is nearly the mirror image of the last one, `s` leaves it out, as in most pieces.
    """
    tolerance, x, y = 0.015 * size, math.inf, math.inf
    data, command = [f"M{curve[0]} {curve[1]}"], ""
    numbers = iter(curve[2:])
    for a, b, c, d, end_x, end_y in zip(*[numbers] * 6, strict=True):
        wanted = "s" if abs(a - x) <= tolerance and abs(b - y) <= tolerance else "c"
        piece = f"{c} {d} {end_x} {end_y}" if wanted == "s" else f"{a} {b} {c} {d} {end_x} {end_y}"
        data.append(f" {piece}" if wanted == command else f"{wanted}{piece}")
        x, y, command = end_x - c, end_y - d, wanted
    return "".join(data).replace(" -", "-") + "Z"


def _paper_elements(sheet: Sheet | None, width: float, height: float) -> str:
    """Return the SVG elements of the paper and the rules, of a page of this size."""
    if sheet is None:
        return ""
    rules: dict[RGB, str] = {}
    for line in sheet.lines:
        x, y, end_x, end_y = map(round, line.ends(width, height))
        rules[line.colour] = rules.get(line.colour, "") + f"M{x} {y}L{end_x} {end_y}"
    drawn = (
        f'<path stroke="{_css_colour(colour)}" stroke-width="{sheet.rule_width:.0f}" d="{path}"/>'
        for colour, path in rules.items()
    )
    return f'<rect width="100%" height="100%" fill="{_css_colour(sheet.colour)}"/>{"".join(drawn)}'


def _document(page: Page, units: int, pieces: Iterable[str]) -> bytes:
    """Return an SVG file as large as `page`, with so many units per point, and the text as ARIA label."""
    file = BytesIO()  # the pieces of a long text take 40 MB; to join them would take twice as much
    label, width, height = escape("\n".join(page.layout.line_texts)), page.width * units, page.height * units
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{page.width:g}" height="{page.height:g}" '
        f'viewBox="0 0 {width:.10g} {height:.10g}" role="img" aria-label="{label}">'
    )
    paper = _paper_elements(page.sheet and page.sheet.scaled(units), width, height)
    for piece in chain((head, paper), pieces, ("</svg>\n",)):
        file.write(piece.encode())
    return file.getvalue()


def _css_colour(ink: RGB | CMYK) -> str:
    return "#{:02x}{:02x}{:02x}".format(*ink.rgb())
