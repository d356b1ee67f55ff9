"""Where a Redis is, read from a URL; the password in it is never shown.

::

    redis://[user:password@]host[:port][/db]               rediss:// for TLS
    unix://[user:password@]/path/to/redis.sock[?db=0]
    redis+sentinel://host[:port],host[:port]/service[/db]  the master that Sentinel names; rediss+sentinel:// for TLS
    redis+cluster://host[:port],host[:port]                a Redis Cluster; rediss+cluster:// for TLS

Options after the question mark: ``prefix`` (of every key), ``replicas`` (how many must confirm what is acknowledged),
``timeout`` (seconds until a Redis that does not answer counts as away), and those of redis-py's own URLs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
    """One Redis: of kind ``server``, ``sentinel`` or ``cluster``, with the hosts where to begin."""

    kind: str
    hosts: tuple[tuple[str, int], ...]
    connection_class: type[AbstractConnection]
    #: Of redis-py's connections; they hold the password.
    options: Mapping[str, Any]
    service: str
    prefix: str
    replicas: int
    timeout: float
    #: The URL without the password.
    shown: str

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    def pool(self, place: tuple[str, int] | None, on_connect: Callable[[Any], Any]) -> ConnectionPool:
        """Return the connections to a node of the cluster, or to the server that the URL or Sentinel names."""
        # A batch has one deadline instead of a timer for each response.
        options = {**self._usual_options(), "socket_timeout": None, "redis_connect_func": on_connect}
        if self.kind == "sentinel":
            names = "ssl", "retry", "socket_connect_timeout"
            of_sentinel = {name: value for name, value in options.items() if name.startswith(names)}
            sentinel = Sentinel(list(self.hosts), sentinel_kwargs={**of_sentinel, "socket_timeout": self.timeout})
            return SentinelConnectionPool(self.service, sentinel, **options)
        options.pop("ssl")
        where = {"host": place[0], "port": place[1]} if place else {}
        return ConnectionPool(connection_class=self.connection_class, **{**options, **where})

    def cluster(self) -> RedisCluster:
        options = {name: value for name, value in self._usual_options().items() if name not in ("host", "port")}
        nodes = [ClusterNode(*host) for host in self.hosts]
        return RedisCluster(startup_nodes=nodes, socket_timeout=self.timeout, **options)

    def _usual_options(self) -> dict[str, Any]:
        return {
            **self.options,
            "ssl": issubclass(self.connection_class, SSLConnection),
            "protocol": 2,
            "driver_info": None,
            # Whether a call that broke off may be repeated, its caller decides.
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": self.timeout,
        }


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
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = given.pop("prefix", "gateway:")
    if not prefix.isprintable() or set(prefix) & set("{}"):
        raise BadAddress("prefix must be printable and without braces")
    replicas, timeout = int(given.pop("replicas", "0")), float(given.pop("timeout", "2.0"))
    if not (0 <= replicas < 100 and 0 < timeout <= 3600):
        raise BadAddress("replicas is a small number, timeout a number of seconds")
    login, at, hosts = parts.netloc.rpartition("@")
    servers: list[dict[str, Any]] = [
        dict(parse_url(f"{match[1] or 'unix'}://{login}{at}{host}{path}?{urlencode(given)}"))
        for host in hosts.split(",")
    ]
    if kind == "server" and len(servers) > 1:
        raise BadAddress("several hosts need redis+sentinel:// or redis+cluster://")
    options = {"db": 0, **servers[0]}
    if kind == "cluster" and options.pop("db"):
        raise BadAddress("a cluster has one database only")
    connection_class: type[AbstractConnection] = options.pop("connection_class", Connection)
    connection_class(**options)  # TypeError: no such option
    usual_port = 26379 if kind == "sentinel" else 6379
    places = tuple((server["host"], server.get("port", usual_port)) for server in servers if match[1])
    where = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places)
    end = {"server": f"/{options.get('db')}" if match[1] else path, "sentinel": parts.path.rstrip("/"), "cluster": ""}
    shown = f"{parts.scheme}://{where}{end[kind]}"
    return RedisAddress(kind, places, connection_class, options, service, prefix, replicas, timeout, shown)
