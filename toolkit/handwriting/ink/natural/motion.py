"""The motion of a natural page: size, slant and gaps drift over letters and words; delayed strokes are misplaced."""

from dataclasses import replace
from functools import partial

import numpy as np

from toolkit.handwriting.ink import motion
from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.motion import PenPath
from toolkit.handwriting.ink.natural.letters import BAND_COUNT, MARK, bands_of, widen_bands
from toolkit.handwriting.ink.natural.penman import Draft, Penman
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.keyed_noise import Floats, Integers, KeyedNoise, unit

# Standard deviations, in cap heights or as shares, of the drift from word to word and from letter to letter.
WORD_WIDTH, WORD_SIZE, WORD_RISE, WORD_SLANT = 0.06, 0.06, 0.03, 0.03
LETTER_WIDTH, LETTER_SIZE, LETTER_RISE, LETTER_SLANT = 0.06, 0.03, 0.016, 0.03
GAP_TO_DOT, GAP_FLOOR, USUAL_ABOVE = 0.07, 0.28, 0.32  # a usual gap between words exceeds GAP_FLOOR by USUAL_ABOVE
GAP_SPREAD, GAP_MEMORY, NARROWEST, WIDEST = 0.32, 0.8, 0.75, 1.9  # of gaps between words; factors on a usual gap
GAP_FACTOR_AFTER = {",": 1.1, ";": 1.15, ":": 1.15, ".": 1.25, "!": 1.25, "?": 1.25}
CLOSENESS, USUALLY_WIDER = 0.3, 0.15  # white beside a gap's narrowest point: largest amount that counts, usual amount
BAR_SPREAD, BAR_TURN = 0.25, 0.06  # deviations of length and slope
BAR_MISSES, MISSED_BAR = 0.05, 0.3  # share of misplaced bars, and the share of the length by which they are moved
MAX_BAR_LENGTH = 0.7  # cap heights, or the length in the font if that is larger
DOT_SPREAD, DOT_RISE, FARTHEST_DOT = 0.10, 0.06, 0.4  # x-heights; the last to the right, to the left half of it
SIGNATURE_SIZE = 1.18  # factor on the size of a signature below a letter
_WORD_DISTANCE = 8.0  # cap heights between words, while all words are on one axis


def natural_pen_path(layout: Layout, penman: Penman, noise: KeyedNoise) -> PenPath:
    draft = penman.draft(layout.words, noise)
    if not draft.choices:
        return PenPath(draft.strokes, draft.stroke_word, draft.point_letter, layout.x, layout.x)
    shake = penman.shaper.writer.shake
    _move_delayed(draft, penman, noise)
    x, y, size = _apply_drift(draft, layout, penman, noise)
    of_word = np.repeat(draft.stroke_word, draft.strokes.length)
    tilt = shake * motion.WORD_TILT * noise.gaussian("word tilt", len(layout.words))
    dx, dy = noise.field("word field", of_word, x / motion.WORD_LATTICE, y / motion.WORD_LATTICE)
    x, y = x + dx * (shake * motion.WORD_FIELD), y + dy * (shake * motion.WORD_FIELD) + x * tilt[of_word]
    strokes = replace(draft.strokes, x=x, y=y, radius=draft.strokes.radius * size)
    strokes = motion.round_corners(strokes, penman.shaper.writer.haste)
    begin, end, start = _place_words(strokes, of_word, layout, penman, noise)
    strokes.x[:] += start[of_word]
    return PenPath(strokes, draft.stroke_word, draft.point_letter[strokes.start], begin, end)


def _move_delayed(draft: Draft, penman: Penman, noise: KeyedNoise) -> None:
    """Move bars, dots and accents a little away from the letter, as if the hand added them after the word."""
    strokes, habits, count = draft.strokes, penman.habits, len(draft.choices)
    begins = strokes.start
    bar = np.stack([
        habits.bar_length * _exponential(BAR_SPREAD * noise.gaussian("bar length", count)),
        np.clip(habits.bar_slope + BAR_TURN * noise.gaussian("bar slope", count), -0.05, 0.17),
        MISSED_BAR * (unit(noise.hashes("bar misses", count)) < BAR_MISSES),
    ])  # fmt: skip
    long = 0.015 * np.maximum(np.bincount(draft.letter_word)[draft.letter_word] - 4, 0)
    dot_shift = (habits.dot_shift + long + DOT_SPREAD * noise.gaussian("dot shift", count)) * penman.x_height
    dot_rise = DOT_RISE * penman.x_height * noise.gaussian("dot rise", count)
    # Bars come first, because dots and accents keep a distance from bars.
    for n in sorted(np.nonzero(draft.delayed)[0].tolist(), key=lambda n: int(draft.delayed[n])):
        at = slice(int(begins[n]), int(begins[n] + strokes.length[n]))
        letter = int(draft.point_letter[at.start])
        x, y = strokes.x[at], strokes.y[at]
        if draft.delayed[n] == MARK:
            y += dot_rise[letter]
            x += _clear_shift(x, y, draft, letter, float(dot_shift[letter]), penman)
        elif draft.choices[letter].form.character != "x":
            _move_bar(x, y, draft, letter, *bar[:, letter].tolist())


