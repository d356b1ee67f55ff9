"""LiveDweets: a plot that follows a thing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType

import ipywidgets
import pandas as pd
import traitlets

from toolkit.dweets.client.calls import Key
from toolkit.dweets.client.history_frame import history_frame
from toolkit.dweets.client.history_source import Connected
from toolkit.dweets.client.live_stream import LiveStream
from toolkit.dweets.widgets.exploration import lines_of
from toolkit.dweets.widgets.series_figure import series_png
from toolkit.dweets.widgets.svg_chart import svg_chart
from toolkit.dweets.widgets.time_axis import number_columns, on_time_axis
from toolkit.errors import InvalidArgument
from toolkit.widget_family import ServiceWidget, button, counted, html_pane, in_turn, open_widgets, row, sized

#: Seconds between two drawings. The eye calls ten a second smooth, and each takes the kernel some 5 ms.
_PAUSE = 1 / 12
#: Seconds after which a widget that nobody shows any more stops. A cell that is moved is gone for some milliseconds.
_UNSEEN = 2.0
_MOST_FIELDS = 6
_NOTHING = history_frame([])


class LiveDweets(ServiceWidget):
    """Follow a thing: draw its last dweets as they arrive.

    One thread reads, one draws at most 12 times a second, however fast dweets come. Both end with `stop`, with the
    end of a ``with`` statement, when the cell that made it runs again, and when it was shown and is no longer: its
    cell is deleted, its output cleared, the notebook closed.

    Parameters
    ----------
    tk
        A connection.
    thing
        Whom to follow.
    fields
        Names in the content (``"air.celsius"`` nested); None for all numbers in it, at most 6.
    time
        ``"created"``, or a name in the content that holds the device's own time.
    points
        Dweets drawn at a time.
    keep
        Dweets kept for `frame`.
    key
        For a locked thing.

    Raises
    ------
    InvalidArgument
        `points` is below 2 or above `keep`. All else that goes wrong is said by the widget itself.

    Attributes
    ----------
    points, pause, stop_button
        The controls: set ``.value`` or ``.click()`` as a person would.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk, LiveDweets(tk, "roof", "celsius") as live:
    ...     _ = tk.dweets.post("roof", {"celsius": 21.5})
    ...     live.wait_for(1), live.frame["celsius"].tolist()
    (1, [21.5])
    """

    _stream: LiveStream | None = None
    _unseen: threading.Timer | None = None

    def __init__(
        self,
        tk: Connected,
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
        super().__init__()
        self.thing = thing
        self._fields = (fields,) if isinstance(fields, str) else None if fields is None else tuple(fields)
        self._time = time
        self._drawing = threading.RLock()
        self._stopped = threading.Event()
        self._make_controls(points, keep)
        _stop_those_of_the_last_run(self)
        self._view_count = 0  # from now on pages count how often they show it
        with self.working("Connecting"):
            listener = tk.dweets.listen(thing, key=key)
            self.say(f"Listening to {thing}.")
            self._stream = LiveStream(listener, keep, self._say_connection)
            self._start(self._stream)
        self._draw()

    def _start(self, stream: LiveStream) -> None:
        self._drawer = threading.Thread(
            target=self._draw_until_stopped, args=(stream,), name="live-dweets-drawer", daemon=True
        )
        self._drawer.start()

    def _say_connection(self, connected: bool) -> None:
        if not self._stopped.is_set():
            lost = "The connection is lost, reconnecting ..."
            self.say(f"Listening to {self.thing}." if connected else lost)

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

    # -- what one reads -----------------------------------------------------------------------------------

    @property
    def seen(self) -> int:
        """How many dweets have arrived."""
        return 0 if self._stream is None else self._stream.seen

    @property
    def frame(self) -> pd.DataFrame:
        """What arrived, as `history` returns it: the last `keep` dweets, oldest first."""
        return _NOTHING.copy() if self._stream is None else self._stream.frame()

    @property
    def running(self) -> bool:
        """Whether it still listens."""
        return self._stream is not None and self._stream.running

    def wait_for(self, dweets: int, timeout: float = 30.0) -> int:
        """Wait until so many dweets have arrived, and return how many have.

        Raises
        ------
        TimeoutError
            They have not within `timeout` seconds.
        """
        if self._stream is None or not self._stream.wait_for(dweets, timeout):
            raise TimeoutError(f"{self.seen} of {dweets} dweets of {self.thing} after {timeout} seconds")
        return self.seen

    def stop(self) -> None:
        """End the stream and both threads, and draw once more. The picture stays; calling it again is fine."""
        if self._stream is None or self._stopped.is_set():
            return
        self._stopped.set()
        if self._unseen is not None:
            self._unseen.cancel()
        self.pause.disabled = self.stop_button.disabled = True
        self._stream.close()
        if threading.current_thread() is not self._drawer:  # as in an observer of what is drawn
            self._drawer.join()
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def summary(self) -> str:
        """Return whom it follows."""
        fields = ", ".join(self._fields) if self._fields else "all fields"
        return f"LiveDweets: {self.thing}, {fields}"

    def picture(self) -> bytes:
        """Return the last dweets as PNG."""
        frame, fields = self._last()
        return series_png(frame, fields)

    # -- drawing ------------------------------------------------------------------------------------------

    def _draw_until_stopped(self, stream: LiveStream) -> None:
        drawn = 0
        while stream.wait_beyond(drawn):
            drawn = stream.seen
            if not self.pause.value:
                self._draw()
            if self._stopped.wait(_PAUSE):
                return
        if stream.failure is not None:
            self.complain(stream.failure)

    def _draw(self) -> None:
        """Draw the last dweets; from the drawer's thread, or where a control is used."""
        with self._drawing, self.complaining():
            frame, fields = self._last()
            self.plot.value = svg_chart(
                lines_of(frame, fields), title=self.summary(), empty=self._nothing_because(frame)
            )
            self.counter.value = counted(self.seen, "dweet")

    def _last(self) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Return the last dweets on their time axis, and which numbers of them are drawn."""
        frame = _NOTHING if self._stream is None else self._stream.frame(self.points.value)
        timed = frame if frame.empty else on_time_axis(frame, self._time)
        numbers = number_columns(timed)
        wanted = self._fields or tuple(numbers[:_MOST_FIELDS])
        return timed, tuple(name for name in wanted if name in numbers)

    def _nothing_because(self, frame: pd.DataFrame) -> str:
        if frame.empty:
            return f"waiting for dweets of {self.thing}"
        wanted = ", ".join(self._fields) if self._fields else "it"
        return f"no numbers in {wanted}: the content has {', '.join(frame.columns)}"


def _stop_those_of_the_last_run(new: LiveDweets) -> None:
    """Where the notebook does not tell its cells: stop what an earlier run made of the same thing."""
    for other in open_widgets():
        is_same = isinstance(other, LiveDweets) and other is not new and other.thing == new.thing
        if is_same and not new.made_in.cell and other.made_in.run != new.made_in.run:
            other.stop()
