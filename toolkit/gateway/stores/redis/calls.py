"""Commands for Redis, and what their answers mean to who gave them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from toolkit.gateway.stores import StoreUnavailable
from toolkit.gateway.stores.redis.link import Argument
from toolkit.gateway.stores.redis.scripts import Script


class Call:
    """One command and what its answer means.

    ``writes`` says whether it changes anything, and so has to reach the replicas that are asked for; ``with_text``
    whether its script must be sent whole, as its server did not know it.
    """

    __slots__ = ("redirections", "with_text", "writes")

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.redirections = 0
        self.with_text = False

    def command(self) -> tuple[Argument, ...]:
        """Return what is sent; from here on nothing is added to the call."""
        raise NotImplementedError

    def on_answer(self, answer: Any) -> None:  # noqa: ANN401
        """Take what the server answered."""
        raise NotImplementedError

    def on_failure(self, error: Exception) -> None:
        """Take why there is no answer."""
        raise NotImplementedError


class FutureCall(Call):
    """A command whose answer is a future, read by `read` where that is given."""

    __slots__ = ("_command", "_read", "future")

    def __init__(self, *command: Argument, read: Callable[[Any], Any] | None = None, writes: bool = False) -> None:
        super().__init__(writes=writes)
        self._command = command
        self._read = read
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def command(self) -> tuple[Argument, ...]:
        """Return the command."""
        return self._command

    def on_answer(self, answer: Any) -> None:  # noqa: ANN401
        """Settle the future."""
        if not self.future.done():
            try:
                self.future.set_result(answer if self._read is None else self._read(answer))
            except Exception as error:  # what somebody else wrote under our keys must not break the lane
                self.future.set_exception(StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))

    def on_failure(self, error: Exception) -> None:
        """Settle the future."""
        if not self.future.done():
            self.future.set_exception(error)


class ScriptCall(FutureCall):
    """A script, its keys and its arguments."""

    __slots__ = ()

    def __init__(
        self,
        script: Script,
        keys: Sequence[str],
        *arguments: Argument,
        read: Callable[[Any], Any] | None = None,
        writes: bool = True,
    ) -> None:
        super().__init__(b"EVALSHA", script.digest, len(keys), *keys, *arguments, read=read, writes=writes)
