"""Where a Redis is, read from a URL. The password in the URL is never shown.

::

    redis://[user:password@]host[:port][/db]
    rediss://...                                           the same over TLS
    unix://[user:password@]/path/to/redis.sock[?db=0]
    redis+sentinel://host[:port],host[:port]/service[/db]  the master that Sentinel names; rediss+sentinel for TLS
    redis+cluster://host[:port],host[:port]                a Redis Cluster; rediss+cluster for TLS

Options of our own after the question mark: ``prefix`` (what every key begins with), ``replicas`` (how many must
confirm what is acknowledged), ``timeout`` (seconds until a Redis that does not answer counts as away). All others
are those of the redis package's own URLs, such as ``ssl_ca_certs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import Connection, parse_url

_SCHEMES = {
    "redis": "server",
    "rediss": "server",
    "unix": "server",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}
_USUAL_PORTS = {"server": 6379, "sentinel": 26379, "cluster": 6379}
USUAL_PREFIX = "gateway:"
_USUAL_SECONDS = 2.0


class BadAddress(ValueError):
    """The URL names no Redis. The message never repeats the URL: it may hold a password."""


@dataclass(frozen=True, slots=True, repr=False)
class RedisAddress:
    """One Redis: of kind ``server``, ``sentinel`` or ``cluster``, with the hosts where to begin.

    `options` is what redis-py's connections are made with; it holds the password. `shown` is the URL without it.
    """

    kind: str
    hosts: tuple[tuple[str, int], ...]
    options: Mapping[str, Any]
    service: str
    prefix: str
    replicas: int
    timeout: float
    shown: str

    def __repr__(self) -> str:
        return f"<{self.shown}>"


def redis_address(url: str) -> RedisAddress:
    """Read the URL of a Redis.

    Raises
    ------
    BadAddress
        It cannot be read.

    Examples
    --------
    >>> redis_address("redis://:a-password@localhost/2?prefix=lab:").shown
    'redis://localhost:6379/2'
    """
    try:
        parts = urlsplit(url)
        kind = _SCHEMES.get(parts.scheme)
        if kind is None or (parts.scheme != "unix" and not parts.netloc):
            _refuse("it begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, then a host")
        return _address(kind, parts)
    except BadAddress:
        raise
    except (ValueError, TypeError):  # their words may repeat parts of the URL
        raise BadAddress("the URL of the store cannot be read: is its password percent-encoded?") from None


def _address(kind: str, parts: SplitResult) -> RedisAddress:
    login, _, hosts_text = parts.netloc.rpartition("@")
    hosts = tuple(_host(text, _USUAL_PORTS[kind]) for text in hosts_text.split(",")) if hosts_text else ()
    if kind == "server" and len(hosts) > 1:
        _refuse("several hosts need redis+sentinel:// or redis+cluster://")
    service, path = _service_and_path(kind, parts.path)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = given.pop("prefix", USUAL_PREFIX)
    if not prefix.isprintable() or set(prefix) & set("{}"):
        _refuse("prefix must be printable and without braces")
    replicas, timeout = int(given.pop("replicas", "0")), float(given.pop("timeout", _USUAL_SECONDS))
    if not (0 <= replicas < 100 and 0 < timeout <= 3600):
        _refuse("replicas is a small number, timeout a number of seconds")
    scheme = parts.scheme.partition("+")[0]
    shown_hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts]
    plain = f"{scheme}://{login}{'@' if login else ''}{shown_hosts[0] if hosts else ''}{path}?{urlencode(given)}"
    options = _connection_options(plain)
    where = ",".join(shown_hosts)
    shown = f"{parts.scheme}://{where}{parts.path.rstrip('/')}" if service or scheme == "unix" else ""
    shown = shown or f"{parts.scheme}://{where}" + ("" if kind == "cluster" else f"/{options.get('db', 0)}")
    return RedisAddress(kind, hosts, options, service, prefix, replicas, timeout, shown)


def _host(text: str, usual_port: int) -> tuple[str, int]:
    one = urlsplit(f"//{text}")
    if not one.hostname:
        _refuse("a host is missing")
    return one.hostname, one.port or usual_port


def _service_and_path(kind: str, path: str) -> tuple[str, str]:
    if kind == "cluster" and path.strip("/0"):
        _refuse("a cluster has one database only")
    if kind != "sentinel":
        return "", "" if kind == "cluster" else path
    service, _, db = path.strip("/").partition("/")
    if not service:
        _refuse("redis+sentinel://host,host/SERVICE names the service that Sentinel watches")
    return service, f"/{db}" if db else ""


def _connection_options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_url(url))
    kind = options.setdefault("connection_class", Connection)
    try:
        kind(**{name: value for name, value in options.items() if name != "connection_class"})
    except TypeError:
        _refuse("it has an option that is none of prefix, replicas, timeout, db, ssl_...")
    return options


def _refuse(why: str) -> NoReturn:
    raise BadAddress(f"the URL of the store cannot be used: {why}")
