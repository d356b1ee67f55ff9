"""Put the writing on a sheet of paper.

Every seed gives another sheet. The rules have the spacing of the lines, and the writing follows the rules loosely.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import RGB, Margin, Parameters
from toolkit_gateway.ink.random_streams import Floats, RandomStreams
from toolkit_gateway.ink.sheet import MARGIN_LINE_COLOUR, STOCKS, PrintedLine, Sheet, Stock

T = TypeVar("T")
#: Smallest and largest margins in handwriting sizes, for a text without padding: top, right, bottom, left.
MARGIN_RANGES = (1.3, 3.4), (1.0, 2.4), (1.3, 1.7), (1.5, 4.4)
MIN_TURN, MAX_TURN = 0.0052, 0.014  # tangents of 0.3 and 0.8 degrees
RULE_DISTANCE, RULE_DISTANCE_SPREAD = 0.075, 0.03  # handwriting sizes, from a baseline to the rule below it
MIN_RULE_PITCH = 6.0  # points; rules closer together are not drawn
RULE_WIDTH_RANGE = 0.020, 0.030  # handwriting sizes
SQUARE_SIZES = 0.68, 0.95  # choices, in handwriting sizes, for squares of 4 or 5 mm
HEADER_RULES = 0, 1, 1, 2, 99  # choices for the number of rules above the text; 99 means up to the top of the page


def _one_of(noise: RandomStreams, name: str, choices: tuple[T, ...]) -> T:
    return choices[int(noise.number(name) * len(choices))]


def _pad_noise(parameters: Parameters) -> RandomStreams:
    """Return the random numbers of the pad of paper, which are the same for all sheets of a letter."""
    return RandomStreams("pad", str(parameters.random_seed), parameters.handwriting.script, parameters.paper)


def fit_to_paper(parameters: Parameters) -> Parameters:
    """For a page with paper, add random margins if no margin or padding is given, and even lines if it has rules."""
    stock = STOCKS.get(parameters.paper)
    if stock is None:
        return parameters
    if stock.rules:
        parameters = replace(parameters, line_spacing_variance=0.0)
    if parameters.min_padding is not None or parameters.margin is not None:
        return parameters
    most = min([side / 5 for side in (parameters.width, parameters.height) if side is not None], default=np.inf)
    pad, size = _pad_noise(parameters), parameters.handwriting_size
    sides = [min(pad.number(str(n), ends) * size, most) for n, ends in enumerate(MARGIN_RANGES)]
    return replace(parameters, margin=Margin(*sides))


def put_on_paper(page: Page, parameters: Parameters, noise: RandomStreams) -> Page:
    """Add the sheet of paper to a page, and turn the ink as the sheet is turned on the scanner."""
    stock = STOCKS.get(parameters.paper)
    if stock is None:
        return page
    size, pad = parameters.handwriting_size, _pad_noise(parameters)
    turn = noise.number("turn", (MIN_TURN, MAX_TURN)) * (1 if noise.number("turned") < 0.5 else -1)
    shade, warmth = pad.uniform("tint", 2).tolist()
    tint = np.array(_one_of(pad, "colour", stock.colours)) + 2.5 * shade + np.array([1.0, 0.0, -2.0]) * warmth
    colour = RGB(*np.clip(np.rint(tint), 0, 255).astype(int).tolist())
    rule = _one_of(pad, "rule", stock.rules) if stock.rules else RGB(0, 0, 0)
    width = max(pad.number("rule width", RULE_WIDTH_RANGE) * size, 0.4)
    lines = _printed_lines(page, stock, rule, turn, pad, size, size * (parameters.line_spacing or 0.0))
    drop = RULE_DISTANCE_SPREAD * size * noise.gaussian("hang", page.layout.line_count)
    strokes, line_of_word = page.strokes, page.layout.line
    line = np.repeat(line_of_word[page.word_of_stroke], strokes.length)
    x, y = _turned(page, turn, strokes.x, strokes.y + drop[line])
    word_x, word_y = _turned(page, turn, page.word_x, page.word_y + drop[line_of_word])
    return replace(
        page, strokes=replace(strokes, x=x, y=y), word_x=word_x, word_y=word_y,
        word_end=word_x + page.word_end - page.word_x, sheet=Sheet(stock, colour, rule, lines, width, turn, noise),
    )  # fmt: skip


def _turned(page: Page, turn: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Turn points around the middle of the page; `turn` is the tangent of the angle."""
    cosine = 1 / np.sqrt(1 + turn * turn)
    dx, dy = x - page.width / 2, y - page.height / 2
    return page.width / 2 + cosine * (dx - turn * dy), page.height / 2 + cosine * (dy + turn * dx)


def _printed_lines(
    page: Page, stock: Stock, rule: RGB, turn: float, noise: RandomStreams, size: float, pitch: float
) -> tuple[PrintedLine, ...]:
    """Return all printed lines of the paper; the rules are a little below the baselines."""
    if not stock.rules or pitch < MIN_RULE_PITCH:
        return ()
    middle_x, middle_y = page.width / 2, page.height / 2
    first_rule = float((page.baseline - pitch * np.arange(len(page.baseline))).mean()) + RULE_DISTANCE * size
    reach = abs(turn) * max(page.width, page.height)
    if stock.is_squared:
        square = pitch / max(1, round(pitch / (size * _one_of(noise, "squares", SQUARE_SIZES))))
        across = _positions(first_rule, square, page.height, reach)
        upright = [(x, rule) for x in _positions(noise.number("column") * square, square, page.width, reach)]
    else:
        top = first_rule - (_one_of(noise, "header", HEADER_RULES) + 0.1) * pitch
        bottom = page.height - noise.number("footer", (-1.0, 1.5)) * pitch
        bottom = max(bottom, float(page.baseline[-1]) + 0.5 * pitch)
        across = [y for y in _positions(first_rule, pitch, page.height, reach) if top < y < bottom]
        left = float(page.word_x.min()) if len(page.word_x) else page.width
        has_margin = left > pitch and noise.number("margin lines") < 0.55
        margin_x = left - noise.number("margin line", (0.1, 0.6)) * pitch
        upright = [(margin_x, MARGIN_LINE_COLOUR)] if has_margin else []
    horizontal = [PrintedLine(y - turn * middle_x, turn, False, rule) for y in across]
    return (*horizontal, *(PrintedLine(x + turn * middle_y, -turn, True, colour) for x, colour in upright))


def _positions(start: float, distance: float, length: float, reach: float) -> list[float]:
    """Return `start` and all positions at multiples of `distance` from it, from -`reach` to `length` + `reach`."""
    first, last = int(-(start + reach) // distance), int((length + reach - start) // distance) + 1
    return [start + n * distance for n in range(first, last + 1)]
