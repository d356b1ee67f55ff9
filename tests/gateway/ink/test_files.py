"""The files: PNG, PDF, SVG and replay, read by other programs."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import numpy as np
import pypdf
import pypdfium2
import pytest

from tests.written_pages import LETTER, pixels, written
from toolkit_gateway.ink.parameters import CMYK, RGB

TEXT = "Café Zoë, €14.90 “ok” £3 ½ (Łódź)\n\nПривет, Ελένη! 안녕 🎂\n  Robert & Margaret: 100% <yes>"


def content(pdf: bytes) -> bytes:
    return pypdf.PdfReader(io.BytesIO(pdf)).pages[0].get_contents().get_data()


def as_lines(text: str) -> list[str]:
    return [line.strip() for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def test_png_is_one_colour_with_the_ink_in_alpha_at_72_dpi(winters):
    done = written(winters, LETTER, "png", handwriting_color=RGB(12, 130, 240))
    rgba = pixels(done)
    assert rgba.shape == (360, 504, 4)
    assert (rgba[:, :, :3] == (12, 130, 240)).all()
    assert rgba[:, :, 3].max() == 255
    assert rgba[:, :, 3].min() == 0
    assert done.data[done.data.index(b"pHYs") + 4 :][:9] == bytes.fromhex("00000b1300000b1301")  # 2835 a metre
    assert done.ink_share == pytest.approx(rgba[:, :, 3].mean() / 255)


def test_png_is_in_rgb_and_its_size_is_rounded_half_up(winters):
    page = {"width": 100.5, "height": 50.4, "handwriting_color": CMYK(1, 0.5, 0, 0.2)}
    rgba = pixels(written(winters, "Hi", "png", **page))
    assert rgba.shape == (50, 101, 4)
    assert tuple(rgba[0, 0, :3]) == (0, 102, 204)


@pytest.mark.parametrize(
    ("limit", "value", "pen", "most"),
    [("MAX_BAND_PIXELS", 100_000, "pencil", 3), ("MAX_BAND_EDGE", 1_000, "plain", 2)],
)
def test_png_drawn_in_bands_has_the_same_ink(molly, monkeypatch, limit, value, pen, most):
    page = {"handwriting_size": 30.0, "width": 600.0, "height": 400.0, "pen": pen}
    whole = pixels(written(molly, LETTER, "png", **page))[:, :, 3].astype(int)
    monkeypatch.setattr(f"toolkit_gateway.ink.canvases.png.{limit}", value)
    banded = pixels(written(molly, LETTER, "png", **page))[:, :, 3]
    assert np.abs(whole - banded).max() <= most


def test_overlapping_letters_are_drawn_coarsely_in_place(molly, monkeypatch):
    page = {"handwriting_size": 300.0, "width": 701.0, "height": 500.0, "line_spacing": 0.5}
    fine = pixels(written(molly, "Mam Wim", "png", **page))
    monkeypatch.setattr("toolkit_gateway.ink.canvases.png.MAX_PAGE_EDGE", 6_000)
    coarse = pixels(written(molly, "Mam Wim", "png", **page))
    assert coarse.shape == fine.shape
    assert not np.array_equal(coarse, fine)
    assert np.abs(coarse[:, :, 3].astype(float) - fine[:, :, 3]).mean() < 0.1 * fine[:, :, 3].mean()


def test_text_of_too_many_points_is_simplified(winters, monkeypatch):
    fine = pixels(written(winters, "Hello \N{NOTEBOOK}", "png"))
    monkeypatch.setattr("toolkit_gateway.ink.renderer.MAX_POINTS", 1_600)
    coarse = pixels(written(winters, "Hello \N{NOTEBOOK}", "png"))
    assert not np.array_equal(coarse, fine)
    assert np.abs(coarse[:, :, 3].astype(float) - fine[:, :, 3]).mean() < 0.2 * fine[:, :, 3].mean()


def test_pdf_holds_the_colour_as_given(winters):
    for colour, operator, other in (
        (CMYK(1.0, 0.5, 0.0, 0.2), b"1 0.5 0 0.2 k", rb"\brg\b"),
        (CMYK(0, 0, 0, 1), b"0 0 0 1 k", rb"\brg\b"),
        (RGB(255, 0, 51), b"1 0 0.2 rg", rb"\bk\b"),
    ):
        stream = content(written(winters, "Hello there", "pdf", handwriting_color=colour).data)
        assert operator in stream
        assert not re.search(other, stream)
        assert len(re.findall(rb"^f$", stream, re.MULTILINE)) == 2  # one fill a word


def test_ink_beyond_the_page_is_left_out(winters):
    png, *others = (
        written(winters, LETTER, kind, handwriting_size=60.0, height=100.0) for kind in ("png", "pdf", "svg", "replay")
    )
    assert [other.ink_share for other in others] == pytest.approx([png.ink_share] * 3, rel=0.15)


def test_pdf_text_is_extracted_exactly(winters):
    for text in (LETTER, TEXT):
        data = written(winters, text, "pdf", height=None, width=None).data
        assert as_lines(pypdf.PdfReader(io.BytesIO(data)).pages[0].extract_text()) == as_lines(text)
        found = pypdfium2.PdfDocument(data)[0].get_textpage()
        assert as_lines(found.get_text_range()) == as_lines(text)


def test_pdf_text_follows_the_lines_and_can_be_searched(molly):
    data = written(molly, LETTER, "pdf", handwriting_size=14.0, width=300.0, height=None, line_spacing=1.7).data
    page = pypdfium2.PdfDocument(data)[0].get_textpage()
    assert " ".join(page.get_text_range().split()) == " ".join(LETTER.split())
    assert page.search("little green frog").get_next()


def test_pdf_page_has_the_asked_size_and_no_dates(winters):
    data = written(winters, "Hello", "pdf", width=4 * 72.0, height=2.5 * 72.0).data
    reader = pypdf.PdfReader(io.BytesIO(data))
    assert [float(v) for v in reader.pages[0].mediabox] == [0, 0, 288, 180]
    assert len(reader.pages) == 1
    assert b"Date" not in data
    assert reader.trailer["/ID"]


@pytest.mark.parametrize("hand", ["winters", "molly"])
def test_pdf_and_png_of_one_seed_show_the_same_writing(hand, request):
    handwriting = request.getfixturevalue(hand)
    parameters = {"handwriting_size": 24.0, "width": 480.0, "height": 400.0}
    png = pixels(written(handwriting, LETTER, "png", **parameters))[:, :, 3].astype(float)
    page = pypdfium2.PdfDocument(written(handwriting, LETTER, "pdf", **parameters).data)[0]
    sharp = 255.0 - np.asarray(page.render(scale=4, grayscale=True).to_pil()).astype(float)
    pdf = sharp.reshape(400, 4, 480, 4).mean(axis=(1, 3))
    assert np.abs(png - pdf).mean() < 1.5
    assert np.corrcoef(png.ravel(), pdf.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("kind", ["svg", "replay"])
def test_svg_is_well_formed_with_size_and_text(winters, kind):
    done = written(winters, "Tom & <Anna>", kind, width=200.0, height=60.0, handwriting_color=RGB(1, 2, 255))
    root = ElementTree.fromstring(done.data)
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("200", "60", "0 0 4000 1200")
    assert root.get("aria-label") == "Tom & <Anna>"
    assert b"#0102ff" in done.data


def test_replay_writes_its_strokes_one_after_another(winters):
    done = written(winters, "Hi you", "replay")
    begins = [float(v) for v in re.findall(rb"animation-delay:([\d.]+)s", done.data)]
    assert begins == sorted(begins)
    assert len(begins) > 5
    assert begins[0] == 0
    assert done.data.count(b"<clipPath") == len(begins)


def test_two_replays_in_one_page_do_not_share_ids(winters):
    ids = [re.findall(rb'id="([^"]+)"', written(winters, "Hi you", "replay", seed=seed).data) for seed in (1, 2)]
    assert len(set(ids[0])) == len(ids[0])
    assert not set(ids[0]) & set(ids[1])


def test_rendering_reports_its_figures(winters):
    for kind in ("png", "pdf", "svg", "replay"):
        done = written(winters, "Hello\nyou", kind, height=None)
        assert (done.lines, done.seed, done.width) == (2, "7", 504)
        assert 0.001 < done.ink_share < 0.1


def test_letter_files_are_small(winters):
    assert len(written(winters, LETTER, "png").data) < 60_000
    assert len(written(winters, LETTER, "pdf").data) < 400_000
