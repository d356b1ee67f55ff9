"""The interactive chart as a widget of a notebook."""

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Literal

import anywidget
import numpy as np
import pandas as pd
import traitlets

from toolkit.argument_checks import checked_arguments, described
from toolkit.charts.assets import chart_styles, widget_module
from toolkit.charts.figure import chart_figure, noted
from toolkit.charts.series import ChartMarks, Line, Style, Unit, lines_of, panels_of, seconds_of, styles_of, thinned
from toolkit.errors import InvalidArgument
from toolkit.frames import table_bytes
from toolkit.widgets.cell_runs import close_earlier

#: A chart of more points is thinned before it is sent: a point takes 16 bytes, and the browser holds all points.
_MOST_POINTS = 2_000_000
_DECIMALS = 6  # of seconds

TimeRange = tuple[pd.Timestamp, pd.Timestamp]


@checked_arguments
class Chart(anywidget.AnyWidget):
    """An interactive chart of columns over time: point to read values, drag to zoom, double-click to show everything.

    Parameters
    ----------
    frame
        A frame with a DatetimeIndex; None for an empty chart. With a column ``thing``, each thing has its own lines.
    fields
        Columns of numbers, truth values (drawn as steps) or texts (drawn as a band of states).
    unit
        The unit of the values, for all fields or by field.
    marks
        Gaps and outliers to mark in the chart.
    height
        Height of the plots in pixels; several panels may need more.
    max_height
        Height in pixels above which the plots scroll.
    file_name
        Name of downloaded files, without suffix.

    Attributes
    ----------
    visible_range : tuple of two pandas.Timestamp, or None
        The visible start and end; None for everything. Set it to zoom, observe it to be told of each zoom and pan.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created", tz="UTC")
    >>> chart = Chart(pd.DataFrame({"celsius": range(48)}, index=times), ["celsius"], unit="°C")
    >>> chart.visible_range = "2026-01-01 06:00", "2026-01-01 12:00"
    >>> chart
    <Chart: 48 points of celsius>
    """

    _esm = widget_module()
    _css = chart_styles()
    _options = traitlets.Dict().tag(sync=True)
    _data = traitlets.Dict().tag(sync=True)
    _range = traitlets.List(traitlets.Float()).tag(sync=True)

    visible_range = traitlets.Any(None, allow_none=True)

    def __init__(
        self,
        frame: pd.DataFrame | None = None,
        fields: Sequence[str] = (),
        *,
        unit: Unit = None,
        marks: ChartMarks | None = None,
        height: int = 300,
        max_height: int = 480,
        file_name: str = "chart",
    ) -> None:
        options = {"height": height, "maxHeight": max_height, "fileName": file_name}
        super().__init__(_options=options)
        self.file_name = file_name
        self._style_of_name: dict[str, Style] = {}
        close_earlier(self, Chart)
        self.on_msg(self._on_message)
        no_rows = pd.DataFrame(index=pd.DatetimeIndex([], name="created", tz="UTC"))
        self.draw(no_rows if frame is None else frame, fields, unit=unit, marks=marks)

    def draw(
        self,
        frame: pd.DataFrame,
        fields: Sequence[str],
        *,
        unit: Unit = None,
        marks: ChartMarks | None = None,
        regular: bool = False,
        empty: str = "no data",
    ) -> None:
        """Replace and send the data; colours and visible range stay.

        With `regular` (a resampled frame), missing values interrupt a line. Without any point, `empty` is shown.
        """
        if not isinstance(frame.index, pd.DatetimeIndex):
            raise InvalidArgument("a chart needs a DatetimeIndex: frame.dweets.on(column) puts a time on the axis")
        self._frame, self._gaps, self._note = frame, marks and marks.gaps, marks.note() if marks else ""
        self._lines = lines_of(frame, fields, marks, unit, regular=regular)
        styles_of((line.name for line in self._lines), self._style_of_name)
        self._points = sum(int(line.values.notna().sum()) for line in self._lines)
        is_thinned = sum(len(line.values) for line in self._lines) > _MOST_POINTS
        # 3, because `thinned` leaves a line of up to three values per piece as it is.
        pieces = _MOST_POINTS // 3 // max(1, len(self._lines)) if is_thinned else None
        ends_of_gaps = [] if self._gaps is None else [seconds_of(self._gaps[name]) for name in ("start", "end")]
        self._data = {
            "lines": [
                self._line_message(line, panel, pieces)
                for panel, lines in enumerate(panels_of(self._lines))
                for line in lines
            ],
            "gaps": np.transpose(ends_of_gaps).tolist(),
            "empty": empty,
            "note": self._note,
            # A zone without a name, such as +02:00, is shown as UTC.
            "zone": frame.index.tz and (getattr(frame.index.tz, "key", None) or "UTC"),
            "timeName": str(frame.index.name or "time"),
            "isThinned": is_thinned,
        }

    def _line_message(self, line: Line, panel: int, pieces: int | None) -> dict[str, Any]:
        values = line.values if pieces is None else thinned(line.values, pieces)
        style, outliers = self._style_of_name[line.name], line.outliers
        names = ("name", "field", "thing", "kind", "unit", "states")
        message = {name: getattr(line, name) for name in names} | {
            "panel": panel,
            "colour": style.colour,
            "dash": list(style.dash),
            "x": seconds_of(values.index).tobytes(),
            "y": values.to_numpy().tobytes(),
        }
        if outliers is not None:
            y, expected = (outliers[name].to_numpy(dtype="float64").tobytes() for name in ("value", "expected"))
            message["rings"] = {"x": seconds_of(outliers.index).tobytes(), "y": y, "expected": expected}
        return message

    @traitlets.validate("visible_range")
    def _checked_range(self, proposal: Any) -> TimeRange | None:  # noqa: ANN401
        value = proposal["value"]
        if value is None:
            return None
        zone = self._frame.index.tz  # type: ignore[attr-defined]
        try:
            times = map(pd.Timestamp, value)
            # A frame without a zone is in UTC, and tz_convert(None) converts to UTC.
            start, end = (time.tz_convert(zone) if time.tzinfo else time.tz_localize(zone) for time in times)
        except (TypeError, ValueError):
            raise InvalidArgument(f"visible_range is None or two times, not {described(value)}") from None
        if not start < end:
            raise InvalidArgument(f"visible_range must end after its start {start}, not at {end}")
        return start, end

    @traitlets.observe("visible_range")
    def _send_range(self, change: Any) -> None:  # noqa: ANN401
        new = [] if change["new"] is None else seconds_of(pd.DatetimeIndex(list(change["new"]))).tolist()
        if not np.array_equal(np.round(new, _DECIMALS), np.round(self._range, _DECIMALS)):
            self._range = new

    @traitlets.observe("_range")
    def _receive_range(self, change: Any) -> None:  # noqa: ANN401
        utc = [pd.Timestamp(seconds, unit="s", tz="UTC").round("us") for seconds in change["new"]]
        self.visible_range = tuple(utc) if len(utc) == 2 else None

    def offer_download(self, name: str, content: bytes) -> None:
        """Make the browsers that show this chart download a file."""
        self.send({"download": name}, [content])

    def offer_text(self, text: str) -> None:
        """Copy a text to the clipboard of the browsers that show this chart, if they allow it."""
        self.send({"copy": text})

    def _on_message(self, _widget: object, message: Any, _buffers: object) -> None:  # noqa: ANN401
        if export := {"svg": self.svg, "csv": self.csv}.get(message.get("ask")):
            self.offer_download(f"{self.file_name}.{message['ask']}", export(message["lines"]))

    def _lines_named(self, names: Sequence[str] | None) -> list[Line]:
        return [line for line in self._lines if names is None or line.name in names]

    def csv(self, lines: Sequence[str] | None = None) -> bytes:
        """Return the visible range as CSV; `lines` has the names of the lines to include, None for all."""
        start, end = self.visible_range or (self._frame.index.min(), self._frame.index.max())
        rows, chosen = self._frame[(self._frame.index >= start) & (self._frame.index <= end)], self._lines_named(lines)
        columns = list(dict.fromkeys(line.field for line in chosen))
        if "thing" in rows.columns:
            rows, columns = rows[rows["thing"].isin([line.thing for line in chosen])], ["thing", *columns]
        return table_bytes(rows[columns], ".csv")

    def svg(self, lines: Sequence[str] | None = None) -> bytes:
        """Return the visible range as SVG; `lines` has the names of the lines to include, None for all."""
        return self._picture("svg", lines)

    def png(self) -> bytes:
        """Return the visible range as PNG."""
        return self._picture("png")

    def _picture(self, kind: Literal["png", "svg"], names: Sequence[str] | None = None) -> bytes:
        lines, empty = self._lines_named(names), self._data["empty"]
        time_name = noted(self._data["timeName"], self._note)
        styles, visible = self._style_of_name, self.visible_range
        figure = chart_figure(lines, self._gaps, time_name, styles, visible_range=visible, empty=empty)
        file = BytesIO()
        figure.savefig(file, format=kind, dpi=96, metadata={"Date": None} if kind == "svg" else None)
        return file.getvalue()

    def __repr__(self) -> str:
        fields = ", ".join(dict.fromkeys(line.field for line in self._lines)) if hasattr(self, "_lines") else ""
        return f"<Chart: {self._points:,} points of {fields}>" if fields else "<Chart: no data>"

    def _repr_mimebundle_(self, **_given: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401 - as in IPython
        """Return the widget, a picture for pages that cannot run widgets, and a text for pages without pictures."""
        data, metadata = super()._repr_mimebundle_() or ({}, {})
        picture = base64.b64encode(self.png()).decode("ascii")
        return data | {"image/png": picture, "text/plain": repr(self)}, metadata
