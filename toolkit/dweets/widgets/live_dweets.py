"""LiveDweets: a plot that follows a thing."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd
import traitlets

from toolkit.argument_checks import checked_arguments
from toolkit.dweets.arguments import Key
from toolkit.dweets.client.listening import Listener
from toolkit.dweets.client.series_analysis import number_columns, put_on_time_axis
from toolkit.dweets.client.series_figure import series_png
from toolkit.dweets.content_frame import history_frame
from toolkit.dweets.widgets.svg_chart import svg_chart
from toolkit.errors import InvalidArgument, TimedOut, ToolkitError
from toolkit.widget_family import ServiceWidget, button, counted, html_pane, in_turn, open_widgets, part_of, row, sized

if TYPE_CHECKING:
    from toolkit.connection import Connection
    from toolkit.dweets.client.dweets import DweetClient

#: Seconds between two drawings. The eye calls ten a second smooth, and each takes the kernel some 5 ms.
_PAUSE = 1 / 12
#: Seconds after which a widget that nobody shows any more stops. A cell that is moved is gone for some milliseconds.
_UNSEEN = 2.0
_MOST_FIELDS = 6


@checked_arguments
class LiveDweets(ServiceWidget):
    """Follow a thing: draw its last dweets as they arrive.

    One thread reads, one draws at most 12 times a second, however fast dweets come. Both end with `stop`, with the
    end of a ``with`` statement, when the cell that made it runs again, and when it was shown and is no longer: its
    cell is deleted, its output cleared, the notebook closed.

    Parameters
    ----------
    tk
        A connection.
    fields
        Names in the content (``"air.celsius"`` nested); None for all numbers in it, at most 6.
    time
        ``"created"``, or a name in the content that holds the device's own time.
    points, keep
        How many dweets are drawn, and kept for `frame`. InvalidArgument if `points` is below 2 or above `keep`; all
        other errors are shown by the widget itself.
    key
        For a locked thing.

    Attributes
    ----------
    seen : int
        How many dweets have arrived.
    running : bool
        Whether it still listens.
    points, pause, stop_button
        The controls: set ``.value`` or ``.click()`` as a person would.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk, LiveDweets(tk, "roof", "celsius") as live:
    ...     _ = tk.dweets.post("roof", {"celsius": 21.5})
    ...     live.wait(1), live.frame["celsius"].tolist()
    (1, [21.5])
    """

    seen = 0
    _listener: Listener | None = None
    _unseen: threading.Timer | None = None

    def __init__(
        self,
        tk: Connection,
        thing: str,
        fields: str | Sequence[str] | None = None,
        *,
        time: str = "created",
        points: int = 300,
        keep: int = 10_000,
        key: Key = None,
    ) -> None:
        if not 1 < points <= keep:
            raise InvalidArgument("points is at least 2, and not more than keep")
        dweets: DweetClient = part_of(tk, "dweets")
        super().__init__()
        self.thing = thing
        self._fields = (fields,) if isinstance(fields, str) else tuple(fields or ())
        self._time = time
        self._records: deque[dict[str, Any]] = deque(maxlen=keep)
        self._changed = threading.Condition()  # of the records, of `seen` and `running`
        self._drawing = threading.RLock()
        self._stopped = threading.Event()
        self.running = False
        self._make_controls(points, keep)
        _stop_those_of_the_last_run(self)
        self._view_count = 0  # from now on pages count how often they show it
        with self.working("Connecting"):
            self._listener = dweets.listen(thing, key=key)
            self._listener.on_connection = self._say_connection
            self.say(f"Listening to {thing}.")
            self.running = True
            self._threads = [
                threading.Thread(target=self._read, args=(self._listener,), name="live-dweets-reader", daemon=True),
                threading.Thread(target=self._draw_until_stopped, name="live-dweets-drawer", daemon=True),
            ]
            for thread in self._threads:
                thread.start()
        self._draw()

    def _make_controls(self, points: int, keep: int) -> None:
        sizes = sorted({size for size in (100, 300, 1_000) if size <= keep} | {points})
        self.points = sized(ipywidgets.Dropdown(description="Show the last", options=sizes, value=points), "12em")
        self.pause = ipywidgets.ToggleButton(description="Pause", icon="pause", tooltip="Keep the picture as it is")
        self.pause.layout.width = "auto"
        self.stop_button = button("Stop", "stop", "End the stream")
        self.counter = ipywidgets.Label(layout=ipywidgets.Layout(margin="0 0 0 1em"))
        self.plot = html_pane()
        self.pause.observe(lambda _change: self._draw(), "value")
        self.points.observe(lambda _change: self._draw(), "value")
        self.stop_button.on_click(lambda _button: self.stop())
        self.show(row(self.points, self.pause, self.stop_button, self.counter), results=(self.plot,))

    @property
    def frame(self) -> pd.DataFrame:
        """What arrived, as `history` returns it: the last `keep` dweets, oldest first."""
        return history_frame(self._last_records(self.seen))

    def _last_records(self, count: int) -> list[dict[str, Any]]:
        with self._changed:
            return list(islice(self._records, max(0, len(self._records) - count), None))

    def wait(self, dweets: int, timeout: float = 30.0) -> int:
        """Wait until so many dweets have arrived (else TimedOut), and return how many have."""
        if not self._has_come(dweets, timeout):
            raise TimedOut(f"{self.seen} of {dweets} dweets of {self.thing} after {timeout} seconds")
        return self.seen

    def _has_come(self, dweets: int, timeout: float | None = None) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self.seen >= dweets or not self.running, timeout)
            return self.seen >= dweets

    def stop(self) -> None:
        """End the stream and both threads, and draw once more. The picture stays; calling it again is fine."""
        if self._listener is None or self._stopped.is_set():
            return
        self._stopped.set()
        if self._unseen is not None:
            self._unseen.cancel()
        self.pause.disabled = self.stop_button.disabled = True
        self._listener.close()
        for thread in self._threads:
            if thread is not threading.current_thread():  # as in an observer of what is drawn
                thread.join()
        self._draw()
        if self.error is None:
            self.say(f"Stopped after {counted(self.seen, 'dweet')}.")

    @traitlets.observe("_view_count")
    @in_turn
    def _count_views(self, change: traitlets.Bunch) -> None:
        if self._unseen is not None:
            self._unseen.cancel()
            self._unseen = None
        if change["new"] == 0 and change["old"] and not self._stopped.is_set():
            self._unseen = threading.Timer(_UNSEEN, self.stop)
            self._unseen.name, self._unseen.daemon = "live-dweets-unseen", True
            self._unseen.start()

    def __enter__(self) -> LiveDweets:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def summary(self) -> str:
        """Return which thing and fields it follows."""
        return f"LiveDweets: {self.thing}, {', '.join(self._fields) or 'all fields'}"

    def picture(self) -> bytes:
        """Return the last dweets as PNG."""
        frame, fields, _ = self._last()
        return series_png(frame, fields)

    def _say_connection(self, connected: bool) -> None:
        if not self._stopped.is_set():
            lost = "The connection is lost, reconnecting ..."
            self.say(f"Listening to {self.thing}." if connected else lost)

    def _read(self, listener: Listener) -> None:
        failure: ToolkitError | None = None
        try:
            for dweet in listener:
                with self._changed:
                    self._records.append(dweet.record())
                    self.seen += 1
                    self._changed.notify_all()
        except ToolkitError as error:  # nobody sees what a thread raises
            failure = error
        finally:
            with self._changed:
                self.running = False
                self._changed.notify_all()
        if failure is not None:
            self.complain(failure)

    def _draw_until_stopped(self) -> None:
        drawn = 0
        while self._has_come(drawn + 1):
            drawn = self.seen
            if not self.pause.value:
                self._draw()
            if self._stopped.wait(_PAUSE):
                return

    def _draw(self) -> None:
        """Draw the last dweets; from the drawer's thread, or where a control is used."""
        with self._drawing, self.complaining():
            frame, fields, empty = self._last()
            self.plot.value = svg_chart(frame, fields, empty=empty)
            self.counter.value = counted(self.seen, "dweet")

    def _last(self) -> tuple[pd.DataFrame, tuple[str, ...], str]:
        """Return the last dweets on their time axis, which numbers of them are drawn, and what to say without any."""
        records = self._last_records(self.points.value)
        if not records:
            return history_frame([]), (), f"waiting for dweets of {self.thing}"
        asked = [*self._fields, self._time] if self._fields else None
        frame = history_frame(records, asked, warn=False)
        timed = put_on_time_axis(frame if asked is None else frame.dropna(axis="columns", how="all"), self._time)
        numbers = number_columns(timed)
        fields = tuple(name for name in self._fields or numbers[:_MOST_FIELDS] if name in numbers)
        names = ", ".join(history_frame(records, warn=False).columns) if not fields else ""
        return timed, fields, f"no numbers in {', '.join(self._fields) or 'it'}: the content has {names}"


def _stop_those_of_the_last_run(new: LiveDweets) -> None:
    """Where the notebook does not tell its cells: stop what an earlier run made of the same thing."""
    for other in open_widgets():
        is_same = isinstance(other, LiveDweets) and other is not new and other.thing == new.thing
        if is_same and not new.made_in.cell and other.made_in.run != new.made_in.run:
            other.stop()
