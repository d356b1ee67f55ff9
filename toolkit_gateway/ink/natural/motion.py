"""The motion of a natural page: size, slant and gaps drift; bars, dots and accents are placed inexactly, as by hand."""

from dataclasses import replace

import numpy as np

from toolkit_gateway.ink import motion
from toolkit_gateway.ink.layout import Layout
from toolkit_gateway.ink.motion import PenPath
from toolkit_gateway.ink.natural.joins import BAR, MARK
from toolkit_gateway.ink.natural.penman import Draft, Penman
from toolkit_gateway.ink.natural.writing import Writing, exponential
from toolkit_gateway.ink.random_streams import Floats, RandomStreams, unit

DOT_GAP = 0.07  # wanted between a dot and the ink of other letters
BAR_SPREAD, BAR_TURN = 0.25, 0.06  # standard deviations of length and slope of a bar
MISPLACED_BARS, MISPLACEMENT = 0.05, 0.3  # share of misplaced bars; they move right by this share of their length
MAX_BAR_LENGTH = 0.7  # cap heights; a bar may also be as long as in the font
MIN_OVERHANG = 0.1  # x-heights to the left of the stem of the first t, where a bar of two begins
MIN_BAR_LENGTH = 0.65  # x-heights; with a shorter bar, a t looks like an l
DOT_SPREAD, DOT_RISE, MAX_DOT_SHIFT = 0.10, 0.06, 0.4  # x-heights; a dot moves left by at most half of MAX_DOT_SHIFT
HASTY_PASSES = 4  # rounds of smoothing of letters that are written in haste
_WORD_DISTANCE = 8.0  # cap heights between words, while all words are on one axis


def natural_pen_path(layout: Layout, writing: Writing, noise: RandomStreams) -> PenPath:
    """Return the path of the pen for the words of a page."""
    penman = writing.penman
    words = slice(layout.first_word, layout.first_word + len(layout.words))
    letters = slice(writing.first[words.start], writing.first[words.stop])
    draft = Draft(writing.choices[letters], words.start)
    begin, end = layout.x + writing.left[words], layout.x + writing.right[words]
    if not draft.choices:
        return PenPath(draft.strokes, draft.word_of_stroke, draft.letter_of_point, begin, end)
    shake = penman.shaper.writer.shake
    _move_delayed(draft, penman, noise)
    x, y, size = _apply_drift(draft, writing, words, letters, noise)
    of_word = np.repeat(draft.word_of_stroke, draft.strokes.length)
    tilt = shake * motion.WORD_TILT * noise.gaussian("word tilt", len(layout.words))
    dx, dy = noise.field("word field", of_word, x / motion.WORD_LATTICE, y / motion.WORD_LATTICE)
    x, y = x + dx * (shake * motion.WORD_BEND), y + dy * (shake * motion.WORD_BEND) + x * tilt[of_word]
    strokes = replace(draft.strokes, x=x + layout.x[of_word], y=y, radius=draft.strokes.radius * size)
    strokes = motion.round_corners(strokes, penman.shaper.writer.smoothing_passes)
    strokes = motion.round_corners(strokes, HASTY_PASSES, writing.hasty[letters][draft.letter_of_point])
    return PenPath(strokes, draft.word_of_stroke, draft.letter_of_point[strokes.start], begin, end)


