"""The motion of a natural page: size, slant and gaps drift; bars, dots and accents are placed inexactly, as by hand."""

from dataclasses import replace
from functools import partial

import numpy as np

from toolkit_gateway.ink import motion
from toolkit_gateway.ink.layout import Layout
from toolkit_gateway.ink.motion import PenPath
from toolkit_gateway.ink.natural.letters import BAND_COUNT, MARK, bands_of, widen_bands
from toolkit_gateway.ink.natural.penman import Draft, Penman
from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams, unit
from toolkit_gateway.ink.ribbons import Strokes

# Standard deviations, in cap heights or as shares, of the drift from word to word and from letter to letter.
WORD_WIDTH, WORD_SIZE, WORD_RISE, WORD_SLANT = 0.06, 0.06, 0.03, 0.03
LETTER_WIDTH, LETTER_SIZE, LETTER_RISE, LETTER_SLANT = 0.06, 0.03, 0.016, 0.03
DOT_GAP = 0.07  # wanted between a dot and the ink of other letters
MIN_WORD_GAP, USUAL_EXTRA_GAP = 0.28, 0.32  # between words: smallest gap; a usual gap has at least so much more
GAP_SPREAD, GAP_MEMORY = 0.32, 0.8  # gaps between words: standard deviation of their logarithm, autocorrelation
MIN_GAP_FACTOR, MAX_GAP_FACTOR = 0.75, 1.9  # on the usual gap between words
GAP_FACTOR_AFTER = {",": 1.1, ";": 1.15, ":": 1.15, ".": 1.25, "!": 1.25, "?": 1.25}
# By how much a gap is wider at other heights than at its narrowest point: largest value that counts, usual mean.
MAX_EXTRA_WHITE, USUAL_EXTRA_WHITE = 0.3, 0.15
BAR_SPREAD, BAR_TURN = 0.25, 0.06  # standard deviations of length and slope of a bar
MISPLACED_BARS, MISPLACEMENT = 0.05, 0.3  # share of misplaced bars; they move right by this share of their length
MAX_BAR_LENGTH = 0.7  # cap heights; a bar may also be as long as in the font
DOT_SPREAD, DOT_RISE, MAX_DOT_SHIFT = 0.10, 0.06, 0.4  # x-heights; a dot moves left by at most half of MAX_DOT_SHIFT
SIGNATURE_SIZE = 1.18  # factor on the size of a signature below a letter
_WORD_DISTANCE = 8.0  # cap heights between words, while all words are on one axis


def natural_pen_path(layout: Layout, penman: Penman, noise: RandomStreams) -> PenPath:
    draft = penman.draft(layout.words, noise)
    if not draft.choices:
        return PenPath(draft.strokes, draft.word_of_stroke, draft.letter_of_point, layout.x, layout.x)
    shake = penman.shaper.writer.shake
    _move_delayed(draft, penman, noise)
    x, y, size = _apply_drift(draft, layout, penman, noise)
    of_word = np.repeat(draft.word_of_stroke, draft.strokes.length)
    tilt = shake * motion.WORD_TILT * noise.gaussian("word tilt", len(layout.words))
    dx, dy = noise.field("word field", of_word, x / motion.WORD_LATTICE, y / motion.WORD_LATTICE)
    x, y = x + dx * (shake * motion.WORD_BEND), y + dy * (shake * motion.WORD_BEND) + x * tilt[of_word]
    strokes = replace(draft.strokes, x=x, y=y, radius=draft.strokes.radius * size)
    strokes = motion.round_corners(strokes, penman.shaper.writer.smoothing_passes)
    begin, end, start = _place_words(strokes, of_word, layout, penman, noise)
    strokes.x[:] += start[of_word]
    return PenPath(strokes, draft.word_of_stroke, draft.letter_of_point[strokes.start], begin, end)


