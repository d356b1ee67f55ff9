"""The words of a natural text before they have a line: their letters, how these drift, and the room that they need.

Lines are broken after this step, so no line has to be squeezed to fit.
"""

from __future__ import annotations

import numpy as np

from toolkit_gateway.ink.natural.joins import BAND_COUNT, bands_of, heights_of_bands, widen_bands
from toolkit_gateway.ink.natural.penman import Penman
from toolkit_gateway.ink.random_streams import Floats, RandomStreams
from toolkit_gateway.ink.shaping import ShapedWord

# Standard deviations, in cap heights or as shares, of the drift from word to word and from letter to letter.
WORD_WIDTH, WORD_SIZE, WORD_RISE, WORD_SLANT = 0.06, 0.06, 0.03, 0.03
LETTER_WIDTH, LETTER_SIZE, LETTER_RISE, LETTER_SLANT = 0.06, 0.03, 0.016, 0.03
MIN_WORD_GAP, USUAL_EXTRA_GAP = 0.28, 0.32  # between words: smallest gap; a usual gap has at least so much more
USUAL_LETTER_WIDTH, MIN_NARROW = 0.55, 0.65  # with narrower letters the gaps are narrower, down to this factor
GAP_SPREAD, GAP_MEMORY = 0.34, 0.2  # gaps between words: standard deviation of their logarithm, autocorrelation
MIN_GAP_FACTOR, MAX_GAP_FACTOR = 0.8, 1.5  # on the usual gap between words
GAP_FACTOR_AFTER = {",": 1.1, ";": 1.15, ":": 1.15, ".": 1.25, "!": 1.25, "?": 1.25}
# By how much a gap is wider at other heights than at its narrowest point: largest value that counts, usual mean.
MAX_EXTRA_WHITE, USUAL_EXTRA_WHITE = 0.3, 0.15
SIGNATURE_SIZE = 1.18  # factor on the size of a signature below a letter
# -- haste: 0 for a word that is written with care, 1 for a long, frequent or late word ------------------------
LONG_WORD, LATE_WORDS = 9, 150  # letters of a long word; words after which the hand writes as fast as it will
LENGTH_SHARE, FREQUENT_SHARE, LATE_SHARE = 0.5, 0.4, 0.3  # parts of haste
CAREFUL_LETTERS = 2  # at the beginning of a word, which are written with care
# In haste, letters are so much lower and wider, and the next gap smaller.
FLATTER, WIDER, SMALLER_GAP = 0.13, 0.04, 0.15
RUN_OUT = 0.12  # share of its width by which the last letter of a hasty word runs out
_FREQUENT = frozenset((
    "the", "and", "that", "with", "have", "this", "from", "they", "were", "you", "for", "are", "not", "but", "had",
    "her", "his", "was", "all", "our", "will",
))  # fmt: skip


