"""Break a text into lines and place the words, by their nominal widths; the motion of the hand comes later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams
from toolkit_gateway.ink.shaping import ShapedWord, Shaper

MARGIN_WANDER = 0.1  # cap heights
TAB_SPACES = 4  # a tab stop every four spaces
WORD_PATTERN = re.compile(r"([ \t]*)([^ \t]+)")  # a word, with the white space before it


@dataclass(frozen=True, slots=True)
class Layout:
    """Words in reading order; lengths in cap heights."""

    words: list[ShapedWord]
    line: Integers  # (words,) line of each word
    x: Floats  # (words,) start of each word, from the left end of the line
    start: Floats  # (lines,) from the left edge of the text to the ink of the line
    line_count: int  # including empty lines
    line_texts: list[str]  # (lines,) as written, with spaces
    first_word: int = 0  # number of the first word in the whole text

    def lines_between(self, first: int, last: int) -> Layout:
        """Return the lines from `first` to `last` (excluded) as a new layout."""
        run = slice(*np.searchsorted(self.line, [first, last]).tolist())
        lines = slice(first, last)
        return Layout(
            self.words[run], self.line[run] - first, self.x[run], self.start[lines], last - first,
            self.line_texts[lines], self.first_word + run.start,
        )  # fmt: skip

    def before_line(self, line: int) -> Layout:
        """Return the layout with only the words before `line`, but with all of `line_count` and `line_texts`."""
        keep = int(np.searchsorted(self.line, line))
        return replace(self, words=self.words[:keep], line=self.line[:keep], x=self.x[:keep])


def lay_out(shaper: Shaper, text: str, width: float | None, variance: float, noise: RandomStreams) -> Layout:
    """Break `text` into lines of at most `width` cap heights (None: only at line feeds), and place the words.

    `variance` is the largest relative change of a gap between words; the change is random for each gap. Where a line
    would become too long, gaps grow less.
    """
    lines = [line for paragraph in text.split("\n") for line in _break_lines(shaper, paragraph, width)]
    words = [word for line in lines for word in line]
    changes = iter((variance * noise.uniform("word", len(words))).tolist())
    x: list[float] = []
    start = shaper.nib + 0.5 * (1 + noise.uniform("margin", len(lines))) * MARGIN_WANDER
    for number, line in enumerate(lines):
        change = [next(changes) for _ in line]
        placed = _place_words(shaper, line, change)
        if width is not None and line and (excess := placed[-1] + line[-1].width - width) > 0:
            grown = sum(max(by, 0.0) * len(word.blank) for by, word in zip(change[1:], line[1:], strict=True))
            share = max(1 - excess / (shaper.space * grown), 0.0) if grown else 0.0
            placed = _place_words(shaper, line, [by * share if by > 0 else by for by in change])
        x += placed
        start[number] += placed[0] if line else 0.0
    line_of_word = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    line_texts = ["".join(word.blank + word.text for word in line) for line in lines]
    return Layout(words, line_of_word, np.array(x, np.float64), start, len(lines), line_texts)


def _place_words(shaper: Shaper, line: list[ShapedWord], change: list[float]) -> list[float]:
    before, end, x = None, 0.0, []
    for word, by in zip(line, change, strict=True):
        x.append(_word_start(shaper, end, word, before, by))
        before, end = word.text, x[-1] + word.width
    return x


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
    for blank, token in WORD_PATTERN.findall(paragraph):
        word = shaper.word(token, blank)
        begin = _word_start(shaper, x, word, line[-1].text if line else None)
        if width is not None and begin + word.width > width:
            if line or (blank and begin + 1 > width):  # an indentation without room for a capital after it
                yield line
                line, begin, word = [], 0.0, shaper.word(token)
            *full_lines, rest = cut_word(word, width - begin, width)
            for piece in full_lines:
                yield [shaper.word(piece, word.blank)]
                begin, word = 0.0, shaper.word(rest)
        line.append(word)
        x = begin + word.width
    yield line


def cut_word(word: ShapedWord, room: float, width: float) -> list[str]:
    """Cut a word into pieces that fit into `width` (the first into `room`), each of at least one character."""
    pieces, cut, cut_x, previous, previous_x = [], 0, 0.0, 0, 0.0
    for index, x in (*word.breaks, (len(word.text), word.width)):
        if x - cut_x > room and previous > cut:
            pieces.append(word.text[cut:previous])
            cut, cut_x, room = previous, previous_x, width
        previous, previous_x = index, x
    return [*pieces, word.text[cut:]]
