"""Connections of redis-py that repeat nothing: whether a call that broke off may be repeated, its caller decides."""

from __future__ import annotations

from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from toolkit.stores.redis.address import RedisAddress


def pool_of(address: RedisAddress, place: tuple[str, int] | None, **options: Any) -> ConnectionPool:  # noqa: ANN401
    """Return the connections to the server at a place of the cluster, or to the one that the URL or Sentinel names."""
    options = {**_options(address), **options}
    if address.kind == "sentinel":
        tls = {name: value for name, value in options.items() if name.startswith("ssl")}
        limits = {"retry": _once(), "socket_timeout": address.timeout, "socket_connect_timeout": address.timeout}
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs={**tls, **limits})
        return SentinelConnectionPool(address.service, sentinel, **options)
    kind = address.options["connection_class"]
    where = {"host": place[0], "port": place[1]} if place else {}
    options.pop("ssl")
    return ConnectionPool(**{**options, "connection_class": kind, **where})


def cluster_of(address: RedisAddress) -> RedisCluster:
    """Return the client that knows the layout of the cluster."""
    options = {name: value for name, value in _options(address).items() if name not in ("db", "host", "port")}
    nodes = [ClusterNode(host, port) for host, port in address.hosts]
    return RedisCluster(startup_nodes=nodes, socket_timeout=address.timeout, **options)


def _options(address: RedisAddress) -> dict[str, Any]:
    return {
        **{name: value for name, value in address.options.items() if name != "connection_class"},
        "ssl": issubclass(address.options["connection_class"], SSLConnection),
        "protocol": 2,
        "driver_info": None,
        "retry": _once(),
        "socket_connect_timeout": address.timeout,
    }


def _once() -> Retry:
    return Retry(NoBackoff(), 0)
