"""One open connection to one Redis server: the redis package's, with an end that waits for nobody."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

Argument = bytes | str | int


class Link:
    """A connection that is ready to use.

    Parameters
    ----------
    connection
        The redis package's, connected. Whoever uses the link bounds its time.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        # Kept from the start: the library lets go of it at a first error, and its own end would first send what is
        # still to be sent, which a server that hangs never takes.
        writer: asyncio.StreamWriter | None = connection._writer
        assert writer is not None
        self._transport = writer.transport

    async def is_idle(self) -> bool:
        """Whether it is open and there is nothing to read: where nothing was asked, what can be read is the end."""
        return self._connection.is_connected and not await self._connection.can_read()

    async def send(self, commands: Sequence[bytes]) -> None:
        """Send commands."""
        await self._connection.send_packed_command(commands, check_health=False)

    async def answer(self) -> Any:  # noqa: ANN401
        """Return the next answer, or raise it where it is an error."""
        return await self._connection.read_response(disable_decoding=True, timeout=math.inf)

    async def ask(self, *command: Argument) -> Any:  # noqa: ANN401
        """Return the answer to one command."""
        await self.send([packed(command)])
        return await self.answer()

    async def hang_up(self) -> None:
        """Close it now, whatever state it is in."""
        self._transport.abort()
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await self._connection.disconnect(nowait=True)


def packed(command: tuple[Argument, ...]) -> bytes:
    """Return a command as it travels."""
    data: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub allows one argument only
    return data