def _move_delayed(draft: Draft, penman: Penman, noise: RandomStreams) -> None:
    """Move bars, dots and accents a little from their place in the font, as the hand adds them after the word."""
    strokes, habits, count = draft.strokes, penman.habits, len(draft.choices)
    begins = strokes.start
    bar_changes = np.stack([
        habits.bar_length * _exponential(BAR_SPREAD * noise.gaussian("bar length", count)),
        np.clip(habits.bar_slope + BAR_TURN * noise.gaussian("bar slope", count), -0.05, 0.17),
        MISPLACEMENT * (unit(noise.hashes("bar misses", count)) < MISPLACED_BARS),
    ])  # fmt: skip
    long_word_shift = 0.015 * np.maximum(np.bincount(draft.word_of_letter)[draft.word_of_letter] - 4, 0)
    dot_shift = (habits.dot_shift + long_word_shift + DOT_SPREAD * noise.gaussian("dot shift", count)) * penman.x_height
    dot_rise = DOT_RISE * penman.x_height * noise.gaussian("dot rise", count)
    # Bars come first, because dots and accents keep a distance from bars.
    for n in sorted(np.nonzero(draft.delayed)[0].tolist(), key=lambda n: int(draft.delayed[n])):
        points = slice(int(begins[n]), int(begins[n] + strokes.length[n]))
        letter = int(draft.letter_of_point[points.start])
        x, y = strokes.x[points], strokes.y[points]
        if draft.delayed[n] == MARK:
            y += dot_rise[letter]
            x += _clear_shift(x, y, draft, letter, float(dot_shift[letter]), penman)
        elif draft.choices[letter].form.character != "x":
            _move_bar(x, y, draft, letter, *bar_changes[:, letter].tolist())


def _clear_shift(x: Floats, y: Floats, draft: Draft, letter: int, wanted: float, penman: Penman) -> float:
    """Return how far a dot or accent moves right: as `wanted`, unless that is too near to other letters of the word."""
    farthest = MAX_DOT_SHIFT * penman.x_height
    wanted = min(max(wanted, -farthest / 2), farthest)
    near = draft.points_near(letter)
    near = near[(draft.strokes.y[near] > y.min() - 0.3) & (np.abs(draft.strokes.x[near] - x.mean()) < 1)]
    shifts = np.array([wanted, *(farthest * np.arange(-4, 9) / 8)])
    apart_x = draft.strokes.x[near] - (x + shifts[:, None])[:, :, None]
    apart_y = draft.strokes.y[near] - y[:, None]
    square = (apart_x * apart_x + apart_y * apart_y).min(axis=(1, 2), initial=9.0)
    clear = np.minimum(np.sqrt(square), 2 * penman.shaper.nib + DOT_GAP)
    return float(shifts[np.lexsort((np.abs(shifts - wanted), -clear))[0]])


def _move_bar(x: Floats, y: Floats, draft: Draft, letter: int, factor: float, slope: float, shift: float) -> None:
    """Multiply the length of a bar, give the bar a slope, and move it right by the share `shift` of its length."""
    choice, word = draft.choices[letter], draft.word_of_letter
    left, right = float(x.min()), float(x.max())
    if choice.bar == "left":
        left -= draft.choices[letter - 1].spacing
    elif choice.bar == "right" and y.mean() > 0.7:  # a lower bar would cross out the next letter
        right += 0.8 * choice.spacing
    length = min((right - left) * factor, max(right - left, MAX_BAR_LENGTH))
    middle = (left + right) / 2
    begin, end = middle + length * (shift - 0.5), middle + length * (shift + 0.5)
    # A bar above the neighbouring letter would cross out that letter, or look like an accent on it.
    if letter and word[letter - 1] == word[letter]:
        begin = max(begin, min(left, choice.x))
    if letter + 1 < len(word) and word[letter + 1] == word[letter]:
        end = min(end, max(right, choice.x + choice.spacing))
    x[:] = begin + (x - x.min()) * ((end - begin) / max(float(np.ptp(x)), 1e-6))
    y[:] = y.mean() + 0.4 * (y - y.mean()) + slope * (x - middle)


