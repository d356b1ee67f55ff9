"""One open connection to one Redis server.

The redis package makes it: addresses, TLS, passwords. What goes over it then is simple enough to be read here, by
hiredis: through the package each answer would cost several steps of a task, and a batch has hundreds of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError

Argument = bytes | str | int


class Link(asyncio.Protocol):
    """A connection that is ready to use.

    Parameters
    ----------
    connection
        The redis package's, connected, everything answered. Whoever uses the link bounds its time.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=BaseParser.parse_error)
        self._answers: list[Any] = []
        self._wanted = 0
        self._waiter: asyncio.Future[None] | None = None
        self._end: Exception | None = None
        # Kept from the start: the library lets go of it at a first error, and its own end would first send what is
        # still to be sent, which a server that hangs never takes.
        writer: asyncio.StreamWriter | None = connection._writer
        assert writer is not None
        self._transport = writer.transport
        self._transport.set_protocol(self)

    @property
    def is_idle(self) -> bool:
        """Whether it is open and there is nothing to read: where nothing was asked, what can be read is the end."""
        return self._end is None and not self._answers and not self._transport.is_closing()

    def send(self, commands: Sequence[bytes]) -> None:
        """Send commands."""
        self._transport.write(b"".join(commands))

    async def answers(self, count: int) -> list[Any]:
        """Return the next answers; those that are errors are among them.

        Raises
        ------
        RedisError
            The connection has ended, or what came is no answer.
        """
        if len(self._answers) < count:
            if self._end is not None:
                raise self._end
            self._wanted = count
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken = self._answers[:count]
        del self._answers[:count]
        return taken

    async def ask(self, *command: Argument) -> Any:  # noqa: ANN401
        """Return the answer to one command, or raise it where it is an error."""
        self.send([packed(command)])
        return await self.answer()

    async def answer(self) -> Any:  # noqa: ANN401
        """Return the next answer, or raise it where it is an error."""
        (answer,) = await self.answers(1)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def hang_up(self) -> None:
        """Close it now, whatever state it is in."""
        self._transport.abort()
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await self._connection.disconnect(nowait=True)

    # -- asyncio.Protocol ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what the server sent."""
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets(False)) is not False:
                if isinstance(answer, RedisConnectionError):  # such as LOADING: it serves nobody now
                    raise answer
                self._answers.append(answer)
        except RedisError as error:
            self._ended(error)
        if self._waiter is not None and len(self._answers) >= self._wanted:
            self._wake(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end."""
        self._ended(RedisConnectionError("it hung up"))

    def _ended(self, error: Exception) -> None:
        self._end = self._end or error
        self._wake(self._end)

    def _wake(self, error: Exception | None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)


def packed(command: tuple[Argument, ...]) -> bytes:
    """Return a command as it travels."""
    data: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub allows one argument only
    return data
