"""The client against the gateway, and against a server with literal responses."""

from __future__ import annotations

import base64
import inspect
import io
import pydoc
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import toolkit
from tests.literal_server import LiteralServer, Reply
from toolkit.errors import InvalidArgument, InvalidParameters, RateLimited, ServiceFailure, UnexpectedReply
from toolkit.handwriting.client.handwriting import HandwritingClient
from toolkit.handwriting.client.style import PRESETS, PageStyle, Style, query_of
from toolkit.handwriting.wire import OWN_PARAMETERS, RENDER_PARAMETERS


def test_style_is_written_as_query_parameters() -> None:
    assert set(PageStyle.__annotations__) == {*RENDER_PARAMETERS, *OWN_PARAMETERS} - {"handwriting_id", "text"}
    for style, kind, query in [
        (Style(), "png", {}),
        (PageStyle(width=504, height="auto"), "png", {"width": "504px", "height": "auto"}),
        (PageStyle(width=1e-5, handwriting_size=12.5), "pdf", {"handwriting_size": "12.5pt", "width": "0.00001pt"}),
        (Style(handwriting_color=(1, 0.5, 0, 0.2)), "png", {"handwriting_color": "(1, 0.5, 0, 0.2)"}),
        (PageStyle(random_seed=Decimal("1.5"), line_spacing=2), "png", {"line_spacing": "2", "random_seed": "1.5"}),
        (Style(pen="gel", natural=True, paper="kraft"), "svg", {"pen": "gel", "natural": "true", "paper": "kraft"}),
        (Style(margin=12.5), "pdf", {"margin": "12.5pt"}),
        (Style(margin=(1, 2, 3, 4)), "pdf", {"margin": "1pt,2pt,3pt,4pt"}),
        (Style(margin="1cm, 2cm, 1cm, 2cm", align="middle"), "pdf", {"align": "middle", "margin": "1cm,2cm,1cm,2cm"}),
        ({"margin": np.int64(20)}, "png", {"margin": "20px"}),
        ({"natural": np.True_}, "png", {"natural": "true"}),
        ({"handwriting_color": pd.Series([1, 0.5, 0, 0.2])}, "png", {"handwriting_color": "(1, 0.5, 0, 0.2)"}),
        (Style(handwriting_color="navy"), "pdf", {"handwriting_color": "#000080"}),
        (Style(handwriting_color="#1b3"), "pdf", {"handwriting_color": "#11bb33"}),
        (Style(handwriting_color="RebeccaPurple"), "pdf", {"handwriting_color": "#663399"}),
        (Style(handwriting_color="1b3a8a"), "png", {"handwriting_color": "1b3a8a"}),
        (Style(handwriting_color="#1b3a8a80"), "png", {"handwriting_color": "#1b3a8a80"}),
    ]:
        assert query_of(style, kind) == query, style


def test_calls_share_their_options_and_fit_a_screen() -> None:
    calls = [getattr(HandwritingClient, name) for name in dir(HandwritingClient) if not name.startswith("_")]
    parameters = [each for call in calls for each in list(inspect.signature(call).parameters.values())[1:]]
    assert len(parameters) <= 70
    assert {each.default for each in parameters if each.name == "height"} == {"auto"}
    assert list(inspect.signature(Style).parameters) == list(Style.__annotations__)  # what Tab offers after Style(
    assert max(pydoc.plain(pydoc.render_doc(call)).count("\n") for call in calls) <= 60


def test_keywords_win_over_the_style(hands: toolkit.Connection) -> None:
    tk, style = hands.handwriting, Style(pen="felt", handwriting_size=30)
    done = tk.png("Hello", "Molly", style, handwriting_size=20, random_seed=7)
    assert done == tk.png("Hello", "Molly", pen="felt", random_seed=7)
    assert tk.sweep("Hello", "Molly", style, handwriting_size=[20], random_seed=7)["writing"].tolist() == [done]
    for wrong, said in [({"colour": 1}, "did you mean handwriting_color"), ({"pen": "fetl"}, "pen is 'plain' or")]:
        with pytest.raises(InvalidArgument, match=said):
            tk.letter("Hello", "Molly", wrong)