def _apply_drift(draft: Draft, layout: Layout, penman: Penman, noise: RandomStreams) -> tuple[Floats, Floats, Floats]:
    """Let width, size, height and slant drift over letters and words; return x, y and size of all points.

    Between the middles of two letters the changes are interpolated, so that joins stay smooth.
    """
    count, words, word_of_letter = len(draft.choices), len(draft.word_width), draft.word_of_letter
    shake = penman.shaper.writer.shake
    spread = np.sqrt(shake)

    def drifting(name: str, word_spread: float, letter_spread: float) -> Floats:
        word = noise.series(f"natural word {name}", words, 0.76)[word_of_letter]
        letter = noise.series(f"natural letter {name}", count, 0.6)
        both: Floats = spread * (word_spread * word + letter_spread * letter)
        return both

    large = np.ones(words)
    large[_signature_words(layout)] = SIGNATURE_SIZE
    origin = np.array([choice.x for choice in draft.choices], np.float64)
    span = np.maximum(np.array([choice.spacing for choice in draft.choices], np.float64), 0.0)
    added = span * (_exponential(drifting("width", WORD_WIDTH, LETTER_WIDTH)) * large[word_of_letter] - 1)
    first = np.minimum(np.searchsorted(word_of_letter, np.arange(words)), count - 1)
    last = np.maximum(np.searchsorted(word_of_letter, np.arange(words), "right") - 1, first)
    until = np.cumsum(added)
    before = until - added
    # All words are put on one axis, to interpolate the total width that was added to a word before each letter.
    word_start = np.cumsum(draft.word_width + _WORD_DISTANCE) - draft.word_width
    knots = np.concatenate([origin + word_start[word_of_letter], word_start + draft.word_width])
    shift = np.concatenate([before - before[first][word_of_letter], until[last] - before[first]])
    word_of_point = np.repeat(draft.word_of_stroke, draft.strokes.length)
    position = draft.strokes.x + word_start[word_of_point]
    x = draft.strokes.x + _interpolated(position, knots, shift)
    along = partial(_interpolated, position, origin + word_start[word_of_letter] + span / 2)
    size = along((1 + drifting("size", WORD_SIZE, LETTER_SIZE)) * large[word_of_letter])
    dx, dy = _bend(draft, origin, span, penman, noise)
    y = draft.strokes.y * size + along(drifting("rise", WORD_RISE, LETTER_RISE)) + dy
    return x + dx + y * along(drifting("slant", WORD_SLANT, LETTER_SLANT)), y, size


def _interpolated(position: Floats, knots: Floats, values: Floats) -> Floats:
    order = np.argsort(knots, kind="stable")
    at_position: Floats = np.interp(position, knots[order], values[order])
    return at_position


def _bend(draft: Draft, origin: Floats, span: Floats, penman: Penman, noise: RandomStreams) -> tuple[Floats, Floats]:
    """Return the displacement that bends every letter; the ends of joined letters stay in place."""
    letter = draft.letter_of_point
    x, y = draft.strokes.x - origin[letter], draft.strokes.y
    dx, dy = motion.elastic_displacement(letter, x, y, noise)
    joins = np.array([choice.joins for choice in draft.choices], bool)
    keeps_ends = penman.joined | joins | np.append(joins[1:], False)
    edge = np.minimum(np.maximum(np.minimum(x, span[letter] - x) / motion.JOIN_LENGTH, 0.0), 1.0)
    bend = penman.shaper.writer.shake * motion.LETTER_BEND
    amplitude = np.where(keeps_ends[letter], 1.5 * edge * edge * (3 - 2 * edge), 1.0) * bend
    return dx * amplitude, dy * amplitude


