"""Whether a Redis can be the store, what its acknowledgement means, and what its refusals mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from toolkit.stores.redis.address import RedisAddress

# What redis-py raises where a server is away, refuses, or answers with something else than Redis does.
UNREACHABLE = (RedisError, OSError, TimeoutError)
_OLDEST = (7, 0)
_ADVICE = {
    "OOM": "give it more memory (maxmemory), or keep fewer entries",
    "MISCONF": "its snapshots fail; see its log and its disk",
    "READONLY": "it is a replica; give its master, or redis+sentinel://",
    "LOADING": "it is still reading its files",
    "NOAUTH|WRONGPASS": "put its user and password into the URL",
    "NOPERM|user executing the script|ACL failure in script": "grant its user the ACL permissions of the README",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write",
}


def reason_of(error: BaseException | None) -> str:
    """Return what went wrong, and what to do about it."""
    # These libraries know of addresses only, so their words hold no secret.
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return "no answer in time"
    text = str(error) or type(error).__name__
    # redis-py takes the code off the text of those errors that it knows.
    code = (isinstance(error, RedisError) and error.status_code) or text.partition(" ")[0]
    text = text if text.startswith(code) else f"{code} {text}"
    return " ".join([text, *(f"({advice})" for marks, advice in _ADVICE.items() if re.search(marks, text))])


def problem_of(info: Mapping[str, Any], address: RedisAddress) -> str | None:
    """Return why a server cannot be the store: it is too old, a replica, or one node of a cluster."""
    version = str(info.get("valkey_version") or info.get("redis_version", "0.0"))
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        return f"is version {version}; it must be 7.0 or newer"
    if info.get("role") == "slave":
        return "is a replica; give its master, or redis+sentinel://"
    if info.get("cluster_enabled") == 1 and address.kind != "cluster":
        return "is a node of a cluster; give redis+cluster://"
    return None


def warnings_about(info: Mapping[str, Any], fsync: str | None, replicas: int) -> list[str]:
    """Return where this Redis guarantees less than expected; `fsync` is None where it may not be asked."""
    found = []
    if info.get("aof_enabled") == 0:
        found.append(
            "an acknowledged dweet is in its memory only; set appendonly yes and appendfsync always for the disk"
        )
    elif fsync not in (None, "always"):
        found.append(f"appendfsync is {fsync}: an acknowledged dweet is on its disk within about a second, not at once")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and info.get("maxmemory"):
        found.append(f"it forgets keys when its memory is full ({policy}); set maxmemory-policy noeviction")
    if (connected := info.get("connected_slaves", 0)) < replicas:
        found.append(f"{replicas} replicas must confirm what is acknowledged, and it has {connected} now")
    return found
