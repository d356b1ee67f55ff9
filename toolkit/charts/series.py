"""The lines of a chart: columns of a frame by thing and field, and the gaps and outliers marked in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd

from toolkit.errors import InvalidArgument
from toolkit.frames import check_columns_differ
from toolkit.system.nearest_name import missing_names

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Kind = Literal["number", "boolean", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBERS = KINDS[:1]
#: The unit of the values, for all fields or by field.
Unit: TypeAlias = str | Mapping[str, str] | None

_MAX_MAGNITUDE_RATIO = 10
#: If a column has more different texts, all further ones are drawn as one state, because colours would not differ.
_MOST_STATES = 1000
_OTHER_STATES, _MAX_STATE_CHARACTERS = "other", 100
#: Colours that colour-blind people can tell apart, each with a contrast above 3 on white and on #111. A search made the
#: least difference between two colours as large as possible, both for normal and for colour-blind eyes.
PALETTE = (
    "#17A0CD", "#975D94", "#9A7CFA", "#9A4945", "#1C73E2",
    "#3C6C6A", "#C26C6B", "#6E7F36", "#7645C0", "#A28D16",
)  # fmt: skip
#: Lengths of dashes and spaces in pixels: with more than ten lines, they tell lines of the same colour apart.
_DASHES: tuple[tuple[int, ...], ...] = ((), (8, 4), (2, 3), (12, 3, 2, 3))


class ChartMarks(NamedTuple):
    """The gaps and outliers to mark in a chart: frames as ``frame.dweets.gaps()`` and ``.outliers()`` return them."""

    gaps: pd.DataFrame | None = None
    outliers: pd.DataFrame | None = None


class Line(NamedTuple):
    """A line of a chart: the values of a field of a thing, in order of time. For texts they are indices of `states`."""

    name: str
    field: str
    thing: str
    kind: Kind
    unit: str
    values: pd.Series[float]
    states: Sequence[str]
    #: None if there are none.
    outliers: pd.DataFrame | None


def kind_of(column: pd.Series[Any]) -> Kind | None:
    """Return how a column is drawn, or None if it cannot be drawn."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return "number"
    return "text" if pd.api.types.is_string_dtype(column.dtype) and column.dtype != object else None


def drawable_columns(frame: pd.DataFrame, kinds: Sequence[Kind] = KINDS) -> list[str]:
    """Return the names of the columns that a chart can draw: numbers first, then truth values, then texts."""
    kind_of_name = {str(name): kind_of(column) for name, column in frame.items() if name != "thing"}
    return [name for kind in kinds for name, found_kind in kind_of_name.items() if found_kind == kind]


def chosen_columns(frame: pd.DataFrame, fields: str | Sequence[str] | None, kinds: Sequence[Kind] = KINDS) -> list[str]:
    """Return the names of the chosen columns (None: all numbers); raise InvalidArgument if one is not of `kinds`."""
    check_columns_differ(frame)
    if not all(isinstance(name, str) for name in frame.columns):
        raise InvalidArgument("name every column with text: frame.set_axis(frame.columns.map(str), axis='columns')")
    if fields is None:
        return drawable_columns(frame, NUMBERS)
    chosen, offered = [fields] if isinstance(fields, str) else list(fields), drawable_columns(frame, kinds)
    if missing := [name for name in chosen if name not in frame.columns]:
        known = [name for name in offered if name != "thing"]
        raise InvalidArgument(missing_names("the frame does not have", "field", missing, len(chosen), known))
    if wrong := [name for name in chosen if name not in offered]:
        drawable = "cannot be drawn; numbers, truth values and texts"
        problem = "holds no numbers; numbers" if kinds == NUMBERS else drawable
        raise InvalidArgument(f"{', '.join(wrong)} {problem} are in {', '.join(offered) or 'no column'}")
    return chosen


def lines_of(
    frame: pd.DataFrame,
    fields: Sequence[str],
    marks: ChartMarks | None = None,
    unit: Unit = None,
    *,
    regular: bool = False,
) -> list[Line]:
    """Return a line for each thing and field.

    Gaps interrupt lines; with `regular` (the frame was resampled), missing values do too. Otherwise missing values are
    skipped, because not every dweet has every field.
    """
    lines: list[Line] = []
    gaps, outliers = marks or ChartMarks()
    units = unit if isinstance(unit, Mapping) else dict.fromkeys(fields, unit or "")
    states = {field: pd.factorize(frame[field])[1].tolist() for field in fields if kind_of(frame[field]) == "text"}
    things = frame.groupby("thing", sort=False, observed=True) if "thing" in frame.columns else [("", frame)]
    for thing, rows in things:
        thing_gaps = gaps if gaps is None or not thing else gaps[gaps["thing"] == thing]
        for field in fields:
            kind, values = kind_of(frame[field]) or "number", rows[field]
            if thing and values.isna().all():  # only other things have this field
                continue
            if kind == "text":
                codes = pd.Categorical(values, categories=states[field]).codes.astype("float64")
                values = pd.Series(np.where(codes < 0, np.nan, np.minimum(codes, _MOST_STATES)), index=values.index)
            shown = [str(state)[:_MAX_STATE_CHARACTERS] for state in states.get(field, [])[:_MOST_STATES]]
            shown += [_OTHER_STATES] * (len(states.get(field, ())) > _MOST_STATES)
            drawn = _line_values(values, thing_gaps, kind, regular)
            name = f"{thing} {field}".lstrip() if len(fields) > 1 or not thing else str(thing)
            line_unit = units.get(field, "") if kind == "number" else ""
            rings = _outliers_of(outliers, thing, field)
            lines.append(Line(name, field, str(thing), kind, line_unit, drawn, shown, rings))
    return lines