def test_presets_look_different(hands: toolkit.Connection) -> None:
    looks = [hands.handwriting.png("Hello", "Molly", PRESETS[name], random_seed=7) for name in PRESETS]
    assert len({look.digest for look in looks}) == len(PRESETS)


def test_picture_has_its_figures(hands: toolkit.Connection) -> None:
    done = hands.handwriting.png("Dear Ada,\nhello", "molly", random_seed=7)
    assert (done.handwriting, done.seed, done.lines, done.width, done.overflow) == ("Molly", 7, 2, 504, False)
    alpha = done.image().getchannel("A")
    share = sum(level * count for level, count in enumerate(alpha.histogram())) / 255 / (alpha.width * alpha.height)
    assert done.ink_share == pytest.approx(share, abs=1e-6)
    assert done.milliseconds > 0
    assert repr(done) == f"<PNG by Molly, 504 x 78, 2 lines, ink {share:.2%}, seed 7>"


def test_one_seed_is_one_writing_in_all_formats(hands: toolkit.Connection) -> None:
    page = {"width": 300, "height": 60, "random_seed": 7}
    png = hands.handwriting.png("Hello", "Molly", **page).image().tobytes()
    for kind in ("pdf", "svg", "animation"):
        assert getattr(hands.handwriting, kind)("Hello", "Molly", **page).image().tobytes() == png


def test_rendering_has_a_notebook_repr(hands: toolkit.Connection, tmp_path: Path) -> None:
    for kind, suffix in (("png", "png"), ("pdf", "pdf"), ("svg", "svg"), ("animation", "svg")):
        done = getattr(hands.handwriting, kind)("Hello", "Molly", height=40, random_seed=7)
        shown = done._repr_mimebundle_()
        assert shown["text/plain"] == repr(done)
        assert set(shown) == {"text/plain", "image/png", *({"image/svg+xml"} if suffix == "svg" else ())}
        assert done.save(tmp_path / f"hello.{suffix}").read_bytes() == done.data
        with pytest.raises(InvalidArgument, match=rf"\*\.{suffix}"):
            done.save(tmp_path / "hello.txt")
    done = hands.handwriting.png("The engine works. " * 25, "Molly", random_seed=7)
    assert len(base64.b64decode(done._repr_mimebundle_()["image/png"])) < 1.15 * len(done.data)


