"""How the writing of every hand compares with people: ``python -m tests.benchmarks.natural [--wire] [--seeds 3]``.

Measures what a careful reader notices on a page, for the first writer of each script, and prints the ranges in which
the writing of people lies; then files and times of an A4 letter on paper, and the words that tesseract reads. It prints
only; nothing here asserts.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pypdfium2
from PIL import Image
from scipy.ndimage import label

from toolkit.handwriting.wire import FileKind
from toolkit_gateway.ink.canvases.raster import coverage
from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import RGB, Margin, Parameters
from toolkit_gateway.ink.renderer import render, write_pages
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG, Strokes, refine, ribbons

LETTER = (
    "Dear Hannah,\n\nIt was such a pleasure to see you all at the lake last weekend. The children have not stopped "
    "talking about the canoe and the little green frog they found under the pier. I meant to write sooner, but the "
    "week got away from me as it always does in September.\n\nPlease tell Robert that the tomatoes were excellent "
    "and that I still owe him a proper dinner. We will be home by the third of October, so do come by whenever it "
    "suits you all.\n\nWith love from both of us,\nMargaret and Eleanor"
)
WORDS = (
    "the old house stood near the river and every spring the water came up to the garden wall the children used to "
    "sit on the steps and watch the boats go past while their mother made bread in the kitchen my father kept a small "
    "book where he wrote down the name of each boat and the time it went by he said that one day he would buy one of "
    "them and sail to the sea but the years went on and the book grew thick with names and the boat never came then "
    "one morning he was gone"
)
SIZE, WIDTH = 44.0, 1600.0
LETTER_TEXT = LETTER.replace("\n\n", "\n\n" + WORDS.capitalize() + ".\n\n", 2)
_OCR_SCRIPTS = (
    "winters", "perry", "cedar", "beekman", "larkin", "harper", "linden", "clover", "tilak", "walden", "ferris",
    "garrick", "flint", "hooper", "primrose",
)  # fmt: skip
LETTERS = "etasrnodgyflhk1479"
_SAME_PEN = 0.06  # cap heights; a stroke that begins this near the end of the one before goes on without a lift
_SPECK = 0.008 * SIZE**2  # square pixels; smaller parts and counters do not count
_SAME_FORM = 0.2  # mean distance of two letters of one construction, in standard deviations of their points
_BANDS = np.arange(-0.7, 1.5, 0.1)  # cap heights above the baseline, where the gap between two words is measured


class Range(NamedTuple):
    title: str
    least: float
    most: float


#: What people do; the numbers in the first table of the issue, with room for three people's differences.
HUMAN = (
    Range("strokes, sd", 0.25, 1.6),
    Range("constructions", 2.0, 4.5),
    Range("word width, cv", 0.05, 0.12),
    Range("gap, cv", 0.22, 0.40),
    Range("gap, skew", 0.3, 3.0),
    Range("gap, least", 0.2, 0.6),
    Range("margin, sd", 0.1, 0.5),
    Range("right wall", 0.0, 0.10),
    Range("height, ac", 0.2, 0.95),
)


def main() -> None:
    """Print one row a script, and how many scripts are in all ranges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wire", action="store_true", help="measure the defaults of the wire instead")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--writer", type=int, default=0)
    parser.add_argument("--short", action="store_true", help="without the table of files, times and read words")
    arguments = parser.parse_args()
    natural = not arguments.wire
    print(f"{'':11}" + "".join(f"{human.title:>16}" for human in HUMAN) + f"{'ms':>8}")
    print(f"{'people':11}" + "".join(f"{f'{human.least:g} to {human.most:g}':>16}" for human in HUMAN))
    inside = np.zeros(len(HUMAN), int)
    good = 0
    hands = [hand for hand in catalogue().values() if hand.writer == arguments.writer]
    for hand in sorted(hands, key=lambda hand: hand.script):
        row = measure(hand, natural, arguments.seeds)
        fits = np.array([human.least <= value <= human.most for human, value in zip(HUMAN, row, strict=True)])
        inside += fits
        good += bool(fits.all())
        cells = (f"{value:14.3f}{' ' if fit else '!'} " for value, fit in zip(row, fits, strict=True))
        print(f"{hand.script:11}" + "".join(cells) + f"{milliseconds(hand, natural):8.0f}", flush=True)
    print(f"{'inside':11}" + "".join(f"{count:>16}" for count in inside))
    print(f"scripts inside all ranges: {good} of {len(hands)} (target 25)")
    if natural and not arguments.short:
        letters(hands)