def _outliers_of(outliers: pd.DataFrame | None, thing: object, field: str) -> pd.DataFrame | None:
    if outliers is None:
        return None
    matches = outliers["field"] == field
    if thing and "thing" in outliers.columns:
        matches &= outliers["thing"] == thing
    return outliers[matches] if matches.any() else None


def _line_values(column: pd.Series[Any], gaps: pd.DataFrame | None, kind: Kind, regular: bool) -> pd.Series[float]:
    values = (column if regular else column.dropna()).astype("float64")
    if gaps is not None and len(gaps):
        # A NaN in each gap interrupts the line: in the middle for numbers; at the start for states, which end there.
        offset = (gaps["end"] - gaps["start"]) / 2 if kind == "number" else pd.Timedelta("1us")
        times = pd.DatetimeIndex(gaps["start"] + offset)
        values = pd.concat([values, pd.Series(float("nan"), index=times, dtype="float64")])
    return values[values.index.notna()].sort_index(kind="stable")


def panels_of(lines: Sequence[Line]) -> list[list[Line]]:
    """Group lines into panels by kind, magnitude and unit."""
    sizes: dict[str, float] = {}
    for line in lines:
        finite = line.values[np.isfinite(line.values)].abs()
        if line.kind == "number" and len(finite):
            sizes[line.field] = max(float(finite.max()), sizes.get(line.field, 0.0))
    positive = [size for size in sizes.values() if size > 0]
    share_panel = not positive or max(positive) <= _MAX_MAGNITUDE_RATIO * min(positive)
    share_panel &= len({line.unit for line in lines if line.kind == "number"}) < 2
    panels: dict[str, list[Line]] = {}
    for line in lines:
        key = "number" if line.kind == "number" and share_panel else f"{line.kind} {line.field}"
        panels.setdefault(key, []).append(line)
    return list(panels.values())


def seconds_of(times: pd.Index[Any] | pd.Series[Any]) -> Numbers:
    """Return times as seconds since 1970; times without a zone as if they were UTC."""
    seconds: Numbers = pd.DatetimeIndex(times).as_unit("us").asi8 / 1e6
    return seconds


def thinned(values: pd.Series[float], pieces: int) -> pd.Series[float]:
    """Keep the least and the greatest value of each piece of a line, so that no spike is lost.

    A line of up to three values per piece stays as it is. Only a piece without any value interrupts the result:
    shorter interruptions would be too narrow to see.
    """
    if len(values) <= 3 * pieces:
        return values
    length = -(-len(values) // pieces)
    grid = np.append(values.to_numpy(), np.full(length * pieces - len(values), np.nan)).reshape(pieces, length)
    least_index = np.where(np.isnan(grid), np.inf, grid).argmin(axis=1)
    greatest_index = np.where(np.isnan(grid), -np.inf, grid).argmax(axis=1)
    starts = np.arange(pieces) * length
    indices = np.sort(np.concatenate([starts + least_index, starts + greatest_index]))
    return values.iloc[indices[indices < len(values)]]


class Style(NamedTuple):
    """How a line is drawn."""

    colour: str
    dash: tuple[int, ...]


def styles_of(names: Iterable[str], style_of_name: dict[str, Style]) -> dict[str, Style]:
    """Return the styles of lines drawn together; add new ones to `style_of_name`.

    A name keeps its style. A new name, or a name whose style another line has, gets the colour of its hash, or if that
    is used more often than others, the next of the least used colours.
    """
    styles: dict[str, Style] = {}
    for name in sorted(dict.fromkeys(names), key=lambda name: name not in style_of_name):
        if name not in style_of_name or style_of_name[name] in styles.values():
            uses = Counter(style.colour for style in styles.values())
            fewest = min(uses[colour] for colour in PALETTE)
            index = _name_hash(name) % len(PALETTE)
            while uses[PALETTE[index]] > fewest:
                index = (index + 1) % len(PALETTE)
            style_of_name[name] = Style(PALETTE[index], _DASHES[fewest % len(_DASHES)])
        styles[name] = style_of_name[name]
    return styles


def _name_hash(name: str) -> int:
    # FNV-1a, as `colourOf` of lines.js: Python's own hash differs between processes.
    number = 2_166_136_261
    for byte in name.encode("utf-8", "replace"):
        number = (number ^ byte) * 16_777_619 & 0xFFFFFFFF
    return number
