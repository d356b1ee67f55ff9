"""One Redis server: calls travel in batches, one in flight for writing and one for reading.

Redis-py makes and keeps the connections. A batch has one of them for itself, so that ``WAIT`` covers exactly the
writes before it, and so that it can tell a call that was never sent from one whose response was lost.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from toolkit.stores import OutcomeUnknown, StoreUnavailable
from toolkit.stores.group_commit import GroupCommit, Request
from toolkit.stores.redis.durability import info_of, reason_of
from toolkit.stores.redis.scripts import TEXTS

if TYPE_CHECKING:
    from toolkit.stores.redis.topology import Topology

Argument = bytes | str | int

UNREACHABLE = (RedisError, OSError, TimeoutError)
# What waits for one server, or is on its way: more than that is refused, so that memory stays bounded.
_CALLS_WAITING, _BYTES_WAITING = 100_000, 64 * 1024 * 1024
# One script call takes no more than this, so that other clients of its server do not wait long for it.
_ENTRIES_A_CALL, _BYTES_A_CALL = 1_000, 1024 * 1024


class Call(Request[Any]):
    """One command, or a script with its keys; `read` makes the result of the response.

    `tag` is the hash tag of its keys.
    """

    __slots__ = ("arguments", "read", "started", "tag", "writes")

    size = entries = 0

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

    def command(self, group: Sequence[Any], run: Sequence[bytes]) -> Sequence[Argument]:
        """Return what is sent for all calls of a group in a run of the master; see `append.lua`."""
        return self.arguments

    def answer(self, group: Sequence[Any], response: Any) -> None:  # noqa: ANN401
        """Take the response to a group."""
        self.result = self.read(response)
        self.settle()


Group = Sequence[Call]


class Node:
    """One server, at a `place` (host and port) of the cluster or where the URL says, and its connections."""

    def __init__(self, topology: Topology, place: tuple[str, int] | None) -> None:
        address = topology.address
        self.topology = topology
        self.shown = f"the Redis node {place[0]}:{place[1]}" if place else f"the Redis at {address.shown}"
        self.timeout = address.timeout
        self.run: tuple[bytes, ...] = ()
        self.pool = address.pool(place, self._on_connect)
        self.client = Redis(connection_pool=self.pool)
        self.writing, self.reading = Batches(self, address.replicas), Batches(self, 0)

    async def close(self) -> None:
        """Send what waits, and disconnect."""
        await asyncio.gather(self.writing.close(), self.reading.close())
        await self.pool.aclose()
        if isinstance(self.pool, SentinelConnectionPool):
            await self.pool.sentinel_manager.aclose()

    async def _on_connect(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "replication")
        info = info_of(await connection.read_response())
        node, is_promoted = b"", b""
        if self.topology.address.kind == "cluster":  # elsewhere there is one master at a time
            await connection.send_command("CLUSTER", "MYID")
            node = await connection.read_response()
            is_promoted = b"1" if info["master_replid2"].strip("0") else b""
        self.run = node, info["master_replid"].encode("ascii"), is_promoted


class Batches:
    """Group commit to one node, whose writes so many replicas must confirm."""

    def __init__(self, node: Node, replicas: int) -> None:
        self._node, self._replicas = node, replicas
        self._loop = asyncio.get_running_loop()
        self._group: GroupCommit[Call] = GroupCommit(self._write)
        self._calls = self._bytes = 0
        self._failed_at = float("-inf")

    def submit(self, call: Call) -> None:
        """Send a call with the next batch."""
        if self._calls >= _CALLS_WAITING or self._bytes >= _BYTES_WAITING:
            call.fail(StoreUnavailable(f"too much waits for {self._node.shown}"))
            return
        self._calls += 1
        self._bytes += call.size
        self._group.submit(call)

    async def close(self) -> None:
        """Refuse new calls and wait for those that were submitted."""
        await self._group.close()
        await asyncio.sleep(0)  # the responses of the last batch are delivered on the next turn of the loop

    async def _write(self, calls: list[Call]) -> None:
        try:
            # Callers that waited while the server was away get their answer now, not after one more timeout.
            late = [call for call in calls if call.started <= self._failed_at]
            _fail(late, StoreUnavailable(f"{self._node.shown} cannot be used now: it broke off just before"))
            if groups := _grouped([call for call in calls if call.started > self._failed_at]):
                await self._send(groups)
        finally:
            self._calls -= len(calls)
            self._bytes -= sum([call.size for call in calls])

    async def _send(self, groups: Sequence[Group], *, with_scripts: bool = False) -> None:
        node, connection, responses = self._node, None, []
        waits = self._replicas > 0 and any([group[0].writes for group in groups])
        try:
            async with asyncio.timeout(node.timeout):  # one for all: a timer for each response costs more
                connection = await node.pool.get_connection()
                commands: list[Sequence[Argument]] = [group[0].command(group, node.run) for group in groups]
                if with_scripts:
                    commands = [*((b"SCRIPT", b"LOAD", text) for text in TEXTS), *commands]
                if waits:
                    commands.append((b"WAIT", self._replicas, int(node.timeout * 500)))
                # Redis-py packs in Python, which costs several times as much.
                packed = [hiredis.pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]
                await connection.send_packed_command(packed)
                for _ in commands:
                    responses.append(await _response(connection))
        except UNREACHABLE as error:
            if connection is not None:
                await connection.disconnect(nowait=True)
            is_refusal = isinstance(error, BusyLoadingError | AuthenticationError) and not responses
            self._break_off(groups, error, is_unsent=connection is None or is_refusal)
            return
        finally:
            if connection is not None:
                await node.pool.release(connection)
        # A replica refuses WAIT, after it has refused the writes.
        confirmed = responses.pop() if waits else 0
        is_kept = isinstance(confirmed, int) and confirmed >= self._replicas * waits
        if with_scripts:
            del responses[: len(TEXTS)]
        if unknown := await self._sort(groups, responses, is_kept=is_kept, knows_scripts=with_scripts):
            await self._send(unknown, with_scripts=True)

    async def _sort(
        self, groups: Sequence[Group], responses: Sequence[Any], *, is_kept: bool, knows_scripts: bool
    ) -> list[Group]:
        """Deliver responses and errors; return the calls whose scripts the server does not know."""
        node, is_elsewhere = self._node, False
        unknown: list[Group] = []
        answered: list[tuple[Group, Any]] = []
        for group, response in zip(groups, responses, strict=True):
            if isinstance(response, NoScriptError) and not knows_scripts:
                unknown.append(group)
            elif isinstance(response, AskError | TryAgainError):
                node.topology.send_again(group, response)
            elif isinstance(response, ResponseError):
                is_elsewhere = is_elsewhere or isinstance(response, ReadOnlyError | ClusterDownError)
                _fail(group, StoreUnavailable(f"{node.shown} refuses: {reason_of(response)}"))
            elif group[0].writes and not is_kept:
                why = f"kept by {node.shown}, but not confirmed by {self._replicas} replicas in time"
                _fail(group, OutcomeUnknown(why))
            else:
                answered.append((group, response))
        # The next batch leaves before the callers of this one are answered.
        self._loop.call_soon(_deliver, answered)
        if is_elsewhere:  # the server may be another's replica now: use none of its connections again
            await node.pool.update_active_connections_for_reconnect()
            await node.pool.disconnect(inuse_connections=False)
            node.topology.look_again()
        return unknown

    def _break_off(self, groups: Sequence[Group], error: Exception, *, is_unsent: bool) -> None:
        self._failed_at = self._loop.time()
        self._node.topology.look_again()
        why = f"{self._node.shown} {'cannot be used now' if is_unsent else 'broke off'}: {reason_of(error)}"
        for group in groups:
            may_be_done = group[0].writes and not is_unsent
            _fail(
                group, OutcomeUnknown(f"{why}; the change may have been made") if may_be_done else StoreUnavailable(why)
            )


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
    except ResponseError as error:
        return error
