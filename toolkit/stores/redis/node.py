"""One Redis server: calls travel in batches, one in flight for writing and one for reading.

Redis-py makes and keeps the connections. A batch has one of them for itself, so that ``WAIT`` covers exactly the
writes before it, and so that it can tell a call that was never sent from one whose response was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
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
from toolkit.stores.group_commit import GroupCommit
from toolkit.stores.redis.calls import Argument, Call, MasterRun, merged
from toolkit.stores.redis.connections import pool_of
from toolkit.stores.redis.durability import info_of, reason_of
from toolkit.stores.redis.scripts import all_texts

if TYPE_CHECKING:
    from toolkit.stores.redis.topology import Topology

UNREACHABLE = (RedisError, OSError, TimeoutError)
# What waits for one server, or is on its way: more than that is refused, so that memory stays bounded.
_CALLS_WAITING, _BYTES_WAITING = 100_000, 64 * 1024 * 1024
_BYTES_A_PIECE = 256 * 1024

Answered = list[tuple[list[Call], Any]]
# What is sent, each with the calls that take the response.
Commands = list[tuple[list[Call], Sequence[Argument]]]


class Node:
    """One server, at a `place` (host and port) of the cluster or where the URL says, and its connections."""

    def __init__(self, topology: Topology, place: tuple[str, int] | None) -> None:
        address = topology.address
        self.topology = topology
        self.shown = f"the Redis node {place[0]}:{place[1]}" if place else f"the Redis at {address.shown}"
        self.timeout, self.replicas = address.timeout, address.replicas
        self.run = MasterRun(b"", b"", b"")
        self.pool = pool_of(
            address,
            place,
            socket_timeout=None,  # a batch has one deadline instead of a timer for each response
            redis_connect_func=self._on_connect,
        )
        self.client = Redis(connection_pool=self.pool)
        self.writing, self.reading = Batches(self), Batches(self)

    async def close(self) -> None:
        """Send what waits, and disconnect."""
        await asyncio.gather(self.writing.close(), self.reading.close())
        await self.pool.aclose()
        if isinstance(self.pool, SentinelConnectionPool):
            await self.pool.sentinel_manager.aclose()

    async def reconnect(self) -> None:
        """Use no connection again: the server may be another's replica now."""
        await self.pool.update_active_connections_for_reconnect()
        await self.pool.disconnect(inuse_connections=False)

    async def _on_connect(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "replication")
        info = info_of(await connection.read_response())
        node, is_promoted = b"", b""
        if self.topology.address.kind == "cluster":  # elsewhere there is one master at a time
            await connection.send_command("CLUSTER", "MYID")
            node = await connection.read_response()
            is_promoted = b"1" if info["master_replid2"].strip("0") else b""
        self.run = MasterRun(node, info["master_replid"].encode("ascii"), is_promoted)


