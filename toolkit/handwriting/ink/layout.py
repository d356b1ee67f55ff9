"""Break a text into lines and place the words, by their nominal widths; the motion of the hand comes later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toolkit.handwriting.ink.shaping import ShapedWord, Shaper
from toolkit.keyed_noise import Floats, Integers, KeyedNoise, unit

TAB_SPACES = 4  # a tab stop every four spaces
STRUCK_MARK = "\u2060\u200b\u2060"  # marks the next word as crossed out; invisible characters that nobody types
MIN_SQUEEZE = 0.62  # smallest factor on the width of a word that is squeezed into a line
SQUEEZE_RATE = 6.0  # words at line ends are squeezed this many times as often as words are corrected
_TOKEN_PATTERN = re.compile(r"[ \t]+|[^ \t]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """Words in reading order; lengths in cap heights."""

    words: list[ShapedWord]
    line: Integers  # (words,) line of each word
    x: Floats  # (words,) start of each word, from the left end of the line
    lines: int  # number of lines, with empty lines
    text: list[str]  # (lines,) as written, with spaces

    @property
    def starts_line(self) -> Integers:
        return np.nonzero(np.diff(self.line, prepend=-1))[0]

    def lines_between(self, first: int, last: int) -> Layout:
        """Return the lines from `first` to `last` (excluded) as a new layout."""
        at = slice(*np.searchsorted(self.line, [first, last]).tolist())
        return Layout(self.words[at], self.line[at] - first, self.x[at], last - first, self.text[first:last])

    def before_line(self, line: int) -> Layout:
        """Return the layout with only the words before `line`, but with all of `lines` and `text`."""
        keep = int(np.searchsorted(self.line, line))
        return Layout(self.words[:keep], self.line[:keep], self.x[:keep], self.lines, self.text)


@dataclass(slots=True)
class _SpacedWord:
    blank: str  # the white space before the word
    shaped: ShapedWord


def lay_out(
    shaper: Shaper, text: str, width: float | None, variance: float, noise: KeyedNoise, corrections: float = 0.0
) -> Layout:
    """Break `text` into lines of at most `width` cap heights and place the words; None breaks at line feeds only.

    `variance` is the largest relative change of a gap between words; the change is random for each gap. With
    `corrections`, some words that do not fit into a line are squeezed in.
    """
    may_squeeze = iter(
        (unit(noise.hashes("squeeze", len(text) if corrections else 0)) < SQUEEZE_RATE * corrections).tolist()
    )
    lines = [line for paragraph in text.split("\n") for line in _break_lines(shaper, paragraph, width, may_squeeze)]
    count = sum(len(line) for line in lines)
    change = (variance * noise.uniform("word", count)).tolist()
    words: list[ShapedWord] = []
    line_of, x_of = [], []
    for number, line in enumerate(lines):
        x, before = 0.0, None
        for word in line:
            x = _after_blank(shaper, x, word, before, change[len(words)])
            words.append(word.shaped)
            line_of.append(number)
            x_of.append(x)
            x, before = x + word.shaped.advance, word.shaped.text
    text_lines = ["".join(w.blank + w.shaped.text for w in line if not w.shaped.is_struck) for line in lines]
    return Layout(words, np.array(line_of, np.int64), np.array(x_of, np.float64), len(lines), text_lines)


def _after_blank(shaper: Shaper, x: float, word: _SpacedWord, before: str | None, change: float = 0.0) -> float:
    if "\t" in word.blank:
        stop = TAB_SPACES * shaper.space
        for character in word.blank:
            x = (int(x / stop + 1e-9) + 1) * stop if character == "\t" else x + shaper.space
        return x
    gap = len(word.blank) * shaper.space
    if before is None:
        return x + gap  # an indentation does not vary
    return x + max(gap * (1 + change), shaper.least_gap(before, word.shaped.text) if gap else 0.0)


def _break_lines(
    shaper: Shaper, paragraph: str, width: float | None, may_squeeze: Iterator[bool]
) -> Iterator[list[_SpacedWord]]:
    """Yield the lines of one paragraph; a word wider than the page is cut between characters."""
    line: list[_SpacedWord] = []
    x, blank = 0.0, ""
    for token in _TOKEN_PATTERN.findall(paragraph):
        if token[0] in " \t":
            blank = token
            continue
        word = _SpacedWord(blank, shaper.word(token))
        if token.startswith(STRUCK_MARK):
            word.shaped = replace(word.shaped, text="", is_struck=True)
        begin = _after_blank(shaper, x, word, line[-1].shaped.text if line else None)
        if width is not None and begin + word.shaped.advance > width:
            # A word of joiners only has no width.
            share = (width - begin) / word.shaped.advance if word.shaped.advance else 0.0
            if line and share > MIN_SQUEEZE and next(may_squeeze, False):
                line.append(_SpacedWord(blank, replace(word.shaped, squeeze=share, advance=width - begin)))
                x, blank = width, ""
                continue
            if line:
                yield line
                line, begin, word.blank = [], 0.0, ""
            *whole, rest = _cut_word(word.shaped, width - begin, width)
            for piece in whole:
                yield [_SpacedWord(word.blank, shaper.word(piece))]
                begin, word.blank = 0.0, ""
            word.shaped = shaper.word(rest) if whole else word.shaped
        line.append(word)
        x, blank = begin + word.shaped.advance, ""
    yield line


def _cut_word(word: ShapedWord, room: float, width: float) -> list[str]:
    """Cut a word into pieces that fit into `width` (the first into `room`), each of at least one character."""
    pieces, cut, last_cut, begin, last = [], 0, 0, 0.0, 0.0
    for place, reached in (*word.breaks, (len(word.text), word.advance)):
        if reached - begin > room and last_cut > cut:
            pieces.append(word.text[cut:last_cut])
            cut, begin, room = last_cut, last, width
        last_cut, last = place, reached
    return [*pieces, word.text[cut:]]
