"""Make the rows of the catalogue: every script in the hand of every writer, with ratings, an id and dates.

Each rating is scaled to an average of 1400 and a standard deviation of 100.
"""

from __future__ import annotations

import hashlib
import string
from datetime import datetime, timedelta

import numpy as np

from data.tools.hands.sources import FontSource, sources
from toolkit_gateway.ink.catalogue import Handwriting, Writer, writer_of
from toolkit_gateway.ink.hand import load_hand
from toolkit_gateway.ink.shaping import Shaper

KNOWN_IDS = {
    "Molly": "2D5QW0F80001", "Winters": "2D5S18M00002", "Perry": "2D5S46A80003", "Squire": "2D5S46JG0004",
    "Bailey": "5WGWVX5G00WA", "Cedar": "5WGWVX9800WC", "Beekman": "7EQMJPSG00H9",
    # Ids of the public service from old example code; the titles that they had there are unknown.
    "Hadley": "31SAZEF000DX", "Foster": "31SB3NWR00E0", "Doyle": "31SF81NG00ES", "Rosalind": "5WGWVXQG00WM",
    "Colette": "8X3WQ4D800B0", "Rowan": "2ZK3ZD280058",
}  # fmt: skip
_ID_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford base 32
_FIRST_DATE = datetime(2015, 3, 2, 9)
_LETTER_PAIRS = (  # cursivity is the share of these common pairs whose ink touches
    "th he in er an re nd on en at ou ed ha to or it is hi es ng ar se st te me sa ne wa ve le no ll ee ss "
    "om my la be ma co ch we wh up ay"
)


def handwritings() -> list[Handwriting]:
    rows = [(source, number) for source in sources() for number in range(len(source.titles))]
    measured = np.array([_measure(source, writer_of(source.name, number)) for source, number in rows])
    z = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    ratings = np.clip(np.rint(1400 + 100 * z), 1000, 1800).astype(int).tolist()
    return [
        Handwriting(*_id_title_dates(source.titles[number]), neat, cursive, embellished, wide, source.name, number)
        for (source, number), (neat, cursive, embellished, wide) in zip(rows, ratings, strict=True)
    ]


def _measure(source: FontSource, writer: Writer) -> tuple[float, float, float, float]:
    """Return neatness, cursivity, embellishment and character width, each on a scale of its own."""
    shaper = Shaper(source.name, writer)
    cursivity = float(np.mean([_ink_touches(shaper, pair) for pair in _LETTER_PAIRS.split()]))
    return -_irregularity(source, writer), cursivity, _embellishment(source), _character_width(shaper)


def _id_title_dates(title: str) -> tuple[str, str, str, str]:
    """Return id, title and the two dates; they depend only on the title, so that a rebuild changes nothing."""
    number = int.from_bytes(hashlib.sha256(title.encode()).digest()[:16], "big")
    digits = "".join(_ID_DIGITS[number >> 5 * k & 31] for k in range(12))
    created = _FIRST_DATE + timedelta(microseconds=number % (500 * 86_400_000_000))
    modified = created + timedelta(microseconds=number // 7 % (200 * 86_400_000_000))
    dates = [date.isoformat(timespec="microseconds") + "Z" for date in (created, modified)]
    return KNOWN_IDS.get(title, digits), title, dates[0], dates[1]


def _irregularity(source: FontSource, writer: Writer) -> float:
    """Return a weighted sum of the writer's habits; single letters vary more than joined letters."""
    single = 0.0 if source.joined else 0.35
    return writer.shake * (1 + single) + 0.5 * writer.wander + 0.1 * writer.smoothing_passes


def _ink_touches(shaper: Shaper, pair: str) -> bool:
    word = shaper.word(pair)
    second = word.letter_of_point == word.letter_of_point.max()
    x, y = word.strokes.x + word.origin_x[word.letter_of_point], word.strokes.y
    a = np.stack([x[~second], y[~second]], axis=1)
    b = np.stack([x[second], y[second]], axis=1)
    gap = np.hypot(*(a[:, None] - b[None]).transpose(2, 0, 1)).min(initial=np.inf)
    return bool(gap < 2 * shaper.nib)


def _embellishment(source: FontSource) -> float:
    """Return the mean length of the strokes of a capital letter, in cap heights."""
    hand = load_hand(source.name)
    glyphs = [hand.glyph(hand.shape(letter)[0].glyph_id) for letter in string.ascii_uppercase]
    return float(np.mean([glyph.steps().sum() for glyph in glyphs]))


def _character_width(shaper: Shaper) -> float:
    """Return the mean advance of the small letters, divided by the x-height."""
    advance = np.mean([shaper.word(letter).width for letter in string.ascii_lowercase])
    return float(advance / shaper.word("x").strokes.y.max())
