"""Many contents in few requests, none above what a gateway takes."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.dweets import wire
from toolkit.errors import InvalidArgument

ROWS_A_REQUEST = 1_000


def batches(contents: Sequence[bytes]) -> list[list[bytes]]:
    """Cut contents into requests, in order, by number and by bytes.

    Raises
    ------
    InvalidArgument
        One of them is larger than a dweet may be.

    Examples
    --------
    >>> [len(batch) for batch in batches([b"1"] * 2_500)]
    [1000, 1000, 500]
    """
    checked_sizes(contents)
    found: list[list[bytes]] = []
    size = 0
    for content in contents:
        size += len(content) + 1
        if not found or len(found[-1]) == ROWS_A_REQUEST or size > wire.MAX_BATCH_BYTES:
            found.append([])
            size = len(content) + 1
        found[-1].append(content)
    return found


def checked_sizes(contents: Sequence[bytes]) -> None:
    """Raise InvalidArgument where a content is larger than a dweet may be."""
    largest = max(map(len, contents), default=0)
    if largest > wire.MAX_DWEET_BYTES:
        raise InvalidArgument(f"{wire.too_large(wire.MAX_DWEET_BYTES).message}, and one here has {largest}")
