"""Break a natural text into lines as a person does: word by word, with the room that each word takes when written.

A person ends a line early, or squeezes in a short last word; the left margin drifts, and starts over with a paragraph.
Tabs make columns: in consecutive lines with tabs, all cells of a column begin at the same place.
"""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise

import numpy as np

from toolkit_gateway.ink.layout import TAB_SPACES, WORD_PATTERN, Layout, cut_word
from toolkit_gateway.ink.natural.penman import Penman
from toolkit_gateway.ink.natural.writing import Writing
from toolkit_gateway.ink.random_streams import RandomStreams
from toolkit_gateway.ink.shaping import ShapedWord

# Lengths in cap heights.
MARGIN, MARGIN_SPREAD, MARGIN_MEMORY = 0.5, 0.25, 0.7  # usual left margin, its standard deviation and autocorrelation
FIRST_LINE_SPREAD, MARGIN_CREEP = 0.12, 0.02  # deviation of a paragraph's first line; shift to the right in each line
# A line ends at most so much before the right margin, although the next word would fit: the longer this word is, the
# less a person can tell whether it fits. The second is a share of the width of the word, the third one of the line's.
EARLY_END, EARLY_SHARE, MAX_EARLY_SHARE = 2.2, 0.9, 0.12
_CRAMMED_LETTERS = 3  # a word of so many letters is squeezed in at the end of a line
_RESERVE = 0.15  # at the right margin, for bends of the ink that are not known yet
_WIDER = 1.12  # a written word may be so much wider than its nominal width
_COLUMN_GAP = 1.0  # between two columns of a table


def lay_out_naturally(
    penman: Penman, text: str, width: float | None, variance: float, noise: RandomStreams
) -> tuple[Layout, Writing]:
    """Break `text` into lines of at most `width` cap heights (None: only at line feeds)."""
    paragraphs = text.split("\n")
    words, first_words = _words_of(penman, paragraphs, width)
    signature = slice(first_words[-2], None) if _is_signature(paragraphs) else slice(0, 0)
    writing = Writing(words, signature, penman, variance, noise)
    columns = _columns(writing, words, first_words)
    lines = _Lines(writing, words, columns, width, len(words) + len(paragraphs), noise)
    for first, last in pairwise(first_words):
        lines.begin(first, is_paragraph=True)
        for n in range(first, last):
            lines.add(n)
    return lines.layout(), writing


def _words_of(penman: Penman, paragraphs: list[str], width: float | None) -> tuple[list[ShapedWord], list[int]]:
    """Return all words, and the number of the first word of each paragraph; a word wider than a line is cut."""
    shaper, words, first_words = penman.shaper, [], [0]
    room = np.inf if width is None else max((width - 2 * MARGIN - _RESERVE) / _WIDER, 0.01)
    for paragraph in paragraphs:
        for blank, token in WORD_PATTERN.findall(paragraph):
            word = shaper.word(token, blank)
            if word.width <= room:
                words.append(word)
            else:
                words += [shaper.word(piece, "" if n else blank) for n, piece in enumerate(cut_word(word, room, room))]
        first_words.append(len(words))
    return words, first_words


def _is_signature(paragraphs: list[str]) -> bool:
    """Return whether a text ends with a signature: up to three names below a line that is empty or ends in ","."""
    names = paragraphs[-1].split()
    if len(paragraphs) < 3 or not 1 <= len(names) <= 3 or paragraphs[-2].rstrip()[-1:] not in (",", ""):
        return False
    return all(name[:1].isupper() for name in (names[0], names[-1])) and names[-1].isalpha()


