"""One open connection to one Redis server.

The redis package makes it: addresses, TLS, passwords. What goes over it then is simple enough to be read here, by
hiredis: through the package each answer would cost several steps of a task, and a batch has hundreds of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
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
        writer: asyncio.StreamWriter | None = connection._writer
        assert writer is not None
        # From here on nobody but the link ends it. The package's own end would first send what is still to be sent,
        # which a server that hangs never takes.
        connection._reader = connection._writer = None
        self._writer = writer  # closes what it writes to when nobody holds it
        self._transport = writer.transport
        self._transport.set_protocol(self)
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=BaseParser.parse_error)
        self._answers: list[Any] = []
        self._expected: deque[tuple[int, asyncio.Future[list[Any]]]] = deque()
        self._end: Exception | None = None
        self._is_leaving = False

    @property
    def is_open(self) -> bool:
        """Whether it can be used: what comes without being asked for is the end too."""
        if self._end is not None or self._is_leaving or self._transport.is_closing():
            return False
        return bool(self._expected) or not self._answers

    def send(self, commands: Sequence[bytes]) -> None:
        """Send commands; of a connection that has ended, whoever asks for the answers is told."""
        if self._end is None:  # uvloop's transport raises an error that is none of a connection
            self._transport.write(b"".join(commands))

    def answers(self, count: int) -> asyncio.Future[list[Any]]:
        """Return the answers to the next commands that have none yet; those that are errors are among them.

        Raises
        ------
        RedisError, TimeoutError
            The connection ended before they came, or what came is no answer.
        """
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self._end is not None:
            future.set_exception(self._end)
        else:
            self._expected.append((count, future))
            self._deal()
        return future

    async def answer(self) -> Any:  # noqa: ANN401
        """Return the next answer, or raise it where it is an error."""
        (answer,) = await self.answers(1)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask(self, *command: Argument) -> Any:  # noqa: ANN401
        """Return the answer to one command, or raise it where it is an error."""
        self.send([packed(command)])
        return await self.answer()

    def leave(self) -> None:
        """Close it once everything is answered."""
        self._is_leaving = True
        self._deal()

    def hang_up(self, why: Exception | None = None) -> None:
        """Close it now, whatever state it is in; who waits for answers is told why."""
        self._transport.abort()
        self._ended(why or RedisConnectionError("the connection was closed"))

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
            self._deal()  # what came before it is an answer
            self.hang_up(error)
        else:
            self._deal()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end."""
        self._ended(RedisConnectionError("the server hung up"))

    def _deal(self) -> None:
        while self._expected and len(self._answers) >= self._expected[0][0]:
            count, future = self._expected.popleft()
            if not future.done():
                future.set_result(self._answers[:count])
            del self._answers[:count]
        if self._is_leaving and not self._expected and self._end is None:
            self.hang_up()

    def _ended(self, error: Exception) -> None:
        self._end = self._end or error
        while self._expected:
            _, future = self._expected.popleft()
            if not future.done():
                future.set_exception(self._end)


def packed(command: tuple[Argument, ...]) -> bytes:
    """Return a command as it travels."""
    data: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub allows one argument only
    return data
