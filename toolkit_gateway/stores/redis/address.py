"""The URL of a Redis, whose password is never shown, and what the errors of a Redis mean.

::

    redis://[user:password@]host[:port][/db]               rediss:// for TLS
    unix://[user:password@]/path/to/redis.sock[?db=0]
    redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]  the master that Sentinel names
    redis+cluster://[user:password@]host[:port],host[:port]                a Redis Cluster; both rediss+ for TLS

Options after the question mark: ``prefix`` (of every key), ``replicas`` (how many must confirm a write), ``timeout``
(seconds until a Redis that does not answer counts as away), and those of redis-py's own URLs.
"""

import re
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from toolkit.errors import InvalidArgument

Host = tuple[str, int]

# What redis-py raises if a server cannot be reached, refuses, or is no Redis server.
UNREACHABLE = (RedisError, OSError, TimeoutError)
_ADVICE = {
    "OOM": "give it more memory (maxmemory), or keep fewer entries",
    "MISCONF": "its snapshots fail; see its log and its disk",
    "READONLY": "it is a replica; give its master, or redis+sentinel://",
    "LOADING": "it is still reading its files",
    "NOAUTH|WRONGPASS": "put its user and password into the URL",
    "NOPERM|user executing the script|ACL failure": "grant its user the ACL permissions of docs/how-to/redis.md",
    "No master found": "check the addresses of the Sentinels, the name of the service, and that they need no password",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write",
}
_SCHEMES = re.compile(r"unix|(rediss?)(?:\+(sentinel|cluster))?")


class RedisAddress:
    """Where a Redis is, of kind ``server``, ``sentinel`` or ``cluster``; InvalidArgument if the URL cannot be read."""

    def __init__(self, url: str) -> None:
        try:
            problem = self._read(urlsplit(url))
        except (ValueError, TypeError, LookupError):
            problem = "check its hosts and options, and whether its password is percent-encoded"
        if problem:  # neither the URL nor the error's text is shown: both may hold the password
            raise InvalidArgument(f"the URL of the store cannot be used: {problem}")

    def _read(self, parts: SplitResult) -> str | None:
        """Read the parts, or return what is wrong with them."""
        match = _SCHEMES.fullmatch(parts.scheme)
        if match is None or not (parts.path if parts.scheme == "unix" else parts.netloc):
            return "it begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
        self.kind, scheme = match[2] or "server", match[1] or "unix"
        login, at, hosts = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/")
        self.shown_url = f"{parts.scheme}://{hosts}{path}"
        if self.kind == "sentinel":
            self.service, _, db = path.lstrip("/").partition("/")
            path = f"/{db}"
        options: dict[str, str] = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.prefix = options.pop("prefix", "gateway:")
        self.replicas, self.timeout = int(options.pop("replicas", "0")), float(options.pop("timeout", "2.0"))
        query = urlencode(options)
        urls = [f"{scheme}://{login}{at}{host}{path}?{query}" for host in hosts.split(",")]
        servers: list[dict[str, Any]] = [dict(parse_url(url)) for url in urls]
        port = 26379 if self.kind == "sentinel" else 6379
        self._hosts = [(server["host"], server.get("port", port)) for server in servers if match[1]]
        self._options: dict[str, Any] = {
            "client_name": "gateway",  # setting it shows that a connection answers, before a batch is sent
            **servers[0],
            "protocol": 2,
            "decode_responses": False,
            "driver_info": None,
            "retry": Retry(NoBackoff(), 0),  # a command whose connection breaks is never sent again
            "socket_connect_timeout": self.timeout,
            "socket_timeout": None,  # a batch has one deadline instead of a timer for each response
        }
        self._connection_class = self._options.pop("connection_class", Connection)
        self._connection_class(**self._options)  # TypeError: no such option
        problems = {
            "redis+sentinel://host,host/SERVICE names the service that Sentinel watches": (
                self.kind == "sentinel" and not self.service
            ),
            "the database is a number": bool(match[1]) and not re.fullmatch(r"/?\d*", path),
            "a cluster has one database only": self.kind == "cluster" and servers[0].get("db"),
            "several hosts need redis+sentinel:// or redis+cluster://": self.kind == "server" and len(servers) > 1,
            "prefix must be printable and without braces": not self.prefix.isprintable() or set(self.prefix) & {*"{}"},
            "replicas is a small number": not 0 <= self.replicas < 100,
            "timeout is a number of seconds": not 0 < self.timeout <= 3600,
        }
        return next((problem for problem, is_present in problems.items() if is_present), None)

    def pool(self, node: Host | None) -> ConnectionPool:
        """Return the connections to a node of the cluster, or to the server that the URL or Sentinel names."""
        if self.kind != "sentinel":
            host = {"host": node[0], "port": node[1]} if node else {}
            return ConnectionPool(connection_class=self._connection_class, **{**self._options, **host})
        options = self._options_without("host", "port")
        sentinel_options = {name: options[name] for name in options if name.startswith(("ssl", "retry", "socket"))}
        sentinel = Sentinel(self._hosts, sentinel_kwargs={**sentinel_options, "socket_timeout": self.timeout})
        return SentinelConnectionPool(self.service, sentinel, **options)

    def cluster(self) -> RedisCluster:
        options = {**self._options_without("host", "port", "db"), "socket_timeout": self.timeout}
        return RedisCluster(startup_nodes=[ClusterNode(*host) for host in self._hosts], **options)

    def _options_without(self, *names: str) -> dict[str, Any]:
        options = {name: value for name, value in self._options.items() if name not in names}
        return {**options, "ssl": issubclass(self._connection_class, SSLConnection)}


def reason_of(error: BaseException | None) -> str:
    """Return what went wrong, and what to do about it if that is known."""
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return "no answer in time"
    # Cut off redis-py's list of Sentinel clients, and the arguments of an unknown command: AUTH has the password there.
    text = re.split(" : <redis[.]|, with args beginning with", str(error))[0] or type(error).__name__
    # redis-py takes the code off the text of those errors that it knows.
    code = (isinstance(error, RedisError) and error.status_code) or text.partition(" ")[0]
    text = text if text.startswith(code) else f"{code} {text}"
    return " ".join([text, *(f"({advice})" for pattern, advice in _ADVICE.items() if re.search(pattern, text))])
