r"""Parsers for the two formats of a live stream: server-sent events, and chunk frames from servers without them.

A frame is ``<hex length>\r\n"<the dweet as JSON, encoded again as a JSON string>"\r\n``.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

# A length in hexadecimal: eight digits are 4 GB, far above the size of a dweet.
_FRAME_LENGTH = re.compile(rb"[0-9A-Fa-f]{1,8}")
_MAX_LINE_BYTES = 16 * 1024 * 1024
#: Seconds that a client waits before each attempt to reconnect; the last wait is repeated.
RECONNECT_WAITS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class StreamedDweet(NamedTuple):
    record: bytes
    sequence: int | None  # None in a frame


class FrameReader:
    """Parse chunk frames from pieces of any size."""

    def __init__(self) -> None:
        self._buffer = b""
        self._in_frame = False

    def feed(self, data: bytes) -> Iterator[StreamedDweet]:
        """Yield each complete dweet; a frame with any JSON value but a string is a heartbeat."""
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\r\n")
        if len(self._buffer) > _MAX_LINE_BYTES:
            raise ValueError("a frame is too long")
        for line in lines:
            # Split by lines: servers count the length in different ways, and a JSON string has no line end.
            if not self._in_frame:
                if line and _FRAME_LENGTH.fullmatch(line) is None:
                    raise ValueError("a frame begins with its length in hexadecimal digits")
                self._in_frame = bool(line)  # blank lines between frames are skipped
                continue
            self._in_frame = False
            value = json.loads(line)
            if isinstance(value, str):
                yield StreamedDweet(value.encode("utf-8"), None)


class EventReader:
    """Parse server-sent events from pieces of any size, and keep the last id in `last_id`."""

    def __init__(self) -> None:
        self._buffer = b""
        self.last_id: int | None = None

    def feed(self, data: bytes) -> Iterator[StreamedDweet]:
        self._buffer += data
        *events, self._buffer = self._buffer.split(b"\n\n")
        if len(self._buffer) > _MAX_LINE_BYTES:
            raise ValueError("an event is too long")
        for event in events:
            lines = event.split(b"\n")
            for line in lines:
                if line.startswith(b"id: "):
                    self.last_id = int(line[4:])
            record = b"\n".join(line[6:] for line in lines if line.startswith(b"data: "))
            if record:
                yield StreamedDweet(record, self.last_id)
