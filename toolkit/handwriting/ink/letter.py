"""Render a letter: a text on as many pages as it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from toolkit.errors import InvalidParameters, Problem
from toolkit.handwriting import wire
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.ink.canvases.pdf import draw_pdf
from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.line_distance import clear_line_spacing, ink_reach, motion_reserve
from toolkit.handwriting.ink.page import Page, baselines
from toolkit.handwriting.ink.paper import fitted_to_paper
from toolkit.handwriting.ink.renderer import (
    StopWatch,
    broken_lines,
    draw,
    ink_share,
    inked_page,
    max_points,
    noise_of,
    shaper_of,
    writable_text,
)
from toolkit.handwriting.ink.shaping import Shaper
from toolkit.handwriting.parameters import DEFAULT_HEIGHT, Parameters


def render_letter(parameters: Parameters) -> Handwritten:
    """Render all pages as one PDF, or one page in any format; raise InvalidParameters if it cannot be rendered."""
    watch = StopWatch()
    count, pages = letter_pages(parameters, watch.lap)
    drawn: list[tuple[int, float, str]] = []  # number of lines, share of ink and cut text of each page

    def noted() -> Iterator[Page]:
        for page in pages:
            drawn.append((page.layout.lines, ink_share(page), page.cut_text))
            yield page

    if parameters.kind == "pdf":
        data = draw_pdf(noted(), parameters.handwriting_color, parameters.handwriting_size, watch.lap)
    else:
        data, _ = draw(next(noted()), parameters, watch.lap)
    watch.lap("encode")
    lines, shares, cuts = zip(*drawn, strict=True)
    cut = next(filter(None, cuts), "")
    return Handwritten(
        data, parameters.kind, parameters.handwriting.title, parameters.random_seed, parameters.width or 0.0,
        parameters.height or 0.0, sum(lines), sum(shares) / len(shares), bool(cut), watch.milliseconds,
        cut=cut, pages=count,
    )  # fmt: skip


def letter_pages(parameters: Parameters, lap: Callable[[str], None] = lambda stage: None) -> tuple[int, Iterator[Page]]:
    """Return how many pages a letter has, and the pages with ink: all, or only the requested page."""
    spaced, shaper, layouts = _paginated(fitted_to_paper(parameters), writable_text(parameters).rstrip())
    lap("layout")
    number = parameters.page_number
    if number is not None and number > len(layouts):
        raise InvalidParameters([Problem("page_number", f"page_number must be between 1 and {len(layouts)}")])
    chosen = range(len(layouts)) if number is None else [number - 1]

    def inked(at: int) -> Page:
        noise = noise_of(spaced, shaper, at)
        return inked_page(spaced, layouts[at], shaper, noise, baselines(spaced, layouts[at].lines, noise, shaper), lap)

    return len(layouts), map(inked, chosen)


def _paginated(parameters: Parameters, text: str) -> tuple[Parameters, Shaper, list[Layout]]:
    """Return the parameters with the line spacing, the shaper, and the lines of each page.

    If a page has too many letters, the strokes of letters have fewer points.
    """
    every, limit = 1, max_points(parameters)
    while True:
        shaper = shaper_of(parameters, every)
        layout = broken_lines(parameters, text, shaper, noise_of(parameters, shaper))
        spacing = parameters.line_spacing
        spaced = replace(parameters, line_spacing=clear_line_spacing(shaper, layout) if spacing is None else spacing)
        pages = list(_pages(spaced, layout, shaper))
        most = max(shaper.points("".join(page.text)) for page in pages)
        if most <= limit * every:
            return spaced, shaper, pages
        every = -(-most // limit)


def _pages(parameters: Parameters, layout: Layout, shaper: Shaper) -> Iterator[Layout]:
    """Yield the layout of each page; empty lines at the beginning of a page are dropped."""
    first = page = 0
    while first < layout.lines:
        count = _lines_that_fit(parameters, layout.lines - first, shaper, page)
        yield layout.lines_between(first, first + count)
        first, page = first + count, page + 1
        while first < layout.lines and not layout.text[first]:
            first += 1


def _lines_that_fit(parameters: Parameters, lines: int, shaper: Shaper, page: int) -> int:
    baseline = baselines(parameters, lines, noise_of(parameters, shaper, page), shaper)
    below = (ink_reach(shaper).below + 0.5 * motion_reserve(shaper)) * parameters.handwriting_size
    lowest = (parameters.height or DEFAULT_HEIGHT) - parameters.edges.top - parameters.edges.bottom - below
    count = int(np.searchsorted(baseline, lowest, side="right"))
    if not count:
        raise InvalidParameters([Problem("handwriting_size", wire.NO_LINE_FITS)])
    return min(count, lines)
