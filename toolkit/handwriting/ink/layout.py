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
_WORD_PATTERN = re.compile(r"([ \t]*)([^ \t]+)")  # a word, with the white space before it


@dataclass(frozen=True, slots=True)
class Layout:
    """Words in reading order; lengths in cap heights."""

    words: list[ShapedWord]
    line: Integers  # (words,) line of each word
    x: Floats  # (words,) start of each word, from the left end of the line
    line_count: int  # number of lines, with empty lines
    line_texts: list[str]  # (lines,) as written, with spaces

    @property
    def starts_line(self) -> Integers:
        return np.nonzero(np.diff(self.line, prepend=-1))[0]

    def lines_between(self, first: int, last: int) -> Layout:
        """Return the lines from `first` to `last` (excluded) as a new layout."""
        at = slice(*np.searchsorted(self.line, [first, last]).tolist())
        return Layout(self.words[at], self.line[at] - first, self.x[at], last - first, self.line_texts[first:last])

    def before_line(self, line: int) -> Layout:
        """Return the layout with only the words before `line`, but with all of `line_count` and `line_texts`."""
        keep = int(np.searchsorted(self.line, line))
        return Layout(self.words[:keep], self.line[:keep], self.x[:keep], self.line_count, self.line_texts)


def lay_out(
    shaper: Shaper, text: str, width: float | None, variance: float, noise: KeyedNoise, corrections: float = 0.0
) -> Layout:
    """Break `text` into lines of at most `width` cap heights and place the words; None breaks at line feeds only.

    `variance` is the largest relative change of a gap between words; the change is random for each gap. With
    `corrections`, some words that do not fit into a line are squeezed in.
    """
    chance = unit(noise.hashes("squeeze", len(text) if corrections else 0))
    may_squeeze = iter((chance < SQUEEZE_RATE * corrections).tolist())
    lines = [line for paragraph in text.split("\n") for line in _break_lines(shaper, paragraph, width, may_squeeze)]
    words = [word for line in lines for word in line]
    change = iter((variance * noise.uniform("word", len(words))).tolist())
    x: list[float] = []
    for line in lines:
        before, end = None, 0.0
        for word in line:
            x.append(_after_blank(shaper, end, word, before, next(change)))
            before, end = word.text, x[-1] + word.width
    line_of = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    text_lines = ["".join(word.blank + word.text for word in line if not word.is_struck) for line in lines]
    return Layout(words, line_of, np.array(x, np.float64), len(lines), text_lines)


def _after_blank(shaper: Shaper, x: float, word: ShapedWord, before: str | None, change: float = 0.0) -> float:
    if "\t" in word.blank:
        stop = TAB_SPACES * shaper.space
        for character in word.blank:
            x = (int(x / stop + 1e-9) + 1) * stop if character == "\t" else x + shaper.space
        return x
    gap = len(word.blank) * shaper.space
    if before is None:
        return x + gap  # an indentation does not vary
    return x + max(gap * (1 + change), shaper.least_gap(before, word.text) if gap else 0.0)


def _break_lines(
    shaper: Shaper, paragraph: str, width: float | None, may_squeeze: Iterator[bool]
) -> Iterator[list[ShapedWord]]:
    """Yield the lines of one paragraph; a word wider than the page is cut between characters."""
    line: list[ShapedWord] = []
    x = 0.0
    for blank, token in _WORD_PATTERN.findall(paragraph):
        word = replace(shaper.word(token), blank=blank)
        if token.startswith(STRUCK_MARK):
            word = replace(word, text="", is_struck=True)
        begin = _after_blank(shaper, x, word, line[-1].text if line else None)
        if width is not None and begin + word.width > width:
            # A word of joiners only has no width.
            share = (width - begin) / word.width if word.width else 0.0
            if line and share > MIN_SQUEEZE and next(may_squeeze, False):
                line.append(replace(word, squeeze=share, width=width - begin))
                x = width
                continue
            if line:
                yield line
                line, begin, word = [], 0.0, replace(word, blank="")
            *whole, rest = _cut_word(word, width - begin, width)
            for piece in whole:
                yield [replace(shaper.word(piece), blank=word.blank)]
                begin, word = 0.0, shaper.word(rest)
        line.append(word)
        x = begin + word.width
    yield line


def _cut_word(word: ShapedWord, room: float, width: float) -> list[str]:
    """Cut a word into pieces that fit into `width` (the first into `room`), each of at least one character."""
    pieces, cut, last_cut, begin, last = [], 0, 0, 0.0, 0.0
    for place, reached in (*word.breaks, (len(word.text), word.width)):
        if reached - begin > room and last_cut > cut:
            pieces.append(word.text[cut:last_cut])
            cut, begin, room = last_cut, last, width
        last_cut, last = place, reached
    return [*pieces, word.text[cut:]]