class Batches:
    """Group commit to one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._group: GroupCommit[Call] = GroupCommit(self._write)
        self._calls = self._bytes = 0
        self._failed_at = float("-inf")

    def submit(self, item: Call) -> None:
        """Send an item with the next batch."""
        if self._calls >= _CALLS_WAITING or self._bytes >= _BYTES_WAITING:
            item.fail(StoreUnavailable(f"too much waits for {self._node.shown}"))
            return
        self._calls += 1
        self._bytes += item.size
        self._group.submit(item)

    async def close(self) -> None:
        """Refuse new items and wait for those that were submitted."""
        await self._group.close()
        await asyncio.sleep(0)  # the responses of the last batch are delivered on the next turn of the loop

    async def _write(self, items: list[Call]) -> None:
        try:
            # Callers that waited while the server was away get their answer now, not after one more timeout.
            for item in [item for item in items if item.started <= self._failed_at]:
                item.fail(StoreUnavailable(f"{self._node.shown} cannot be used now: it broke off just before"))
            if groups := merged([item for item in items if item.started > self._failed_at]):
                await self._send(groups)
        finally:
            self._calls -= len(items)
            self._bytes -= sum([item.size for item in items])

    async def _send(self, groups: list[list[Call]], *, with_scripts: bool = False) -> None:
        node = self._node
        try:
            async with asyncio.timeout(node.timeout):
                connection = await node.pool.get_connection()
        except UNREACHABLE as error:
            self._break_off(groups, error, f"{node.shown} cannot be used now", is_unsent=True)
            return
        commands = self._commands(groups, with_scripts=with_scripts)
        responses: list[Any] = []
        try:
            async with asyncio.timeout(node.timeout):
                for piece in _pieces(commands):
                    await connection.send_packed_command(piece)
                for _ in commands:
                    responses.append(await _response(connection))
        except UNREACHABLE as error:
            await connection.disconnect(nowait=True)
            is_refusal = isinstance(error, BusyLoadingError | AuthenticationError) and not responses
            self._break_off(groups, error, f"{node.shown} broke off", is_unsent=is_refusal)
            return
        finally:
            await node.pool.release(connection)
        # A replica refuses WAIT, after it has refused the writes.
        waits, confirmed = not commands[-1][0], responses[-1]
        is_kept = not waits or (isinstance(confirmed, int) and confirmed >= node.replicas)
        answered = [(group, response) for (group, _), response in zip(commands, responses, strict=True) if group]
        if unknown := await self._sort(answered, is_kept=is_kept, knows_scripts=with_scripts):
            await self._send(unknown, with_scripts=True)

    def _commands(self, groups: list[list[Call]], *, with_scripts: bool) -> Commands:
        node = self._node
        commands: Commands = [([], (b"SCRIPT", b"LOAD", text)) for text in all_texts()] if with_scripts else []
        commands += [(group, group[0].command(group, node.run)) for group in groups]
        if node.replicas and any([group[0].writes for group in groups]):
            commands.append(([], (b"WAIT", node.replicas, int(node.timeout * 500))))
        return commands

    async def _sort(self, answered: Answered, *, is_kept: bool, knows_scripts: bool) -> list[list[Call]]:
        """Deliver responses and errors; return the calls whose scripts the server does not know."""
        node, is_elsewhere = self._node, False
        unknown: list[list[Call]] = []
        results: Answered = []
        for group, response in answered:
            if isinstance(response, NoScriptError) and not knows_scripts:
                unknown.append(group)
            elif isinstance(response, AskError | TryAgainError):
                node.topology.send_again(group, response)
            elif isinstance(response, ResponseError):
                is_elsewhere = is_elsewhere or isinstance(response, ReadOnlyError | ClusterDownError)
                _fail(group, StoreUnavailable(f"{node.shown} refuses: {reason_of(response)}"))
            elif group[0].writes and not is_kept:
                why = f"kept by {node.shown}, but not confirmed by {node.replicas} replicas in time"
                _fail(group, OutcomeUnknown(why))
            else:
                results.append((group, response))
        # The next batch leaves before the callers of this one are answered.
        self._loop.call_soon(_deliver, results)
        if is_elsewhere:
            await node.reconnect()
            node.topology.look_again()
        return unknown

    def _break_off(self, groups: list[list[Call]], error: Exception, what: str, *, is_unsent: bool) -> None:
        self._failed_at = self._loop.time()
        self._node.topology.look_again()
        why = f"{what}: {reason_of(error)}"
        for group in groups:
            may_be_done = group[0].writes and not is_unsent
            _fail(
                group, OutcomeUnknown(f"{why}; the change may have been made") if may_be_done else StoreUnavailable(why)
            )


def _deliver(results: Answered) -> None:
    for group, response in results:
        try:
            group[0].answer(group, response)
        except Exception as error:  # one caller's mistake must not cost the others their answers
            _fail(group, error)
            asyncio.get_running_loop().call_exception_handler({"message": "a store call failed", "exception": error})


def _fail(group: list[Call], error: Exception) -> None:
    for call in group:
        call.fail(error)


def _pieces(commands: Commands) -> Iterator[bytes]:
    """Pack commands; in pieces, because redis-py keeps what a hanging server does not take, also after a timeout."""
    gathered, size = [], 0
    for _, command in commands:
        # Redis-py packs in Python, which costs several times as much.
        data = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub allows one argument only
        gathered.append(data)
        size += len(data)
        if size >= _BYTES_A_PIECE:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


async def _response(connection: AbstractConnection) -> Any:  # noqa: ANN401
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
