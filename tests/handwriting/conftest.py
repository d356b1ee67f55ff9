"""What the handwriting tests share: hands, pages of ink without a file around them, and one running gateway."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import toolkit
from tests.conftest import RawReply, raw_call
from toolkit.handwriting.handwritten import Handwritten
from toolkit_gateway import Gateway
from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import Parameters
from toolkit_gateway.ink.renderer import render, write_pages

LETTER = (
    "Dear Hannah,\n\nThe children have not stopped talking about the canoe and the little green frog they found under "
    "the pier. Please tell Robert that I still owe him a proper dinner; we will be home by the 3rd of October.\n\n"
    "    With love,\n    Margaret"
)


def handwriting(title: str) -> Handwriting:
    found = next((h for h in catalogue().values() if h.title == title), None)
    assert found is not None
    return found


def write_page(parameters: Parameters) -> Page:
    """Return the first page of a text."""
    return next(write_pages(parameters)[1])


@pytest.fixture
def molly() -> Handwriting:
    """Give a joined hand."""
    return handwriting("Molly")


@pytest.fixture
def winters() -> Handwriting:
    """Give a print hand."""
    return handwriting("Winters")


@pytest.fixture
def page_of(winters: Handwriting) -> Callable[..., Page]:
    """Return the ink of a text as a page, in Winters unless another hand is given."""

    def page(text: str, hand: Handwriting = winters, seed: int = 7, kind: str = "png", **parameters: Any) -> Page:
        return write_page(Parameters(hand, kind, text, random_seed=seed, **parameters))

    return page


def written(hand: Handwriting, text: str, kind: str, seed: int = 7, **parameters: Any) -> Handwritten:
    return render(Parameters(hand, kind, text, random_seed=seed, **parameters))


def pixels(rendering: Handwritten) -> np.ndarray:
    """RGBA of a PNG, shape (height, width, 4)."""
    return np.asarray(Image.open(io.BytesIO(rendering.data)))


def ink_left(page: Page, line: int = 0) -> float:
    """Left end of the ink of a line."""
    strokes = np.isin(page.word_of_stroke, np.nonzero(page.layout.line == line)[0])
    chosen = page.strokes.select(strokes)
    return float((chosen.x - chosen.radius).min())


# -- the service -------------------------------------------------------------------------------------------

MOLLY = "2D5QW0F80001"
BASIC = "Authorization: Basic a2V5OnNlY3JldA==\r\n"  # key:secret


class Service(NamedTuple):
    """The handwriting service of a gateway, called by hand."""

    base_url: str

    def get(self, path: str, query: str = "apikey=k", *, method: str = "GET", headers: str = "") -> RawReply:
        return raw_call(self.base_url, method, f"{path}?{query}", headers=headers)

    def render(self, kind: str = "png", *, basic: bool = False, **given: str) -> RawReply:
        """Render with these parameters, percent-encoded here, text and hand given unless they are overridden."""
        full = {"handwriting_id": MOLLY, "text": "Hello", **given}
        pairs = [f"{name}={quote(value, safe='')}" for name, value in full.items()]
        query = "&".join(pairs if basic else ["apikey=k", *pairs])
        return self.get(f"/render/{kind}", query, headers=BASIC if basic else "")


def errors_of(reply: RawReply) -> list[dict[str, Any]]:
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    body = json.loads(reply.body)
    assert list(body) == ["errors"]
    errors: list[dict[str, Any]] = body["errors"]
    return errors


@pytest.fixture(scope="session")
def running() -> Iterator[Gateway]:
    # The fuzz is faster than any client; the limit is tested elsewhere.
    with Gateway(config={"handwriting": {"burst": 1_000_000, "calls_a_second": 1e6, "renderers": 2}}) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def service(running: Gateway) -> Service:
    return Service(running.base_url)


@pytest.fixture(scope="session")
def hands(running: Gateway) -> Iterator[toolkit.Connection]:
    with toolkit.connect(running) as connection:
        yield connection
