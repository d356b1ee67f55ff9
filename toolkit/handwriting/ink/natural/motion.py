"""The motion of a natural page: everything drifts over letters and words, and late strokes miss their places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.motion import (
    JOIN,
    LETTER_FIELD,
    WORD_FIELD,
    WORD_LATTICE,
    WORD_TILT,
    PenPath,
    elastic_displacement,
    round_corners,
)
from toolkit.handwriting.ink.natural.habits import Habits, exponential, series
from toolkit.handwriting.ink.natural.letters import BANDS, BAR, MARK, bands_of, widened
from toolkit.handwriting.ink.natural.penman import Draft, Penman
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.keyed_noise import Floats, Integers, KeyedNoise, unit

# Standard deviations, in cap heights or relative; they apply to words and, with less memory, to letters.
WORD_WIDTH, WORD_SIZE, WORD_RISE, WORD_SLANT = 0.06, 0.06, 0.03, 0.03
LETTER_WIDTH, LETTER_SIZE, LETTER_RISE, LETTER_SLANT = 0.06, 0.03, 0.016, 0.03
GAP_TO_DOT, GAP_FLOOR, USUAL_ABOVE = 0.07, 0.28, 0.32  # the last is what a usual gap has above the floor at least
GAP_SPREAD, GAP_MEMORY, NARROWEST, WIDEST = 0.32, 0.8, 0.75, 1.9  # relative to a usual gap
WIDENED = {",": 1.1, ";": 1.15, ":": 1.15, ".": 1.25, "!": 1.25, "?": 1.25}  # after these
CLOSENESS, USUALLY_WIDER = 0.3, 0.15  # most that counts of the white beside a gap's narrowest place, and the usual
BAR_SPREAD, BAR_TURN, BAR_MISSES = 0.25, 0.06, 0.05
LONGEST_BAR = 0.7  # cap heights, unless it is as long in the font
DOT_SPREAD, DOT_RISE, FARTHEST_DOT = 0.10, 0.06, 0.4  # x-heights; half as far to the left
SIGNATURE = 1.18  # factor on its size
_APART = 8.0  # between words where positions of all words lie on one axis


def write(layout: Layout, penman: Penman, noise: KeyedNoise) -> PenPath:
    draft = penman.draft(layout.words, noise)
    if not draft.choices:
        return PenPath(draft.strokes, draft.word, draft.letter, layout.x, layout.x)
    shake = penman.shaper.writer.shake
    _move_delayed(draft, penman, noise)
    x, y, size = _drift(draft, layout, penman, noise)
    of_word = np.repeat(draft.word, draft.strokes.length)
    tilt = shake * WORD_TILT * noise.gaussian("word tilt", len(layout.words))
    dx, dy = noise.field("word field", of_word, x / WORD_LATTICE, y / WORD_LATTICE)
    x, y = x + dx * (shake * WORD_FIELD), y + dy * (shake * WORD_FIELD) + x * tilt[of_word]
    strokes = replace(draft.strokes, x=x, y=y, radius=draft.strokes.radius * size)
    strokes = round_corners(strokes, penman.shaper.writer.haste)
    begin, end, start = _place(strokes, of_word, layout, penman, noise)
    strokes.x[:] += start[of_word]
    first_letter = draft.letter[strokes.start] if len(strokes.length) else draft.letter
    return PenPath(strokes, draft.word, first_letter, begin, end)


def _move_delayed(draft: Draft, penman: Penman, noise: KeyedNoise) -> None:
    """Put bars, dots and accents where a hand puts them that comes back to a word."""
    strokes, habits, count = draft.strokes, penman.habits, len(draft.choices)
    begins = strokes.start
    z = {name: noise.gaussian(name, count) for name in ("bar length", "bar slope", "dot shift", "dot rise")}
    misses = unit(noise.hashes("bar misses", count)) < BAR_MISSES
    letters_of = np.bincount(draft.letter_word, minlength=len(draft.advance))
    # Marks after bars, for they keep away from them.
    for n in sorted(np.nonzero(draft.delayed)[0].tolist(), key=lambda n: int(draft.delayed[n])):
        at = slice(int(begins[n]), int(begins[n] + strokes.length[n]))
        letter = int(draft.letter[at.start])
        x, y = strokes.x[at], strokes.y[at]
        if draft.delayed[n] == MARK:
            long = 0.015 * max(int(letters_of[draft.word[n]]) - 4, 0)
            shift = habits.dot_shift + long + DOT_SPREAD * z["dot shift"][letter]
            y += DOT_RISE * penman.x_height * z["dot rise"][letter]
            x += _clear_shift(x, y, draft, letter, shift * penman.x_height, penman)
        elif draft.delayed[n] == BAR:
            _move_bar(x, y, draft, letter, habits, [float(v[letter]) for v in z.values()], bool(misses[letter]))


def _clear_shift(x: Floats, y: Floats, draft: Draft, letter: int, wanted: float, penman: Penman) -> float:
    """Return how far a mark goes to the right: as wanted, or less where it would meet other letters of its word."""
    farthest = FARTHEST_DOT * penman.x_height
    wanted = min(max(wanted, -farthest / 2), farthest)
    near = (draft.letter_word[draft.letter] == draft.letter_word[letter]) & (draft.letter != letter)
    near &= (draft.strokes.y > y.min() - 0.3) & (np.abs(draft.strokes.x - x.mean()) < 1)
    tries = np.array([wanted, *(farthest * np.arange(-4, 9) / 8)])
    apart_x = draft.strokes.x[near] - (x + tries[:, None])[:, :, None]
    apart_y = draft.strokes.y[near] - y[:, None]
    square = (apart_x * apart_x + apart_y * apart_y).min(axis=(1, 2), initial=9.0)
    clear = np.minimum(np.sqrt(square), 2 * penman.shaper.nib + GAP_TO_DOT)
    return float(tries[np.lexsort((np.abs(tries - wanted), -clear))[0]])


def _move_bar(x: Floats, y: Floats, draft: Draft, letter: int, habits: Habits, z: list[float], misses: bool) -> None:
    choice = draft.choices[letter]
    if choice.form.character == "x":
        return
    factor = habits.bar_length * float(exponential(np.array([BAR_SPREAD * z[0]]))[0])
    left, right = float(x.min()), float(x.max())
    if choice.bar == "left":
        left -= draft.choices[letter - 1].spacing
    elif choice.bar == "right" and y.mean() > 0.7:  # a lower bar would strike the next letter out
        right += 0.8 * choice.spacing
    wide = min((right - left) * factor, max(right - left, LONGEST_BAR))
    middle = (left + right) / 2
    begin, end = middle + wide * (0.3 * misses - 0.5), middle + wide * (0.3 * misses + 0.5)
    # Over a neighbour it would strike that out, or be its accent.
    of = draft.letter_word
    if letter and of[letter - 1] == of[letter]:
        begin = max(begin, min(left, choice.x))
    if letter + 1 < len(of) and of[letter + 1] == of[letter]:
        end = min(end, max(right, choice.x + choice.spacing))
    x[:] = begin + (x - x.min()) * ((end - begin) / max(float(np.ptp(x)), 1e-6))
    slope = min(max(habits.bar_slope + BAR_TURN * z[1], -0.05), 0.17)
    y[:] = y.mean() + 0.4 * (y - y.mean()) + slope * (x - middle)


def _drift(draft: Draft, layout: Layout, penman: Penman, noise: KeyedNoise) -> tuple[Floats, Floats, Floats]:
    """Change width, size, height and slant, which drift from letter to letter and from word to word.

    Between the middles of two letters the changes are blended, so that joins stay smooth.
    """
    count, words, of = len(draft.choices), len(draft.advance), draft.letter_word
    shake = penman.shaper.writer.shake
    spread = np.sqrt(shake)

    def drifting(name: str, of_words: float, of_letters: float) -> Floats:
        word = series(noise, f"natural word {name}", words, 0.76)[of]
        both: Floats = spread * (of_words * word + of_letters * series(noise, f"natural letter {name}", count, 0.6))
        return both

    large = np.ones(words)
    large[_signature(layout)] = SIGNATURE
    origin = np.array([choice.x for choice in draft.choices], np.float64)
    span = np.maximum(np.array([choice.spacing for choice in draft.choices], np.float64), 0.0)
    added = span * (exponential(drifting("width", WORD_WIDTH, LETTER_WIDTH)) * large[of] - 1)
    first = np.minimum(np.searchsorted(of, np.arange(words)), count - 1)
    last = np.maximum(np.searchsorted(of, np.arange(words), "right") - 1, first)
    until = np.cumsum(added)
    before = until - added
    # All words on one axis: what is added before the beginning of a letter, and at the end of a word.
    base = np.cumsum(draft.advance + _APART) - draft.advance
    knots = np.concatenate([origin + base[of], base + draft.advance])
    shift = np.concatenate([before - before[first][of], until[last] - before[first]])
    order = np.argsort(knots, kind="stable")
    stroke_word = np.repeat(draft.word, draft.strokes.length)
    position = draft.strokes.x + base[stroke_word]
    x = draft.strokes.x + np.interp(position, knots[order], shift[order])
    centre = origin + base[of] + span / 2
    order = np.argsort(centre, kind="stable")

    def along(values: Floats) -> Floats:
        blended: Floats = np.interp(position, centre[order], values[order])
        return blended

    size = along((1 + drifting("size", WORD_SIZE, LETTER_SIZE)) * large[of])
    dx, dy = _bend(draft, origin, span, penman, noise)
    y = draft.strokes.y * size + along(drifting("rise", WORD_RISE, LETTER_RISE)) + dy
    return x + dx + y * along(drifting("slant", WORD_SLANT, LETTER_SLANT)), y, size


def _bend(draft: Draft, origin: Floats, span: Floats, penman: Penman, noise: KeyedNoise) -> tuple[Floats, Floats]:
    """Return how every letter bends; letters that are joined keep their ends."""
    of = draft.letter
    x, y = draft.strokes.x - origin[of], draft.strokes.y
    dx, dy = elastic_displacement(of, x, y, noise)
    joins = np.array([choice.joins for choice in draft.choices], bool)
    keeps_ends = penman.joined | joins | np.append(joins[1:], False)
    edge = np.minimum(np.maximum(np.minimum(x, span[of] - x) / JOIN, 0.0), 1.0)
    window = np.where(keeps_ends[of], 1.5 * edge * edge * (3 - 2 * edge), 1.0) * (
        penman.shaper.writer.shake * LETTER_FIELD
    )
    return dx * window, dy * window


def _place(
    strokes: Strokes, of_word: Integers, layout: Layout, penman: Penman, noise: KeyedNoise
) -> tuple[Floats, Floats, Floats]:
    """Return where the ink of each word begins and ends on its line, and where its origin is.

    The gap between two words is the smallest distance of their ink at any height.
    """
    words, shaper = len(layout.words), penman.shaper
    left, right = np.full((words, BANDS), np.inf), np.full((words, BANDS), -np.inf)
    band = bands_of(strokes.y)
    np.minimum.at(left, (of_word, band), strokes.x)
    np.maximum.at(right, (of_word, band), strokes.x)
    left, right = widened(left, right)
    first, last = left.min(axis=1, initial=np.inf), right.max(axis=1, initial=-np.inf)
    first, last = np.where(np.isfinite(first), first, 0.0), np.where(np.isfinite(last), last, 0.0)
    between = left[1:] - right[:-1]
    apart = between.min(axis=1, initial=np.inf)
    apart = np.where(np.isfinite(apart), apart, first[1:] - last[:-1])
    # After a stop, which lies low, a T must not begin above it.
    stops = np.array([word.text[-1:] in WIDENED for word in layout.words[:-1]], bool)
    above = left[1:, bands_of(np.arange(0.05, 1.2, 0.1))].min(axis=1, initial=9.0) - last[:-1]
    apart = np.where(stops, np.minimum(apart, above), apart)
    # A gap looks as wide as the white at the height of the small letters, not as its narrowest place.
    beside = between[:, bands_of(np.arange(0.05, penman.x_height, 0.1))]
    looks_wider = np.minimum(beside - apart[:, None], CLOSENESS).mean(axis=1)
    advance = np.array([word.advance for word in layout.words], np.float64)
    nominal = layout.x[1:] - layout.x[:-1] - advance[:-1]
    floor, wide = GAP_FLOOR + 2 * shaper.nib, 2.5 * shaper.space
    usual = np.where(nominal > 1.6 * shaper.space, nominal, np.minimum(nominal, 1.3 * shaper.space))
    usual = np.maximum(penman.habits.gap * usual, floor + USUAL_ABOVE)
    change = exponential(GAP_SPREAD * series(noise, "natural gap", max(words - 1, 0), GAP_MEMORY))
    change = change * [WIDENED.get(word.text[-1:], 1.0) for word in layout.words[:-1]]
    gap = usual * np.minimum(np.maximum(change, NARROWEST), WIDEST)
    gap = np.maximum(gap - 0.5 * (looks_wider - USUALLY_WIDER), np.where(stops, usual, floor))
    x = layout.x.tolist()
    line = layout.line
    for n, (distance, wanted) in enumerate(zip(apart.tolist(), gap.tolist(), strict=True)):
        if line[n] == line[n + 1]:
            placed = x[n] - distance
            # Tabs and several spaces are columns; they stay where they are unless the word before reaches them.
            x[n + 1] = max(x[n + 1], placed + floor) if nominal[n] > wide else placed + wanted
    start = np.array(x, np.float64)
    return start + first, start + last, start


def _signature(layout: Layout) -> slice:
    """Return the words of a signature: a short last line of names after the comma of a closing, or an empty line."""
    if not len(layout.words) or layout.line[-1] < 2:
        return slice(0, 0)
    begin = int(layout.starts_line[-1])
    names = [word.text for word in layout.words[begin:] if word.text] or [""]
    closes = layout.text[int(layout.line[-1]) - 1].rstrip()[-1:] in (",", "")
    signs = (
        closes and len(names) <= 3 and all(name[:1].isupper() for name in (names[0], names[-1])) and names[-1].isalpha()
    )
    return slice(begin, None) if signs else slice(0, 0)
