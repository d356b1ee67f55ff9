"""Letters that readers tell apart by a small enclosed white: the eye of an e, the loops of a percent sign."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import toolkit

LEAST_PIXELS = 20  # of a counter, where a cap height has 200 pixels
EYES = {
    "ferris": {"e": 1, "é": 1, "6": 1, "@": 1, "$": 2, "%": 2},
    "kingsley": {"e": 1, "é": 1, "6": 1, "@": 2, "$": 2, "%": 2},
    "molly": {"2": 1, "S": 4, "p": 2},
    "winters": {"&": 1},
    "perry": {"U": 1, "%": 1},
    "squire": {"M": 1, "f": 2},
    "larkin": {"f": 2, "@": 2},
    "walden": {"o": 0, "T": 0},
    "flint": {"0": 2, "q": 1},
}
TITLES = {
    "ferris": ["Ferris", "Ridley", "Sloane", "Dexter"],
    "kingsley": ["Kingsley", "Beatrix", "Stilton", "Ottoline"],
    "molly": ["Molly"],
    "winters": ["Winters", "Delaney"],
    "perry": ["Perry"],
    "squire": ["Squire"],
    "larkin": ["Larkin"],
    "walden": ["Walden"],
    "flint": ["Flint"],
}


@pytest.mark.parametrize(("script", "title"), [(script, title) for script in TITLES for title in TITLES[script]])
def test_small_counters_stay_open(hands: toolkit.Connection, script: str, title: str) -> None:
    assert {letter: counters(hands, letter, title) for letter in EYES[script]} == EYES[script]


def counters(hands: toolkit.Connection, letter: str, title: str) -> int:
    """Return how many white areas the ink of one large letter encloses."""
    page = {"handwriting_size": 200, "width": 600, "height": 500, "random_seed": 3}
    written = hands.handwriting.png(letter, title, **page)  # type: ignore[arg-type]
    assert not written.overflow
    ink = np.asarray(written.image().convert("RGBA"))[:, :, 3] > 127
    area_of, _ = ndimage.label(~ink)
    enclosed = np.bincount(area_of.ravel())[1:]
    return int((enclosed >= LEAST_PIXELS).sum()) - 1  # one white area is the paper around the letter
