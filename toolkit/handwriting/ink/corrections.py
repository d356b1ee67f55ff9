"""Corrections by the writer: false starts that are crossed out, letters written twice, words squeezed into a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from toolkit.handwriting.ink.layout import STRUCK_MARK, Layout
from toolkit.handwriting.ink.motion import PenPath
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.keyed_noise import Floats, KeyedNoise, unit

# Lengths in cap heights.
POINT_DISTANCE = 1 / 30
STRIKE_HEIGHT = 0.27  # of a strike line above the baseline: the middle of small letters
STRIKE_OVERSHOOT = 0.12  # by which a strike line is longer than the word, at both ends
TOOTH, TOOTH_HEIGHT = 0.26, 0.20  # width and height of a tooth of a zigzag
SECOND_WRITING_SHIFT = 0.028  # between a letter and its second writing
SQUEEZE_DROOP = 0.10  # by which the end of a squeezed word is lower
_FALSE_START_SHARE = 0.45  # of all corrections
_CORRECTABLE_WORD = re.compile(r"[^\W\d_]{4,}")


def with_false_starts(text: str, rate: float, noise: KeyedNoise) -> str:
    """Insert a false start before some words: the first letters of the word, marked as crossed out."""
    if not rate:
        return text
    words = list(_CORRECTABLE_WORD.finditer(text))
    chance, cut = (unit(noise.hashes(name, len(words))).tolist() for name in ("false start", "false start cut"))
    parts, done = [], 0
    for word, drawn, share in zip(words, chance, cut, strict=True):
        is_whole = (word.start() == 0 or text[word.start() - 1].isspace()) and drawn < rate * _FALSE_START_SHARE
        if is_whole:
            parts += [text[done : word.start()], STRUCK_MARK, _false_start(word[0], share), " "]
            done = word.start()
    return "".join([*parts, text[done:]])


def _false_start(word: str, share: float) -> str:
    length = 2 + int(share * (len(word) - 2))
    return word[:length] if length < 4 else word[: length - 2] + word[length - 1] + word[length - 2]


def corrected(path: PenPath, layout: Layout, rate: float, noise: KeyedNoise) -> PenPath:
    """Add the corrections after each word: cross out false starts, write letters a second time, squeeze words."""
    if not rate or not len(path.word):
        return path
    _squeeze(path, layout)
    added = [*_strike_lines(path, layout, noise), *_overwritten(path, layout, rate, noise)]
    if not added:
        return path
    strokes = Strokes.concatenate([path.strokes, *(strokes for strokes, _, _ in added)])
    word, letter = (
        np.concatenate([old, *(np.full(len(one[0].length), one[column]) for one in added)])
        for old, column in ((path.word, 1), (path.letter, 2))
    )
    order = np.argsort(word, kind="stable")
    length = strokes.length[order]
    point = np.repeat(strokes.start[order] - (np.cumsum(length) - length), length) + np.arange(len(strokes.x))
    ordered = Strokes(strokes.x[point], strokes.y[point], strokes.radius[point], length, strokes.flags[order])
    return path._replace(strokes=ordered, word=word[order], letter=letter[order])


def _squeeze(path: PenPath, layout: Layout) -> None:
    of_point = np.repeat(path.word, path.strokes.length)
    x, y = path.strokes.x, path.strokes.y
    for number, word in enumerate(layout.words):
        if word.squeeze < 1 and (inside := of_point == number).any():
            left = x[inside].min()
            along = (x[inside] - left) / max(float(np.ptp(x[inside])), 1e-9)
            x[inside] = left + (x[inside] - left) * word.squeeze
            y[inside] -= SQUEEZE_DROOP * along * along


def _strike_lines(path: PenPath, layout: Layout, noise: KeyedNoise) -> Iterator[tuple[Strokes, int, int]]:
    """Yield for each false start the lines that cross it out, the number of the word and of its last letter."""
    style = unit(noise.hashes("strike", len(layout.words)))
    for number, word in enumerate(layout.words):
        strokes = np.nonzero(path.word == number)[0]
        if not word.is_struck or not len(strokes):
            continue
        x = path.strokes.x[np.isin(path.strokes.stroke_of_point, strokes)]
        left, right = float(x.min()) - STRIKE_OVERSHOOT, float(x.max()) + STRIKE_OVERSHOOT
        own = KeyedNoise(str(noise.stream("strike")), str(number))
        lines = [_zigzag(left, right, own)] if style[number] > 0.6 else [_strike_line(left, right, own, 0)]
        if style[number] < 0.25:
            lines.append(_strike_line(right, left, own, 1))
        yield Strokes.concatenate(lines), number, int(path.letter[strokes[-1]])


def _strike_line(begin: float, end: float, noise: KeyedNoise, number: int) -> Strokes:
    share = np.linspace(0, 1, max(6, int(abs(end - begin) / POINT_DISTANCE)))
    tilt, height = noise.uniform(f"line {number}", 2).tolist()
    wave = 0.03 * noise.drift(f"wave {number}", share * abs(end - begin) / 0.8)
    y = STRIKE_HEIGHT + 0.09 * height + 0.12 * tilt * (share - 0.5) + wave
    return _one_stroke(begin + (end - begin) * share, y)


def _zigzag(left: float, right: float, noise: KeyedNoise) -> Strokes:
    teeth = max(3, round((right - left) / TOOTH))
    uneven = noise.uniform("teeth", 2 * teeth + 1).reshape(-1)
    corner = np.arange(2 * teeth + 1)
    x = left + (right - left) * corner / (2 * teeth) + 0.3 * TOOTH * uneven
    y = STRIKE_HEIGHT + TOOTH_HEIGHT * np.where(corner % 2, 1.0, -1.0) * (1 + 0.35 * uneven[::-1])
    along = np.linspace(0, 2 * teeth, int(2 * teeth * (TOOTH_HEIGHT * 2 + TOOTH) / 2 / POINT_DISTANCE))
    x, y = np.interp(along, corner, x), np.interp(along, corner, y)
    for _ in range(4):
        x[1:-1], y[1:-1] = (0.5 * v[1:-1] + 0.25 * (v[:-2] + v[2:]) for v in (x, y))
    return _one_stroke(x, y)


def _one_stroke(x: Floats, y: Floats) -> Strokes:
    return Strokes(x, y, np.ones(len(x)), np.array([len(x)]), np.zeros(1, np.uint8))


def _overwritten(path: PenPath, layout: Layout, rate: float, noise: KeyedNoise) -> Iterator[tuple[Strokes, int, int]]:
    """Yield for some letters the strokes of the second writing, the number of the word and of the letter."""
    count = len(layout.words)
    chance, which = unit(noise.hashes("go over", count)), unit(noise.hashes("go over letter", count))
    shift = noise.uniform("go over shift", 2 * count)
    for number in np.nonzero(chance < rate * (1 - _FALSE_START_SHARE))[0].tolist():
        letters = np.unique(path.letter[path.word == number])
        if len(letters) and not layout.words[number].is_struck:
            letter = int(letters[int(which[number] * len(letters))])
            strokes = path.strokes.select((path.letter == letter) & (path.word == number))
            x, y = (
                v + SECOND_WRITING_SHIFT * (0.6 + 0.4 * abs(s)) * (1 if s > 0 else -1) + 0.05 * (v - v.mean())
                for v, s in zip((strokes.x, strokes.y), shift[2 * number : 2 * number + 2], strict=True)
            )
            yield replace(strokes, x=x, y=y), number, letter
