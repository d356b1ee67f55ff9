"""Pens and paper: what they change, and what stays the same."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pypdf
import pypdfium2
import pytest
from PIL import Image

from tests.written_pages import LETTER, pixels, written
from toolkit.handwriting.handwritten import rendering_of
from toolkit.handwriting.wire import PAPERS, PENS, Paper, Pen
from toolkit_gateway.ink.catalogue import Handwriting
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import CMYK, RGB, Parameters, Rendering
from toolkit_gateway.ink.renderer import write_pages

REAL_PENS = [pen for pen in PENS if pen != "plain"]
SHEETS = [paper for paper in PAPERS if paper != "none"]
INK = RGB(20, 30, 90)
LETTER_SIZE: dict[str, Any] = {"handwriting_size": 24.0, "natural": True, "width": 900.0}


def alpha(done: Rendering) -> np.ndarray:
    return pixels(done)[:, :, 3].astype(int)


def thickened(ink: np.ndarray) -> np.ndarray:
    """Return the greatest value of each pixel and its eight neighbours."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(ink, 1), (3, 3)).max(axis=(2, 3))


def scan(done: Rendering) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(done.data)).convert("RGB")).astype(int)


def rule_rows(done: Rendering, columns: slice) -> np.ndarray:
    red, _, blue = scan(done)[:, columns].mean(axis=1).T
    rows = np.nonzero(blue - red > 8)[0]
    return np.array([group.mean() for group in np.split(rows, np.nonzero(np.diff(rows) > 1)[0] + 1)])


@pytest.mark.parametrize("pen", REAL_PENS)
def test_a_pen_changes_the_density_of_the_ink_only(molly: Handwriting, pen: Pen) -> None:
    done = written(molly, "gather", "png", pen=pen, handwriting_size=60.0, handwriting_color=INK)
    plain = written(molly, "gather", "png", handwriting_size=60.0, handwriting_color=INK)
    assert {tuple(pixel) for pixel in pixels(done)[:, :, :3].reshape(-1, 3)} == {tuple(INK)}
    inside = alpha(plain) == 255
    assert alpha(plain)[inside].std() == 0 < 8 < alpha(done)[inside & (alpha(done) > 0)].std()
    assert (alpha(done)[inside] > 20).mean() > 0.8


@pytest.mark.parametrize(
    ("pen", "least"), [("ballpoint", 0.15), ("fountain", 0.15), ("pencil", 0.16), ("gel", 0.055), ("felt", 0.055)]
)
def test_density_varies_along_strokes_at_letter_size(winters: Handwriting, pen: Pen, least: float) -> None:
    spread = []
    for seed in range(5):  # a page has few long strokes, so one alone may be much more even than others
        seen = alpha(written(winters, LETTER[:60], "png", seed + 1, pen=pen, **LETTER_SIZE))
        middle = seen[(seen == thickened(seen)) & (seen > 40)]  # of lines, which are two or three pixels wide
        spread.append(middle.std() / middle.mean())
    assert np.mean(spread) > least


@pytest.mark.parametrize("pen", ["ballpoint", "pencil"])
def test_no_stroke_breaks_at_letter_size(page_of: Callable[..., Page], molly: Handwriting, pen: Pen) -> None:
    page = {"pen": pen, "handwriting_size": 24.0, "natural": True, "width": 900.0, "height": 400.0}
    seen = thickened(alpha(written(molly, LETTER, "png", 11, **page)))
    ink = page_of(LETTER, molly, 11, **page).strokes
    assert (seen[ink.y.astype(int), ink.x.astype(int)] < 60).mean() < 0.0005


@pytest.mark.parametrize("pen", ["ballpoint", "fountain", "felt"])
def test_crossings_are_darker(winters: Handwriting, pen: Pen) -> None:
    seen = alpha(written(winters, "+", "png", pen=pen, handwriting_size=120.0))
    inked = seen > 100
    row, column = inked.sum(axis=1).argmax(), inked.sum(axis=0).argmax()
    crossing = seen[row - 2 : row + 3, column - 2 : column + 3].mean()
    assert crossing > 1.04 * np.median(seen[inked])


def test_a_seed_gives_the_same_file_with_pen_and_paper(molly: Handwriting) -> None:
    options = {"pen": "fountain", "paper": "ruled", "natural": True}
    for kind in ("png", "pdf", "svg", "replay"):
        first, again, other = (written(molly, LETTER[:60], kind, seed, **options).data for seed in (7, 7, 8))
        assert first == again != other


@pytest.mark.parametrize("pen", REAL_PENS)
def test_pdf_shows_the_ink_of_the_png(molly: Handwriting, pen: Pen) -> None:
    page = {"pen": pen, "handwriting_size": 50.0, "handwriting_color": RGB(0, 0, 0), "width": 400.0, "height": 120.0}
    done = written(molly, "gather", "pdf", **page)
    shown = 255 - np.asarray(pypdfium2.PdfDocument(done.data)[0].render(scale=1).to_pil().convert("L")).astype(int)
    expected = alpha(written(molly, "gather", "png", **page))
    assert np.corrcoef(shown.ravel(), expected.ravel())[0, 1] > 0.93
    assert shown.sum() == pytest.approx(expected.sum(), rel=0.12)


