"""Callbacks for changes, in both stores."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, ParamSpec

from toolkit.errors import StoreUnavailable

P = ParamSpec("P")
RecordSubscriber = Callable[[str, bytes | None], None]


class Subscribers(Generic[P]):
    """Callbacks that are called in the order of their subscription; one that fails does not stop the others.

    `on_last` is called when the last of them has been removed.
    """

    def __init__(self, on_last: Callable[[], object] = lambda: None) -> None:
        self._callbacks: list[Callable[P, None]] = []
        self._on_last = on_last

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def subscribe(self, callback: Callable[P, None]) -> Callable[[], None]:
        """Add a callback, and return a function to remove it."""
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
                if not self._callbacks:
                    self._on_last()

        return remove

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for callback in tuple(self._callbacks):  # a callback may remove itself or others
            try:
                callback(*args, **kwargs)
            except Exception as error:  # one subscriber's error must not stop the others
                context = {"message": "a subscriber of the store failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)


class RecordSubscribers(Subscribers[[str, bytes | None]]):
    """The subscribers of a space of records."""

    def announce_and_subscribe(
        self, space: str, subscriber: RecordSubscriber, values: Mapping[str, bytes]
    ) -> Callable[[], None]:
        """Call a subscriber with all present values, then add it; raise StoreUnavailable if it fails at one."""
        try:
            for key, value in values.items():
                subscriber(key, value)
        except Exception as error:  # the caller must know that nothing is subscribed
            what = f"{type(error).__name__} at a value that is there"
            raise StoreUnavailable(f"the records {space!r} cannot be read: {what}") from error
        return self.subscribe(subscriber)

    def announce(self, changes: Mapping[str, bytes | None]) -> None:
        for key, value in changes.items():
            self.notify(key, value)
