"""What a figure shows, described once: the interactive chart, saved pages and matplotlib all read a `FigureData`.

Colour is the thing, a panel is the field: each field has its own panel, and a thing has the same colour in all panels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from toolkit.charts.columns import Kind, kind_of, values_of
from toolkit.charts.look import LOOK, Style, style_at

Numbers = np.ndarray[Any, np.dtype[np.float64]]
#: The unit of the values, for all fields or by field.
Unit: TypeAlias = str | Mapping[str, str] | None

#: If a column has more different texts, all further ones are drawn as one state.
_MOST_STATES = 1000
_OTHER_STATES, _MAX_STATE_CHARACTERS = "other", 100
#: More rings would hide the line; the rest are counted in words.
_MOST_RINGS: int = LOOK["rings"]["most"]


class ChartMarks(NamedTuple):
    """What to mark: frames as ``frame.dweets.gaps()``, ``.outliers()`` and ``.shifts()`` return them."""

    gaps: pd.DataFrame | None = None
    outliers: pd.DataFrame | None = None
    shifts: pd.DataFrame | None = None
    #: Numbers to draw as level lines, by field.
    thresholds: Mapping[str, Sequence[float]] = {}

    def worst_outliers(self) -> pd.DataFrame | None:
        """Return the outliers to mark: at most ten, those with the greatest scores."""
        if self.outliers is None:
            return None
        return self.outliers[self.outliers["score"].rank(method="first", ascending=False).to_numpy() <= _MOST_RINGS]

    def of(self, thing: str, field: str) -> ChartMarks:
        """Return the marks of one line, with None instead of a frame without rows."""
        names = {"thing": thing, "field": field} if thing else {"field": field}

        def own(found: pd.DataFrame | None) -> pd.DataFrame | None:
            for name, value in names.items():
                if found is not None and name in found.columns:
                    found = found[found[name] == value]
            return found if found is not None and len(found) else None

        return self._replace(gaps=own(self.gaps), outliers=own(self.outliers), shifts=own(self.shifts))

    def note(self) -> str:
        """Return how many outliers are not marked, in words; empty if all are."""
        count = 0 if self.outliers is None else len(self.outliers)
        return f"the worst {_MOST_RINGS} of {count:,} outliers are marked" if count > _MOST_RINGS else ""


class Line(NamedTuple):
    """The values of a field of a thing, in order of time. For texts they are indices of `states`."""

    thing: str
    field: str
    kind: Kind
    unit: str
    values: pd.Series[float]
    states: Sequence[str]
    #: Of this line only, and only the worst outliers.
    marks: ChartMarks

    def message(
        self, pieces: int | None, times: Callable[[pd.Index[Any]], Any], numbers: Callable[[np.ndarray[Any, Any]], Any]
    ) -> dict[str, Any]:
        """Return a line of `chart.setData` of chart.js, `thinned` to pieces; two functions write times and numbers."""
        values = self.values if pieces is None else thinned(self.values, pieces)
        message = {name: getattr(self, name) for name in ("thing", "field", "kind", "unit", "states")}
        message |= {"x": times(values.index), "y": numbers(values.to_numpy())}
        if (outliers := self.marks.outliers) is not None:
            names = {"y": "value", "expected": "expected", "score": "score"}
            rings = {name: numbers(outliers[column].to_numpy("float64")) for name, column in names.items()}
            message["rings"] = {"x": times(outliers.index), **rings}
        return message


@dataclass(frozen=True)
class FigureData:
    """A figure: its lines, and what is marked in them."""

    lines: list[Line]
    #: In the order of their colours; with those that an earlier drawing of the same figure had.
    things: list[str]
    marks: ChartMarks
    time_name: str
    #: The IANA name of the time zone; None if times have no zone.
    zone: str | None

    @property
    def panels(self) -> list[list[Line]]:
        """The lines of each field."""
        by_field: dict[str, list[Line]] = {}
        for line in self.lines:
            by_field.setdefault(line.field, []).append(line)
        return list(by_field.values())

    @property
    def drawn_things(self) -> list[str]:
        """The things that have a line, in the order of their colours."""
        drawn = {line.thing for line in self.lines}
        return [thing for thing in self.things if thing in drawn]

    @property
    def has_values(self) -> bool:
        return any(line.values.notna().any() for line in self.lines)

    @property
    def time_label(self) -> str:
        """The name of the time axis, with its zone and a note about the marks."""
        named = f"{self.time_name} ({self.zone or 'no time zone'})"
        return " · ".join(filter(None, (named, self.marks.note())))

    def style(self, thing: str) -> Style:
        return style_at(self.things.index(thing) if thing else 0)  # without a name, there is only one thing

    def message(self) -> dict[str, Any]:
        """Return all but the lines, as `chart.setData` and `chart.setAxis` of chart.js take it."""
        gaps, shifts = self.marks.gaps, self.marks.shifts
        return {
            "things": self.things,
            "gaps": [] if gaps is None else _intervals(gaps),
            "shifts": [] if shifts is None else _intervals(shifts, "field", "explained_by"),
            "thresholds": self.marks.thresholds,
            "note": self.marks.note(),
            "zone": self.zone,
            "timeName": self.time_name,
        }

    def of_things(self, things: Sequence[str] | None) -> FigureData:
        """Return the figure with the lines of these things only; None for all."""
        return self if things is None else replace(self, lines=[line for line in self.lines if line.thing in things])


def figure_data(
    frame: pd.DataFrame,
    fields: Sequence[str],
    marks: ChartMarks | None = None,
    unit: Unit = None,
    *,
    regular: bool = False,
    known_things: Sequence[str] = (),
) -> FigureData:
    """Describe a figure with a line for each thing and field.

    Gaps interrupt lines; with `regular` (the frame was resampled), missing values do too. Otherwise missing values are
    skipped, because not every dweet has every field. `known_things` keep their colours; new ones take the next.
    """
    lines: list[Line] = []
    marks = marks or ChartMarks()
    drawn_marks = marks._replace(outliers=marks.worst_outliers())
    units = unit if isinstance(unit, Mapping) else dict.fromkeys(fields, unit or "")
    kinds = {field: kind_of(frame[field]) or "number" for field in fields}
    frame = frame.assign(**{field: values_of(frame[field], kind) for field, kind in kinds.items()})
    states = {field: pd.factorize(frame[field])[1].tolist() for field in fields if kinds[field] == "text"}
    by_thing = frame.groupby("thing", sort=False, observed=True) if "thing" in frame.columns else [("", frame)]
    for thing, rows in by_thing:
        for field in fields:
            kind, values = kinds[field], rows[field]
            if thing and values.isna().all():  # only other things have this field
                continue
            if kind == "text":
                codes = pd.Categorical(values, categories=states[field]).codes.astype("float64")
                values = pd.Series(np.where(codes < 0, np.nan, np.minimum(codes, _MOST_STATES)), index=values.index)
            own = drawn_marks.of(str(thing), field)
            drawn = _line_values(values, own.gaps, kind, regular)
            line_unit = units.get(field, "") if kind == "number" else ""
            lines.append(Line(str(thing), field, kind, line_unit, drawn, _shown_states(states.get(field, [])), own))
    ordered = [line for field in fields for line in lines if line.field == field]
    things = list(dict.fromkeys([*known_things, *(line.thing for line in lines if line.thing)]))
    time_name, zone = str(frame.index.name or "time"), frame.index.tz  # type: ignore[attr-defined]
    # A zone without a name, such as +02:00, is shown as UTC.
    return FigureData(ordered, things, marks, time_name, zone and (getattr(zone, "key", None) or "UTC"))


def _shown_states(states: Sequence[str]) -> list[str]:
    shown = [str(state)[:_MAX_STATE_CHARACTERS] for state in states[:_MOST_STATES]]
    return shown + [_OTHER_STATES] * (len(states) > _MOST_STATES)


def _intervals(found: pd.DataFrame, *more: str) -> list[list[Any]]:
    """Return thing, start, end and these columns of each row."""
    things = found["thing"].tolist() if "thing" in found.columns else [""] * len(found)
    columns = [seconds_of(found[name]).tolist() for name in ("start", "end")]
    columns += [found[name].astype("object").where(found[name].notna(), "").tolist() for name in more]
    return [list(row) for row in zip(things, *columns, strict=True)]


def _line_values(column: pd.Series[Any], gaps: pd.DataFrame | None, kind: Kind, regular: bool) -> pd.Series[float]:
    values = (column if regular else column.dropna()).astype("float64")
    if gaps is not None:
        # A NaN in each gap interrupts the line: in the middle for numbers; at the start for states, which end there.
        offset = (gaps["end"] - gaps["start"]) / 2 if kind == "number" else pd.Timedelta("1us")
        times = pd.DatetimeIndex(gaps["start"] + offset)
        values = pd.concat([values, pd.Series(float("nan"), index=times, dtype="float64")])
    return values[values.index.notna()].sort_index(kind="stable")


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
