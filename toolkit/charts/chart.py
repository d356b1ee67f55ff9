"""The interactive chart as a widget of a notebook."""

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import numpy as np
import pandas as pd
import traitlets
from PIL import Image

from toolkit.argument_checks import checked_arguments, described
from toolkit.charts.assets import chart_styles, widget_module
from toolkit.charts.figure import chart_figure
from toolkit.charts.saved import SavedFigure, output_html, page_html
from toolkit.charts.series import ChartMarks, Unit, figure_data, seconds_of
from toolkit.errors import InvalidArgument
from toolkit.frames import table_bytes
from toolkit.widgets.cell_runs import close_earlier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A chart of more points is thinned before it is sent: a point takes 16 bytes, and the browser holds all points.
_MOST_POINTS = 2_000_000
_DECIMALS = 6  # of seconds

TimeRange = tuple[pd.Timestamp, pd.Timestamp]


@checked_arguments
class Chart(anywidget.AnyWidget):
    """An interactive chart of columns over time: point to read values, drag to zoom, double-click to show everything.

    Each field has its own panel, and each thing its colour, which it keeps in all panels and for all later data.

    Parameters
    ----------
    frame
        A frame with a DatetimeIndex; None for an empty chart. With a column ``thing``, each thing has its own lines.
    fields
        Columns of numbers, truth values (drawn as steps) or texts (drawn as a band of states).
    unit
        The unit of the values, for all fields or by field.
    marks
        Gaps, outliers and level shifts to mark in the chart.
    height
        Height of the plots in pixels. Several panels may need more: the chart grows with them up to the height of the
        window, and then the plots scroll.
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
        file_name: str = "chart",
    ) -> None:
        options = {"height": height, "fileName": file_name}
        super().__init__(_options=options)
        self.file_name = file_name
        self._things: list[str] = []  # in the order of their colours
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
        self._frame, self._empty = frame, empty
        self._figure = figure = figure_data(frame, fields, marks, unit, regular=regular, known_things=self._things)
        self._things = figure.things
        self._points = sum(int(line.values.notna().sum()) for line in figure.lines)
        is_thinned = sum(len(line.values) for line in figure.lines) > _MOST_POINTS
        # 3, because `thinned` leaves a line of up to three values per piece as it is.
        pieces = _MOST_POINTS // 3 // max(1, len(figure.lines)) if is_thinned else None
        axes: list[bytes] = []  # lines that have the same times share them

        def place_of(times: "pd.Index[Any]") -> int:
            packed = seconds_of(times).tobytes()
            if packed not in axes:
                axes.append(packed)
            return axes.index(packed)

        lines = [line.message(pieces, place_of, np.ndarray.tobytes) for line in figure.lines]
        self._data = figure.message() | {"axes": axes, "lines": lines, "empty": empty, "isThinned": is_thinned}

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

    def _on_message(self, _widget: object, message: Any, _buffers: object) -> None:  # noqa: ANN401
        """Let the browser download the file that it asks for."""
        if export := {"svg": self.svg, "csv": self.csv}.get(message.get("ask")):
            self.send({"download": f"{self.file_name}.{message['ask']}"}, [export(message["things"])])

    def csv(self, things: Sequence[str] | None = None) -> bytes:
        """Return the visible range as CSV, with the lines of these things; None for all."""
        start, end = self.visible_range or (self._frame.index.min(), self._frame.index.max())
        rows, figure = self._frame[(self._frame.index >= start) & (self._frame.index <= end)], self._figure
        figure = figure.of_things(things)
        columns = list(dict.fromkeys(line.field for line in figure.lines))
        if "thing" in rows.columns:
            rows, columns = rows[rows["thing"].isin(figure.drawn_things)], ["thing", *columns]
        return table_bytes(rows[columns], ".csv")

    def svg(self, things: Sequence[str] | None = None) -> bytes:
        """Return the visible range as SVG, with the lines of these things; None for all."""
        file = BytesIO()
        self._matplotlib_figure(things).savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()

    def png(self) -> bytes:
        """Return the visible range as PNG."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure, file = self._matplotlib_figure(), BytesIO()
        figure.set_dpi(96)
        canvas = FigureCanvasAgg(figure)  # savefig would draw twice, and write a PNG of all colours first
        canvas.draw()
        pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        pixels.quantize(64, dither=Image.Dither.NONE).save(file, "PNG")  # a third of the bytes
        return file.getvalue()

    def _matplotlib_figure(self, things: Sequence[str] | None = None) -> "Figure":
        return chart_figure(self._figure.of_things(things), visible_range=self.visible_range, empty=self._empty)

    def save(self, path: str | Path, tables: Mapping[str, pd.DataFrame] | None = None) -> None:
        """Write the chart to an HTML file that works without a kernel and without a network: values, zoom, downloads.

        Of more than half a million points, the file has those that matter: no spike is lost. With tables (by name), it
        shows its rows below the chart, and then the tables.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created", tz="UTC")
        >>> with TemporaryDirectory() as folder:
        ...     pd.DataFrame({"celsius": range(48)}, index=times).dweets.chart().save(f"{folder}/week.html")
        """
        file = Path(path)
        if file.suffix.lower() not in (".html", ".htm"):  # a browser would not open it as a page
            raise InvalidArgument(f"name a file that ends in .html, not {described(str(path))}")
        file.write_text(page_html(self._saved(tables), title=file.stem), "utf-8")

    def saved_html(self, picture: bytes, summary: str = "", tables: Mapping[str, pd.DataFrame] | None = None) -> str:
        """Return the saved chart as the output of a notebook, with this picture for pages without scripts."""
        return output_html(self._saved(tables), picture, summary or repr(self))

    def _saved(self, tables: Mapping[str, pd.DataFrame] | None) -> SavedFigure:
        return SavedFigure(self._figure, self._options | {"empty": self._empty}, self.visible_range, tables)

    def __repr__(self) -> str:
        fields = ", ".join(dict.fromkeys(line.field for line in self._figure.lines)) if hasattr(self, "_figure") else ""
        return f"<Chart: {self._points:,} points of {fields}>" if fields else "<Chart: no data>"

    def _repr_mimebundle_(self, **_given: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401 - as in IPython
        """Return the widget; for pages without a kernel the saved chart, a picture and a text."""
        data, metadata = super()._repr_mimebundle_() or ({}, {})
        picture = self.png()
        encoded = base64.b64encode(picture).decode("ascii")
        shown = {"text/html": self.saved_html(picture), "image/png": encoded, "text/plain": repr(self)}
        return data | shown, metadata
