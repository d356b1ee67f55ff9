"""Render a text as a file; the worker processes call `render`."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from toolkit.errors import InvalidParameters, Problem
from toolkit.handwriting import wire
from toolkit.handwriting.catalogue import Handwriting
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.ink.canvases.pdf import draw_pdf
from toolkit.handwriting.ink.canvases.png import draw_png
from toolkit.handwriting.ink.canvases.svg import draw_replay, draw_svg
from toolkit.handwriting.ink.corrections import corrected, with_false_starts
from toolkit.handwriting.ink.layout import Layout, lay_out
from toolkit.handwriting.ink.motion import pen_path
from toolkit.handwriting.ink.natural.lines import drifting_lines
from toolkit.handwriting.ink.natural.motion import natural_pen_path
from toolkit.handwriting.ink.natural.penman import Penman
from toolkit.handwriting.ink.page import Page, baselines, compose, straight_lines
from toolkit.handwriting.ink.paper import fitted_to_paper, guided, laid_on_paper
from toolkit.handwriting.ink.pen import inked
from toolkit.handwriting.ink.shaping import Shaper
from toolkit.handwriting.parameters import Parameters
from toolkit.handwriting.writers import natural_writer, writer_of
from toolkit.keyed_noise import Floats, KeyedNoise

STAGES = ("layout", "motion", "pen", "canvas", "encode")
MAX_POINTS = 1_250_000  # of all strokes; the letters of a longer text get fewer points
MAX_INKED_POINTS = 450_000  # as MAX_POINTS, with a pen other than plain, which takes more memory
_HIDDEN_BELOW = 3.0  # cap heights; the ink of a line this far below the page does not reach the page


def render(parameters: Parameters) -> Handwritten:
    """Render a text with a positive seed; raise InvalidParameters if the text cannot be rendered."""
    watch = StopWatch()
    page = write_page(parameters, watch.lap)
    data, share = draw(page, parameters, watch.lap)
    watch.lap("encode" if parameters.kind in ("png", "pdf") else "canvas")
    return Handwritten(
        data, parameters.kind, parameters.handwriting.title, parameters.random_seed, page.width, page.height,
        page.layout.lines, share, page.cut_line is not None, watch.milliseconds, cut=page.cut_text,
    )  # fmt: skip


class StopWatch:
    """Measures the milliseconds of each stage of a rendering."""

    def __init__(self) -> None:
        self.milliseconds = dict.fromkeys(STAGES, 0.0)
        self._since = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.milliseconds[stage] += 1000 * (now - self._since)
        self._since = now


def writable_text(parameters: Parameters) -> str:
    """Return the text in NFC with LF as line end; raise InvalidParameters if the hand lacks a character."""
    text = unicodedata.normalize("NFC", parameters.text).replace("\r\n", "\n").replace("\r", "\n")
    if missing := shaper_of(parameters).missing(text):
        raise InvalidParameters([Problem("text", wire.MISSING_CHARACTERS, missing)])
    return text


def write_page(parameters: Parameters, lap: Callable[[str], None] = lambda stage: None) -> Page:
    """Return the page with the ink as strokes; `lap` is called after each stage."""
    parameters = fitted_to_paper(parameters)
    text = writable_text(parameters)
    shaper, most = shaper_of(parameters), max_points(parameters)
    if (points := shaper.points(text)) > most:
        shaper = shaper_of(parameters, -(-points // most))
    noise = noise_of(parameters, shaper)
    layout = visible = broken_lines(parameters, text, shaper, noise)
    baseline = baselines(parameters, layout.lines, noise, shaper)
    if parameters.height is not None:  # lines far below the page are not written
        reach = parameters.height + _HIDDEN_BELOW * parameters.handwriting_size
        visible = layout.before_line(max(1, int(np.searchsorted(baseline, reach))))
    lap("layout")
    page = inked_page(parameters, visible, shaper, noise, baseline, lap)
    if page.cut_line is None and len(visible.words) < len(layout.words):
        return replace(page, cut_line=int(layout.line[len(visible.words)]))
    return page


def broken_lines(parameters: Parameters, text: str, shaper: Shaper, noise: KeyedNoise) -> Layout:
    width = None if parameters.width is None else parameters.text_width / parameters.handwriting_size - 2 * shaper.nib
    if parameters.natural and width is not None:
        width -= _penman(shaper).habits.margin
    text = with_false_starts(text, parameters.corrections, noise)
    return lay_out(shaper, text, width, parameters.word_spacing_variance, noise, parameters.corrections)


def inked_page(
    parameters: Parameters, layout: Layout, shaper: Shaper, noise: KeyedNoise, baseline: Floats,
    lap: Callable[[str], None],
) -> Page:  # fmt: skip
    if parameters.natural:
        penman = _penman(shaper)
        path, lines = natural_pen_path(layout, penman, noise), drifting_lines(penman, layout.lines, noise)
    else:
        path, lines = pen_path(layout, shaper, noise), straight_lines(parameters, shaper, layout.lines, noise)
    path = corrected(path, layout, parameters.corrections, noise)
    lap("motion")
    strokes, ink = inked(path.strokes, parameters.pen, shaper, noise)
    lap("pen")
    lines = guided(lines, parameters)
    page = replace(compose(parameters, layout, path._replace(strokes=strokes), shaper, noise, baseline, lines), ink=ink)
    page = laid_on_paper(page, parameters, noise)
    lap("motion")
    return page


def noise_of(parameters: Parameters, shaper: Shaper, page: int = 0) -> KeyedNoise:
    """Return the random numbers of one page; the first page of a letter has the same as a text on one page."""
    seed = str(parameters.random_seed) + (f" page {page}" if page else "")
    return KeyedNoise(seed, parameters.handwriting.script, shaper.writer.name)


def max_points(parameters: Parameters) -> int:
    return MAX_POINTS if parameters.pen == "plain" else MAX_INKED_POINTS


def shaper_of(parameters: Parameters, every: int = 1) -> Shaper:
    return _shaper(parameters.handwriting, parameters.natural, every)


@cache
def _shaper(handwriting: Handwriting, natural: bool, every: int) -> Shaper:
    writer = (natural_writer if natural else writer_of)(handwriting.script, handwriting.writer)
    return Shaper(handwriting.script, writer, every)


# About 1.5 MB each with all of its letters: without a limit, 120 hands take half of the memory that a text may use.
_penman = lru_cache(32)(Penman)


def draw(page: Page, parameters: Parameters, lap: Callable[[str], None]) -> tuple[bytes, float]:
    ink, size = parameters.handwriting_color, parameters.handwriting_size
    if parameters.kind == "png":
        return draw_png(page, ink.rgb(), size, lap)
    if parameters.kind == "pdf":
        data = draw_pdf([page], ink, size, lap)
    else:
        data = draw_svg(page, ink, size) if parameters.kind == "svg" else draw_replay(page, ink, size)
    return data, ink_share(page)


def ink_share(page: Page) -> float:
    # The area is length times width of all strokes; crossings count twice, but they are small.
    s = page.strokes
    area = float((s.steps()[:-1] * (s.radius[1:] + s.radius[:-1])).sum()) if len(s.x) else 0.0
    return min(1.0, area / (page.width * page.height))
