"""Render a text as a file; the worker processes call `render`."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from toolkit.errors import InvalidParameters, Problem
from toolkit_gateway.ink.baselines import clear_line_spacing, ink_reach, lines_of, motion_reserve, place_baselines
from toolkit_gateway.ink.canvases.pdf import draw_pdf
from toolkit_gateway.ink.canvases.png import draw_png
from toolkit_gateway.ink.canvases.svg import draw_replay, draw_svg
from toolkit_gateway.ink.catalogue import Handwriting, writer_of
from toolkit_gateway.ink.layout import Layout, lay_out
from toolkit_gateway.ink.motion import pen_path
from toolkit_gateway.ink.natural.lines import lay_out_naturally
from toolkit_gateway.ink.natural.motion import natural_pen_path
from toolkit_gateway.ink.natural.penman import Penman
from toolkit_gateway.ink.natural.writing import Writing
from toolkit_gateway.ink.page import Page, compose
from toolkit_gateway.ink.paper import fit_to_paper, put_on_paper
from toolkit_gateway.ink.parameters import DEFAULT_HEIGHT, Parameters, Rendering
from toolkit_gateway.ink.pen import apply_pen
from toolkit_gateway.ink.random_streams import RandomStreams
from toolkit_gateway.ink.shaping import Shaper

# Clients may compare these texts.
_NO_LINE_FITS = "a line of this size does not fit between the margins: use a larger page or a smaller handwriting_size"
_MISSING_CHARACTERS = "text has characters this handwriting cannot write"

MAX_POINTS = 1_250_000  # of all strokes of a page; in a longer text, each letter has fewer points
MAX_POINTS_OTHER_PENS = 450_000  # as MAX_POINTS, for all pens but plain: they take more memory
MIN_LAST_LINES = 4  # of the last page of a letter: the closing, the signature and two lines of text
_HIDDEN_BELOW = 3.0  # cap heights; ink of a line with its baseline this far below the page does not reach the page


def render(parameters: Parameters) -> Rendering:
    """Render a text on one page, or a letter: in a PDF all pages or the requested page, in other formats one page.

    The seed must be positive, not None. Raise InvalidParameters if the text cannot be rendered.
    """
    count, pages = write_pages(parameters)
    figures: list[tuple[float, float, int, float, bool, str]] = []

    def noted_pages() -> Iterator[Page]:  # keeps only figures, because all pages of a letter take too much memory
        for page in pages:
            is_cut = page.cut_line is not None
            figures.append((page.width, page.height, page.layout.line_count, page.ink_share, is_cut, page.cut_text))
            yield page

    data, covered = draw(noted_pages(), parameters)
    widths, heights, lines, shares, are_cut, cuts = zip(*figures, strict=True)
    share = sum(shares) / len(shares) if covered is None or parameters.is_multipage else covered
    return Rendering(
        parameters.kind, data, str(parameters.random_seed), widths[0], heights[0], sum(lines), share, any(are_cut),
        next(filter(None, cuts), ""), count, "".join(_missing(parameters)),
    )  # fmt: skip


def writable_text(parameters: Parameters) -> str:
    """Return the text in NFC with LF as line end, without the characters that no hand can write.

    Raise InvalidParameters for such characters if `missing` is "error".
    """
    text = unicodedata.normalize("NFC", parameters.text).replace("\r\n", "\n").replace("\r", "\n")
    if missing := _missing(parameters):
        if parameters.missing == "error":
            raise InvalidParameters([Problem("text", _MISSING_CHARACTERS, missing)])
        flag = "[\U0001f1e6-\U0001f1ff]{2}"  # two characters, one picture
        text = re.sub(f"{flag}|[{re.escape(''.join(missing))}]", {"replace": "?", "skip": ""}[parameters.missing], text)
    return text.rstrip() if parameters.is_multipage else text


def _missing(parameters: Parameters) -> tuple[str, ...]:
    """Return the characters of the text that no hand can write."""
    text = unicodedata.normalize("NFC", parameters.text).replace("\r", "\n")
    return _shaper_of(parameters.handwriting, parameters.natural).missing(text)


def write_pages(parameters: Parameters) -> tuple[int, Iterator[Page]]:
    """Return how many pages a text has, and an iterator of all pages, or of the requested page, with ink as strokes.

    Raise InvalidParameters if the requested page does not exist.
    """
    parameters, shaper, layouts, writing = _paginate(fit_to_paper(parameters))
    number = parameters.page_number
    if number is not None and number > len(layouts):
        raise InvalidParameters([Problem("page_number", f"page_number must be between 1 and {len(layouts)}")])
    chosen = range(len(layouts)) if number is None else [number - 1]
    return len(layouts), (_write_page(parameters, layouts[index], writing, shaper, index) for index in chosen)


def _paginate(parameters: Parameters) -> tuple[Parameters, Shaper, list[Layout], Writing | None]:
    """Return the parameters with a line spacing, the shaper, the lines of each page, and the letters if natural.

    If a page has too many letters, each letter has fewer points.
    """
    text, limit = writable_text(parameters), MAX_POINTS if parameters.pen == "plain" else MAX_POINTS_OTHER_PENS
    shaper = _shaper_of(parameters.handwriting, parameters.natural)
    # A letter is first cut into pages; another text has one page, so the number of its points is known.
    every = 1 if parameters.is_multipage else max(1, -(-shaper.estimate_points(text) // limit))
    while True:
        shaper = _shaper_of(parameters.handwriting, parameters.natural, every)
        layout, writing = _break_into_lines(parameters, text, shaper)
        spaced = parameters
        if parameters.line_spacing is None:
            spaced = replace(parameters, line_spacing=clear_line_spacing(shaper, layout))
        pages = list(_cut_into_pages(spaced, layout, shaper)) if parameters.is_multipage else [layout]
        most = max(shaper.estimate_points("".join(page.line_texts)) for page in pages)
        if most <= limit * every:
            return spaced, shaper, pages, writing
        every = -(-most // limit)


def _break_into_lines(parameters: Parameters, text: str, shaper: Shaper) -> tuple[Layout, Writing | None]:
    noise, variance, width = _noise_of(parameters, shaper), parameters.word_spacing_variance, None
    if parameters.width is not None:
        width = parameters.text_width / parameters.handwriting_size - 2 * shaper.nib
    if parameters.natural:
        return lay_out_naturally(_penman(shaper), text, width, variance, noise)
    return lay_out(shaper, text, width, variance, noise), None


def _cut_into_pages(parameters: Parameters, layout: Layout, shaper: Shaper) -> Iterator[Layout]:
    """Yield the layout of each page; empty lines at the beginning of a page are dropped.

    The last page has at least `MIN_LAST_LINES` lines with text, so that no signature stands alone on it.
    """
    _, depth = ink_reach(shaper)
    below = (depth + 0.5 * motion_reserve(shaper)) * parameters.handwriting_size
    margin = parameters.effective_margin
    lowest = (parameters.height or DEFAULT_HEIGHT) - margin.top - margin.bottom - below
    with_text = [line for line, text in enumerate(layout.line_texts) if text]
    company = with_text[-MIN_LAST_LINES] if len(with_text) >= MIN_LAST_LINES else 0
    first = page = 0
    while first < layout.line_count:
        baseline = place_baselines(parameters, shaper, layout.line_count - first, _noise_of(parameters, shaper, page))
        last = first + int(np.searchsorted(baseline, lowest, side="right"))
        if last == first:
            raise InvalidParameters([Problem("handwriting_size", _NO_LINE_FITS)])
        if first < company < last < layout.line_count:
            last = company
        yield layout.lines_between(first, last)
        first, page = last, page + 1
        while first < layout.line_count and not layout.line_texts[first]:
            first += 1


def _write_page(parameters: Parameters, layout: Layout, writing: Writing | None, shaper: Shaper, number: int) -> Page:
    noise = _noise_of(parameters, shaper, number)
    lines, shown = lines_of(parameters, shaper, layout.line_count, noise), layout
    if parameters.height is not None:  # lines far below the page are not written
        reach = parameters.height + _HIDDEN_BELOW * parameters.handwriting_size
        shown = layout.before_line(max(1, int(np.searchsorted(lines.baseline, reach))))
    path = natural_pen_path(shown, writing, noise) if writing else pen_path(shown, shaper, noise)
    strokes, ink = apply_pen(path.strokes, parameters.pen, shaper, noise)
    page = compose(parameters, shown, path._replace(strokes=strokes), shaper, noise, lines)
    if page.cut_line is None and len(shown.words) < len(layout.words):
        page = replace(page, cut_line=int(layout.line[len(shown.words)]))
    return put_on_paper(replace(page, ink=ink), parameters, noise)


def _noise_of(parameters: Parameters, shaper: Shaper, page: int = 0) -> RandomStreams:
    """Return the random numbers of one page; the first page of a letter has the same ones as a text on one page."""
    seed = str(parameters.random_seed) + (f" page {page}" if page else "")
    return RandomStreams(seed, parameters.handwriting.script, shaper.writer.name)


@cache
def _shaper_of(handwriting: Handwriting, natural: bool, every: int = 1) -> Shaper:
    return Shaper(handwriting.script, writer_of(handwriting.script, handwriting.writer, natural), every, natural)


# A Penman with all letters takes 1.5 MB: without a limit, 120 hands take half of the memory that a text may use.
_penman = lru_cache(32)(Penman)


def draw(pages: Iterable[Page], parameters: Parameters) -> tuple[bytes, float | None]:
    """Return the file (PDF: all pages, else: the first page), and for a PNG the share of the page that ink covers."""
    ink, size = parameters.handwriting_color, parameters.handwriting_size
    visible = (page.visible() for page in pages)
    if parameters.kind == "pdf":
        return draw_pdf(visible, ink, size), None
    page = next(visible)
    if parameters.kind == "png":
        return draw_png(page, ink.rgb(), size)
    return (draw_svg if parameters.kind == "svg" else draw_replay)(page, ink, size), None