def measure(hand: Handwriting, natural: bool, seeds: int) -> list[float]:
    """Return the values of `HUMAN` for a hand, means over pages with other seeds."""

    def page_of(text: str, seed: int) -> Page:
        parameters = Parameters(
            hand, "png", text, SIZE, width=WIDTH, height=None, random_seed=seed + 1, natural=natural
        )
        return next(write_pages(parameters)[1])

    rows, heights = [], []
    for seed in range(seeds):
        page = page_of(WORDS, seed)
        long_page = page_of(" ".join([WORDS] * 3), seed)
        words = list(_words(page))
        gaps = np.array(list(_gaps(page, words)))
        lefts = [
            min(words[n].x.min() for n in np.nonzero(page.layout.line == line)[0])
            for line in range(page.layout.line_count)
        ]
        heights.append([float(np.ptp(word.y)) for word in words])
        rows.append([
            _over_repeated(words, lambda same: float(np.std([word.strokes for word in same]))),
            constructions(page_of(" ".join(f"{letter} " * 12 for letter in LETTERS), seed)),
            _over_repeated(words, lambda same: float(np.std(w := [np.ptp(word.x) for word in same]) / np.mean(w))),
            float(gaps.std() / gaps.mean()),
            float(np.mean((gaps - gaps.mean()) ** 3) / gaps.std() ** 3),
            float(gaps.min()),
            float(np.std(lefts)),
            _right_wall(long_page, list(_words(long_page))),
        ])  # fmt: skip
    # Of neighbouring words on one page, each relative to the mean height of the word over all pages.
    sizes = np.array(heights) / np.mean(heights, axis=0)
    correlation = np.mean([np.corrcoef(page_sizes[:-1], page_sizes[1:])[0, 1] for page_sizes in sizes])
    return [*np.mean(rows, axis=0).tolist(), float(correlation)]


def _right_wall(page: Page, words: list[Word]) -> float:
    """Return the largest share of the full lines that end within 0.08 cap heights of one place.

    Of 9 lines, any two that end together are more than a tenth, which happens by chance; so the page must be long.
    """
    last = np.searchsorted(page.layout.line, np.arange(page.layout.line_count), "right")[:-1] - 1  # not the last line
    ends = np.array([words[n].x.max() for n in last])
    return float((np.abs(ends[:, None] - ends) <= 0.08).sum(axis=1).max() - 1) / max(len(ends) - 1, 1)


class Word(NamedTuple):
    """A word on the page; lengths in cap heights, y upwards from its baseline."""

    text: str
    x: np.ndarray
    y: np.ndarray
    strokes: int


def _words(page: Page) -> Iterator[Word]:
    for number, shaped in enumerate(page.layout.words):
        ink = page.strokes.select((page.word_of_stroke == number) & ((page.strokes.flags & OUTLINE_FLAG) == 0))
        begin, end = ink.start, ink.start + ink.length - 1
        apart = np.hypot(ink.x[begin[1:]] - ink.x[end[:-1]], ink.y[begin[1:]] - ink.y[end[:-1]]) / SIZE
        lifts = 1 + int((apart > _SAME_PEN).sum())
        yield Word(shaped.text, ink.x / SIZE, (page.word_y[number] - ink.y) / SIZE, lifts)


def _over_repeated(words: list[Word], figure: Callable[[list[Word]], float]) -> float:
    """Return the mean of a figure over the words of three letters or more that occur four times or more."""
    same: dict[str, list[Word]] = defaultdict(list)
    for word in words:
        same[word.text].append(word)
    return float(np.mean([figure(group) for text, group in same.items() if len(group) >= 4 and len(text) >= 3]))


def _gaps(page: Page, words: list[Word]) -> Iterator[float]:
    """Yield the white between neighbouring words: the narrowest over all heights, in cap heights."""
    for n, (left, right) in enumerate(pairwise(words)):
        if page.layout.line[n] == page.layout.line[n + 1]:
            ends = [left.x[np.abs(left.y - band) < 0.15].max(initial=-np.inf) for band in _BANDS]
            begins = [right.x[np.abs(right.y - band) < 0.15].min(initial=np.inf) for band in _BANDS]
            yield min(begin - end for begin, end in zip(begins, ends, strict=True))


def constructions(page: Page) -> float:
    """Return the mean number of constructions of a letter, from a page of single letters.

    Two letters have another construction if their ink has other parts or counters, or if their shapes differ clearly.
    """
    forms: dict[str, list[tuple[tuple[int, int], np.ndarray]]] = defaultdict(list)
    for number, shaped in enumerate(page.layout.words):
        ink = page.strokes.select(page.word_of_stroke == number)
        y = page.word_y[number] - ink.y
        x = ink.x - ink.x.mean() - np.cov(ink.x, y)[0, 1] / np.var(y) * (y - y.mean())
        form = np.stack([x / max(x.std(), 0.12 * SIZE), (y - y.mean()) / y.std()], axis=1)
        key = _parts_and_counters(ink)
        known = forms[shaped.text]
        if not any(key == other and _distance(form, points) < _SAME_FORM for other, points in known):
            known.append((key, form))
    return float(np.mean([len(known) for known in forms.values()]))