class Writing:
    """The letters of a whole text; arrays have one value for each letter unless a comment says otherwise."""

    def __init__(
        self, words: list[ShapedWord], signature: slice, penman: Penman, variance: float, noise: RandomStreams
    ) -> None:
        self.penman, self._words = penman, words
        self.choices = penman.choose(words, noise)
        count = len(self.choices)
        self.word = np.array([choice.word for choice in self.choices], np.int64)
        self.first = np.searchsorted(self.word, np.arange(len(words) + 1))  # (words + 1,) first letter of each word
        self.origin = np.array([choice.x for choice in self.choices], np.float64)
        self.span = np.maximum(np.array([choice.spacing for choice in self.choices], np.float64), 0.0)
        large = np.ones(len(words))
        large[signature] = SIGNATURE_SIZE
        spread = np.sqrt(penman.shaper.writer.shake)

        def drifting(name: str, word_spread: float, letter_spread: float) -> Floats:
            of_word = noise.series(f"natural word {name}", len(words), 0.76)[self.word]
            of_letter = noise.series(f"natural letter {name}", count, 0.6)
            both: Floats = spread * (word_spread * of_word + letter_spread * of_letter)
            return both

        self.haste = self._haste(noise)
        hasty = self.haste[self.word] * np.clip((np.arange(count) - self.first[self.word] - CAREFUL_LETTERS) / 3, 0, 1)
        self.hasty = hasty  # how much each letter is written in haste
        is_last = np.append(self.word[1:] != self.word[:-1], True)[:count]
        wider = 1 + WIDER * hasty + RUN_OUT * hasty * is_last
        self.added = self.span * (
            wider * exponential(drifting("width", WORD_WIDTH, LETTER_WIDTH)) * large[self.word] - 1
        )
        until = np.cumsum(self.added)
        start = (until - self.added)[np.minimum(self.first[:-1], max(count - 1, 0))] if count else np.zeros(len(words))
        self.shift = until - self.added - start[self.word]  # by which the letter moves right, as those before it grow
        self.size = (1 + drifting("size", WORD_SIZE, LETTER_SIZE)) * large[self.word] * (1 - FLATTER * hasty)
        self.rise = drifting("rise", WORD_RISE, LETTER_RISE)
        self.slant = drifting("slant", WORD_SLANT, LETTER_SLANT)
        last = np.maximum(self.first[1:] - 1, 0)
        has_letters = self.first[1:] > self.first[:-1]
        #: (words,) nominal width of each word, and how much wider it is written.
        self.width, self.growth = np.zeros(len(words)), np.zeros(len(words))
        self.width[has_letters] = (self.origin + self.span)[last[has_letters]]
        self.growth[has_letters] = (self.shift + self.added)[last[has_letters]]
        left, right = self._sides()
        #: (words,) first and last x of the ink, from the origin of the word.
        self.left = np.nan_to_num(left.min(axis=1), posinf=0.0)
        self.right = np.nan_to_num(right.max(axis=1), neginf=0.0)
        #: (words,) from the origin of the word before to the origin of the word, if both are on one line, and the
        #: smallest such distance.
        self.step, self.least_step = self._steps(left, right, variance, noise)

    def _haste(self, noise: RandomStreams) -> Floats:
        """Return the haste of each word."""
        words = self._words
        length = np.clip((np.array([len(word.text) for word in words], np.float64) - 3) / (LONG_WORD - 3), 0, 1)
        frequent = np.array([word.text.lower().strip(".,;:!?") in _FREQUENT for word in words], np.float64)
        late = np.minimum(np.arange(len(words)) / LATE_WORDS, 1)
        own = 0.2 * noise.uniform("haste", len(words))
        haste: Floats = np.clip(LENGTH_SHARE * length + FREQUENT_SHARE * frequent + LATE_SHARE * late + own, 0, 1)
        return haste

    def _sides(self) -> tuple[Floats, Floats]:
        """Return the left and the right side of the ink of each word in bands of height, (words, BAND_COUNT)."""
        words = len(self._words)
        left, right = np.full((words, BAND_COUNT), np.inf), np.full((words, BAND_COUNT), -np.inf)
        if self.choices:
            width = 1 + self.added / np.maximum(self.span, 1e-9)
            lean = self.slant[:, None] * heights_of_bands()
            for sides, pick, name in ((left, np.minimum, "left"), (right, np.maximum, "right")):
                edge = np.stack([getattr(choice.form, name) for choice in self.choices])
                x = (self.origin + self.shift)[:, None] + edge * width[:, None] + lean
                pick.at(sides, self.word, x)
        return widen_bands(left, right)

    def _steps(self, left: Floats, right: Floats, variance: float, noise: RandomStreams) -> tuple[Floats, Floats]:
        """Return the distance from each word to the one before, as wanted and the smallest.

        The gap between two words is the smallest horizontal distance between their ink at any height.
        """
        words, penman, shaper = self._words, self.penman, self.penman.shaper
        between = left[1:] - right[:-1]
        narrowest = between.min(axis=1, initial=np.inf)
        narrowest = np.where(np.isfinite(narrowest), narrowest, self.left[1:] - self.right[:-1])
        # A comma or stop is low: the next word must not begin above it, as the bar of a T would.
        stops = np.array([word.text[-1:] in GAP_FACTOR_AFTER for word in words[:-1]], bool)
        above = left[1:, bands_of(np.arange(0.05, 1.2, 0.1))].min(axis=1, initial=9.0) - self.right[:-1]
        narrowest = np.where(stops, np.minimum(narrowest, above), narrowest)
        # A gap looks as wide as the white at the height of small letters, not as its narrowest point.
        beside = between[:, bands_of(np.arange(0.05, penman.x_height, 0.1))]
        extra_white = np.minimum(beside - narrowest[:, None], MAX_EXTRA_WHITE).mean(axis=1)
        nominal = shaper.space * np.array([len(word.blank) for word in words[1:]], np.float64)
        nominal *= 1 + variance * noise.uniform("word", len(nominal))
        narrow = min(max(penman.letter_width / USUAL_LETTER_WIDTH, MIN_NARROW), 1.0)
        smallest = MIN_WORD_GAP * narrow + 2 * shaper.nib
        usual = np.maximum(penman.habits.gap * nominal, smallest + USUAL_EXTRA_GAP * narrow)
        change = exponential(GAP_SPREAD * noise.series("natural gap", max(len(words) - 1, 0), GAP_MEMORY))
        change = change * [GAP_FACTOR_AFTER.get(word.text[-1:], 1.0) for word in words[:-1]]
        change = change * (1 - SMALLER_GAP * self.haste[:-1])
        gap = usual * np.minimum(np.maximum(change, MIN_GAP_FACTOR), MAX_GAP_FACTOR)
        gap = np.maximum(gap - 0.5 * (extra_white - USUAL_EXTRA_WHITE), np.where(stops, usual, smallest))
        wanted, least = (np.concatenate([[0.0], space - narrowest]) for space in (gap, smallest))
        return wanted[: len(words)], least[: len(words)]


def exponential(z: Floats) -> Floats:
    """Approximate e to the power of z, for z above -32, by multiplications: the result is equal on every machine."""
    result = 1 + z / 64
    for _ in range(6):  # squared six times: to the power of 64
        result = result * result
    return result