def test_a_file_that_cannot_be_written_is_named(hands: toolkit.Connection, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("in the way", "utf-8")
    (tmp_path / "folder.png").mkdir()
    done = hands.handwriting.png("Hi", "Molly", random_seed=7)
    for place in ("no folder/hi.png", "a file/hi.png", "folder.png"):
        with pytest.raises(OSError, match=rf" directory: '{tmp_path / place}'$"):
            done.save(tmp_path / place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a file", "folder.png"]


def test_pdf_shows_its_text_after_close(running: toolkit.Gateway) -> None:
    with toolkit.connect(running) as tk:
        made = [tk.handwriting.pdf("Hi", "Molly"), tk.handwriting.letter("Hi", "Molly", page="A6", margin=5)]
    for done in made:
        assert done._repr_mimebundle_() == {"text/plain": repr(done)}


def test_invalid_path_is_refused(hands: toolkit.Connection) -> None:
    letter = hands.handwriting.letter("Hi", "Molly", page="A6", margin=5)
    picture = letter.picture(dpi=20)
    sheet = hands.handwriting.contact_sheet([picture])
    merge = partial(hands.handwriting.letters, pd.DataFrame({"name": ["Ada"]}), "Dear {name}", "Molly", progress=False)
    for place in ("~no-such-person/hi.png", "h\0i.png", ""):
        for write in (picture.save, sheet.save, merge):
            with pytest.raises(InvalidArgument, match="a path must not be empty or contain NUL"):
                write(place)
    for write in (picture.save, sheet.save):
        with pytest.raises(InvalidArgument, match="path is a .*, not an int"):
            write(5)


def test_light_ink_is_shown_on_dark_paper(hands: toolkit.Connection) -> None:
    done = hands.handwriting.png("Hello", "Molly", handwriting_color="#ffffff", height=40)
    assert done.on_paper().getpixel((0, 0)) == (43, 43, 43)
    assert done.image().getpixel((0, 0)) == (255, 255, 255, 0)
    drawing = hands.handwriting.svg("Hello", "Molly", handwriting_color="#ffffff", height=40)
    assert "background:#2b2b2b" in drawing._repr_mimebundle_()["image/svg+xml"]


def test_invalid_parameters_are_not_sent(hands: toolkit.Connection) -> None:
    for text, hand, why in (
        (7, "Molly", "text is a str, not an int"),
        ("x" * 9001, "Molly", "9000"),
        ("\ud800", "Molly", "UTF-8"),
        ("Hello", "Moly", "no handwriting 'Moly': the nearest titles are Molly"),
        ("Hello", "zzzzzzzz", r"see available\(\)"),
        ("Hello", 7, "hand is a str, not an int"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            hands.handwriting.png(text, hand)
    for style in ({"width": True}, {"line_spacing": [1]}, {"handwriting_color": 7j}):
        with pytest.raises(InvalidArgument, match=next(iter(style))):
            hands.handwriting.png("Hello", "Molly", **style)
    # These are only known to the gateway.
    with pytest.raises(InvalidParameters, match='width unable to parse: "5gophers"; line_spacing must be') as caught:
        hands.handwriting.png("Hello", "Molly", width="5gophers", line_spacing=9)
    assert [problem.field for problem in caught.value.problems] == ["width", "line_spacing"]


def test_sweep_has_a_row_for_each_combination(hands: toolkit.Connection) -> None:
    frame = hands.handwriting.sweep(
        "Hello", ["Molly", "Perry"], line_spacing=[1, 2, 3], handwriting_color="#123456", random_seed=range(1, 3)
    )
    assert frame.columns.tolist() == ["hand", "line_spacing", "random_seed", "writing", "ms", "width", "height",
                                      "lines", "ink_share", "seed", "overflow"]  # fmt: skip
    assert frame["hand"].tolist() == ["Molly"] * 6 + ["Perry"] * 6
    assert frame["random_seed"].tolist() == [1, 2] * 6
    assert frame.groupby("line_spacing")["height"].max().is_monotonic_increasing
    assert hands.handwriting.contact_sheet(frame, columns=3).image().width == 3 * (504 + 24)
    assert len(hands.handwriting.contact_sheet(frame[["writing"]]).writings) == 12
    with pytest.raises(InvalidArgument, match="the frame has no column writing"):
        hands.handwriting.contact_sheet(frame[["hand"]])
    with pytest.raises(InvalidArgument, match="line_spacing is an empty list"):
        hands.handwriting.sweep("Hello", "Molly", line_spacing=[])


def test_a_sheet_shows_every_picture(hands: toolkit.Connection, tmp_path: Path) -> None:
    tk = hands.handwriting
    notes = [tk.png("Hi", "Molly", width=width, height=30, handwriting_size=16) for width in (100, 200, 150)]
    shown = tk.contact_sheet(notes, columns=2)
    assert repr(shown) == f"<Contact sheet of 3, 448 x 144, {shown.digest}>"
    assert set(shown._repr_mimebundle_()) == {"text/plain", "image/png"}
    assert shown.save(tmp_path / "sheet.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InvalidArgument, match="png"):
        shown.save(tmp_path / "sheet.jpg")
    assert tk.contact_sheet(notes, labels=["a", "b", "c"]).digest == shown.digest
    assert tk.contact_sheet(notes[:2]).digest != shown.digest
    assert tk.contact_sheet(notes, labels=["a label " * 20, "b", "two\nlines"]).width > 1.5 * shown.width
    for box in ((12, 30, 112, 60), (236, 30, 436, 60), (12, 102, 162, 132)):
        assert shown.image().crop(box).convert("L").getextrema()[0] < 100, "there is ink"
    for wrong in ({"pictures": []}, {"pictures": notes, "columns": 0}, {"pictures": notes, "labels": ["one"]}):
        with pytest.raises(InvalidArgument, match="contact sheet"):
            tk.contact_sheet(**wrong)


# -- against literal replies -----------------------------------------------------------------------------------

RECORD = (
    b'[{"id":"2D5QW0F80001","title":"Molly","date_created":"2016-06-10T16:20:24.251406Z",'
    b'"date_modified":"2015-05-04T10:09:09.55861Z"}]'
)


@pytest.fixture
def literal() -> Iterator[tuple[toolkit.Connection, LiteralServer, dict[str, Reply]]]:
    """A server of the specification alone: four fields, no headers of ours; what else it answers is in the dict."""
    replies: dict[str, Reply] = {}

    def answer(target: str, _body: bytes) -> Reply:
        return replies.get(urlsplit(target).path, (200, {}, RECORD if "offset=0" in target else b"[]"))

    server = LiteralServer(answer)
    with toolkit.connect(server.base_url, credentials={"apikey": "k"}) as connection:
        yield connection, server, replies
    server.stop()


def test_client_works_with_the_specification_only(
    literal: tuple[toolkit.Connection, LiteralServer, dict[str, Reply]],
) -> None:
    tk, server, replies = literal
    file = io.BytesIO()
    Image.new("RGBA", (40, 10), (0, 0, 0, 51)).save(file, "PNG")
    replies["/render/png"] = (200, {}, file.getvalue())
    frame = tk.handwriting.available()
    assert frame["rating_neatness"].isna().all()
    assert str(frame["date_modified"].iloc[0]) == "2015-05-04 10:09:09.558610+00:00"
    done = tk.handwriting.png("a\nb&c", "Molly", width="4in")
    assert (done.width, done.height, done.seed, done.lines, done.ink_share) == (40, 10, None, None, None)
    url = urlsplit(server.requests[-1][0].split(" ")[1])
    assert url.path == "/render/png"
    sent = {"apikey": "k", "handwriting_id": "2D5QW0F80001", "text": "a\nb&c", "width": "4in", "height": "auto"}
    assert parse_qs(url.query) == {name: [value] for name, value in sent.items()}
    replies["/handwritings"] = (200, {}, RECORD)  # the same page, again and again
    assert len(tk.handwriting.available()) == 1


def test_failures_of_another_server_are_errors(
    literal: tuple[toolkit.Connection, LiteralServer, dict[str, Reply]],
) -> None:
    tk, _, replies = literal
    for reply, error, text in [
        ((400, {}, b'{"errors":[{"field":"text","error":"no"},{"error":"nor"}]}'), InvalidParameters, "no; nor"),
        ((429, {"Retry-After": "7"}, b'{"errors":[{"error":"slow down"}]}'), RateLimited, "slow down"),
        ((500, {}, b"<html>"), ServiceFailure, "status 500"),
        ((200, {}, b"<html>"), UnexpectedReply, "not JSON"),
        ((200, {}, b'["\xff"]'), UnexpectedReply, "Expected `object`"),
        ((200, {}, b"[" * 100_000), UnexpectedReply, "Expected `object`"),
        ((500, {}, b"[" * 100_000), ServiceFailure, "status 500"),
        ((200, {}, b"{}"), UnexpectedReply, "Expected `array`"),
        ((200, {}, b'[{"id":"x"}]'), UnexpectedReply, "missing required field `title`"),
    ]:
        replies["/handwritings"] = reply
        with pytest.raises(error, match=text) as caught:
            tk.handwriting.available()
        if isinstance(caught.value, RateLimited):
            assert caught.value.retry_after == 7