def test_svg_and_pdf_have_the_opacity_of_the_pen(winters: Handwriting) -> None:
    svg = written(winters, "gather four", "svg", pen="ballpoint").data.decode()
    assert len(re.findall(r'fill-opacity="0.[6-9]', svg)) == 1
    assert "fill-opacity" not in written(winters, "gather four", "svg").data.decode()
    pdf = written(winters, "gather four", "pdf", pen="ballpoint", handwriting_color=CMYK(1, 0.5, 0, 0.2)).data
    page = pypdf.PdfReader(io.BytesIO(pdf)).pages[0]
    assert 0.6 < float(page["/Resources"]["/ExtGState"]["/Ink"]["/ca"]) < 1
    assert b"1 0.5 0 0.2 k" in page.get_contents().get_data()


@pytest.mark.parametrize("paper", SHEETS)
def test_a_page_of_paper_in_a_pdf_is_a_scan_with_its_text(winters: Handwriting, paper: Paper) -> None:
    page = {"pen": "gel", "paper": paper, "natural": True, "handwriting_size": 11.0, "handwriting_color": INK}
    pdf = written(winters, LETTER, "pdf", 7, **page).data
    assert len(pdf) < (250_000 if paper == "grid" else 155_000)  # 145,000 are 400,000 for an A4 page with less text
    read = pypdfium2.PdfDocument(pdf)[0]
    assert read.get_textpage().get_text_range().split() == LETTER.split()
    shown = np.asarray(read.render(scale=1).to_pil().convert("RGB")).astype(int)
    assert np.abs(shown - scan(written(winters, LETTER, "png", 7, **page))).mean() < 6


@pytest.mark.parametrize("paper", SHEETS)
def test_paper_is_opaque_and_uneven(molly: Handwriting, paper: Paper) -> None:
    done = written(molly, "Hello", "png", paper=paper, pen="gel", height=300.0)
    assert Image.open(io.BytesIO(done.data)).mode == "P"
    bare = scan(done)[200:280, 250:480]
    assert bare.std() > 0.8
    shown = rendering_of(done.data, {}, "png", "Molly", 0).on_paper()
    assert shown.getpixel((5, 5)) == tuple(scan(done)[5, 5])
    assert Image.open(io.BytesIO(done.data)).info["dpi"] == pytest.approx((72, 72), abs=0.01)


def test_rules_have_the_pitch_of_the_lines_and_are_turned(winters: Handwriting) -> None:
    page = {"handwriting_size": 20.0, "line_spacing": 2.0, "width": 900.0, "height": 600.0}
    for seed in (1, 2, 3):
        done = written(winters, "Hello", "png", seed, paper="ruled", handwriting_color=RGB(0, 0, 0), **page)
        left, right = rule_rows(done, slice(0, 8)), rule_rows(done, slice(892, 900))
        assert np.diff(left) == pytest.approx(40, abs=1.5)
        rise = np.abs(left[:, None] - right).min(axis=1).mean()
        assert 0.3 <= np.degrees(np.arctan(rise / 892)) <= 0.8


@pytest.mark.parametrize("paper", ["ruled", "grid"])
def test_natural_writing_follows_the_rules_of_its_paper(page_of: Callable[..., Page], paper: Paper) -> None:
    text = "once more our warm sea came near us as we ran over\n" * 12
    for seed in range(1, 5):
        spaced = {"line_spacing": 1.75, "line_spacing_variance": 0.2, "width": 1100.0, "height": None}
        page = page_of(text, seed=seed, paper=paper, natural=True, **spaced)
        assert page.sheet is not None
        rules = [line for line in page.sheet.lines if not line.is_upright]
        at, slope = np.array([line.position for line in rules]), rules[0].slope
        above = []
        for word in range(len(page.layout.words)):
            ink = page.strokes.select(page.word_of_stroke == word)
            lowest = ink.y.argmax()
            low = at + slope * ink.x[lowest] - ink.y[lowest]
            above.append(low[np.abs(low).argmin()] / 20)
        assert 0.02 < np.mean(above) < 0.15
        assert np.quantile(np.abs(above - np.mean(above)), 0.95) < 0.2


def test_every_seed_has_a_different_sheet(page_of: Callable[..., Page]) -> None:
    pages = [page_of("Hello", seed=seed, paper="ruled", width=600.0, height=400.0) for seed in range(1, 13)]
    sheets = [page.sheet for page in pages if page.sheet is not None]
    assert len({sheet.colour for sheet in sheets}) > 6
    assert len({sheet.rule for sheet in sheets}) > 2
    assert {sheet.turn > 0 for sheet in sheets} == {True, False}
    assert {any(line.is_upright for line in sheet.lines) for sheet in sheets} == {True, False}
    assert np.ptp([page.word_x[0] for page in pages]) > 20
    assert np.ptp([page.baseline[0] for page in pages]) > 15


def test_pages_of_a_letter_are_sheets_of_one_pad(winters: Handwriting) -> None:
    parameters = Parameters(
        winters, "pdf", "Hello\n" * 30, 24.0, width=400.0, height=300.0, random_seed=7, paper="ruled", is_multipage=True
    )
    sheets = [page.sheet for page in write_pages(parameters)[1] if page.sheet is not None]
    assert len(sheets) > 2
    assert len({(sheet.colour, sheet.rule, sheet.rule_width) for sheet in sheets}) == 1
    assert len({sheet.turn for sheet in sheets}) == len(sheets)


def test_writing_on_paper_keeps_away_from_its_edges(molly: Handwriting) -> None:
    for seed in (1, 2, 3, 4):
        done = written(molly, LETTER, "png", seed, paper="blank", height=None, width=700.0)
        assert not done.overflow
        dark = scan(done).sum(axis=2) < 300
        assert not dark[:, :8].any()
        assert not dark[:, -8:].any()