def _parts_and_counters(ink: Strokes) -> tuple[int, int]:
    inside = replace(ink, x=ink.x - ink.x.min() + 9, y=ink.y - ink.y.min() + 9)
    width, height = int(np.ptp(ink.x)) + 18, int(np.ptp(ink.y)) + 18
    black = coverage([ribbons(refine(inside, 3))], width, height, 0) > 127
    parts = int((np.bincount(label(black, np.ones((3, 3)))[0].ravel())[1:] > _SPECK).sum())
    counters = int((np.bincount(label(~black)[0].ravel())[1:] > _SPECK).sum()) - 1
    return parts, counters


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    apart = np.hypot(a[:, None, 0] - b[:, 0], a[:, None, 1] - b[:, 1])
    return max(float(apart.min(axis=1).mean()), float(apart.min(axis=0).mean()))


def letters(hands: list[Handwriting]) -> None:
    """Print for an A4 letter on paper: words found in the PDF, sizes of files, CPU times, and words read."""
    columns = ("PDF words", "PDF kB", "SVG kB", "A4 ms", "read natural", "read plain")
    print("\n" + f"{'A4 letter':11}" + "".join(f"{column:>14}" for column in columns))
    rows = []
    for hand in sorted(hands, key=lambda hand: hand.script):
        pdf, svg = (render(_letter(hand, kind)).data for kind in ("pdf", "svg"))
        reads = hand.script in _OCR_SCRIPTS and shutil.which("tesseract") is not None
        read = [np.mean([words_read(hand, LETTER_TEXT, seed, natural) for seed in range(3)]) if reads else np.nan
                for natural in (True, False)]  # fmt: skip
        rows.append([_words_in(pdf), len(pdf) / 1000, len(svg) / 1000, _cpu_milliseconds(_letter(hand, "png")), *read])
        print(f"{hand.script:11}" + "".join(f"{value:14.3f}" for value in rows[-1]), flush=True)
    print(f"{'median':11}" + "".join(f"{value:14.3f}" for value in np.nanmedian(rows, axis=0)))
    print(f"{'least':11}" + "".join(f"{value:14.3f}" for value in np.nanmin(rows, axis=0)))
    print(f"{'most':11}" + "".join(f"{value:14.3f}" for value in np.nanmax(rows, axis=0)))


def _letter(hand: Handwriting, kind: FileKind) -> Parameters:
    scale = 1.0 if kind == "pdf" else 150 / 72
    return Parameters(
        hand, kind, LETTER_TEXT, 11 * scale, RGB(28, 47, 125), 595.28 * scale, 841.89 * scale, None, random_seed=1,
        pen="ballpoint", natural=True, paper="blank", margin=Margin(*[56.7 * scale] * 4), is_multipage=True,
        page_number=None if kind == "pdf" else 1,
    )  # fmt: skip


def _words_in(pdf: bytes) -> float:
    """Return the share of the words of the letter that a reader of the PDF finds, in order."""
    found = " ".join(page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(pdf)).split()
    return share_found(LETTER_TEXT.split(), found)


def _cpu_milliseconds(parameters: Parameters) -> float:
    render(parameters)
    began = time.process_time()
    render(parameters)
    return 1000 * (time.process_time() - began)


def milliseconds(hand: Handwriting, natural: bool) -> float:
    """Return the CPU time of a warm page of 495 characters, 1600 px wide, as a PNG; natural with a pen on paper."""
    look: dict[str, Any] = {"natural": True, "pen": "ballpoint", "paper": "blank"} if natural else {}
    page = Parameters(hand, "png", LETTER[:495], SIZE, width=WIDTH, height=None, random_seed=1, **look)
    render(page)
    began = time.process_time()
    for _ in range(3):
        render(page)
    return 1000 * (time.process_time() - began) / 3


def words_read(handwriting: Handwriting, text: str, seed: int = 1, natural: bool = False) -> float:
    """Return the share of the words of a page that tesseract reads."""
    page = Parameters(
        handwriting, "png", text, 40.0, width=1600.0, height=None, line_spacing=1.8, min_padding=30.0,
        random_seed=seed + 1, natural=natural,
    )  # fmt: skip
    ink = Image.open(io.BytesIO(render(page).data))
    paper = Image.new("RGBA", ink.size, "white")
    paper.alpha_composite(ink)
    data = io.BytesIO()
    paper.convert("L").save(data, "PNG", dpi=(300, 300))
    command = ["tesseract", "stdin", "stdout", "-l", "eng", "--psm", "6"]
    read = subprocess.run(command, input=data.getvalue(), capture_output=True, check=True, timeout=120).stdout.decode()
    return share_found(*([word.strip(".,;:'").lower() for word in words.split()] for words in (text, read)))


def share_found(expected: list[str], found: list[str]) -> float:
    """Return the share of the expected words that are found in their order (longest common subsequence)."""
    # Not difflib: it starts from the longest run, which in a text with a repeated paragraph may be that of the other.
    best = np.zeros(len(found) + 1, np.int64)  # of the words so far, with the first n words found
    for word in expected:
        best[1:] = np.maximum(best[1:], best[:-1] + np.array([other == word for other in found], np.int64))
        best = np.maximum.accumulate(best)
    return float(best[-1]) / len(expected)


if __name__ == "__main__":
    main()
