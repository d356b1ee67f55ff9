"""Numbers as text: distinct labels of an axis, and values with enough digits to tell them apart."""

import math
from collections.abc import Sequence

from toolkit.charts.look import LOOK

_FEWEST_DIGITS: int = LOOK["numbers"]["fewestDigits"]
_MOST_DIGITS: int = LOOK["numbers"]["mostDigits"]  # enough to tell any two floats apart
#: Numbers outside of this range get scientific notation, such as 1.5e-09.
_LEAST_PLAIN: float = LOOK["numbers"]["leastPlain"]
_GREATEST_PLAIN: float = LOOK["numbers"]["greatestPlain"]
_ROUNDING = 1e-12  # a smaller relative difference comes from rounding


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return labels for the ticks of an axis, all with the same number of decimals.

    >>> tick_labels([1234567885, 1234567887.5, 1234567890])
    ['1,234,567,885.0', '1,234,567,887.5', '1,234,567,890.0']
    >>> tick_labels([0, 2e-9, 4e-9])
    ['0', '2e-09', '4e-09']
    """
    if not len(ticks):
        return []
    steps = [abs(after - before) for before, after in zip(ticks, ticks[1:], strict=False)]
    step = min(steps, default=0.0) or abs(ticks[0]) or 1.0
    exact = [0.0 if abs(tick) < step / 100 else float(tick) for tick in ticks]
    scientific = not _is_plain(max(abs(tick) for tick in exact))
    for decimals in range(_MOST_DIGITS):
        texts = [_formatted(tick, decimals, scientific) for tick in exact]
        if all(abs(float(text.replace(",", "")) - tick) <= step / 100 for text, tick in zip(texts, exact, strict=True)):
            break
    return texts


def distinct_numerals(values: Sequence[float]) -> list[str]:
    """Return each value as text with four digits, or with more if two values would look alike.

    Whole digits are never rounded away. Missing values are empty.

    >>> distinct_numerals([21.53217, 1234567890, 1234567890.25, 1234567891])
    ['21.53', '1,234,567,890', '1,234,567,890.2', '1,234,567,891']
    """
    texts = [_with_digits(float(value), _FEWEST_DIGITS) for value in values]
    for digits in range(_FEWEST_DIGITS + 1, _MOST_DIGITS + 1):
        pairs = list(zip(texts, values, strict=True))
        for index, (text, value) in enumerate(pairs):
            if text and any(same == text and not math.isclose(value, v, rel_tol=_ROUNDING) for same, v in pairs):
                texts[index] = _with_digits(float(value), digits)
    return texts


def _with_digits(value: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value) or value == 0:
        return f"{value:g}".replace("-0", "0")
    if not _is_plain(abs(value)):
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = _formatted(value, decimals, scientific=False)
    return text.rstrip("0").rstrip(".") if decimals else text


def _is_plain(size: float) -> bool:
    return size == 0 or _LEAST_PLAIN <= size < _GREATEST_PLAIN


def _formatted(value: float, decimals: int, scientific: bool) -> str:
    if value == 0 and scientific:
        return "0"
    return f"{value:.{decimals}e}" if scientific else f"{value:,.{decimals}f}"
