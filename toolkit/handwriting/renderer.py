"""Text in, file out: the one call that the service and the notebooks use."""

from __future__ import annotations

import secrets
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

import numpy as np

from toolkit.handwriting.canvases.pdf import draw_pdf
from toolkit.handwriting.canvases.png import draw_png
from toolkit.handwriting.canvases.replay import draw_replay
from toolkit.handwriting.canvases.result import Drawing
from toolkit.handwriting.canvases.svg import draw_svg
from toolkit.handwriting.catalogue import Handwriting
from toolkit.handwriting.keyed_noise import KeyedNoise
from toolkit.handwriting.layout import Layout, lay_out, normalised
from toolkit.handwriting.motion import write
from toolkit.handwriting.page import Page, baselines, compose, wrap_width
from toolkit.handwriting.parameters import RGB, Format, MissingCharacters, Parameters
from toolkit.handwriting.pen import inked_radius
from toolkit.handwriting.ribbons import Strokes
from toolkit.handwriting.shaping import Shaper
from toolkit.handwriting.writers import writer_of

VERSION = "3"  # changes whenever the same parameters and seed give another picture
STAGES = ("layout", "motion", "pen", "canvas", "encode")
MOST_POINTS = 1_250_000  # of all strokes; a text of more is written with fewer points in each letter
_BEYOND = 3.0  # lines this many cap heights below the page cannot reach it


@dataclass(frozen=True, slots=True)
class Rendering:
    """A finished rendering.

    Attributes
    ----------
    data : bytes
        The file.
    seed : int or Decimal
        Gives the same writing again; positive.
    size : tuple of float
        Width and height in points (for PNG: pixels).
    lines : int
        Lines of text, empty ones too.
    ink_share : float
        Share of the page that is covered with ink, 0..1.
    overflow : bool
        Whether some ink did not fit the page and was cut off.
    timings : dict of str to float
        Milliseconds for layout, motion, pen, canvas and encode.
    """

    data: bytes
    seed: int | Decimal
    size: tuple[float, float]
    lines: int
    ink_share: float
    overflow: bool
    timings: dict[str, float]


class _Watch:
    """Notes the seconds of every stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._since = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] += now - self._since
        self._since = now


def render(handwriting: Handwriting, parameters: Parameters, kind: Format) -> Rendering:
    r"""Write `parameters.text` in `handwriting` and return it as a file.

    Parameters
    ----------
    handwriting : Handwriting
        From the catalogue.
    parameters : Parameters
        What to write, and how.
    kind : {"png", "pdf", "svg", "replay"}
        The file; ``replay`` is an SVG that writes itself. One seed gives the same writing in all of them.

    Returns
    -------
    Rendering
        The file, and figures about it.

    Raises
    ------
    MissingCharacters
        Neither the handwriting nor its fallbacks write some characters.
    PageTooLarge
        An automatic width or height exceeds what the format allows.

    Examples
    --------
    >>> from toolkit.handwriting.catalogue import catalogue
    >>> molly = catalogue().by_title("Molly")
    >>> done = render(molly, Parameters("Hello", height=None, random_seed=7), "png")
    >>> done.data[:4], done.lines
    (b'\x89PNG', 1)
    """
    seed = _seed(parameters)
    watch = _Watch()
    page = write_page(handwriting, parameters, kind, seed, watch.lap)
    drawing = _draw(page, parameters, kind)
    for stage, seconds in drawing.timings.items():
        watch.seconds[stage] += seconds
    share = drawing.ink_share if drawing.ink_share is not None else _estimated_share(page)
    milliseconds = {stage: 1000 * seconds for stage, seconds in watch.seconds.items()}
    size = (page.width, page.height)
    return Rendering(drawing.data, seed, size, page.layout.lines, share, page.overflow, milliseconds)


def write_page(
    handwriting: Handwriting, parameters: Parameters, kind: Format, seed: int | Decimal,
    lap: Callable[[str], None] = lambda stage: None,
) -> Page:  # fmt: skip
    """Return the ink of one rendering before it is drawn; see `render`. `lap` is called after each stage."""
    shaper = _shaper(handwriting.script, handwriting.writer)
    noise = KeyedNoise(str(seed), handwriting.script, shaper.writer.name)
    text = normalised(unicodedata.normalize("NFC", parameters.text))
    if missing := shaper.missing(text):
        raise MissingCharacters(missing)
    if (points := shaper.points(text)) > MOST_POINTS:
        shaper = _shaper(handwriting.script, handwriting.writer, -(-points // MOST_POINTS))
    layout = lay_out(shaper, text, wrap_width(parameters, shaper), parameters.word_spacing_variance, noise)
    baseline = baselines(parameters, layout.lines, noise)
    visible = _visible(layout, baseline, parameters)
    lap("layout")
    trace = write(visible, shaper, noise)
    lap("motion")
    trace.strokes.radius[:] = inked_radius(trace.strokes, shaper.nib, shaper.writer.contrast, noise)
    lap("pen")
    page = compose(parameters, kind, visible, trace, shaper, noise, baseline)
    lap("motion")
    return replace(page, overflow=page.overflow or len(visible.words) < len(layout.words))


@cache
def _shaper(script: str, writer: int, every: int = 1) -> Shaper:
    return Shaper(script, writer_of(script, writer), every)


def _seed(parameters: Parameters) -> int | Decimal:
    asked = parameters.random_seed
    return asked if asked is not None and asked > 0 else secrets.randbits(63) or 1


def _visible(layout: Layout, baseline: np.ndarray, parameters: Parameters) -> Layout:
    """Leave out the lines that are far below a page of fixed height."""
    if parameters.height is None:
        return layout
    reach = parameters.height + _BEYOND * parameters.handwriting_size
    return layout.until(max(1, int(np.searchsorted(baseline, reach))))


def _draw(page: Page, parameters: Parameters, kind: Format) -> Drawing:
    colour = parameters.handwriting_color
    if kind == "png":
        return draw_png(page, RGB(*colour.rgb()))
    if kind == "pdf":
        return draw_pdf(page, colour, parameters.handwriting_size)
    if kind == "svg":
        return draw_svg(page, colour)
    return draw_replay(page, colour, parameters.handwriting_size)


def _estimated_share(page: Page) -> float:
    """Length times width of all strokes: crossings count twice, which is little."""
    s: Strokes = page.strokes
    if not len(s.x):
        return 0.0
    step = np.sqrt(np.diff(s.x) ** 2 + np.diff(s.y) ** 2)
    step[s.start[1:] - 1] = 0.0
    return min(1.0, float((step * (s.radius[1:] + s.radius[:-1])).sum()) / (page.width * page.height))
