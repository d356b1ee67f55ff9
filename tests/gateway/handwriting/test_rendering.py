"""Renderings over HTTP: sizes, units, seeds and caching."""

from __future__ import annotations

import io
from itertools import product
from urllib.parse import quote

import pytest
from PIL import Image

from tests.handwriting_service import MOLLY, Service
from toolkit_gateway.ink.catalogue import catalogue
from toolkit_gateway.ink.parameters import CMYK, RGB, Parameters
from toolkit_gateway.ink.renderer import render

WINTERS = "2D5S18M00002"
TYPES = {"png": "image/png", "pdf": "application/pdf", "svg": "image/svg+xml", "replay": "image/svg+xml"}


def test_two_processes_render_the_same_bytes(service: Service) -> None:
    text = "Dear Ada,\nthe engine works."
    for hand, kind in product((MOLLY, WINTERS), TYPES):
        reply = service.render(kind, handwriting_id=hand, text=text, height="auto", random_seed="7")
        ink = CMYK(0, 0, 0, 1) if kind == "pdf" else RGB(0, 0, 0)
        done = render(Parameters(catalogue()[hand], kind, text, height=None, random_seed=7, handwriting_color=ink))
        assert reply.status == 200
        assert reply.headers["content-type"] == TYPES[kind]
        assert reply.body == done.data
        assert (reply.headers["x-handwriting-seed"], reply.headers["x-handwriting-lines"]) == ("7", "2")
        assert float(reply.headers["x-handwriting-ink"]) == pytest.approx(done.ink_share, abs=1e-6)


def test_default_size_resolution_and_background(service: Service) -> None:
    with Image.open(io.BytesIO(service.render().body)) as image:
        assert (image.size, image.mode) == ((504, 360), "RGBA")
        assert image.info["dpi"] == pytest.approx((72, 72), abs=0.01)
        assert image.getpixel((0, 0)) == (0, 0, 0, 0)
    pdf = service.render("pdf")
    assert pdf.headers["x-handwriting-size"] == "504x360"


def test_width_in_every_unit(service: Service) -> None:
    four_inches = ("4in", "4 in", "288PX", "288pt", "10.16cm", "101.6 mm", "287.5px")
    for width, pixels in (dict.fromkeys(four_inches, 288) | {".5in": 36, "125in": 9000}).items():
        with Image.open(io.BytesIO(service.render(width=width, height="20px").body)) as image:
            assert image.width == pixels


def test_response_names_the_seed_that_repeats_the_picture(service: Service) -> None:
    for given in ({}, {"random_seed": "-1"}, {"random_seed": "0"}):
        first, second = service.render(**given), service.render(**given)
        assert first.body != second.body
        assert first.headers["cache-control"] == "no-store"
        assert "etag" not in first.headers
        seed = first.headers["x-handwriting-seed"]
        assert 0 < int(seed) < 2**63
        assert service.render(random_seed=seed).body == first.body


def test_decimal_seeds_differ_from_integers(service: Service) -> None:
    bodies = {seed: service.render(random_seed=seed).body for seed in ("1", "1.0", "1.5", "1.50", "2")}
    assert bodies["1"] == bodies["1.0"]
    assert bodies["1.5"] == bodies["1.50"]
    assert len(set(bodies.values())) == 3
    assert service.render(random_seed="1.5").headers["x-handwriting-seed"] == "1.5"


def test_matching_etag_skips_the_rendering(service: Service) -> None:
    first = service.render(random_seed="7")
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, max-age=86400"
    query = f"apikey=other&random_seed=7.0&text=Hello&handwriting_id={MOLLY}"
    again = service.get("/render/png", query, headers=f"If-None-Match: {etag}\r\n")
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    others = [service.render(random_seed="8"), service.render(random_seed="7", width="505px"),
              service.render("pdf", random_seed="7")]  # fmt: skip
    assert len({etag, *(other.headers["etag"] for other in others)}) == 4


def test_head_is_get_without_the_body(service: Service) -> None:
    query = f"apikey=k&handwriting_id={MOLLY}&text=Hello&random_seed=7"
    got, head = service.get("/render/png", query), service.get("/render/png", query, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    for name in ("date", "x-ratelimit-remaining", "x-ratelimit-reset"):  # time differs, and nothing else
        del head.headers[name], got.headers[name]
    assert head.headers == got.headers


def test_url_of_110_kilobytes_is_accepted(service: Service) -> None:
    text = "\N{SLIGHTLY SMILING FACE} " * 4500
    query = f"apikey=k&handwriting_id={MOLLY}&height=40px&text={quote(text, safe='')}"
    assert len(query) > 66_000
    reply = service.get("/render/png", query)
    assert (reply.status, reply.headers["x-handwriting-overflow"]) == (200, "true")
    padded = service.get("/render/png", query + "&unknown=" + "x" * (128 * 1024 - len(query) - 9))
    assert padded.status == 200


def test_a_page_that_is_too_small_is_cut_and_says_so(service: Service) -> None:
    text = "line\n" * 30
    assert service.render(text=text).headers["x-handwriting-overflow"] == "true"
    assert service.render(text=text, height="auto").headers["x-handwriting-overflow"] == "false"
