"""Corrections by the writer: false starts that are crossed out, letters written twice, words squeezed into a line."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from toolkit.handwriting.ink.layout import STRUCK_MARK, Layout
from toolkit.handwriting.ink.motion import PenPath
from toolkit.handwriting.ink.ribbons import POINT_DISTANCE, Strokes
from toolkit.keyed_noise import KeyedNoise, unit

# Lengths in cap heights.
STRIKE_HEIGHT = 0.27  # of a strike-through above the baseline: the middle of small letters
STRIKE_OVERSHOOT = 0.12  # by which a strike-through is longer than the word, at both ends
SECOND_WRITING_SHIFT = 0.028  # between a letter and its second writing
SQUEEZE_DROOP = 0.10  # by which the end of a squeezed word is lower
_FALSE_START_SHARE = 0.45  # of all corrections
_TWO_LINES_SHARE = 0.45  # share of the false starts that are crossed out by two lines
_CORRECTABLE_WORD = re.compile(r"[^\W\d_]{4,}")

_Added: TypeAlias = tuple[Strokes, list[int], list[int]]  # strokes, number of the word and of the letter of each


def add_false_starts(text: str, rate: float, noise: KeyedNoise) -> str:
    """Insert a false start before some words: the beginning of the word, marked as crossed out."""
    if not rate:
        return text
    count = len(_CORRECTABLE_WORD.findall(text))
    draws = zip(*(unit(noise.hashes(name, count)).tolist() for name in ("false start", "false start cut")), strict=True)

    def with_false_start(word: re.Match[str]) -> str:
        chance, share = next(draws)
        starts_word = word.start() == 0 or text[word.start() - 1].isspace()
        is_chosen = starts_word and chance < rate * _FALSE_START_SHARE
        return f"{STRUCK_MARK}{_false_start(word[0], share)} {word[0]}" if is_chosen else word[0]

    return _CORRECTABLE_WORD.sub(with_false_start, text)


def _false_start(word: str, share: float) -> str:
    """Return the first two or three letters of a word, or more of them, of which the last two are swapped."""
    length = 2 + int(share * (len(word) - 2))
    return word[:length] if length < 4 else word[: length - 2] + word[length - 1] + word[length - 2]


def add_corrections(path: PenPath, layout: Layout, rate: float, noise: KeyedNoise) -> PenPath:
    """Narrow words to fit into their line; after the strokes of a word, cross it out or write a letter of it again."""
    if not rate or not len(path.word_of_stroke):
        return path
    _squeeze(path, layout)
    added = [*_strike_lines(path, layout, noise), *_second_writings(path, layout, rate, noise)]
    parts, words, letters = zip((path.strokes, path.word_of_stroke, path.letter_of_stroke), *added, strict=True)
    strokes, word, letter = Strokes.concatenate(parts), np.concatenate(words), np.concatenate(letters)
    order, points = (np.argsort(keys, kind="stable") for keys in (word, np.repeat(word, strokes.length)))
    x, y, radius = strokes.x[points], strokes.y[points], strokes.radius[points]
    in_order = Strokes(x, y, radius, strokes.length[order], strokes.flags[order])
    return path._replace(strokes=in_order, word_of_stroke=word[order], letter_of_stroke=letter[order])


def _squeeze(path: PenPath, layout: Layout) -> None:
    word_of_point = np.repeat(path.word_of_stroke, path.strokes.length)
    x, y = path.strokes.x, path.strokes.y
    for number, word in enumerate(layout.words):
        if word.squeeze < 1 and (inside := word_of_point == number).any():
            left = x[inside].min()
            along = (x[inside] - left) / max(float(np.ptp(x[inside])), 1e-9)
            x[inside] = left + (x[inside] - left) * word.squeeze
            y[inside] -= SQUEEZE_DROOP * along * along


def _strike_lines(path: PenPath, layout: Layout, noise: KeyedNoise) -> Iterator[_Added]:
    """Yield the lines that cross out false starts: one or two for each."""
    chance = unit(noise.hashes("strike", len(layout.words)))
    for number, word in enumerate(layout.words):
        of_word = path.word_of_stroke == number
        if not word.is_struck or not of_word.any():
            continue
        x = path.strokes.select(of_word).x
        left, right = float(x.min()) - STRIKE_OVERSHOOT, float(x.max()) + STRIKE_OVERSHOOT
        word_noise = KeyedNoise(str(noise.stream("strike")), str(number))
        lines = [_strike_line(left, right, word_noise, 0)]
        if chance[number] < _TWO_LINES_SHARE:
            lines.append(_strike_line(right, left, word_noise, 1))
        yield Strokes.concatenate(lines), [number] * len(lines), [int(path.letter_of_stroke[of_word][-1])] * len(lines)


def _strike_line(begin: float, end: float, noise: KeyedNoise, number: int) -> Strokes:
    share = np.linspace(0, 1, max(6, int(abs(end - begin) / POINT_DISTANCE)))
    tilt, height = noise.uniform(f"line {number}", 2).tolist()
    wave = 0.03 * noise.drift(f"wave {number}", share * abs(end - begin) / 0.8)
    y = STRIKE_HEIGHT + 0.09 * height + 0.12 * tilt * (share - 0.5) + wave
    x = begin + (end - begin) * share
    return Strokes(x, y, np.ones(len(x)), np.array([len(x)]), np.zeros(1, np.uint8))


def _second_writings(path: PenPath, layout: Layout, rate: float, noise: KeyedNoise) -> Iterator[_Added]:
    """Yield the second writing of some letters."""
    words = len(layout.words)
    chance, which = unit(noise.hashes("go over", words)), unit(noise.hashes("go over letter", words))
    shift = noise.uniform("go over shift", 2 * words)
    for number in np.nonzero(chance < rate * (1 - _FALSE_START_SHARE))[0].tolist():
        letters = np.unique(path.letter_of_stroke[path.word_of_stroke == number])
        if len(letters) and not layout.words[number].is_struck:
            letter = int(letters[int(which[number] * len(letters))])
            strokes = path.strokes.select((path.letter_of_stroke == letter) & (path.word_of_stroke == number))
            x, y = (
                v + SECOND_WRITING_SHIFT * (0.6 + 0.4 * abs(s)) * (1 if s > 0 else -1) + 0.05 * (v - v.mean())
                for v, s in zip((strokes.x, strokes.y), shift[2 * number : 2 * number + 2], strict=True)
            )
            count = len(strokes.length)
            yield replace(strokes, x=x, y=y), [number] * count, [letter] * count
