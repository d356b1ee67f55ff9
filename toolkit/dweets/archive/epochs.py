"""Epochs and gaps in the sequence numbers of a thing.

A server numbers the dweets of a thing 1, 2, 3, ... If it restarts its numbers, because it is another server or has lost
its data, the archive starts a new epoch. Numbers that are missing within an epoch are a gap: the server deleted those
dweets before they were archived.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolkit.dweets.archive.files import ArchiveFile
from toolkit.dweets.archive.rows import Row

# After a failover, a Redis store continues at the next multiple of this, which is not a gap.
_NUMBERS_AN_EPOCH = 1_000_000_000


class Position(NamedTuple):
    """The epoch and sequence number of the last archived row; a thing without rows is at epoch 1, sequence 0."""

    epoch: int = 1
    sequence: int = 0


def missing_between(last: int, first: int) -> tuple[int, int] | None:
    """Return the first and last number missing between two consecutive rows, or None."""
    start = max(last + 1, (first - 1) // _NUMBERS_AN_EPOCH * _NUMBERS_AN_EPOCH + 1)
    return (start, first - 1) if start < first else None


def gaps_of(files: Sequence[ArchiveFile]) -> Iterator[tuple[int, int, ArchiveFile | None, ArchiveFile]]:
    """Yield the gaps of a thing: first and last missing number, the file before it (or None) and the file after it."""
    for before, file in zip([None, *files], files, strict=False):
        last = before.last if before is not None and before.epoch == file.epoch else 0
        if missing := missing_between(last, file.first):
            yield *missing, before, file


class Progress:
    """The position of a thing that is being archived; gaps and new epochs are logged."""

    def __init__(self, thing: str, position: Position, last: Row | None, log: logging.Logger) -> None:
        self.thing = thing
        self.epoch, self.sequence = position
        self._mark = last and _mark(last)
        self._log = log

    @property
    def resume_after(self) -> int:
        # One before the position, so that the last archived row is read again and compared.
        return max(self.sequence - 1, 0)

    def recognises(self, first: Row | None) -> bool:
        """Whether the server has the archived rows, given its first row after `resume_after`."""
        if self.sequence == 0:
            return True
        if first is None or first.sequence < self.sequence:
            return False
        return first.sequence > self.sequence or _mark(first) == self._mark

    def advance(self, row: Row) -> None:
        if missing := missing_between(self.sequence, row.sequence):
            self._log.warning("%s: gap: the server has deleted the dweets %d to %d", self.thing, *missing)
        self.sequence, self._mark = row.sequence, _mark(row)

    def start_epoch(self) -> None:
        self.epoch, self.sequence, self._mark = self.epoch + 1, 0, None
        self._log.warning("%s: the server restarted its sequence numbers; starting epoch %d", self.thing, self.epoch)


def _mark(row: Row) -> tuple[int, int]:
    # A hash, because contents may be large. An event stream may change line ends between JSON tokens.
    return row.at, hash(b" ".join(row.content.split()))