def _clear_shift(x: Floats, y: Floats, draft: Draft, letter: int, wanted: float, penman: Penman) -> float:
    """Return how far a dot or accent moves right: as `wanted`, unless it would meet other letters of the word."""
    farthest = FARTHEST_DOT * penman.x_height
    wanted = min(max(wanted, -farthest / 2), farthest)
    near = draft.points_near(letter)
    near = near[(draft.strokes.y[near] > y.min() - 0.3) & (np.abs(draft.strokes.x[near] - x.mean()) < 1)]
    tries = np.array([wanted, *(farthest * np.arange(-4, 9) / 8)])
    apart_x = draft.strokes.x[near] - (x + tries[:, None])[:, :, None]
    apart_y = draft.strokes.y[near] - y[:, None]
    square = (apart_x * apart_x + apart_y * apart_y).min(axis=(1, 2), initial=9.0)
    clear = np.minimum(np.sqrt(square), 2 * penman.shaper.nib + GAP_TO_DOT)
    return float(tries[np.lexsort((np.abs(tries - wanted), -clear))[0]])


def _move_bar(x: Floats, y: Floats, draft: Draft, letter: int, factor: float, slope: float, aside: float) -> None:
    """Change length and slope of a bar, and move it by a share of the length."""
    choice, of = draft.choices[letter], draft.letter_word
    left, right = float(x.min()), float(x.max())
    if choice.bar == "left":
        left -= draft.choices[letter - 1].spacing
    elif choice.bar == "right" and y.mean() > 0.7:  # a lower bar would cross out the next letter
        right += 0.8 * choice.spacing
    wide = min((right - left) * factor, max(right - left, MAX_BAR_LENGTH))
    middle = (left + right) / 2
    begin, end = middle + wide * (aside - 0.5), middle + wide * (aside + 0.5)
    # A bar above the neighbouring letter would cross out that letter, or look like an accent on it.
    if letter and of[letter - 1] == of[letter]:
        begin = max(begin, min(left, choice.x))
    if letter + 1 < len(of) and of[letter + 1] == of[letter]:
        end = min(end, max(right, choice.x + choice.spacing))
    x[:] = begin + (x - x.min()) * ((end - begin) / max(float(np.ptp(x)), 1e-6))
    y[:] = y.mean() + 0.4 * (y - y.mean()) + slope * (x - middle)


def _apply_drift(draft: Draft, layout: Layout, penman: Penman, noise: KeyedNoise) -> tuple[Floats, Floats, Floats]:
    """Change width, size, height and slant of letters; the changes drift from letter to letter and from word to word.

    Between the middles of two letters the changes are interpolated, so that joins stay smooth.
    """
    count, words, of = len(draft.choices), len(draft.word_width), draft.letter_word
    shake = penman.shaper.writer.shake
    spread = np.sqrt(shake)

    def drifting(name: str, of_words: float, of_letters: float) -> Floats:
        word = noise.series(f"natural word {name}", words, 0.76)[of]
        letter = noise.series(f"natural letter {name}", count, 0.6)
        both: Floats = spread * (of_words * word + of_letters * letter)
        return both

    large = np.ones(words)
    large[_signature_words(layout)] = SIGNATURE_SIZE
    origin = np.array([choice.x for choice in draft.choices], np.float64)
    span = np.maximum(np.array([choice.spacing for choice in draft.choices], np.float64), 0.0)
    added = span * (_exponential(drifting("width", WORD_WIDTH, LETTER_WIDTH)) * large[of] - 1)
    first = np.minimum(np.searchsorted(of, np.arange(words)), count - 1)
    last = np.maximum(np.searchsorted(of, np.arange(words), "right") - 1, first)
    until = np.cumsum(added)
    before = until - added
    # All words are put on one axis, to interpolate the width added before each letter and at the end of each word.
    base = np.cumsum(draft.word_width + _WORD_DISTANCE) - draft.word_width
    knots = np.concatenate([origin + base[of], base + draft.word_width])
    shift = np.concatenate([before - before[first][of], until[last] - before[first]])
    stroke_word = np.repeat(draft.stroke_word, draft.strokes.length)
    position = draft.strokes.x + base[stroke_word]
    x = draft.strokes.x + _interpolated(position, knots, shift)
    along = partial(_interpolated, position, origin + base[of] + span / 2)
    size = along((1 + drifting("size", WORD_SIZE, LETTER_SIZE)) * large[of])
    dx, dy = _bend(draft, origin, span, penman, noise)
    y = draft.strokes.y * size + along(drifting("rise", WORD_RISE, LETTER_RISE)) + dy
    return x + dx + y * along(drifting("slant", WORD_SLANT, LETTER_SLANT)), y, size


def _interpolated(position: Floats, knots: Floats, values: Floats) -> Floats:
    order = np.argsort(knots, kind="stable")
    at_position: Floats = np.interp(position, knots[order], values[order])
    return at_position


