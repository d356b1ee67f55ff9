"""Letters of several pages: full pages, clear lines, text in order, and bad input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pypdfium2
import pytest
from PIL import Image

import toolkit
from tests.conftest import raw_call
from tests.handwriting_service import MOLLY, Service, errors_of
from tests.written_pages import handwriting, ink_box, ink_left
from toolkit.errors import InvalidArgument, InvalidParameters
from toolkit_gateway import Gateway
from toolkit_gateway.handwriting import refusals
from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import RGB, Margin, Parameters
from toolkit_gateway.ink.renderer import MIN_LAST_LINES, draw, render, write_pages

SENTENCES = (
    "Yesterday the ferry brought a big yellow dog, two trunks of old books and a piano for the schoolmaster.",
    "Do you remember how Grandfather kept bees behind the quarry, and how they followed him just to the gate?",
    "Jolly fishermen (there were thirty of them!) gave us fresh mackerel, figs & lemons; we paid with songs.",
    "If the fog lifts by Friday, Harry will take the pony up to Fjallgate Hill and fetch the post himself.",
    "Kind regards go to Quincy, Zoë and Björk, who asked for your recipe: 3 eggs, 1/2 pint of milk, a pinch of salt.",
)
MM = 72 / 25.4
EDGE = 20 * MM


def long_text(words: int) -> str:
    paragraphs: list[str] = []
    while sum(len(paragraph.split()) for paragraph in paragraphs) < words:
        n = len(paragraphs)
        paragraphs.append(" ".join(SENTENCES[(n + k * (n % 4 + 1)) % 5] for k in range(3 + n % 4)))
    return "Dear Ada,\n\n" + "\n\n".join(paragraphs) + "\n\nYours,\nMargaret"


def of(hand: Handwriting, words: int, kind: str = "pdf", **more: object) -> Parameters:
    given = {"handwriting_size": 12.0, "width": 210 * MM, "height": 297 * MM, "margin": Margin(*[EDGE] * 4),
             "line_spacing": None, "random_seed": 7, **more}  # fmt: skip
    return Parameters(hand, kind, long_text(words), is_multipage=True, **given)


def pages_of(parameters: Parameters) -> Iterator[Page]:
    return write_pages(parameters)[1]


def faults(page: Page, parameters: Parameters, room: int) -> list[str]:
    """Return what is wrong with a page: ink in a margin, room for more lines than `room`, or lines that meet."""
    found = []
    left, top, right, bottom = ink_box(page)
    if min(left, top, page.width - right, page.height - bottom) < EDGE - 3 or page.cut_line is not None:
        found.append(f"ink at {left, top, right, bottom}")
    pitch = float(np.diff(page.baseline).max()) if len(page.baseline) > 1 else 0.0
    if page.height - EDGE - page.baseline[-1] > (2 + room) * pitch:
        found.append("there is room for another line")
    met = lines_that_meet(page, parameters)
    return found + ([f"{met} pixels of two lines"] if met else [])


def lines_that_meet(page: Page, parameters: Parameters) -> int:
    """Return how many pixels have the ink of two lines; lines of one remainder modulo 3 are drawn together."""
    line = page.layout.line[page.word_of_stroke]
    whole = replace(page, width=float(np.ceil(page.width)), height=float(np.ceil(page.height)))
    inked = np.zeros((int(whole.height), int(whole.width)), int)
    for part in range(3):
        of_part = replace(whole, strokes=page.strokes.select(line % 3 == part))
        data, _ = draw([of_part], replace(parameters, kind="png", handwriting_color=RGB(0, 0, 0)))
        inked += np.asarray(Image.open(io.BytesIO(data)))[:, :, 3] > 128
    return int((inked > 1).sum())


def check_letter(parameters: Parameters) -> list[str]:
    hand = parameters.handwriting
    pages = list(pages_of(parameters))
    room = [0] * (len(pages) - 2) + [MIN_LAST_LINES, 999]  # the last but one may leave lines to the last
    found = [f"{hand.title}, page {n}: {fault}" for n, page in enumerate(pages, 1)
             for fault in faults(page, parameters, room[n - 1 - len(pages)])]  # fmt: skip
    done = render(parameters)
    read = pypdfium2.PdfDocument(done.data)
    text = " ".join(page.get_textpage().get_text_range() for page in read)
    if text.split() != parameters.text.split():
        found.append(f"{hand.title}: the text of the PDF is another one")
    return found if len(read) == done.pages == len(pages) else [*found, f"{hand.title}: {len(read)} pages"]


def test_a_tilde_is_the_home_folder(hands: toolkit.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    letter = hands.handwriting.letter("Hi", "Molly", random_seed=7)
    assert "1 page of 595.28 x 841.89, 1 line, seed 7>" in repr(letter)
    letter.save("~/letter.pdf")
    hands.handwriting.letters(pd.DataFrame({"n": [1]}), "Hi {n}", "Molly", "~/merged", progress=False)
    assert {path.name for path in tmp_path.iterdir()} >= {"letter.pdf", "merged"}
    assert not (tmp_path / "~").exists()


def test_pages_are_full_clear_and_searchable_in_order() -> None:
    for title in ("Molly", "Bailey"):
        assert check_letter(of(handwriting(title), 220, width=148 * MM, height=210 * MM)) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_letter_of_3000_words_in_30_hands() -> None:
    for hand in list(catalogue().values())[::4]:
        assert check_letter(of(hand, 3000)) == []


def test_a_page_never_begins_with_an_empty_line() -> None:
    parameters = of(handwriting("Winters"), 0, height=300.0, line_spacing=2.0)
    text = "\n\n".join(f"Verse {n}" for n in range(60))
    for page in pages_of(replace(parameters, text="\n\n\nDear Ada\n\n" + text + "\n\n\n")):
        lines = page.layout.line_texts
        assert lines[0] or lines[:4] == ["", "", "", "Dear Ada"]


def test_a_signature_is_never_alone_on_the_last_page() -> None:
    parameters = of(handwriting("Winters"), 0, width=100 * MM, height=80 * MM)
    for lines in range(1, 12):
        *others, last = pages_of(replace(parameters, text="A line of text\n" * lines + "\nYours ever,\nMargaret"))
        assert [line for page in [*others, last] for line in page.layout.line_texts if line][-1] == "Margaret"
        assert not others or sum(map(bool, last.layout.line_texts)) >= MIN_LAST_LINES


def test_line_variance_keeps_lines_of_a_letter_apart() -> None:
    parameters = of(handwriting("Winters"), 300)
    exact, varied = (
        np.diff(next(pages_of(replace(parameters, line_spacing_variance=variance))).baseline) for variance in (0.0, 0.5)
    )
    assert np.ptp(exact) < 1e-9
    assert varied.min() >= exact[0] - 1e-9
    assert varied.max() > 1.2 * exact[0]


def test_pages_of_a_letter_differ_and_a_seed_repeats_them() -> None:
    parameters = of(handwriting("Winters"), 0, height=150.0, line_spacing=2.0)
    parameters = replace(parameters, text="\n".join(["the same words"] * 4))
    first, second = (ink_left(page) for page in list(pages_of(parameters))[:2])
    assert first != second
    assert render(parameters).data == render(parameters).data


def test_a_middle_page_has_its_text_in_the_middle() -> None:
    parameters = replace(of(handwriting("Molly"), 0, align="middle"), text="Happy birthday")
    (page,) = pages_of(parameters)
    _, top, _, bottom = ink_box(page)
    assert top == pytest.approx(page.height - bottom)


# -- the client ------------------------------------------------------------------------------------------------


def test_letter_saves_a_pdf_and_its_pages(hands: toolkit.Connection, tmp_path: Path) -> None:
    letter = hands.handwriting.letter(long_text(80), "Molly", page="A6", margin="12mm", random_seed=7)
    assert letter.pages > 2
    assert repr(letter).startswith(f"<Letter by Molly, {letter.pages} pages of 297.64 x 419.53, ")
    assert set(letter._repr_mimebundle_()) == {"text/plain", "image/png"}
    document = pypdfium2.PdfDocument(letter.save(tmp_path / "letter.pdf"))
    assert len(document) == letter.pages
    page = letter.picture(2, dpi=72).save(tmp_path / "page.png", background="white")
    drawn = np.asarray(document[1].render(scale=1).to_pil().convert("L"), float)
    ours = np.asarray(Image.open(page).convert("L"), float)
    assert np.abs(drawn[:419, :297] - ours[:419, :297]).mean() < 8  # 18 with other lines
    sharp = letter.picture(2, dpi=300)
    assert (sharp.width, sharp.height) == (1240, 1748)
    for file in (sharp.save(tmp_path / "clear.png"), sharp.save(tmp_path / "white.png", background="white")):
        with Image.open(file) as image:
            image.load()
            assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert sharp.ink_share == pytest.approx(letter.picture(2, dpi=72).ink_share, rel=0.05)


def test_a_letter_is_natural_unless_asked_otherwise(hands: toolkit.Connection) -> None:
    looks: tuple[dict[str, bool | None], ...] = ({}, {"natural": None}, {"natural": True}, {"natural": False})
    usual, unset, natural, regular = (
        hands.handwriting.letter("all the same", "Molly", random_seed=7, **look).data for look in looks
    )
    assert usual == unset == natural != regular


def test_invalid_letters_and_pictures_are_refused(hands: toolkit.Connection) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"page": "B5"}, "page 'B5' is unknown"),
        ({"margin": "11cm"}, "margin leaves no room for text"),
        ({"margin": "145mm,1mm,145mm,1mm"}, "a line of this size does not fit between the margins"),
        ({"text": "a" * 60_001}, "text maximum length is 60000 characters"),
        ({"text": "  \n"}, "text is required"),
        ({"text": "ab\ud800"}, "text must be valid UTF-8"),
        ({"text": "שלום"}, "text has characters this handwriting cannot write: 'ש' 'ל' 'ו' 'ם'"),
        ({"hand": "Mollie"}, "there is no handwriting 'Mollie': the nearest titles are Molly"),
        ({"align": "left"}, "align is 'top' or 'middle'"),
        ({"line_spacing": 9}, "line_spacing must be between"),
    ]
    for given, said in rows:
        with pytest.raises((InvalidArgument, InvalidParameters), match=said):
            hands.handwriting.letter(**{"text": "Dear Ada", "hand": "Molly", **given})
    letter = hands.handwriting.letter("Dear Ada", "Molly")
    for page, dpi, said in (
        (0, 72, "between 1 and 1"),
        (2, 72, "between 1 and 1"),
        *((1, dpi, "dpi is") for dpi in (0, 5000, float("nan"))),
        (1, 770, "dpi is between 1 and 769 for this page"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            letter.picture(page, dpi=dpi)


# -- the wire --------------------------------------------------------------------------------------------------


def test_invalid_letter_requests_are_refused(service: Service) -> None:
    for kind, query, body, status, said in (
        ("gif", "", b"{}", 404, "not found"),
        ("replay", "", b"{}", 404, "not found"),
        ("pdf", "", b"{", 400, refusals.LETTER_BODY),
        ("pdf", "", b'{"text": 1}', 400, refusals.LETTER_BODY),
        ("pdf", "", b'["text"]', 400, refusals.LETTER_BODY),
        ("pdf", "&height=auto", b'{"text": "a"}', 400, "height must be a distance: a letter has pages of one size"),
        ("png", "&page_number=2", b'{"text": "a"}', 400, "page_number must be between 1 and 1"),
        ("png", "&page_number=x", b'{"text": "a"}', 400, 'page_number unable to parse: "x"'),
    ):
        target = f"/render/letter/{kind}?apikey=k&handwriting_id={MOLLY}{query}"
        reply = raw_call(service.base_url, "POST", target, body)
        assert (reply.status, errors_of(reply)[0]["error"]) == (status, said)


def test_letter_response_counts_its_pages(service: Service) -> None:
    target = f"/render/letter/svg?apikey=k&handwriting_id={MOLLY}&width=300px&height=100px&page_number=2"
    reply = raw_call(service.base_url, "POST", target, json.dumps({"text": "one two three\n" * 9}).encode())
    assert reply.status == 200
    assert reply.headers["content-type"] == "image/svg+xml"
    assert int(reply.headers["x-handwriting-pages"]) > 2
    assert raw_call(service.base_url, "GET", target).status == 405


JOINER = "\N{ZERO WIDTH JOINER}"


def test_pages_without_room_and_words_without_ink() -> None:
    tiny = {"width": 0.01, "margin": None}
    narrow = {"handwriting": handwriting("Sorrel"), "width": 3.0, "margin": None, "handwriting_size": 1.0}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("png", {"text": "a", "handwriting_size": 0.1, **tiny}),
        ("png", {"text": "a", "handwriting_size": 0.1, "paper": "grid", **tiny}),
        ("pdf", {"text": JOINER}),
        ("svg", {"text": f"\t{JOINER}", "natural": True, **tiny}),
        ("pdf", {"text": "m" * 40, "natural": True, "random_seed": 1, **narrow}),
    ]
    for kind, given in rows:
        assert render(replace(of(handwriting("Molly"), 1, kind, page_number=1), **given)).data


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_text_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = "tests.gateway.handwriting.frugal_worker"
    monkeypatch.setattr("toolkit_gateway.handwriting.render_pool.WORKER_MODULE", worker)
    target = f"/render/letter/png?apikey=k&handwriting_id={MOLLY}&width=9000px&height=9000px&pen=pencil"
    with Gateway() as gateway:
        reply = raw_call(gateway.base_url, "POST", target, json.dumps({"text": "much " * 9_000}).encode())
        assert (reply.status, errors_of(reply)) == (400, [{"error": refusals.TOO_MUCH_WORK}])
        assert Service(gateway.base_url).render().status == 200, "the renderer goes on"


@pytest.mark.long
def test_large_letter_fits_the_memory_after_120_hands(service: Service) -> None:
    for hand in catalogue():
        assert service.render(handwriting_id=hand, text="The quick brown fox. " * 20, natural="true").status == 200
    target = f"/render/letter/pdf?apikey=k&handwriting_id={hand}&handwriting_size=12px&width=595px&height=842px"
    letter = json.dumps({"text": "The kitchen is warm. " * 2850}).encode()
    assert raw_call(service.base_url, "POST", f"{target}&pen=pencil", letter).status == 200
