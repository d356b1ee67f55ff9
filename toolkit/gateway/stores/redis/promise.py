"""Whether a Redis can be used at all, and where it promises less than one may think."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.gateway.stores import StoreUnavailable
from toolkit.gateway.stores.redis.address import RedisAddress

_OLDEST = (7, 0)

Info = Mapping[str, str]


def info_of(answer: bytes) -> dict[str, str]:
    """Read what a server answers to INFO."""
    lines = (line.partition(":") for line in answer.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in lines}


def check(info: Info, address: RedisAddress) -> None:
    """Raise StoreUnavailable where this server cannot be the store.

    Raises
    ------
    StoreUnavailable
        It is too old, a replica, or one node of a cluster.
    """
    version = info.get("valkey_version") or info.get("redis_version", "0.0")
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise StoreUnavailable(f"the Redis at {address.shown} is version {version}; it must be 7.0 or newer")
    if info.get("role") == "slave":
        raise StoreUnavailable(f"the Redis at {address.shown} is a replica; give its master, or redis+sentinel://")
    if info.get("cluster_enabled") == "1" and address.kind != "cluster":
        raise StoreUnavailable(f"the Redis at {address.shown} is a node of a cluster; give redis+cluster://")
    if info.get("cluster_enabled") == "0" and address.kind == "cluster":
        raise StoreUnavailable(f"the Redis at {address.shown} is no cluster; give redis://")


def shortcomings(info: Info, fsync: str | None, address: RedisAddress) -> list[str]:
    """Return what whoever runs this gateway should know of its promise.

    Parameters
    ----------
    info
        What the server answers to INFO.
    fsync
        Its ``appendfsync``; None where it does not tell.
    address
        Whose promise it is.
    """
    found = []
    if info.get("aof_enabled") == "0":
        found.append(
            "an acknowledged dweet is in its memory only; set appendonly yes and appendfsync always for the disk"
        )
    elif fsync not in (None, "always"):
        found.append(f"appendfsync is {fsync}: an acknowledged dweet is on its disk within about a second, not at once")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and info.get("maxmemory", "0") != "0":
        found.append(f"it forgets keys when its memory is full ({policy}); set maxmemory-policy noeviction")
    if int(info.get("connected_slaves", "0")) < address.replicas:
        here = info.get("connected_slaves", "0")
        found.append(f"{address.replicas} replicas must confirm what is acknowledged, and it has {here} now")
    return found
