"""LiveDweets: a chart that follows things, with the latest value and the rate of each field."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd
import traitlets

from toolkit.argument_checks import checked_arguments
from toolkit.charts.chart import Chart
from toolkit.charts.columns import chosen_columns, drawable_columns
from toolkit.charts.series import ChartMarks
from toolkit.dweets.analysis.gaps import find_gaps
from toolkit.dweets.analysis.time_axis import put_on_time_axis
from toolkit.dweets.checked_values import Key, checked_name, checked_names
from toolkit.dweets.client.alerts import TriedCondition
from toolkit.dweets.client.listening import Listener
from toolkit.dweets.content_frame import history_frame
from toolkit.dweets.content_leaves import CREATED
from toolkit.dweets.frame_time import TimeSelection
from toolkit.dweets.widgets.live_readings import LiveReader, LiveReadings
from toolkit.errors import InvalidArgument, TimedOut, ToolkitError, counted
from toolkit.frames import utc_range
from toolkit.widgets.base import (
    CheckList,
    ServiceWidget,
    button,
    column,
    error_text,
    html_pane,
    in_turn,
    label,
    make,
    row,
    service_of,
    text_field,
)

if TYPE_CHECKING:
    from toolkit.dweets.client.dweets import DweetClient
    from toolkit.widgets.base import ServiceConnection

#: Seconds between two drawings: ten per second look smooth.
_DRAWING_PAUSE = 1 / 10
#: Without new dweets, the rates are shown again after this many seconds.
_RATE_REFRESH_SECONDS = 1.0
#: A widget that no page shows stops after this many seconds; a cell that is moved disappears for some milliseconds.
_UNSEEN_SECONDS = 2.0
_MOST_DRAWN_FIELDS, _MOST_OFFERED_FIELDS, _MOST_NAMED_THINGS = 6, 200, 3
_CHART_PIXELS = 260
#: A silence is a gap as in a history, if it is not only a short delay on the way.
_GAP_FACTOR, _LEAST_GAP = 1.5, pd.Timedelta("2s")


@checked_arguments
class LiveDweets(ServiceWidget):
    """Follow things: draw their last dweets as they arrive, with the latest value and the rate of each field.

    One thread reads each thing, and one thread draws at most ten times a second. The threads end with `stop`, at the
    end of a ``with`` statement, when the cell of the widget runs again, and when no page shows the widget any more (the
    cell was deleted or its output cleared; in ``toolkit lab`` also: the notebook or the page was closed). A widget that
    is shown again reads the missed dweets.

    Parameters
    ----------
    tk
        A connection.
    things
        The name of a thing, or several. A person can add and remove things while the widget runs.
    fields
        Names in the content (``"air.celsius"`` nested) to draw at first; None for the first six numbers in the content.
    unit
        The unit of the values, for all fields or by field: ``"°C"``, ``{"celsius": "°C", "pressure": "hPa"}``.
    time
        ``"created"``, or a name in the content that holds the device's own time: the time axis, and the index of
        `frame`.
    points, keep
        How many dweets of each thing are drawn, and kept for `frame`. InvalidArgument if `points` is below 2 or above
        `keep`, or the name of a thing is not valid; the widget itself shows all other errors.
    condition
        The condition of an alert, such as ``"dweet.celsius > 30"``, to try on the dweets that are shown: they are
        counted, and the numbers with which it compares fields are lines in the chart.
    key
        For locked things: one key, or a mapping of names to keys.

    Attributes
    ----------
    start_button, pause, stop_button, points, things, add_thing, fields, condition
        The controls: set ``.value`` or ``.click()`` as a person would.
    chart : toolkit.charts.chart.Chart
        The chart.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk, LiveDweets(tk, "roof", "celsius") as live:
    ...     _ = tk.dweets.post("roof", {"celsius": 21.5})
    ...     live.wait(1), live.frame["celsius"].tolist()
    (1, [21.5])
    """

    _drawer: threading.Thread | None = None
    #: When the last page stopped to show the widget; infinite while a page shows it.
    _unseen_since = math.inf
    #: Which drawn values were left out, or are doubtful; empty if there are none.
    _notes = ""
    #: Why the condition cannot be tried.
    _condition_error: ToolkitError | None = None

    def __init__(
        self,
        tk: ServiceConnection,
        things: str | Sequence[str],
        fields: str | Sequence[str] | None = None,
        *,
        unit: str | Mapping[str, str] | None = None,
        time: str = CREATED,
        points: int = 300,
        keep: int = 10_000,
        condition: str = "",
        key: Key | Mapping[str, Key] = None,
    ) -> None:
        if not 1 < points <= keep:
            raise InvalidArgument("points is at least 2, and not more than keep")
        names = checked_names(things)
        dweets: DweetClient = service_of(tk, "dweets")
        super().__init__()
        self._dweets, self._key, self._time, self._unit = dweets, key, time, unit
        self._given_fields = (fields,) if isinstance(fields, str) else tuple(fields or ())
        self._reader = LiveReader(self._listener, keep)
        self._readings = LiveReadings()
        #: By thing without a dweet: the sentence that a public thing has nearly its name.
        self._misspelt: dict[str, str] = {}
        self._tried = TriedCondition()
        #: Whether the caller wants the widget to listen, also if it has stopped after an error or without a page.
        self._is_wanted = False
        self._make_controls(names, points, keep, condition)
        self._view_count = 0  # a number, not None, makes pages count how often they show the widget
        self.start()
        self._try_condition(None)

    def _listener(self, thing: str, since: int | None) -> Listener:
        key = self._key.get(thing) if isinstance(self._key, Mapping) else self._key
        listener = self._dweets.listen(thing, key=key, since=since, patience=math.inf)
        listener.on_unknown = partial(self._misspelt.__setitem__, thing)
        return listener

    def _make_controls(self, things: Sequence[str], points: int, keep: int, condition: str) -> None:
        sizes = sorted({size for size in (100, 300, 1_000) if size <= keep} | {points})
        self.start_button = button("Start", "play", "Listen, and draw what comes", self.start)
        self.pause = make(ipywidgets.ToggleButton, "Pause", icon="pause", tip="Keep the picture as it is")
        self.stop_button = button("Stop", "stop", "End the streams", self.stop)
        words = "How many dweets of each thing are drawn"
        self.points = make(ipywidgets.Dropdown, "Show the last", tip=words, options=sizes, value=points)
        self.things = CheckList("Things", things)
        self.things.value = tuple(things)
        self.add_thing = text_field("Add", "another thing", label="3em", tip="Follow one more thing: its name")
        self.fields = CheckList("Fields", self._given_fields, rows=7)
        self.fields.value = self._given_fields
        words = "The condition of an alert, tried on the dweets that are shown"
        self.condition = text_field("Alert if", "dweet.celsius > 30", condition, label="4em", tip=words)
        self.chart = Chart(height=_CHART_PIXELS, file_name=" ".join(things))
        self.counter = label()
        self.readings = html_pane(width="auto", max_height="150px", overflow="auto")
        self._lay_out()
        for control in (self.pause, self.points, self.fields):
            control.observe(lambda _change: self._draw(even_if_paused=True), "value")
        self.things.observe(self._choose_things, "value")
        self.add_thing.observe(self._add_thing, "value")
        self.condition.observe(self._try_condition, "value")

    def _lay_out(self) -> None:
        buttons = row(self.start_button, self.pause, self.stop_button)
        amounts = column(self.counter, self.points)
        things = column(self.things, self.add_thing)
        controls = column(buttons, amounts, things, self.fields, self.condition)
        results = column(self.chart, self.status, self.readings)
        self.show(self.beside(results.add_class("toolkit-main"), controls.add_class("toolkit-controls")))

    @property
    def seen(self) -> int:
        """How many dweets have arrived."""
        return self._reader.seen

    @property
    def running(self) -> bool:
        """Whether the widget still listens."""
        return self._reader.is_running

    @property
    def frame(self) -> pd.DataFrame:
        """The last `keep` dweets of each thing that have arrived, as ``history(things, time=...)`` returns them."""
        records, times = self._reader.last_records(self.things.value), None
        if self._time != CREATED:
            records, times = TimeSelection(self._time, None, *utc_range(None, None)).select(records)
        return history_frame(records, with_thing=len(self.things.value) > 1, times=times)

    def wait(self, dweets: int, timeout: float = 30.0) -> int:
        """Wait until `dweets` dweets have arrived, and return how many; TimedOut after `timeout` seconds or `stop`."""
        if not self._reader.wait_for_dweets(dweets, timeout):
            names = ", ".join(self.things.value)
            when = f"after {timeout:g} s" if self.running else "when the widget stopped: start() listens again"
            raise TimedOut(f"{self.seen:,} of {counted(dweets, 'dweet')} of {names} {when}")
        return self.seen

    # -- start, stop --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen, and draw new dweets; after a failure (but not after `stop`), draw the missed ones first."""
        resume, self._is_wanted = self._is_wanted, True
        self.pause.value = False
        if not self.running:
            self._listen(resume=resume)

    def stop(self) -> None:
        """End all streams and threads, and draw once more. The picture stays. A second `stop` does nothing more."""
        self._is_wanted = False
        self._reader.stop()
        self._draw()
        self._tried.close()

    def _listen(self, *, resume: bool = False) -> None:
        self._unseen_since = math.inf
        with self.working("Connecting"):
            self._reader.follow(self.things.value, resume=resume)
        if self.running:
            self._drawer = threading.Thread(target=self._draw_while_running, name="live-dweets-drawer", daemon=True)
            self._drawer.start()
        self._draw()

    @traitlets.observe("_view_count")
    @in_turn
    def _on_view_count(self, change: traitlets.Bunch) -> None:
        self._unseen_since = monotonic() if change["old"] and not change["new"] else math.inf
        if change["new"] and self._is_wanted and not self.running:
            self._listen(resume=True)

    def __enter__(self) -> LiveDweets:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # -- controls -----------------------------------------------------------------------------------------

    @in_turn
    def _choose_things(self, _change: object) -> None:
        if self._is_wanted:
            self._listen()
        else:
            self._draw()

    @in_turn
    def _add_thing(self, change: Any) -> None:  # noqa: ANN401
        if not change["new"]:
            return
        with self.showing_errors():
            thing = checked_name(change["new"])
            chosen = (*self.things.value, thing)
            self.things.options = tuple(dict.fromkeys((*self.things.options, thing)))
            self.add_thing.value = ""
            self.things.value = chosen

    @in_turn
    def _try_condition(self, _change: object) -> None:
        self._condition_error = None
        try:
            self._tried.set(self.condition.value)
        except ToolkitError as error:
            self._condition_error = error
        self._draw(even_if_paused=True)
        if not self.running:
            self._tried.close()

    # -- drawing ------------------------------------------------------------------------------------------

    def _draw_while_running(self) -> None:
        drawn, is_running = 0, True
        while is_running and self._drawer is threading.current_thread():
            is_running = self.running  # so the loop runs once more after the last stream has ended, and shows its error
            if self._reader.wait_for_dweets(drawn + 1, _RATE_REFRESH_SECONDS):
                drawn = self.seen
            self._draw()
            sleep(_DRAWING_PAUSE)

    @in_turn
    def _draw(self, *, even_if_paused: bool = False) -> None:
        """Draw the last dweets unless it is paused, and stop listening if nobody sees the widget."""
        if monotonic() > self._unseen_since + _UNSEEN_SECONDS:
            self._reader.stop()
        self._readings.add(self._reader.take_new_records(), monotonic())
        self._offer_fields()
        with self.showing_errors():
            if even_if_paused or not self.pause.value:
                self._draw_chart()
                self.readings.value = self._readings.html(self.things.value, monotonic() if self.running else None)
                self.counter.value = counted(self.seen, "dweet")
            self._show_state()

    def _draw_chart(self) -> None:
        things, chosen = self.things.value, self.fields.value
        records = self._reader.last_records(things, self.points.value)
        if not records or not chosen:
            empty = "choose a field" if records else f"waiting for dweets of {_listed_names(things) or 'no thing'}"
            self.chart.draw(history_frame([]), [], empty=empty)
            return
        frame = history_frame(records, [*chosen, self._time], with_thing=len(things) > 1, quiet=True)
        timed, _ = put_on_time_axis(frame.dropna(axis="columns", how="all"), self._time)
        if len(things) > 1:  # in the order of things, not of whose dweet is the oldest: lines keep their places
            timed = timed.sort_values("thing", key=lambda names: names.map(things.index), kind="stable")
        drawable = set(drawable_columns(timed))
        drawn, fields, self._notes = chosen_columns(timed, [field for field in chosen if field in drawable])
        names = ", ".join(self._readings.fields)
        empty = f"nothing to draw in {', '.join(chosen)}: the content has {names}"
        gaps = find_gaps(drawn, _GAP_FACTOR)
        marks = ChartMarks(gaps[gaps["length"] >= _LEAST_GAP], thresholds=self._tried.limits)
        self.chart.draw(drawn, fields, unit=self._unit, marks=marks, empty=empty)

    def _offer_fields(self) -> None:
        """Offer the fields that can be drawn, and choose the first numbers if the caller chose no fields."""
        offered, fields = self.fields.options, self._readings.fields
        new = [name for name, value in fields.items() if name not in offered and isinstance(value, (float, int, str))]
        new = [name for name in new if name != self._time][: _MOST_OFFERED_FIELDS - len(offered)]
        if not new:
            return
        numeric = [name for name in new if not self._given_fields and not isinstance(fields[name], str)]
        chosen = (*self.fields.value, *numeric[: max(0, _MOST_DRAWN_FIELDS - len(self.fields.value))])
        self.fields.options = (*offered, *new)
        self.fields.value = chosen

    def _show_state(self) -> None:
        if self.add_thing.value:
            checked_name(self.add_thing.value)  # a name that is still in the field was refused
        names = _listed_names(self.things.value)
        if self._condition_error is not None:
            self.show_error(self._condition_error, subject="The condition")
            return
        for thing, error in list(self._reader.failures.items()):
            self.show_error(error, subject=thing if len(self.things.value) > 1 else "")
            return
        if not self.running:
            self.say(f"Stopped after {counted(self.seen, 'dweet')}." if names else "Choose at least one thing.")
        elif (problem := self._reader.connection_problem) is not None:
            self.say(error_text(problem, retry="LiveDweets is reconnecting."), error=problem)
        elif self._reader.has_lost_connection:
            self.say("The connection is lost, reconnecting ...")
        else:
            tried = self._tried.text(self._reader.last_records(self.things.value, self.points.value))
            self.say(" · ".join(filter(None, (self._listening_text(), self._notes, tried))))

    def _listening_text(self) -> str:
        """Return what comes and what does not, in words that stay the same while nothing changes."""
        things = self.things.value
        if self.pause.value:
            return "Paused: what comes is kept."
        seen = {record["thing"]: record["created"] for record in self._reader.last_records(things, 1)}
        if misspelt := [text for thing, text in self._misspelt.items() if thing in things and thing not in seen]:
            return f"{misspelt[0][:1].upper()}{misspelt[0][1:]}"
        if not seen:
            return f"Listening to {_listed_names(things)}. Nothing has come yet."
        silent = self._readings.silent(things, monotonic())
        if not silent:
            return f"Listening to {_listed_names(things)}."
        last = max(seen[thing] for thing in silent)[:19].replace("T", " ")
        return f"Nothing comes from {_listed_names(silent)}: the last dweet is of {last} UTC."

    def summary(self) -> str:
        """Return which things and fields it follows."""
        return f"LiveDweets: {', '.join(self.things.value)}, {', '.join(self._given_fields) or 'all fields'}"

    @in_turn
    def picture(self) -> bytes:
        """Return the last dweets as PNG."""
        return self.chart.png()


def _listed_names(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMED_THINGS:
        return f"{len(names)} things"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
