"""What must happen in Redis in one step: the Lua scripts beside this file.

All keys of a call lie in one slot, so a cluster runs the scripts too. Subscribers hear of a change by sharded pub/sub
on a channel named like the key; with ``appendfsync always`` Redis delivers a message after its disk has the change.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

TEXTS: list[bytes] = []


def _digest(name: str) -> bytes:
    TEXTS.append(files(__package__).joinpath(name).read_bytes())
    return hashlib.sha1(TEXTS[-1], usedforsecurity=False).hexdigest().encode("ascii")


# The digests by which Redis knows them.
APPEND, RECORDS, BEAT = _digest("append.lua"), _digest("records.lua"), _digest("beat.lua")
