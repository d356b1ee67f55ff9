"""Journal entries in Redis: each is one field of a stream entry, packed, because every field costs Redis time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from toolkit.stores import Draft, Entry

# The time, the lengths of the id and of the data; both follow.
_ENTRY = struct.Struct(">dII")
# A message: the number of the entry before its first, that of its last, and how many entries follow.
_HEAD = struct.Struct(">ddI")


def packed(draft: Draft) -> bytes:
    """Pack an entry that has no number yet."""
    at, text, data = draft
    id_ = text.encode("utf-8")
    return _ENTRY.pack(at, len(id_), len(data)) + id_ + data


def entries_of(rows: Sequence[Any]) -> list[Entry]:
    """Read entries as XRANGE returns them: an id ``0-number`` and a packed field."""
    return [_unpacked(int(number[2:]), fields[1], 0)[0] for number, fields in rows]


def entries_of_message(data: bytes) -> tuple[int, int, list[Entry]]:
    """Read a message: the number before, the last number, and the entries unless they were too large for a message."""
    before, last, count = _HEAD.unpack_from(data)
    here, entries = _HEAD.size, []
    for number in range(int(last) - count + 1, int(last) + 1):
        entry, here = _unpacked(number, data, here)
        entries.append(entry)
    return int(before), int(last), entries


def _unpacked(number: int, data: bytes, start: int) -> tuple[Entry, int]:
    at, id_size, data_size = _ENTRY.unpack_from(data, start)
    id_at = start + _ENTRY.size
    data_at = id_at + id_size
    end = data_at + data_size
    return Entry(number, int(at), data[id_at:data_at].decode("utf-8"), data[data_at:end]), end
