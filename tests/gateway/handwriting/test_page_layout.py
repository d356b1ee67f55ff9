"""Pages, margins, alignment, CSS colours and backgrounds, and the errors of invalid values."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import toolkit
from tests.handwriting_service import Service
from tests.written_pages import LETTER, handwriting, ink_box
from toolkit.errors import InvalidArgument
from toolkit.handwriting.client.style import Page, letter_style, query_of
from toolkit_gateway.ink.parameters import Margin

EDGES = Margin(30.0, 40.0, 50.0, 60.0)


def test_text_begins_at_the_margins_and_stays_inside(page_of) -> None:
    for title, spacing in product(("Winters", "Molly", "Bailey", "Vivian"), (0.8, 2.5)):
        page = page_of("Élan, " + LETTER, hand=handwriting(title), margin=EDGES, height=None, line_spacing=spacing)
        left, top, right, bottom = ink_box(page)
        assert EDGES.left <= left <= EDGES.left + 5
        assert EDGES.top - 1e-6 <= top <= EDGES.top + 20
        assert right <= 504 - EDGES.right + 1e-6
        assert bottom <= page.height - EDGES.bottom
        assert page.cut_line is None


def test_middle_is_between_the_margins(page_of) -> None:
    page = page_of("Hello\nthere", margin=EDGES, align="middle")
    _, top, _, bottom = ink_box(page)
    assert top - EDGES.top == pytest.approx(page.height - EDGES.bottom - bottom)
    too_long = page_of("a\n" * 40, margin=EDGES, align="middle")
    assert ink_box(too_long)[1] == pytest.approx(EDGES.top)
    assert too_long.cut_line is not None


def test_margin_is_one_distance_or_four(service: Service) -> None:
    four = service.render("svg", margin="10px, 1in,2cm,0.5in", width="300px", height="auto", random_seed="7")
    assert four.status == 200
    assert service.render("svg", margin="20px", height="auto", width="100px").status == 200


def test_letter_request_takes_page_and_margin() -> None:
    pages: list[tuple[Page, str, str]]
    pages = [("a5", "148mm", "210mm"), (("10 cm", "7in"), "10 cm", "7in"), ([9, 8], "9pt", "8pt")]
    for page, width, height in pages:
        query = query_of(letter_style(None, {}, page, None), "pdf")
        assert (query["width"], query["height"], query["margin"]) == (width, height, "2cm")


def test_invalid_pages_and_margins_are_named() -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"page": "B5"}, "page 'B5' is unknown: give A3, A4, A5, A6, Letter, Legal, or a width and a height"),
        ({"page": ("21cm", 842)}, "page mixes numbers with texts: give each distance its unit"),
        ({"page": (-1, 5)}, "page cannot be negative: -1"),
        ({"page": (float("nan"), 5)}, "page cannot be nan"),
        ({"margin": "-2cm"}, "margin cannot be negative: -2cm"),
        ({"margin": (1, 2)}, "margin is one distance, or four .*, not 2"),
        ({"margin": ("1cm", "2cm", 3, 4)}, "margin mixes numbers"),
        ({"margin": "2"}, "margin has '2', which is no distance: write a unit, as in 2mm"),
        ({"margin": "2cm 3cm"}, "margin has '2cm 3cm', which is no distance"),
    ]
    for style, said in rows:
        with pytest.raises(InvalidArgument, match=said):
            query_of(letter_style(None, style, style.pop("page", "A4"), None), "pdf")


def test_a_background_is_under_the_ink(hands: toolkit.Connection, tmp_path: Path) -> None:
    png = hands.handwriting.png("Hello", "Molly", handwriting_color="navy")
    saved = Image.open(png.save(tmp_path / "a.png", background="#ffe"))
    assert saved.mode == "RGB"
    assert saved.getpixel((0, 0)) == (255, 255, 238)
    assert round(saved.info["dpi"][0]) == 72
    assert np.asarray(saved).min(axis=(0, 1)).tolist()[0] < 60
    svg = hands.handwriting.svg("Hello", "Molly")
    data = svg.save(tmp_path / "a.svg", background="#ff000080").read_bytes()
    assert b'fill="#ff0000" fill-opacity="0.502"/><path' in data
    pdf = hands.handwriting.pdf("Hello", "Molly")
    with pytest.raises(InvalidArgument, match="a PDF has no background"):
        pdf.save(tmp_path / "a.pdf", background="white")
    with pytest.raises(InvalidArgument, match="'bluish' is no CSS colour"):
        png.save(tmp_path / "b.png", background="bluish")
    with pytest.raises(InvalidArgument, match=r"'rgb\(1, 2, 300\)' is no CSS colour"):
        svg.save(tmp_path / "b.svg", background="rgb(1, 2, 300)")
    with pytest.raises(InvalidArgument, match="background is a str or None, not an int"):
        png.save(tmp_path / "b.png", background=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]
