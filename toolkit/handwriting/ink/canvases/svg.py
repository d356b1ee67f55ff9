"""SVG: the ink as one path, or a replay in which a pen writes the text stroke by stroke.

In a replay, a thick line that grows along the centre of a stroke uncovers its ink. The animation is CSS only: it plays
in a notebook and in an image file. Readers who prefer reduced motion see the finished text.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from html import escape
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.canvases.curves import UNIT, outline_curves
from toolkit.handwriting.ink.canvases.opacity import layers_of, point_opacity
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.ink.pen import slowness
from toolkit.handwriting.ink.ribbons import OUTLINE, Strokes
from toolkit.handwriting.parameters import CMYK, RGB
from toolkit.keyed_noise import Floats, Integers

SPEED = 11.0  # handwriting sizes per second, where the hand neither hurries nor slows down
LIFT, WORD_PAUSE, LINE_PAUSE = 0.05, 0.12, 0.25  # seconds
_SHORTEST = 0.04  # seconds of a stroke
_STOPS = 7  # moments of a stroke at which the share that is written is exact
LONGEST_REPLAY = 60.0  # seconds; a longer text is written faster

_STYLE = (
    "<style>.w{stroke-dasharray:1 2;stroke-dashoffset:1;animation:w linear both}@keyframes w{to{stroke-dashoffset:0}}"
    "@media(prefers-reduced-motion:reduce){.w{animation:none;stroke-dashoffset:0}}</style>"
)


def draw_svg(page: Page, ink: RGB | CMYK, size: float) -> bytes:
    body = []
    for layer in layers_of(page, size):
        opacity = "" if layer.opacity is None else f' fill-opacity="{layer.opacity:.3f}"'
        path = "".join(_path(curve) for _, curve in outline_curves(layer.strokes, relative=True))
        body.append(f'<path fill="{_css_colour(ink)}"{opacity} d="{path}"/>')
    return _document(page, "".join(body))


def draw_replay(page: Page, ink: RGB | CMYK, size: float) -> bytes:
    visible = page.visible_strokes()
    strokes, letter = page.strokes.select(visible), page.stroke_letter[visible].tolist()
    is_contour = (strokes.flags & OUTLINE) > 0
    first_contour: dict[int, int] = {}  # of a letter: its contours and holes appear together
    shapes: dict[int, str] = {}
    for stroke, curve in outline_curves(strokes, relative=True):
        shape = first_contour.setdefault(letter[stroke], stroke) if is_contour[stroke] else stroke
        shapes[shape] = shapes.get(shape, "") + _path(curve)
    word = page.stroke_word[visible]
    begin, duration, progress = _schedule(strokes, word, page.layout.line[word], size)
    widest = np.maximum.reduceat(strokes.radius, strokes.start) if len(strokes.x) else np.zeros(0)
    width = np.where(is_contour, 1.5 * size, np.maximum(2.4 * widest, 0.2 * size)) * UNIT
    middle = _centre_lines(strokes)
    # Several replays may be in one notebook page, where ids are shared.
    own = hashlib.blake2b("".join(shapes.values()).encode(), digest_size=4).hexdigest()
    opacity = _stroke_opacity(page, visible, size)
    body = [
        f'<clipPath id="s{own}-{n}"><path d="{shapes[n]}"/></clipPath><g clip-path="url(#s{own}-{n})">'
        f'<path class="w" pathLength="1" d="{middle[n]}" stroke-width="{int(width[n])}"{opacity[n]} '
        f'style="animation-delay:{begin[n]:.2f}s;animation-duration:{duration[n]:.2f}s;'
        f'animation-timing-function:linear(0,{_easing(progress[n])},1)"/></g>'
        for n in shapes
    ]
    # These are attributes so that a page that removes the style, as code hosting sites do, shows the finished writing.
    pen = f'fill="none" stroke="{_css_colour(ink)}" stroke-linecap="round" stroke-linejoin="round"'
    return _document(page, f"{_STYLE}<g {pen}>{''.join(body)}</g>")


class _Schedule(NamedTuple):
    begin: Floats  # (strokes,) seconds
    duration: Floats  # (strokes,)
    progress: Floats  # (strokes, _STOPS) share of a stroke that is written at even times


def _schedule(strokes: Strokes, word: Integers, line: Integers, size: float) -> _Schedule:
    """Time the strokes as a hand does: slow in tight curves, with a pause at words and lines."""
    if not len(strokes.length):
        return _Schedule(np.zeros(0), np.zeros(0), np.zeros((0, _STOPS)))
    start, end = strokes.start, strokes.start + strokes.length - 1
    step = strokes.steps() / size
    path = np.cumsum(step) - step
    spent = step / (SPEED * (1.4 - slowness(replace(strokes, x=strokes.x / size, y=strokes.y / size), path)))
    clock = np.cumsum(spent) - spent
    duration = np.maximum(clock[end] - clock[start], _SHORTEST)
    jump = np.hypot(strokes.x[start[1:]] - strokes.x[end[:-1]], strokes.y[start[1:]] - strokes.y[end[:-1]]) / size
    pause = LIFT * (jump > 0.05) + np.minimum(jump / (2 * SPEED), WORD_PAUSE)
    pause += WORD_PAUSE * (np.diff(word) != 0) + LINE_PAUSE * (np.diff(line) != 0)
    begin = np.concatenate([[0.0], np.cumsum(duration[:-1] + pause)])
    faster = min(1.0, LONGEST_REPLAY / float(begin[-1] + duration[-1]))
    moments = np.linspace(0.0, 1.0, _STOPS)
    # Strokes follow each other on the clock, so that one interpolation serves all.
    at = np.interp(clock[start][:, None] + moments * (clock[end] - clock[start])[:, None], clock, path)
    length = np.maximum(path[end] - path[start], 1e-9)[:, None]
    progress = np.where(length > 1e-6, (at - path[start][:, None]) / length, moments)
    return _Schedule(faster * begin, faster * duration, progress)


def _easing(progress: Floats) -> str:
    return ",".join(f"{share:.2f}".lstrip("0") or "0" for share in progress.tolist()[1:-1])


def _stroke_opacity(page: Page, visible: np.ndarray, size: float) -> list[str]:
    """Return an attribute for each stroke: it is animated as a whole, with the mean density of its ink."""
    strokes = page.strokes.select(visible)
    if page.ink is None or not len(strokes.x):
        return [""] * len(strokes.length)
    opacity = point_opacity(page, strokes, page.ink.select(np.repeat(visible, page.strokes.length)), size)
    return [f' stroke-opacity="{mean:.2f}"' for mean in np.add.reduceat(opacity, strokes.start) / strokes.length]


def _centre_lines(strokes: Strokes) -> list[str]:
    points = np.rint(np.stack([strokes.x, strokes.y], axis=1) * UNIT).astype(np.int64).tolist()
    return [
        "M" + " ".join(f"{x} {y}" for x, y in points[at : at + count])
        for at, count in zip(strokes.start.tolist(), strokes.length.tolist(), strict=True)
    ]


def _path(curve: list[int]) -> str:
    """Return a closed, relative curve of `outline_curves` as SVG path data."""
    count = (len(curve) - 2) // 6
    return ("M%d %dc" + " ".join(["%d %d %d %d %d %d"] * count) + "Z") % tuple(curve)


def _paper(page: Page) -> str:
    """Return the sheet and its rules; the corners are a little darker."""
    if page.sheet is None:
        return ""
    scaled = [[round(UNIT * end) for end in line.ends(page.width, page.height)] for line in page.sheet.lines]
    rules: dict[RGB, str] = {}
    for line, (x, y, end_x, end_y) in zip(page.sheet.lines, scaled, strict=True):
        rules[line.colour] = rules.get(line.colour, "") + f"M{x} {y}L{end_x} {end_y}"
    drawn = "".join(
        f'<path stroke="{_css_colour(colour)}" stroke-width="{UNIT * page.sheet.rule_width:.0f}" d="{path}"/>'
        for colour, path in rules.items()
    )
    return (
        '<radialGradient id="shade" r=".75"><stop offset=".6" stop-opacity="0"/><stop offset="1" stop-opacity=".05"/>'
        f'</radialGradient><rect width="100%" height="100%" fill="{_css_colour(page.sheet.colour)}"/>{drawn}'
        '<rect width="100%" height="100%" fill="url(#shade)"/>'
    )


def _document(page: Page, body: str) -> bytes:
    """Return an SVG file as large as `page`, coordinates in hundredths of a point; the text is its label."""
    label = escape("\n".join(page.layout.text))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{page.width:g}" height="{page.height:g}" '
        f'viewBox="0 0 {page.width * UNIT:g} {page.height * UNIT:g}" role="img" aria-label="{label}">'
    )
    return f"{head}{_paper(page)}{body}</svg>\n".encode()


def _css_colour(ink: RGB | CMYK) -> str:
    return "#{:02x}{:02x}{:02x}".format(*ink.rgb())
