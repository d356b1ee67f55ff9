"""Texts that mean numbers, such as ``"21.5"`` or ``"21,5 °C"``, as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.charts.columns import KINDS, chosen_columns, kind_of, left_out_text, values_of
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.frames import check_columns_differ, declared_frame

Decimal = Literal[".", ","]
#: A sign, digits with one decimal separator, an exponent, and a unit such as °C or W/m2: neither a date nor a time is a
#: number with a unit.
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s\0+.,:/-]\D*[23]?)?")
#: So many rows show which separators a column has.
_LOOKED_AT = 1_000
#: So many rows show whether a column of texts means numbers.
_GLANCED_AT = 100
_REPORT = {
    "field": "str", "values": "int64", "numbers": "int64", "converted": "int64", "left_out": "int64", "unit": "str",
    "example": "str",
}  # fmt: skip


class _Conversion(NamedTuple):
    values: pd.Series[float]
    #: How many values were texts that mean numbers.
    converted: int
    unit: str


@checked_arguments
def numeric(
    frame: pd.DataFrame, fields: str | Sequence[str] | None = None, *, decimal: Decimal = ".", thousands: str = ""
) -> pd.DataFrame:
    """Return the frame with columns of texts that mean numbers, or of numbers and texts, as columns of numbers.

    Units are stripped. If units differ in a column, only values with the most frequent one, or without one, are kept:
    21 °C and 70 °F are not the same measure. What is no number is missing afterwards, and one warning has the number of
    such values and an example. `numeric_report` tells what is done to each column.

    Parameters
    ----------
    fields
        Columns to convert; None for all in which at least half of the values are, or mean, numbers.
    decimal
        The decimal separator: ``","`` reads ``"21,5 °C"``.
    thousands
        The separator of groups of digits, such as ``"."`` in ``"1.013,2"``.

    Returns
    -------
    pandas.DataFrame
        A copy; converted columns are float64, which rounds integers beyond 2**53. Other columns are as they were.

    Warns
    -----
    DataWarning
        Values that are no numbers were left out; or a column would be numbers with other separators.

    Examples
    --------
    >>> frame = pd.DataFrame({"celsius": ["21,5 °C", "22 °C", 20.5], "state": ["on", "on", "off"]})
    >>> frame.dweets.numeric(decimal=",")["celsius"].tolist()
    [21.5, 22.0, 20.5]
    """
    conversions = _conversions(frame, fields, decimal, thousands)
    texts = [left_out_text(frame[name], conversion.values) for name, conversion in conversions.items()]
    warn_caller(*texts, _advice(frame, fields, conversions, decimal, thousands))
    return frame.assign(**{name: conversion.values for name, conversion in conversions.items()})


@checked_arguments
def numeric_report(
    frame: pd.DataFrame, fields: str | Sequence[str] | None = None, *, decimal: Decimal = ".", thousands: str = ""
) -> pd.DataFrame:
    """Tell what `numeric` does to a frame, with the same arguments; call it before.

    Returns
    -------
    pandas.DataFrame
        One row for each column that is converted: ``field``, ``values`` (how many there are), ``numbers`` (of these,
        how many are numbers already), ``converted`` (texts that mean numbers), ``left_out`` (all others), ``unit``
        (what was stripped), ``example`` (the first value that is left out).

    Examples
    --------
    >>> frame = pd.DataFrame({"celsius": ["21.5 °C", 22.0, "n/a"]})
    >>> frame.dweets.numeric_report()
         field  values  numbers  converted  left_out unit example
    0  celsius       3        1          1         1   °C     n/a
    """
    rows = []
    for name, (values, converted, unit) in _conversions(frame, fields, decimal, thousands).items():
        present = frame[name].notna()
        left_out = frame[name][present & values.isna()]
        numbers = int(values.notna().sum()) - converted
        example = str(left_out.iloc[0]) if len(left_out) else None
        counts = {"values": int(present.sum()), "numbers": numbers, "converted": converted, "left_out": len(left_out)}
        rows.append({"field": name, **counts, "unit": unit, "example": example})
    return declared_frame(rows, _REPORT)


def unread_numbers(frame: pd.DataFrame) -> str:
    """Say which columns of texts mean numbers, and what reads them; empty if there are none."""
    beginning = frame.loc[:, [kind_of(column) == "text" for _, column in frame.items()]].head(_GLANCED_AT)
    found = _conversions(beginning, None, ".", "")
    if not found:
        advice = _advice(beginning, None, found, ".", "")
        return advice and f"{advice} in frame.dweets.numeric()"
    have = "have" if len(found) > 1 else "has"
    return f"{', '.join(map(repr, found))} {have} texts that mean numbers: frame.dweets.numeric() converts them"


def _advice(
    frame: pd.DataFrame, fields: str | Sequence[str] | None, converted: Collection[str], decimal: str, thousands: str
) -> str:
    """Say which columns would be numbers with other separators; empty if there are none."""
    best: list[str] = []
    most, advice = 0, ""
    for other in ((",", ""), (",", "."), (".", ","), (".", "'")):
        more = {
            name: int(conversion.values.notna().sum())
            for name, conversion in _conversions(frame.head(_LOOKED_AT), fields, *other).items()
            if name not in converted
        }
        if sum(more.values()) > most:
            most, best = sum(more.values()), list(more)
            advice = f"would be numbers with decimal={other[0]!r}, thousands={other[1]!r}"
    return f"{', '.join(map(repr, best))} {advice}" if best else ""


def _conversions(
    frame: pd.DataFrame, fields: str | Sequence[str] | None, decimal: str, thousands: str
) -> dict[str, _Conversion]:
    if len(thousands) > 1 or thousands == decimal or thousands.isdigit():
        raise InvalidArgument("thousands is one character, and not the decimal separator: '.' in '1.013,2'")
    check_columns_differ(frame)
    if fields is not None:
        names = chosen_columns(frame, fields, KINDS).names
    else:
        names = [name for name in frame.columns if isinstance(name, str) and name != "thing"]
    conversions = {}
    for name in names:
        column = frame[name]
        if column.dtype != object and not pd.api.types.is_string_dtype(column.dtype):
            continue
        conversion = _converted(column, decimal, thousands)
        found = int(conversion.values.notna().sum())
        if found and (fields is not None or 2 * found >= column.notna().sum()):
            conversions[name] = conversion
    return conversions


def _converted(column: pd.Series[Any], decimal: str, thousands: str) -> _Conversion:
    values = values_of(column.astype("object"), "number")
    read = {}
    for position, value in enumerate(column):
        if isinstance(value, str) and (match := _NUMBER.fullmatch(_plain(value, decimal, thousands))):
            read[position] = float(match[1]), (match[2] or "").strip()
    units = Counter(unit for _, unit in read.values() if unit)
    unit = units.most_common(1)[0][0] if units else ""
    kept = {position: number for position, (number, found) in read.items() if found in ("", unit)}
    values.iloc[[*kept]] = [*kept.values()]
    return _Conversion(values, len(kept), unit)


def _plain(text: str, decimal: str, thousands: str) -> str:
    """Return a text with a point as its decimal separator and a hyphen as its sign."""
    text = text.strip().replace("\N{MINUS SIGN}", "-")
    if thousands:
        text = re.sub(rf"(?<=\d){re.escape(thousands)}(?=\d{{3}}(\D|$))", "", text)
    return text if decimal == "." else text.replace(".", "\0").replace(decimal, ".")
