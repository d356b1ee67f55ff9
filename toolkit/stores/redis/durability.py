"""Whether a Redis can be the store, what its acknowledgement means, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Mapping

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from toolkit.errors import StoreUnavailable
from toolkit.stores.redis.address import RedisAddress

_OLDEST = (7, 0)
_ADVICE = {
    "OOM": "give it more memory (maxmemory), or keep fewer entries",
    "MISCONF": "its snapshots fail; see its log and its disk",
    "READONLY": "it is a replica; give its master, or redis+sentinel://",
    "LOADING": "it is still reading its files",
    "NOAUTH": "put its user and password into the URL",
    "WRONGPASS": "put its user and password into the URL",
    "NOPERM": "grant its user the ACL permissions of the README",
    "user executing the script": "grant its user the ACL permissions of the README",
    "ACL failure in script": "grant its user the ACL permissions of the README",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write",
}

Info = Mapping[str, str]


def reason_of(error: BaseException | None) -> str:
    # These libraries know of addresses only, so their words hold no secret.
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return "no answer in time"
    text = str(error) or type(error).__name__
    # redis-py takes the code off the text of those errors that it knows.
    code = (isinstance(error, RedisError) and error.status_code) or text.partition(" ")[0]
    text = text if text.startswith(code) else f"{code} {text}"
    return " ".join([text, *(f"({advice})" for mark, advice in _ADVICE.items() if mark in text)])


def info_of(answer: bytes) -> dict[str, str]:
    rows = (row.partition(":") for row in answer.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in rows}


def check(info: Info, address: RedisAddress) -> None:
    """Raise StoreUnavailable for a server that is too old, a replica, or one node of a cluster."""
    version = info.get("valkey_version") or info.get("redis_version", "0.0")
    problem = ""
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        problem = f"is version {version}; it must be 7.0 or newer"
    elif info.get("role") == "slave":
        problem = "is a replica; give its master, or redis+sentinel://"
    elif info.get("cluster_enabled") == "1" and address.kind != "cluster":
        problem = "is a node of a cluster; give redis+cluster://"
    if problem:
        raise StoreUnavailable(f"the Redis at {address.shown} {problem}")


def warnings_about(info: Info, fsync: str | None, address: RedisAddress) -> list[str]:
    """Return where this Redis guarantees less than expected; `fsync` is None where it may not be asked."""
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
