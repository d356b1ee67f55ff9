"""Posting, as one types it: one dweet, a frame, or a frame played back; one half of ``tk.dweets``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from toolkit.dweets import wire
from toolkit.dweets.client.calls import DweetCalls, Key, checked_name, checked_records
from toolkit.dweets.client.content_batches import ROWS_A_REQUEST, batches, checked_sizes
from toolkit.dweets.client.content_columns import content_bytes, contents_of
from toolkit.dweets.client.history_frame import receipt_frame
from toolkit.dweets.client.playback import Playback
from toolkit.errors import InvalidArgument


class PostCalls(DweetCalls):
    """Post, post a frame, replay one."""

    def post(self, thing: str | None, content: Any, *, key: Key = None) -> pd.DataFrame:  # noqa: ANN401
        """Send one dweet: ``POST /dweet/for/{thing}``, or ``POST /dweet`` for a thing without a name.

        Parameters
        ----------
        thing
            Its name; None lets the gateway choose a readable one.
        content
            Any JSON value: a dict, a list, a number, a text, None.

        Returns
        -------
        pandas.DataFrame
            One row: index ``created`` (UTC), columns ``thing`` and ``transaction``.

        Raises
        ------
        InvalidArgument
            The content cannot be JSON, or the name cannot be one; nothing was sent.
        KeyRejected
            The thing is locked and the key is missing or wrong.
        RateLimited
            The gateway limits posts, and this was one too many.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.dweets.post("kitchen", {"celsius": 21.5})["thing"].tolist()
        ['kitchen']
        """
        body = content_bytes(content)
        checked_sizes([body])
        if thing is None:
            record = self._call(wire.POST_UNNAMED, {}, body=body)
        else:
            record = self._call(wire.POST_DWEET, {"thing": checked_name(thing)}, key=key, body=body)
        return receipt_frame(checked_records([record]))

    def post_frame(self, frame: pd.DataFrame, thing: str, *, key: Key = None, progress: bool = True) -> pd.DataFrame:
        """Send each row as one dweet, in order, up to 1,000 rows a request: ``POST /dweets/for/{thing}``.

        Parameters
        ----------
        frame
            Column names become names in the content (``position.lat`` nested), a named index is included, gaps are
            left out.
        progress
            Show a bar where there is more than one request.

        Returns
        -------
        pandas.DataFrame
            One row a dweet: index ``created`` (UTC), columns ``thing`` and ``transaction``.

        Raises
        ------
        InvalidArgument
            A value cannot be JSON, or a row is larger than a dweet may be; nothing was sent.
        KeyRejected
            The thing is locked and the key is missing or wrong.

        Examples
        --------
        >>> import pandas as pd, toolkit
        >>> with toolkit.connect() as tk:
        ...     len(tk.dweets.post_frame(pd.DataFrame({"celsius": [20.5, 21.0]}), "kitchen"))
        2
        """
        requests = batches(list(contents_of(frame)))
        checked_name(thing)
        records: list[dict[str, Any]] = []
        for batch in tqdm(requests, desc=thing, unit="request", disable=not progress or len(requests) < 2):
            records += self._post_batch(thing, batch, key)
        return receipt_frame(records)

    def replay(self, frame: pd.DataFrame, thing: str, *, speed: float = 1.0, key: Key = None) -> Playback:
        """Play a frame back as a live thing: each row is sent when it is due.

        Parameters
        ----------
        frame
            With a DatetimeIndex, ascending. Rows become content as in `post_frame`.
        speed
            How many times faster than recorded; ``float("inf")`` for at once.

        Returns
        -------
        Playback
            Runs by itself; ``.wait()`` for its end, ``.stop()`` to end it, ``.sent`` rows so far.

        Raises
        ------
        InvalidArgument
            No ascending DatetimeIndex, or a speed that is not above 0.

        Examples
        --------
        >>> import pandas as pd, toolkit
        >>> times = pd.date_range("2026-01-01", periods=3, freq="h", name="measured")
        >>> with toolkit.connect() as tk:
        ...     tk.dweets.replay(pd.DataFrame({"celsius": [1, 2, 3]}, index=times), "roof", speed=1e9).wait()
        3
        """
        index = frame.index
        if not isinstance(index, pd.DatetimeIndex) or not index.is_monotonic_increasing:
            raise InvalidArgument(
                "replay needs a DatetimeIndex in ascending order: try frame.set_index(...).sort_index()"
            )
        if not speed > 0:
            raise InvalidArgument("speed must be above 0")
        contents = list(contents_of(frame))
        checked_sizes(contents)
        checked_name(thing)
        due = ((index - index[0]).total_seconds() / speed).tolist() if len(index) else []

        def send(start: int, end: int) -> None:
            for batch in batches(contents[start:end]):
                self._post_batch(thing, batch, key)

        return Playback(due, send, ROWS_A_REQUEST)

    def _post_batch(self, thing: str, contents: Sequence[bytes], key: Key) -> list[dict[str, Any]]:
        body = b"\n".join(contents)
        answer = self._call(wire.POST_DWEETS, {"thing": thing}, key=key, body=body, content_type="application/x-ndjson")
        return checked_records(answer)
