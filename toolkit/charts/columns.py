"""Which columns of a frame can be analysed and drawn, and which of their values count.

A column has numbers, truth values or texts. One ``"n/a"`` among numbers makes it a column of objects, as devices send
them: such a column is of the kind of at least half of its values, and the others are left out and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from toolkit.errors import InvalidArgument
from toolkit.frames import check_columns_differ
from toolkit.system.nearest_name import missing_names

Kind = Literal["number", "boolean", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBERS = KINDS[:1]
_NOUNS: dict[Kind, str] = {"number": "number", "boolean": "truth value", "text": "text"}
_MAX_EXAMPLE_CHARACTERS = 40
#: Numbers that devices and weather services send where they have no value.
_CODES = [sign * code for code in (999, 999.9, 9999, 9999.9, 99999) for sign in (1, -1)] + [-99, -99.9]


class ChosenColumns(NamedTuple):
    """The chosen columns of a frame, with ``thing`` if it has that; all values are of the kind of their column."""

    frame: pd.DataFrame
    names: list[str]
    #: Which values were left out, and which are doubtful, as text for a warning; empty if there are none.
    notes: str


def kind_of(column: pd.Series[Any]) -> Kind | None:
    """Return how a column is drawn, or None if it cannot be drawn."""
    if column.dtype == object:
        counts = Counter(_kinds_of_values(column.dropna()))
        return next((kind for kind in KINDS if counts[kind] and 2 * counts[kind] >= counts.total()), None)
    if pd.api.types.is_bool_dtype(column.dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return "number"
    return "text" if pd.api.types.is_string_dtype(column.dtype) else None


def values_of(column: pd.Series[Any], kind: Kind) -> pd.Series[Any]:
    """Return the values of this kind; all others are missing, and so are infinite numbers."""
    if column.dtype == object:
        kept = [value if found == kind else None for value, found in zip(column, _kinds_of_values(column), strict=True)]
        if kind != "number":
            return pd.Series(kept, column.index, dtype="boolean" if kind == "boolean" else "str", name=column.name)
        column = pd.Series(map(_float, kept), column.index, dtype="float64", name=column.name)
    if kind != "number" or pd.api.types.is_integer_dtype(column.dtype):
        return column
    numbers = column.astype("float64")
    infinite = np.isinf(numbers)
    return numbers.mask(infinite) if infinite.any() else column


def left_out_text(column: pd.Series[Any], values: pd.Series[Any], kind: Kind = "number") -> str:
    """Say how many values of a column are not among `values`, with an example; empty if all are."""
    present = column.notna().to_numpy(dtype=bool)
    left_out = present & values.isna().to_numpy(dtype=bool)
    if not (count := int(left_out.sum())):
        return ""
    first = column[left_out].iloc[0]
    example = repr(first.item() if isinstance(first, np.generic) else first)[:_MAX_EXAMPLE_CHARACTERS]
    are = f"is no {_NOUNS[kind]}" if count == 1 else f"are no {_NOUNS[kind]}s"
    return f"{column.name}: {count:,} of {int(present.sum()):,} values {are} ({example}), left out"


def missing_codes_text(frame: pd.DataFrame) -> str:
    """Say which numbers probably stand for missing values, as -999 among temperatures; empty if there are none.

    Such a number is farther from all others than these are from each other, and from 0.
    """
    texts, far_codes = [], []
    for name, column in frame.items():
        numbers = column.to_numpy("float64", na_value=np.nan)
        is_code = np.isin(numbers, _CODES)
        if not is_code.any():
            continue
        others = numbers[~is_code & ~np.isnan(numbers)]
        if len(others) < 2:
            continue
        least, most = others.min(), others.max()
        for code, count in zip(*np.unique(numbers[is_code], return_counts=True), strict=True):
            if max(least - code, code - most) > max(most - least, abs(least), abs(most)):
                are = "is" if count == 1 else "are"
                texts.append(f"{name}: {count:,} of {len(others) + is_code.sum():,} values {are} {code:g}")
                far_codes.append(f"{code:g}")
    codes = ", ".join(dict.fromkeys(far_codes))
    advice = f"far from all others: if that means no value, use frame.replace([{codes}], float('nan'))"
    return f"{'; '.join(texts)}, {advice}" if texts else ""


def drawable_columns(frame: pd.DataFrame, kinds: Sequence[Kind] = KINDS) -> list[str]:
    """Return the names of the columns that a chart can draw: numbers first, then truth values, then texts."""
    kind_of_name = {str(name): kind_of(column) for name, column in frame.items() if name != "thing"}
    return [name for kind in kinds for name, found_kind in kind_of_name.items() if found_kind == kind]


def chosen_columns(
    frame: pd.DataFrame, fields: str | Sequence[str] | None, kinds: Sequence[Kind] = KINDS
) -> ChosenColumns:
    """Return the chosen columns (None: all numbers); raise InvalidArgument if one is not of `kinds`.

    A field that is named may have fewer numbers than other values.
    """
    check_columns_differ(frame)
    if not all(isinstance(name, str) for name in frame.columns):
        raise InvalidArgument("name every column with text: frame.set_axis(frame.columns.map(str), axis='columns')")
    if fields is None:
        names = drawable_columns(frame, NUMBERS)
    else:
        names = [fields] if isinstance(fields, str) else list(dict.fromkeys(fields))
        if missing := [name for name in names if name not in frame.columns]:
            known = list(dict.fromkeys([*drawable_columns(frame, kinds), *frame.columns]))
            raise InvalidArgument(missing_names("the frame does not have", "field", missing, len(names), known))
        if wrong := [name for name in names if not _is_of_kinds(frame.get(name), kinds)]:
            drawable = "cannot be drawn; numbers, truth values and texts"
            problem = "holds no numbers; numbers" if kinds == NUMBERS else drawable
            offered = ", ".join(drawable_columns(frame, kinds)) or "no column"
            texts = [name for name in wrong if kinds == NUMBERS and kind_of(frame[name]) == "text"]
            advice = f"; frame.dweets.numeric({texts[0]!r}) converts texts that mean numbers" if texts else ""
            raise InvalidArgument(f"{', '.join(wrong)} {problem} are in {offered}{advice}")
    kind_of_name = {name: (kinds == NUMBERS and "number") or kind_of(frame[name]) or "number" for name in names}
    values = {name: values_of(frame[name], kind) for name, kind in kind_of_name.items()}
    texts = [left_out_text(frame[name], values[name], kind) for name, kind in kind_of_name.items()]
    texts.append(missing_codes_text(pd.DataFrame({n: values[n] for n in names if kind_of_name[n] == "number"})))
    columns = [*(["thing"] if "thing" in frame.columns else []), *names]
    return ChosenColumns(frame[columns].assign(**values), names, "; ".join(filter(None, texts)))


def _is_of_kinds(column: pd.Series[Any] | None, kinds: Sequence[Kind]) -> bool:
    if column is None or column.name == "thing":
        return False
    if kinds == NUMBERS and column.dtype == object:
        return "number" in _kinds_of_values(column.dropna())
    return kind_of(column) in kinds


def _kinds_of_values(values: Iterable[Any]) -> list[Kind | None]:
    return [_kind_of_type(type(value)) for value in values]  # type: ignore[arg-type]


@cache
def _kind_of_type(found: type) -> Kind | None:
    if issubclass(found, bool | np.bool_):
        return "boolean"
    if issubclass(found, Real | Decimal):
        return "number"
    return "text" if issubclass(found, str) else None


def _float(value: Any) -> float:  # noqa: ANN401
    try:
        return math.nan if value is None else float(value)
    except OverflowError:  # an integer beyond 1.8e308
        return math.inf
