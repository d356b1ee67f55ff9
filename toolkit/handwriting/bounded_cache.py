"""A cache that is bounded by what its values weigh, not by how many they are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Keeps values for the next time, and forgets those that were not asked for the longest.

    Parameters
    ----------
    room : int
        What all values together may weigh.
    weigh : callable
        What one value weighs.

    Examples
    --------
    >>> cache = BoundedCache(10, len)
    >>> cache.get("a", lambda: "six...")
    'six...'
    >>> cache.get("b", lambda: "four")
    'four'
    >>> cache.get("a", lambda: "not called"), cache.get("c", lambda: "one more")
    ('six...', 'one more')
    >>> cache.weight
    8
    """

    def __init__(self, room: int, weigh: Callable[[Value], int]) -> None:
        self._room, self._weigh = room, weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()
        self.weight = 0

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of `key`, made now if it is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self.weight += self._weigh(value)
            while self.weight > self._room:
                self.weight -= self._weigh(self._values.popitem(last=False)[1])
        return value
