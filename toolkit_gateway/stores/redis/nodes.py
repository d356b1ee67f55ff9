"""The nodes of a Redis, and the batches of commands that are sent to them.

A node has one batch in flight for what must be done in order, and one for other reads. A batch has a connection of
redis-py for itself, so that ``WAIT`` covers exactly its writes, and so that the batch can tell a command that was never
sent from one whose response was lost. After a failover, batches fail until their connections lead to the new master: a
failed batch closes its connection and starts `Topology.refresh`, which reads the layout of a cluster again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import hiredis
from msgspec import DecodeError
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import SentinelConnectionPool

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores.group_commit import GroupCommit, Request, failed_future
from toolkit_gateway.stores.redis.address import UNREACHABLE, Host, RedisAddress, reason_of
from toolkit_gateway.stores.redis.listener import Listener, Subscription

log = logging.getLogger("toolkit_gateway")

Argument = bytes | str | int

# The commands that wait for one node or are in flight; further ones are refused, so that memory stays bounded.
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_BYTES_PER_COMMAND = 600
# What is sent at once, with one deadline, is at most about this large: it takes Redis some tenths of a second.
_MAX_BYTES_AT_ONCE = 4 * 1024 * 1024
# One script call makes no more appends than this, so that other clients of the server do not wait long.
_APPENDS_PER_GROUP = 250
# Hash tags of journals: many more than a cluster has nodes, so that each node gets some.
_TAGS = 256
_SECONDS_BETWEEN_REFRESHES = 0.1

# All keys of one call have the same hash tag and so the same slot, as a cluster requires.
_SCRIPTS = [
    files(__package__).joinpath(name).read_bytes() for name in ("append.lua", "records.lua", "beat.lua", "copy.lua")
]
APPEND, RECORDS, BEAT, COPY = [hashlib.sha1(text, usedforsecurity=False).hexdigest().encode() for text in _SCRIPTS]


class Command(Request[Any]):
    """One command or script call on keys of a hash tag; `read` turns the response into the result.

    Commands with `in_order` are done, and their responses read, in the order of their submission.
    """

    __slots__ = ("arguments", "in_order", "is_append", "read", "size", "started", "tag", "writes")

    def __init__(
        self,
        tag: str,
        *arguments: Argument,
        script: bytes = b"",
        keys: Sequence[bytes] = (),
        read: Callable[[Any], Any] = lambda response: response,
        in_order: bool = True,
    ) -> None:
        super().__init__()
        # An argument that cannot be encoded fails here, before it shares a batch with other commands.
        encoded = [part.encode("utf-8") if isinstance(part, str) else part for part in arguments]
        self.arguments = [b"EVALSHA", script, len(keys), *keys, *encoded] if script else encoded
        self.tag, self.read, self.in_order = tag, read, in_order
        self.writes, self.is_append = bool(script), script == APPEND
        self.started = self.future.get_loop().time()
        self.size = _BYTES_PER_COMMAND

    def arguments_of(self, group: Sequence[Any]) -> Sequence[Argument]:
        return self.arguments

    def answer(self, group: Sequence[Any], response: Any) -> None:  # noqa: ANN401
        self.result = self.read(response)
        self.settle()


Group = Sequence[Command]  # commands that are sent to Redis as one


class Node:
    """One server and its connections: a node of a cluster, or the server that the URL or Sentinel names."""

    def __init__(self, topology: Topology, host: Host | None) -> None:
        address = topology.address
        self.topology, self.timeout = topology, address.timeout
        self.label = f"the Redis node {host[0]}:{host[1]}" if host else f"the Redis at {address.shown_url}"
        self.pool = address.pool(host)
        self.client = Redis(connection_pool=self.pool)
        self.listener = Listener(self, topology)
        self._in_order: GroupCommit[Command] = GroupCommit(partial(self._write, address.replicas))
        self._other_reads: GroupCommit[Command] = GroupCommit(partial(self._write, 0))
        self._loop = asyncio.get_running_loop()
        self._bytes, self._failed_at = 0, -math.inf

    def submit(self, command: Command) -> None:
        if self._bytes >= _MAX_WAITING_BYTES:
            command.fail(StoreUnavailable(f"too much waits for {self.label}"))
        else:
            self._bytes += command.size
            (self._in_order if command.in_order else self._other_reads).submit(command)

    async def beat(self, tag: str, channel: bytes) -> None:
        """Publish an empty message; raise StoreUnavailable if this is a replica, or its user may not write."""
        command = Command(tag, script=BEAT, keys=[self.topology.key(tag, "epochs"), channel], in_order=False)
        self.submit(command)
        await command.future

    async def close(self) -> None:
        await self.listener.close()
        await asyncio.gather(self._in_order.close(), self._other_reads.close())
        await asyncio.sleep(0)  # the responses of the last batch are delivered on the next turn of the loop
        await self.pool.aclose()
        if isinstance(self.pool, SentinelConnectionPool):
            await self.pool.sentinel_manager.aclose()

    async def _write(self, replicas: int, commands: list[Command]) -> None:
        try:
            for part in _parts(commands):
                await self._write_part(replicas, part)
        finally:
            self._bytes -= sum([command.size for command in commands])

    async def _write_part(self, replicas: int, commands: list[Command]) -> None:
        # Callers that waited while the node was away get their answer now, not after one more timeout.
        late = [command for command in commands if command.started <= self._failed_at]
        _fail(late, StoreUnavailable(f"{self.label} cannot be used now: its connection broke just before"))
        groups = _grouped([command for command in commands if command.started > self._failed_at])
        responses = await self._exchange(groups, replicas) if groups else []
        unloaded = [n for n, response in enumerate(responses) if isinstance(response, exceptions.NoScriptError)]
        if unloaded:
            loads = [[Command("", b"SCRIPT", b"LOAD", text)] for text in _SCRIPTS]
            again = await self._exchange([*loads, *(groups[n] for n in unloaded)], replicas)
            for n, response in zip(unloaded, again[len(loads) :], strict=True):
                responses[n] = response
        # Not at once, so that the next batch is sent before the callers of this one get their results.
        self._loop.call_soon(self._deliver, groups, responses)

    async def _exchange(self, groups: Sequence[Group], replicas: int) -> list[Any]:
        """Return the response to each group, or its error."""
        connection, responses = None, []
        waits = replicas > 0 and any([group[0].writes for group in groups])
        commands = [tuple(group[0].arguments_of(group)) for group in groups]
        if waits:
            commands.append((b"WAIT", replicas, int(self.timeout * 500)))
        try:
            async with asyncio.timeout(self.timeout):  # one timer for all responses: one for each would cost more
                connection = await self.pool.get_connection()
                # Redis-py packs commands in Python, which takes several times as long.
                packed = [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]
                await connection.send_packed_command(packed)
                for _ in commands:
                    responses.append(await _response(connection))
                if any([isinstance(response, exceptions.ReadOnlyError) for response in responses]):
                    await connection.disconnect()  # after a failover, the address may lead to another server
        except UNREACHABLE as error:
            refusals = exceptions.BusyLoadingError, exceptions.AuthenticationError
            is_unsent = connection is None or (isinstance(error, refusals) and not responses)
            if connection is not None:
                await connection.disconnect(nowait=True)
            self._failed_at = self._loop.time()
            self.topology.refresh()
            why = f"{self.label} {'cannot be used now' if is_unsent else 'broke off'}: {reason_of(error)}"
            unavailable = StoreUnavailable(why)
            unknown = unavailable if is_unsent else OutcomeUnknown(f"{why}; the change may have been made")
            return [unknown if group[0].writes else unavailable for group in groups]
        finally:
            if connection is not None:
                await self.pool.release(connection)
        # The response to WAIT is an error if the node is a replica; it has refused the writes too.
        if waits and (isinstance(confirmed := responses.pop(), Exception) or confirmed < replicas):
            unconfirmed = OutcomeUnknown(f"kept by {self.label}, but not confirmed by {replicas} replicas in time")
            for n, group in enumerate(groups):
                if group[0].writes and not isinstance(responses[n], Exception):
                    responses[n] = unconfirmed
        return responses

    def _deliver(self, groups: Sequence[Group], responses: Sequence[Any]) -> None:
        for group, response in zip(groups, responses, strict=True):
            if isinstance(response, exceptions.AskError | exceptions.TryAgainError):
                self.topology.submit_again(group, response)
            elif isinstance(response, exceptions.ResponseError):
                _fail(group, StoreUnavailable(f"{self.label} refuses: {reason_of(response)}"))
            elif isinstance(response, Exception):
                _fail(group, response)
            else:
                try:
                    group[0].answer(group, response)
                except (ValueError, TypeError, LookupError, DecodeError) as error:  # not data of a gateway
                    _fail(group, StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))


class Topology:
    """Which node has which hash tag. A single server, or the master that Sentinel names, counts as one node."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.tags = [str(number) for number in range(_TAGS if address.kind == "cluster" else 1)]
        self.subscriptions: set[Subscription] = set()
        self._cluster = address.cluster() if address.kind == "cluster" else None
        self._nodes: dict[Host | None, Node] = {}
        self._by_tag: dict[str, Node] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def read(self) -> None:
        """Read the layout of a cluster; raise StoreUnavailable if that fails."""
        if self._cluster is None:
            return
        try:
            await self._cluster.aclose()
            await self._cluster.initialize()
        except (*UNREACHABLE, exceptions.RedisClusterException) as error:
            raise StoreUnavailable(f"{self.address.shown_url} cannot be used now: {reason_of(error)}") from None
        finally:
            self._by_tag.clear()  # redis-py may know a newer layout, even if a node did not answer
        for subscription in self.subscriptions:
            subscription.move()
        masters = {(master.host, int(master.port)) for master in self._cluster.get_primaries()}
        for host in self._nodes.keys() - masters:  # no longer masters, but each may become one again
            await self._nodes[host].pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*(node.listener.close() for node in self._nodes.values()))
        if self._refreshing is not None:
            # Redis-py closes no connection of a cluster client that was cancelled while it read the layout.
            await asyncio.wait([self._refreshing], timeout=self.address.timeout)
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await asyncio.gather(*(node.close() for node in self._nodes.values()))
        for subscription in list(self.subscriptions):
            subscription.close()
            await subscription.drain()
        if self._cluster is not None:
            await self._cluster.aclose()

    def key(self, tag: str, name: str) -> bytes:
        return f"{self.address.prefix}{{{tag}}}:{name}".encode()

    def node_of(self, tag: str) -> Node:
        if tag not in self._by_tag:
            host = None
            if self._cluster is not None:
                master = self._cluster.get_node_from_key(f"{{{tag}}}")
                assert master is not None
                host = master.host, int(master.port)
            if host not in self._nodes:
                self._nodes[host] = Node(self, host)
            self._by_tag[tag] = self._nodes[host]
        return self._by_tag[tag]

    def listener_of(self, tag: str) -> Listener:
        return self.node_of(tag).listener

    def submit(self, make: Callable[[], Command]) -> asyncio.Future[Any]:
        """Send a command to the node that has its hash tag; one that cannot be encoded fails alone."""
        try:
            command = make()
        except UnicodeEncodeError as error:
            return failed_future(error)
        self.node_of(command.tag).submit(command)
        return command.future

    def submit_again(self, group: Group, error: Exception) -> None:
        """Send commands again that a node refused because their keys are moving, until their time is over."""

        def submit(_: asyncio.Task[None]) -> None:
            for command in group:
                if asyncio.get_running_loop().time() > command.started + self.address.timeout:
                    command.fail(StoreUnavailable(f"{self.address.shown_url} is moving these keys: {reason_of(error)}"))
                else:
                    self.node_of(command.tag).submit(command)

        self.refresh().add_done_callback(submit)

    def refresh(self) -> asyncio.Task[None]:
        """Read the layout again, as after a failover or when a slot moved; return the task."""
        if self._refreshing is None or (self._refreshing.done() and not self._is_closed):
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        try:
            if not self._is_closed:
                await self.read()
        except StoreUnavailable as error:  # callers get errors from their own commands; the next failure reads again
            log.debug("%s", error)
        await asyncio.sleep(_SECONDS_BETWEEN_REFRESHES)


def _parts(commands: Sequence[Command]) -> Iterator[list[Command]]:
    part, size = list[Command](), 0
    for command in commands:
        part.append(command)
        size += command.size
        if size >= _MAX_BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _grouped(commands: Sequence[Command]) -> list[Group]:
    """Return each command alone, then the appends to each hash tag together."""
    groups = [[command] for command in commands if not command.is_append]
    open_groups: dict[str, list[Command]] = {}
    for append in [command for command in commands if command.is_append]:
        group = open_groups.get(append.tag, [])
        if len(group) % _APPENDS_PER_GROUP == 0:
            group = open_groups[append.tag] = []
            groups.append(group)
        group.append(append)
    return list(groups)


def _fail(group: Group, error: Exception) -> None:
    for command in group:
        command.fail(error)


async def _response(connection: AbstractConnection) -> Any:  # noqa: ANN401
    try:
        return await connection.read_response(timeout=math.inf)
    except exceptions.ResponseError as error:
        return error
