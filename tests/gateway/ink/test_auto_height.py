"""An automatic height contains all ink: the same text on a larger page has no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.written_pages import write_page
from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.parameters import Parameters
from toolkit_gateway.ink.renderer import draw

HANDS = list(catalogue().values())
SPACINGS = (0.8, 1.0, 1.5, 2.2, 3.0)
TEXT = "Why? (Élan, Ångström!)\nfjord quay $5 @k"
AROUND = 100.0  # pixels


def lost_ink(hand: Handwriting, spacing: float) -> float:
    parameters = Parameters(hand, "png", TEXT, width=300.0, height=None, line_spacing=spacing, random_seed=7)
    page = write_page(parameters)
    strokes = replace(page.strokes, x=page.strokes.x + AROUND, y=page.strokes.y + AROUND)
    larger = replace(page, strokes=strokes, width=page.width + 2 * AROUND, height=page.height + 2 * AROUND)
    ink = [share * it.width * it.height for it in (larger, page) for _, share in [draw([it], parameters)]]
    return ink[0] - ink[1]


def clipping(hands: list[Handwriting], spacings: tuple[float, ...]) -> list[tuple[str, float, float]]:
    lost = [(hand.title, spacing, lost_ink(hand, spacing)) for hand in hands for spacing in spacings]
    return [(title, spacing, round(ink, 2)) for title, spacing, ink in lost if abs(ink) > 1e-6]


def test_auto_height_cuts_no_ink_in_a_sample_of_hands() -> None:
    assert clipping(HANDS[::11], (0.8, 1.0, 3.0)) == []


@pytest.mark.long
def test_auto_height_cuts_no_ink_in_any_hand() -> None:
    assert clipping(HANDS, SPACINGS) == []


def test_no_line_of_an_automatic_height_is_cut() -> None:
    text = "The quick brown fox jumps over the lazy dog, and then it sleeps. " * 45
    for seed in range(1, 7):
        assert write_page(Parameters(HANDS[0], "pdf", text, height=None, random_seed=seed)).cut_line is None
