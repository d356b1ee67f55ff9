"""Pages written in the process of the test, and measures of their ink."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import Parameters, Rendering
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
    return next(write_pages(parameters)[1])


@pytest.fixture
def molly() -> Handwriting:
    return handwriting("Molly")


@pytest.fixture
def winters() -> Handwriting:
    return handwriting("Winters")


@pytest.fixture
def page_of(winters: Handwriting) -> Callable[..., Page]:
    """Return the ink of a text as a page, in Winters unless another hand is given."""

    def page(text: str, hand: Handwriting = winters, seed: int = 7, kind: str = "png", **parameters: Any) -> Page:
        return write_page(Parameters(hand, kind, text, random_seed=seed, **parameters))

    return page


def written(hand: Handwriting, text: str, kind: str, seed: int = 7, **parameters: Any) -> Rendering:
    return render(Parameters(hand, kind, text, random_seed=seed, **parameters))


def pixels(rendering: Rendering) -> np.ndarray:
    """RGBA of a PNG, shape (height, width, 4)."""
    return np.asarray(Image.open(io.BytesIO(rendering.data)))


def ink_box(page: Page) -> tuple[float, float, float, float]:
    """Return where the ink begins and ends: left, top, right, bottom."""
    s = page.strokes
    first, last = ((s.x - s.radius).min(), (s.y - s.radius).min()), ((s.x + s.radius).max(), (s.y + s.radius).max())
    return float(first[0]), float(first[1]), float(last[0]), float(last[1])


def ink_left(page: Page, line: int = 0) -> float:
    strokes = np.isin(page.word_of_stroke, np.nonzero(page.layout.line == line)[0])
    chosen = page.strokes.select(strokes)
    return float((chosen.x - chosen.radius).min())
