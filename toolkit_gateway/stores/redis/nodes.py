"""The nodes of a Redis, and the batches of commands that are sent to them.

A node has one batch in flight for what must be done in order, and one for other reads. A batch has a connection of
redis-py for itself, so that ``WAIT`` covers exactly its writes, and so that the batch can tell a command that was never
sent from one whose response was lost. After a failover, batches fail until their connections lead to the new master: a
failed batch closes its connection and starts `Topology.refresh`, which reads the layout of a cluster again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import hiredis
from msgspec import DecodeError
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import SentinelConnectionPool

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores.group_commit import GroupCommit
from toolkit_gateway.stores.redis.address import UNREACHABLE, Host, RedisAddress, reason_of
from toolkit_gateway.stores.redis.commands import BEAT, SCRIPTS, Command, Group, grouped, parts_of
from toolkit_gateway.stores.redis.listener import Listener, Servers

# The commands that wait for one node or are in flight; further ones are refused, so that memory stays bounded.
_MAX_WAITING_BYTES = 64 * 1024 * 1024


class Layout(Servers, Protocol):
    """What a node needs of the topology."""

    address: RedisAddress

    def key(self, tag: str, name: str) -> bytes: ...

    def send_again(self, group: Group, error: Exception) -> None: ...


class Node:
    """One server and its connections: a node of a cluster, or the server that the URL or Sentinel names."""

    def __init__(self, topology: Layout, host: Host | None) -> None:
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

    def queue(self, command: Command) -> None:
        if self._bytes >= _MAX_WAITING_BYTES:
            command.fail(StoreUnavailable(f"too much waits for {self.label}"))
        else:
            self._bytes += command.size
            (self._in_order if command.in_order else self._other_reads).add_to_next_batch(command)

    async def beat(self, tag: str, channel: bytes) -> None:
        """Publish an empty message; raise StoreUnavailable if this is a replica, or its user may not write."""
        command = Command(tag, script=BEAT, keys=[self.topology.key(tag, "epochs"), channel], in_order=False)
        self.queue(command)
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
            for part in parts_of(commands):
                await self._write_part(replicas, part)
        finally:
            self._bytes -= sum([command.size for command in commands])

    async def _write_part(self, replicas: int, commands: list[Command]) -> None:
        # Callers that waited while the node was away get their answer now, not after one more timeout.
        late = [command for command in commands if command.started <= self._failed_at]
        _fail(late, StoreUnavailable(f"{self.label} cannot be used now: its connection broke just before"))
        groups = grouped([command for command in commands if command.started > self._failed_at])
        responses = await self._exchange(groups, replicas) if groups else []
        unloaded = [n for n, response in enumerate(responses) if isinstance(response, exceptions.NoScriptError)]
        if unloaded:
            loads = [[Command("", b"SCRIPT", b"LOAD", text)] for text in SCRIPTS]
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
                self.topology.send_again(group, response)
            elif isinstance(response, exceptions.ResponseError):
                _fail(group, StoreUnavailable(f"{self.label} refuses: {reason_of(response)}"))
            elif isinstance(response, Exception):
                _fail(group, response)
            else:
                try:
                    group[0].read_response(group, response)
                except (ValueError, TypeError, LookupError, DecodeError) as error:  # not data of a gateway
                    _fail(group, StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))


def _fail(group: Group, error: Exception) -> None:
    for command in group:
        command.fail(error)


async def _response(connection: AbstractConnection) -> Any:  # noqa: ANN401
    try:
        return await connection.read_response(timeout=math.inf)
    except exceptions.ResponseError as error:
        return error
