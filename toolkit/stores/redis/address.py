"""The URL of a Redis; the password in it is never shown.

::

    redis://[user:password@]host[:port][/db]               rediss:// for TLS
    unix://[user:password@]/path/to/redis.sock[?db=0]
    redis+sentinel://host[:port],host[:port]/service[/db]  the master that Sentinel names; rediss+sentinel:// for TLS
    redis+cluster://host[:port],host[:port]                a Redis Cluster; rediss+cluster:// for TLS

Options after the question mark: ``prefix`` (of every key), ``replicas`` (how many must confirm a write), ``timeout``
(seconds until a Redis that does not answer counts as away), and those of redis-py's own URLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

_SCHEMES = re.compile(r"unix|(rediss?)(?:\+(sentinel|cluster))?")


class BadAddress(ValueError):
    """The URL names no Redis. The message never repeats the URL: it may hold a password."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the URL of the store cannot be used: {why}")


@dataclass(frozen=True, slots=True, repr=False)
class RedisAddress:
    """One Redis: of kind ``server``, ``sentinel`` or ``cluster``."""

    kind: str
    #: The Sentinels, or some nodes of the cluster.
    hosts: tuple[tuple[str, int], ...]
    connection_class: type[AbstractConnection]
    #: Of the connections; they hold the password.
    options: Mapping[str, Any]
    service: str
    prefix: str
    replicas: int
    timeout: float
    #: The URL without the password and the options.
    shown: str

    def pool(self, node: tuple[str, int] | None) -> ConnectionPool:
        """Return the connections to a node of the cluster, or to the server that the URL or Sentinel names."""
        if self.kind == "sentinel":
            options = self._client_options()
            of_sentinel = {name: options[name] for name in options if name.startswith(("ssl", "retry", "socket"))}
            sentinel = Sentinel(self.hosts, sentinel_kwargs=of_sentinel)
            return SentinelConnectionPool(self.service, sentinel, **{**options, "socket_timeout": None})
        host = {"host": node[0], "port": node[1]} if node else {}
        return ConnectionPool(connection_class=self.connection_class, **{**self.options, **host})

    def cluster(self) -> RedisCluster:
        return RedisCluster(startup_nodes=[ClusterNode(*host) for host in self.hosts], **self._client_options())

    def _client_options(self) -> dict[str, Any]:
        options = {name: value for name, value in self.options.items() if name not in ("host", "port")}
        return {**options, "socket_timeout": self.timeout, "ssl": issubclass(self.connection_class, SSLConnection)}


def redis_address(url: str) -> RedisAddress:
    """Read the URL of a Redis; raise BadAddress if it cannot be read."""
    try:
        return _address(urlsplit(url))
    except BadAddress:
        raise
    except (ValueError, TypeError, LookupError):  # their words may repeat parts of the URL
        why = "check its hosts and options, and whether its password is percent-encoded"
        raise BadAddress(why) from None


def _address(parts: SplitResult) -> RedisAddress:
    match = _SCHEMES.fullmatch(parts.scheme)
    if match is None or (parts.scheme != "unix" and not parts.netloc):
        raise BadAddress(
            "it begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, then a host"
        )
    kind, path, service = match[2] or "server", parts.path.rstrip("/"), ""
    if kind == "sentinel":
        service, _, db = path.lstrip("/").partition("/")
        path = f"/{db}"
        if not service:
            raise BadAddress("redis+sentinel://host,host/SERVICE names the service that Sentinel watches")
    if parts.scheme != "unix" and not re.fullmatch(r"/?\d*", path):
        raise BadAddress("the database is a number")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = given.pop("prefix", "gateway:")
    if not prefix.isprintable() or set(prefix) & set("{}"):
        raise BadAddress("prefix must be printable and without braces")
    replicas, timeout = int(given.pop("replicas", "0")), float(given.pop("timeout", "2.0"))
    if not (0 <= replicas < 100 and 0 < timeout <= 3600):
        raise BadAddress("replicas is a small number, timeout a number of seconds")
    login, at, hosts = parts.netloc.rpartition("@")
    scheme, query = match[1] or "unix", urlencode(given)
    servers: list[dict[str, Any]] = [
        dict(parse_url(f"{scheme}://{login}{at}{host}{path}?{query}")) for host in hosts.split(",")
    ]
    if kind == "server" and len(servers) > 1:
        raise BadAddress("several hosts need redis+sentinel:// or redis+cluster://")
    if kind == "cluster" and servers[0].pop("db", 0):
        raise BadAddress("a cluster has one database only")
    options: dict[str, Any] = {
        "client_name": "gateway",  # so that a connection is known to answer before a batch is sent
        **servers[0],
        "protocol": 2,
        "driver_info": None,
        "retry": Retry(NoBackoff(), 0),  # a command that breaks off is never repeated
        "socket_connect_timeout": timeout,
        "socket_timeout": None,  # a batch has one deadline instead of a timer for each response
    }
    connection_class = options.pop("connection_class", Connection)
    connection_class(**options)  # TypeError: no such option
    port = 26379 if kind == "sentinel" else 6379
    addresses = tuple((server["host"], server.get("port", port)) for server in servers if match[1])
    shown = f"{parts.scheme}://{hosts}{parts.path.rstrip('/')}"
    return RedisAddress(kind, addresses, connection_class, options, service, prefix, replicas, timeout, shown)
