"""Sessions: a session starts when a device comes online, and ends a fixed time after its start or its last moment."""

from typing import NamedTuple


class Session(NamedTuple):
    """A session; times in milliseconds since the epoch; `last_moment` is the start if there was no moment yet."""

    id: str
    start: int
    last_moment: int

    def age_s(self, at: int) -> float:
        return max(at - self.start, 0) / 1000