class _Lines:
    """The lines of a text, to which words are added."""

    def __init__(
        self, writing: Writing, words: list[ShapedWord], column: dict[int, float], width: float | None,
        line_limit: int, noise: RandomStreams,
    ) -> None:  # fmt: skip
        self._writing, self._words, self._width = writing, list(words), width
        self._nib, self._space = writing.penman.shaper.nib, writing.penman.shaper.space
        self._drift = noise.gaussian("natural margin", line_limit)
        widths = np.array([word.width for word in words], np.float64)
        room = np.minimum(EARLY_END + EARLY_SHARE * widths, MAX_EARLY_SHARE * (width or 0.0))
        self._early = room * 0.5 * (1 + noise.uniform("early end", len(words)))
        self._column = column  # where words after a tab begin
        self._x: list[float] = []
        self._line: list[int] = []
        self._start: list[float] = []  # of each line, where its ink begins
        self._first: list[int] = []  # of each line, its first word
        self._margin, self._in_paragraph, self._limit = 0.0, 0, np.inf

    def begin(self, word: int, *, is_paragraph: bool) -> None:
        """Begin a line with this word."""
        drift = float(self._drift[len(self._start)])
        if is_paragraph:
            self._margin, self._in_paragraph = FIRST_LINE_SPREAD * drift, 0
        else:
            fresh = MARGIN_SPREAD * (1 - MARGIN_MEMORY**2) ** 0.5 * drift
            self._margin, self._in_paragraph = MARGIN_MEMORY * self._margin + fresh, self._in_paragraph + 1
        margin = max(MARGIN + self._margin + MARGIN_CREEP * self._in_paragraph, 0.0)
        if self._width is not None:
            margin = min(margin, max(self._width / 10, 0.0))  # on a narrow page
            self._limit = self._width - margin - _RESERVE
        self._start.append(self._nib + margin)
        self._first.append(word)

    def add(self, n: int) -> None:
        """Put word `n` after the word before, or on a new line if it does not fit."""
        word, left, right = self._words[n], float(self._writing.left[n]), float(self._writing.right[n])
        if n == self._first[-1]:
            indent = self._column.get(n, len(word.blank) * self._space)
            indent = max(min(indent, self._limit - (right - left)), 0.0)
            self._start[-1] += indent
            x = indent - left
        else:
            x = self._x[-1] + float(self._writing.step[n])
            if n in self._column:
                x = max(self._column[n] - left, self._x[-1] + float(self._writing.least_step[n]))
            early = 0.0 if len(word.text) <= _CRAMMED_LETTERS else float(self._early[n])
            if not word.blank or x + right > self._limit - early:
                self._words[n] = self._writing.penman.shaper.word(word.text)
                self._column.pop(n, None)
                self.begin(n, is_paragraph=False)
                self.add(n)
                return
        self._x.append(x)
        self._line.append(len(self._start) - 1)

    def layout(self) -> Layout:
        bounds = [*self._first, len(self._words)]
        texts = ["".join(word.blank + word.text for word in self._words[a:b]) for a, b in pairwise(bounds)]
        x, start = np.array(self._x, np.float64), np.array(self._start, np.float64)
        return Layout(self._words, np.array(self._line, np.int64), x, start, len(self._start), texts)


def _columns(writing: Writing, words: list[ShapedWord], first_words: list[int]) -> dict[int, float]:
    """Return where the ink of each word after a tab begins; lines with tabs that follow each other have columns."""
    place: dict[int, float] = {}
    rows = [range(first, last) for first, last in pairwise(first_words)]
    for has_tabs, block in groupby(rows, lambda row: any("\t" in words[n].blank for n in row)):
        cells: dict[int, int] = {}  # the column of each word after a tab
        widths: dict[int, float] = {}
        for row in block if has_tabs else ():
            column, x = 0, 0.0
            for n in row:
                tabs = words[n].blank.count("\t")
                if tabs:
                    column += tabs
                    cells[n] = column
                x = x + float(writing.step[n]) if n > row.start and not tabs else -float(writing.left[n])
                widths[column] = max(widths.get(column, 0.0), x + float(writing.right[n]))
        least = TAB_SPACES * writing.penman.shaper.space
        wanted = (max(widths.get(n, 0.0) + _COLUMN_GAP, least) for n in range(max(cells.values(), default=0)))
        position = list(accumulate(wanted, initial=0.0))
        place |= {n: position[column] for n, column in cells.items()}
    return place
