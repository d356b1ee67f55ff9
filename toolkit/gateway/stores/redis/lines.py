"""A line of a journal as it travels to Redis, lies there and is told to who follows: packed, in one piece.

Each piece costs Redis time, and its one thread is what all gateways share: a line of three pieces would cost it
half as much again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from toolkit.gateway.stores import Draft, Entry

# A line begins with its time and the lengths of its id and its data, which follow.
_LINE = struct.Struct(">dII")
# A message of a journal's channel: the numbers of the line before it and of its last, how many lines follow.
_HEAD = struct.Struct(">ddI")


def packed_line(draft: Draft) -> bytes:
    """Pack a line."""
    at, text, data = draft
    id_ = text.encode("utf-8")
    return _LINE.pack(at, len(id_), len(data)) + id_ + data


def entries_of(lines: Sequence[Any]) -> list[Entry]:
    """Read lines as Redis gives them: an id ``0-number``, and a field with the packed line."""
    return [_entry(int(number[2:]), fields) for number, fields in lines]


def entries_of_message(data: bytes) -> tuple[int, int, list[Entry]]:
    """Read a message of a journal's channel: the number before, the last, and the lines if they were not too much."""
    before, last, count = _HEAD.unpack_from(data)
    here, entries = _HEAD.size, []
    for number in range(int(last) - count + 1, int(last) + 1):
        entry, here = _unpacked(number, data, here)
        entries.append(entry)
    return int(before), int(last), entries


def _entry(number: int, fields: Sequence[bytes]) -> Entry:
    if len(fields) > 2:  # written before November 2026: at, id and data in a field each
        return Entry(number, int(fields[1]), fields[3].decode("utf-8"), fields[5])
    return _unpacked(number, fields[1], 0)[0]


def _unpacked(number: int, data: bytes, start: int) -> tuple[Entry, int]:
    """Read the line at `start`; return it, and where it ends."""
    at, id_size, data_size = _LINE.unpack_from(data, start)
    id_at = start + _LINE.size
    data_at = id_at + id_size
    end = data_at + data_size
    return Entry(number, int(at), data[id_at:data_at].decode("utf-8"), data[data_at:end]), end
