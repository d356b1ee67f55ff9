"""Letters with a small enclosed white: the eye of an e, the loops of a percent sign."""

from __future__ import annotations

import numpy as np

from tests.written_pages import handwriting, pixels, written

LEAST_PIXELS = 20  # of a counter, where a cap height has 200 pixels
#: For each script, its hands and the counters of some letters.
EYES = {
    ("Ferris", "Ridley", "Sloane", "Dexter"): {"e": 1, "é": 1, "6": 1, "@": 1, "$": 2, "%": 2},
    ("Kingsley", "Beatrix", "Stilton", "Ottoline"): {"e": 1, "é": 1, "6": 1, "@": 2, "$": 2, "%": 2},
    ("Molly",): {"2": 1, "S": 4, "p": 2},
    ("Winters", "Delaney"): {"&": 1},
    ("Perry",): {"U": 1, "%": 1},
    ("Squire",): {"M": 1, "f": 2},
    ("Larkin",): {"f": 2, "@": 2},
    ("Walden",): {"o": 0, "T": 0},
    ("Flint",): {"0": 2, "q": 1},
}


def test_small_counters_stay_open() -> None:
    for titles, eyes in EYES.items():
        for title in titles:
            assert {letter: counters(letter, title) for letter in eyes} == eyes, title


def counters(letter: str, title: str) -> int:
    """Return how many white areas the ink of one large letter encloses."""
    from scipy import ndimage

    done = written(handwriting(title), letter, "png", 3, handwriting_size=200.0, width=600.0, height=500.0)
    assert not done.overflow
    ink = pixels(done)[:, :, 3] > 127
    area_of, _ = ndimage.label(~ink)
    enclosed = np.bincount(area_of.ravel())[1:]
    return int((enclosed >= LEAST_PIXELS).sum()) - 1  # one white area is the paper around the letter