def _bend(draft: Draft, origin: Floats, span: Floats, penman: Penman, noise: KeyedNoise) -> tuple[Floats, Floats]:
    """Return the displacement that bends every letter; the ends of joined letters stay in place."""
    of = draft.point_letter
    x, y = draft.strokes.x - origin[of], draft.strokes.y
    dx, dy = motion.elastic_displacement(of, x, y, noise)
    joins = np.array([choice.joins for choice in draft.choices], bool)
    keeps_ends = penman.joined | joins | np.append(joins[1:], False)
    edge = np.minimum(np.maximum(np.minimum(x, span[of] - x) / motion.JOIN_LENGTH, 0.0), 1.0)
    window = np.where(keeps_ends[of], 1.5 * edge * edge * (3 - 2 * edge), 1.0) * (
        penman.shaper.writer.shake * motion.LETTER_FIELD
    )
    return dx * window, dy * window


def _place_words(
    strokes: Strokes, of_word: Integers, layout: Layout, penman: Penman, noise: KeyedNoise
) -> tuple[Floats, Floats, Floats]:
    """Return for each word the x at which the ink begins, the x at which it ends, and the x of the origin.

    The gap between two words is the smallest distance of their ink at any height.
    """
    words, shaper = len(layout.words), penman.shaper
    left, right = np.full((words, BAND_COUNT), np.inf), np.full((words, BAND_COUNT), -np.inf)
    band = bands_of(strokes.y)
    np.minimum.at(left, (of_word, band), strokes.x)
    np.maximum.at(right, (of_word, band), strokes.x)
    left, right = widen_bands(left, right)
    first, last = np.nan_to_num(left.min(axis=1), posinf=0.0), np.nan_to_num(right.max(axis=1), neginf=0.0)
    between = left[1:] - right[:-1]
    apart = between.min(axis=1, initial=np.inf)
    apart = np.where(np.isfinite(apart), apart, first[1:] - last[:-1])
    # A stop is low: the next word, such as one with a T, must not begin above the stop.
    stops = np.array([word.text[-1:] in GAP_FACTOR_AFTER for word in layout.words[:-1]], bool)
    above = left[1:, bands_of(np.arange(0.05, 1.2, 0.1))].min(axis=1, initial=9.0) - last[:-1]
    apart = np.where(stops, np.minimum(apart, above), apart)
    # A gap looks as wide as the white at the height of small letters, not as the narrowest point.
    beside = between[:, bands_of(np.arange(0.05, penman.x_height, 0.1))]
    looks_wider = np.minimum(beside - apart[:, None], CLOSENESS).mean(axis=1)
    advance = np.array([word.width for word in layout.words], np.float64)
    nominal = layout.x[1:] - layout.x[:-1] - advance[:-1]
    floor, wide = GAP_FLOOR + 2 * shaper.nib, 2.5 * shaper.space
    usual = np.where(nominal > 1.6 * shaper.space, nominal, np.minimum(nominal, 1.3 * shaper.space))
    usual = np.maximum(penman.habits.gap * usual, floor + USUAL_ABOVE)
    change = _exponential(GAP_SPREAD * noise.series("natural gap", max(words - 1, 0), GAP_MEMORY))
    change = change * [GAP_FACTOR_AFTER.get(word.text[-1:], 1.0) for word in layout.words[:-1]]
    gap = usual * np.minimum(np.maximum(change, NARROWEST), WIDEST)
    gap = np.maximum(gap - 0.5 * (looks_wider - USUALLY_WIDER), np.where(stops, usual, floor))
    x = layout.x.tolist()
    line = layout.line
    for n, (distance, wanted) in enumerate(zip(apart.tolist(), gap.tolist(), strict=True)):
        if line[n] == line[n + 1]:
            placed = x[n] - distance
            # Tabs and several spaces make columns: the next word keeps its position unless the word before is too long.
            x[n + 1] = max(x[n + 1], placed + floor) if nominal[n] > wide else placed + wanted
    start = np.array(x, np.float64)
    return start + first, start + last, start


def _exponential(z: Floats) -> Floats:
    """Approximate e to the power of z, for z above -32, by multiplications: the result is equal on every machine."""
    power = 1 + z / 64
    for _ in range(6):
        power = power * power
    return power


def _signature_words(layout: Layout) -> slice:
    """Return the words of a signature: a short last line of names, after a closing with a comma or an empty line."""
    if not len(layout.words) or layout.line[-1] < 2:
        return slice(0, 0)
    begin = int(layout.starts_line[-1])
    names = [word.text for word in layout.words[begin:] if word.text] or [""]
    closes = layout.line_texts[int(layout.line[-1]) - 1].rstrip()[-1:] in (",", "")
    signs = (
        closes and len(names) <= 3 and all(name[:1].isupper() for name in (names[0], names[-1])) and names[-1].isalpha()
    )
    return slice(begin, None) if signs else slice(0, 0)
