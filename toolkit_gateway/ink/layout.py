"""Break a text into lines and place the words, by their nominal widths; the motion of the hand comes later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams
from toolkit_gateway.ink.shaping import ShapedWord, Shaper

TAB_SPACES = 4  # a tab stop every four spaces
_WORD_PATTERN = re.compile(r"([ \t]*)([^ \t]+)")  # a word, with the white space before it


@dataclass(frozen=True, slots=True)
class Layout:
    """Words in reading order; lengths in cap heights."""

    words: list[ShapedWord]
    line: Integers  # (words,) line of each word
    x: Floats  # (words,) start of each word, from the left end of the line
    line_count: int  # including empty lines
    line_texts: list[str]  # (lines,) as written, with spaces

    def lines_between(self, first: int, last: int) -> Layout:
        """Return the lines from `first` to `last` (excluded) as a new layout."""
        run = slice(*np.searchsorted(self.line, [first, last]).tolist())
        return Layout(self.words[run], self.line[run] - first, self.x[run], last - first, self.line_texts[first:last])

    def before_line(self, line: int) -> Layout:
        """Return the layout with only the words before `line`, but with all of `line_count` and `line_texts`."""
        keep = int(np.searchsorted(self.line, line))
        return Layout(self.words[:keep], self.line[:keep], self.x[:keep], self.line_count, self.line_texts)


def lay_out(shaper: Shaper, text: str, width: float | None, variance: float, noise: RandomStreams) -> Layout:
    """Break `text` into lines of at most `width` cap heights (None: only at line feeds), and place the words.

    `variance` is the largest relative change of a gap between words; the change is random for each gap.
    """
    lines = [line for paragraph in text.split("\n") for line in _break_lines(shaper, paragraph, width)]
    words = [word for line in lines for word in line]
    change = iter((variance * noise.uniform("word", len(words))).tolist())
    x: list[float] = []
    for line in lines:
        before, end = None, 0.0
        for word in line:
            x.append(_word_start(shaper, end, word, before, next(change)))
            before, end = word.text, x[-1] + word.width
    line_of_word = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    line_texts = ["".join(word.blank + word.text for word in line) for line in lines]
    return Layout(words, line_of_word, np.array(x, np.float64), len(lines), line_texts)


def _word_start(shaper: Shaper, x: float, word: ShapedWord, before: str | None, change: float = 0.0) -> float:
    """Return where `word` starts if the word `before` ends at `x`; `change` is the relative change of the gap."""
    if "\t" in word.blank:
        stop = TAB_SPACES * shaper.space
        for character in word.blank:
            x = (int(x / stop + 1e-9) + 1) * stop if character == "\t" else x + shaper.space
        return x
    gap = len(word.blank) * shaper.space
    if before is None:
        return x + gap  # an indentation does not vary
    return x + max(gap * (1 + change), shaper.min_word_gap(before, word.text) if gap else 0.0)


def _break_lines(shaper: Shaper, paragraph: str, width: float | None) -> Iterator[list[ShapedWord]]:
    """Yield the lines of one paragraph; a word wider than a line is cut between characters."""
    line: list[ShapedWord] = []
    x = 0.0
    for blank, token in _WORD_PATTERN.findall(paragraph):
        word = replace(shaper.word(token), blank=blank)
        begin = _word_start(shaper, x, word, line[-1].text if line else None)
        if width is not None and begin + word.width > width:
            if line or (blank and begin + 1 > width):  # an indentation without room for a capital after it
                yield line
                line, begin, word = [], 0.0, replace(word, blank="")
            *full_lines, rest = _cut_word(word, width - begin, width)
            for piece in full_lines:
                yield [replace(shaper.word(piece), blank=word.blank)]
                begin, word = 0.0, shaper.word(rest)
        line.append(word)
        x = begin + word.width
    yield line


def _cut_word(word: ShapedWord, room: float, width: float) -> list[str]:
    """Cut a word into pieces that fit into `width` (the first into `room`), each of at least one character."""
    pieces, cut, cut_x, previous, previous_x = [], 0, 0.0, 0, 0.0
    for index, x in (*word.breaks, (len(word.text), word.width)):
        if x - cut_x > room and previous > cut:
            pieces.append(word.text[cut:previous])
            cut, cut_x, room = previous, previous_x, width
        previous, previous_x = index, x
    return [*pieces, word.text[cut:]]