def _place_words(
    strokes: Strokes, of_word: Integers, layout: Layout, penman: Penman, noise: RandomStreams
) -> tuple[Floats, Floats, Floats]:
    """Return for each word the x at which the ink begins, the x at which it ends, and the x of the origin.

    The gap between two words is the smallest horizontal distance between their ink at any height.
    """
    words, shaper = len(layout.words), penman.shaper
    left, right = np.full((words, BAND_COUNT), np.inf), np.full((words, BAND_COUNT), -np.inf)
    band = bands_of(strokes.y)
    np.minimum.at(left, (of_word, band), strokes.x)
    np.maximum.at(right, (of_word, band), strokes.x)
    left, right = widen_bands(left, right)
    first, last = np.nan_to_num(left.min(axis=1), posinf=0.0), np.nan_to_num(right.max(axis=1), neginf=0.0)
    between = left[1:] - right[:-1]
    narrowest = between.min(axis=1, initial=np.inf)
    narrowest = np.where(np.isfinite(narrowest), narrowest, first[1:] - last[:-1])
    # A comma or stop is low: the next word must not begin above it, as the bar of a T would.
    stops = np.array([word.text[-1:] in GAP_FACTOR_AFTER for word in layout.words[:-1]], bool)
    above = left[1:, bands_of(np.arange(0.05, 1.2, 0.1))].min(axis=1, initial=9.0) - last[:-1]
    narrowest = np.where(stops, np.minimum(narrowest, above), narrowest)
    # A gap looks as wide as the white at the height of small letters, not as its narrowest point.
    beside = between[:, bands_of(np.arange(0.05, penman.x_height, 0.1))]
    extra_white = np.minimum(beside - narrowest[:, None], MAX_EXTRA_WHITE).mean(axis=1)
    advance = np.array([word.width for word in layout.words], np.float64)
    nominal = layout.x[1:] - layout.x[:-1] - advance[:-1]
    min_gap, column_gap = MIN_WORD_GAP + 2 * shaper.nib, 2.5 * shaper.space
    usual = np.where(nominal > 1.6 * shaper.space, nominal, np.minimum(nominal, 1.3 * shaper.space))
    usual = np.maximum(penman.habits.gap * usual, min_gap + USUAL_EXTRA_GAP)
    change = _exponential(GAP_SPREAD * noise.series("natural gap", max(words - 1, 0), GAP_MEMORY))
    change = change * [GAP_FACTOR_AFTER.get(word.text[-1:], 1.0) for word in layout.words[:-1]]
    gap = usual * np.minimum(np.maximum(change, MIN_GAP_FACTOR), MAX_GAP_FACTOR)
    gap = np.maximum(gap - 0.5 * (extra_white - USUAL_EXTRA_WHITE), np.where(stops, usual, min_gap))
    x = layout.x.tolist()
    line = layout.line
    for n, (distance, wanted) in enumerate(zip(narrowest.tolist(), gap.tolist(), strict=True)):
        if line[n] == line[n + 1]:
            placed = x[n] - distance
            # Tabs and several spaces make columns: the next word keeps its position unless the word before is too long.
            x[n + 1] = max(x[n + 1], placed + min_gap) if nominal[n] > column_gap else placed + wanted
    start = np.array(x, np.float64)
    return start + first, start + last, start


def _exponential(z: Floats) -> Floats:
    """Approximate e to the power of z, for z above -32, by multiplications: the result is equal on every machine."""
    result = 1 + z / 64
    for _ in range(6):  # squared six times: to the power of 64
        result = result * result
    return result


def _signature_words(layout: Layout) -> slice:
    """Return the slice of a signature: up to three names as last line, after a line that is empty or ends with ","."""
    if not len(layout.words) or layout.line[-1] < 2:
        return slice(0, 0)
    begin = int(np.searchsorted(layout.line, layout.line[-1]))
    names = [word.text for word in layout.words[begin:]]
    closes = layout.line_texts[int(layout.line[-1]) - 1].rstrip()[-1:] in (",", "")
    are_names = len(names) <= 3 and all(name[:1].isupper() for name in (names[0], names[-1])) and names[-1].isalpha()
    return slice(begin, None) if closes and are_names else slice(0, 0)
