"""Calls travel to a server in batches, one in flight for writing and one for reading.

Redis-py makes and keeps the connections. A batch has one of them for itself, so that ``WAIT`` covers exactly the
writes before it, and so that it can tell a call that was never sent from one whose response was lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import hiredis
from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit.stores.group_commit import GroupCommit, Request
from toolkit.stores.redis.durability import reason_of

if TYPE_CHECKING:
    from toolkit.stores.redis.topology import Node

Argument = bytes | str | int
Run = tuple[bytes, ...]  # a run of a master, read again at each new connection

UNREACHABLE = (exceptions.RedisError, OSError, TimeoutError)
# What waits for one server, or is on its way: more than that is refused, so that memory stays bounded.
_BYTES_WAITING = 64 * 1024 * 1024
_BYTES_OF_A_CALL = 600
# One script call takes no more than this, so that other clients of its server do not wait long for it.
_ENTRIES_A_CALL, _BYTES_A_CALL = 1_000, 1024 * 1024

# All keys of a script call lie in one slot, so a cluster runs the scripts too.
_SCRIPTS = [files(__package__).joinpath(name).read_bytes() for name in ("append.lua", "records.lua", "beat.lua")]
APPEND, RECORDS, BEAT = [hashlib.sha1(text, usedforsecurity=False).hexdigest().encode() for text in _SCRIPTS]


class Call(Request[Any]):
    """One command, or a script, on keys of a hash tag; `read` makes the result of the response."""

    __slots__ = ("arguments", "entries", "read", "size", "started", "tag", "writes")

    def __init__(
        self,
        tag: str,
        *arguments: Argument,
        script: bytes = b"",
        keys: Sequence[bytes] = (),
        read: Callable[[Any], Any] = lambda response: response,
    ) -> None:
        super().__init__()
        # What cannot be encoded fails here, before it shares a batch with others.
        given = [part.encode("utf-8") if isinstance(part, str) else part for part in arguments]
        self.arguments = [b"EVALSHA", script, len(keys), *keys, *given] if script else given
        self.tag, self.read, self.writes = tag, read, bool(script)
        self.started = self.future.get_loop().time()
        self.entries, self.size = 0, _BYTES_OF_A_CALL

    def command(self, group: Sequence[Any], run: Run) -> Sequence[Argument]:
        return self.arguments

    def answer(self, group: Sequence[Any], response: Any) -> None:  # noqa: ANN401
        self.result = self.read(response)
        self.settle()


Group = Sequence[Call]


class Batches:
    """Group commit to one node, whose writes so many replicas must confirm."""

    def __init__(self, node: Node, replicas: int) -> None:
        self._node, self._replicas = node, replicas
        self._loop = asyncio.get_running_loop()
        self._group: GroupCommit[Call] = GroupCommit(self._write)
        self._bytes = 0
        self._failed_at = float("-inf")

    def submit(self, call: Call) -> asyncio.Future[Any]:
        if self._bytes >= _BYTES_WAITING:
            call.fail(StoreUnavailable(f"too much waits for {self._node.shown}"))
        else:
            self._bytes += call.size
            self._group.submit(call)
        return call.future

    async def close(self) -> None:
        await self._group.close()
        await asyncio.sleep(0)  # the responses of the last batch are delivered on the next turn of the loop

    async def _write(self, calls: list[Call]) -> None:
        try:
            # Callers that waited while the server was away get their answer now, not after one more timeout.
            late = [call for call in calls if call.started <= self._failed_at]
            _fail(late, StoreUnavailable(f"{self._node.shown} cannot be used now: it broke off just before"))
            groups = _grouped([call for call in calls if call.started > self._failed_at])
            if groups and (unknown := await self._settle(groups, await self._exchange(groups))):
                await self._settle(unknown, await self._exchange(unknown, with_scripts=True))
        finally:
            self._bytes -= sum([call.size for call in calls])

    async def _exchange(self, groups: Sequence[Group], *, with_scripts: bool = False) -> list[Any]:
        node, connection, responses = self._node, None, []
        loads: list[Sequence[Argument]] = [(b"SCRIPT", b"LOAD", text) for text in _SCRIPTS] if with_scripts else []
        waits = self._replicas > 0 and any([group[0].writes for group in groups])
        try:
            async with asyncio.timeout(node.timeout):  # one for all: a timer for each response costs more
                connection = await node.pool.get_connection()
                commands = [*loads, *(group[0].command(group, node.run) for group in groups)]
                if waits:
                    commands.append((b"WAIT", self._replicas, int(node.timeout * 500)))
                # Redis-py packs in Python, which costs several times as much.
                packed = [hiredis.pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]
                await connection.send_packed_command(packed)
                for _ in commands:
                    responses.append(await _response(connection))
        except UNREACHABLE as error:
            refusals = exceptions.BusyLoadingError, exceptions.AuthenticationError
            is_unsent = connection is None or (isinstance(error, refusals) and not responses)
            if connection is not None:
                await connection.disconnect(nowait=True)
            self._failed_at = self._loop.time()
            node.topology.look_again()
            why = f"{node.shown} {'cannot be used now' if is_unsent else 'broke off'}: {reason_of(error)}"
            failed = StoreUnavailable(why)
            unknown = failed if is_unsent else OutcomeUnknown(f"{why}; the change may have been made")
            return [unknown if group[0].writes else failed for group in groups]
        finally:
            if connection is not None:
                await node.pool.release(connection)
        del responses[: len(loads)]
        confirmed = responses.pop() if waits else self._replicas
        # A replica refuses WAIT, after it has refused the writes.
        if isinstance(confirmed, int) and confirmed >= self._replicas:
            return responses
        why = f"kept by {node.shown}, but not confirmed by {self._replicas} replicas in time"
        return [
            OutcomeUnknown(why) if group[0].writes and not isinstance(response, Exception) else response
            for group, response in zip(groups, responses, strict=True)
        ]

    async def _settle(self, groups: Sequence[Group], responses: Sequence[Any]) -> list[Group]:
        """Deliver responses and errors; return the calls whose scripts the server does not know."""
        node, is_elsewhere = self._node, False
        unknown: list[Group] = []
        answered: list[tuple[Group, Any]] = []
        for group, response in zip(groups, responses, strict=True):
            if isinstance(response, exceptions.NoScriptError):
                unknown.append(group)
            elif isinstance(response, exceptions.AskError | exceptions.TryAgainError):
                node.topology.send_again(group, response)
            elif isinstance(response, exceptions.ResponseError):
                is_elsewhere |= isinstance(response, exceptions.ReadOnlyError | exceptions.ClusterDownError)
                _fail(group, StoreUnavailable(f"{node.shown} refuses: {reason_of(response)}"))
            elif isinstance(response, Exception):
                _fail(group, response)
            else:
                answered.append((group, response))
        # The next batch leaves before the callers of this one are answered.
        self._loop.call_soon(_deliver, answered)
        if is_elsewhere:  # the server may be another's replica now: use none of its connections again
            await node.pool.update_active_connections_for_reconnect()
            await node.pool.disconnect(inuse_connections=False)
            node.topology.look_again()
        return unknown


def _grouped(calls: Sequence[Call]) -> list[Group]:
    """Return the calls that travel together: appends to a hash tag, up to a limit, and each other one alone."""
    groups: list[Group] = []
    open_groups: dict[str, tuple[list[Call], int, int]] = {}
    for call in calls:
        group, entries, size = open_groups.pop(call.tag, ([], _ENTRIES_A_CALL, 0))
        if not call.entries or entries >= _ENTRIES_A_CALL or size >= _BYTES_A_CALL:
            group, entries, size = [], 0, 0
            groups.append(group)
        group.append(call)
        if call.entries:  # what is appended after any other call travels after it
            open_groups[call.tag] = group, entries + call.entries, size + call.size
    return groups


def _deliver(answered: Sequence[tuple[Group, Any]]) -> None:
    for group, response in answered:
        try:
            group[0].answer(group, response)
        except (ValueError, TypeError, LookupError, struct.error) as error:  # something else than we wrote
            _fail(group, StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))


def _fail(group: Group, error: Exception) -> None:
    for call in group:
        call.fail(error)


async def _response(connection: AbstractConnection) -> Any:  # noqa: ANN401
    try:
        return await connection.read_response()
    except exceptions.ResponseError as error:
        return error