def _move_delayed(draft: Draft, penman: Penman, noise: RandomStreams) -> None:
    """Move bars, dots and accents a little from their place in the font, as the hand adds them after the word."""
    strokes, habits, count = draft.strokes, penman.habits, len(draft.choices)
    begins = strokes.start
    bar_changes = np.stack([
        habits.bar_length * exponential(BAR_SPREAD * noise.gaussian("bar length", count)),
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
            _move_bar(x, y, draft, letter, penman.x_height, *bar_changes[:, letter].tolist())


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


def _move_bar(
    x: Floats, y: Floats, draft: Draft, letter: int, x_height: float, factor: float, slope: float, shift: float
) -> None:
    """Multiply the length of a bar, give the bar a slope, and move it right by the share `shift` of its length."""
    choice, word = draft.choices[letter], draft.word_of_letter
    first_x, last_x, height = float(x.min()), float(x.max()), float(y.mean())
    left, right = first_x, last_x
    if choice.bar:  # of two letters: it may only become longer, or it would miss one of them
        factor, shift = max(factor, 1.0), 0.0
    if choice.bar == "left":
        first = draft.choices[letter - 1]
        parts = [(part[:, 0], kind) for part, kind in zip(first.form.parts, first.form.delayed, strict=True)]
        stem = float(np.median(np.concatenate([across for across, kind in parts if not kind])))
        begins = [float(across.min()) for across, kind in parts if kind == BAR]
        left = min(left, *(first.x + begin for begin in (*begins, stem - MIN_OVERHANG * x_height)))
    elif choice.bar == "right" and height > 0.7:  # a lower bar would cross out the next letter
        right += 0.8 * choice.spacing
    length = min((right - left) * factor, max(right - left, MAX_BAR_LENGTH))
    length = max(length, MIN_BAR_LENGTH * x_height)
    middle = (left + right) / 2
    begin, end = middle + length * (shift - 0.5), middle + length * (shift + 0.5)
    # A bar above the neighbouring letter would cross out that letter, or look like an accent on it.
    if letter and word[letter - 1] == word[letter]:
        begin = max(begin, min(left, choice.x))
    if letter + 1 < len(word) and word[letter + 1] == word[letter]:
        end = min(end, max(right, choice.x + choice.spacing))
    x[:] = begin + (x - first_x) * ((end - begin) / max(last_x - first_x, 1e-6))
    y[:] = height + 0.4 * (y - height) + slope * (x - middle)


def _apply_drift(
    draft: Draft, writing: Writing, words: slice, letters: slice, noise: RandomStreams
) -> tuple[Floats, Floats, Floats]:
    """Let width, size, height and slant drift over letters and words; return x, y and size of all points.

    Between the middles of two letters the changes are interpolated, so that joins stay smooth.
    """
    word, width = draft.word_of_letter, writing.width[words]
    origin, span = writing.origin[letters], writing.span[letters]
    # All words are put on one axis, to interpolate the total width that was added to a word before each letter.
    word_start = np.cumsum(width + _WORD_DISTANCE) - width
    knots = np.concatenate([origin + word_start[word], word_start + width])
    shift = np.concatenate([writing.shift[letters], writing.growth[words]])
    position = draft.strokes.x + word_start[np.repeat(draft.word_of_stroke, draft.strokes.length)]
    x = draft.strokes.x + _interpolated(position, knots, shift)
    middle = origin + word_start[word] + span / 2
    size, rise, slant = (
        _interpolated(position, middle, values[letters]) for values in (writing.size, writing.rise, writing.slant)
    )
    dx, dy = _bend(draft, origin, span, writing.penman, noise)
    y = draft.strokes.y * size + rise + dy
    return x + dx + y * slant, y, size


def _interpolated(position: Floats, knots: Floats, values: Floats) -> Floats:
    order = np.argsort(knots, kind="stable")
    at_position: Floats = np.interp(position, knots[order], values[order])
    return at_position


def _bend(draft: Draft, origin: Floats, span: Floats, penman: Penman, noise: RandomStreams) -> tuple[Floats, Floats]:
    """Return the displacement that bends every letter; the ends of joined letters stay in place."""
    letter = draft.letter_of_point
    x, y = draft.strokes.x - origin[letter], draft.strokes.y
    dx, dy = noise.field("letter field", letter, x / motion.LETTER_LATTICE, y / motion.LETTER_LATTICE)
    joins = np.array([choice.joins for choice in draft.choices], bool)
    keeps_ends = penman.joined | joins | np.append(joins[1:], False)
    edge = np.minimum(np.maximum(np.minimum(x, span[letter] - x) / motion.JOIN_LENGTH, 0.0), 1.0)
    bend = penman.shaper.writer.shake * motion.LETTER_BEND
    amplitude = np.where(keeps_ends[letter], 1.5 * edge * edge * (3 - 2 * edge), 1.0) * bend
    return dx * amplitude, dy * amplitude
