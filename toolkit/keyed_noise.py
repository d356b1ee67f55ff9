"""Randomness that is looked up, never drawn: the same key gives the same number, whatever else is asked for.

Every number is a hash of (key, name of the stream, index), so adding a stream never moves another one, and leaving a
line out does not change the next. Handwriting and rewards use this one generator. The data path uses integers,
``+ - * /`` and square roots only: no libm call whose last digit depends on the machine.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_INDEX = np.uint64(0xD1342543DE82EF95)
_AT_ONCE = 100_000  # points; a field takes twenty times the memory of its points
_LOW16 = np.uint64(0xFFFF)


def mix(z: Hashes) -> Hashes:
    """Splitmix64's finaliser: every input bit reaches every output bit."""
    z = z + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def unit(hashes: Hashes) -> Floats:
    return (hashes >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))


def gaussian(hashes: Hashes) -> Floats:
    """Hashes as bell-shaped numbers of variance 1, within 3.47 (Irwin-Hall of four 16-bit parts: exact, no libm)."""
    total = hashes & _LOW16
    for shift in (16, 32, 48):
        total = total + ((hashes >> np.uint64(shift)) & _LOW16)
    return (total.astype(np.float64) - 131070.0) * (1.7320508075688772 / 65536.0)


def _fade(t: Floats) -> Floats:
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


class KeyedNoise:
    """Named streams of random numbers for one key, such as seed, script and writer."""

    def __init__(self, *key: str) -> None:
        self._key = "\0".join(key)

    def stream(self, name: str) -> np.uint64:
        return np.uint64(self._start(name))

    def number(self, name: str) -> float:
        return (self._start(name) >> 11) / (1 << 53)

    def _start(self, name: str) -> int:
        key = f"{self._key}\0{name}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")

    def hashes(self, name: str, count: int) -> Hashes:
        return mix(self.stream(name) ^ (np.arange(count, dtype=np.uint64) * _INDEX))

    def uniform(self, name: str, count: int) -> Floats:
        """Return uniform numbers in [-1, 1)."""
        return 2.0 * unit(self.hashes(name, count)) - 1.0

    def gaussian(self, name: str, count: int) -> Floats:
        return gaussian(self.hashes(name, count))

    def drift(self, name: str, positions: Floats) -> Floats:
        """Return smooth noise along a line: variance about 1, changing over one unit of `positions`."""
        cell = np.floor(positions).astype(np.int64)
        lowest = int(cell.min()) if len(cell) else 0
        count = (int(cell.max()) - lowest if len(cell) else 0) + 2
        index = np.arange(lowest, lowest + count).astype(np.uint64)
        knots = gaussian(mix(self.stream(name) ^ (index * _INDEX)))
        at = cell - lowest
        before = knots[at]
        return before + (knots[at + 1] - before) * _fade(positions - cell)

    def field(self, name: str, owner: Integers, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return a smooth displacement right and up for every point, variance about 1; every owner has another field.

        The positions are in units of the lattice, the owners are small numbers, such as those of letters.
        """
        right, up = np.empty(len(x)), np.empty(len(x))
        for first in range(0, len(x), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            right[part], up[part] = self._field(name, owner[part], x[part], y[part])
        return right, up

    def _field(self, name: str, owner: Integers, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        column, row = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        u, v = _fade(x - column), _fade(y - row)
        dx, dy, corner, stride = _lattice(self.stream(name), owner, column, row)
        return _blend(dx, corner, stride, u, v), _blend(dy, corner, stride, u, v)


def _lattice(
    stream: np.uint64, owner: Integers, column: Integers, row: Integers
) -> tuple[Floats, Floats, Integers, Integers]:
    """Hash every lattice node that some point touches once, instead of four times for each point."""
    owners = int(owner.max()) + 1
    left, bottom = np.full(owners, 1 << 30), np.full(owners, 1 << 30)
    right, top = np.full(owners, -(1 << 30)), np.full(owners, -(1 << 30))
    np.minimum.at(left, owner, column)
    np.maximum.at(right, owner, column)
    np.minimum.at(bottom, owner, row)
    np.maximum.at(top, owner, row)
    used = right >= left
    wide = np.where(used, right - left + 2, 0)
    size = wide * np.where(used, top - bottom + 2, 0)
    first = np.cumsum(size) - size
    node = np.repeat(np.arange(owners), size)
    within = np.arange(len(node)) - first[node]
    node_row = within // wide[node]
    node_column = within - node_row * wide[node] + left[node]
    node_row = node_row + bottom[node]
    h = mix(mix(mix(stream ^ (node.astype(np.uint64) * _INDEX)) ^ (node_column.astype(np.uint64) * _INDEX))
            ^ (node_row.astype(np.uint64) * _SECOND))  # fmt: skip
    stride = wide[owner]
    corner = first[owner] + (row - bottom[owner]) * stride + (column - left[owner])
    return _pair_sum(h, 0), _pair_sum(h, 32), corner, stride


def _pair_sum(hashes: Hashes, shift: int) -> Floats:
    """Add two 16-bit parts: a triangular distribution of variance 1."""
    total = ((hashes >> np.uint64(shift)) & _LOW16) + ((hashes >> np.uint64(shift + 16)) & _LOW16)
    return (total.astype(np.float64) - 65535.0) * (2.449489742783178 / 65536.0)


def _blend(nodes: Floats, corner: Integers, stride: Integers, u: Floats, v: Floats) -> Floats:
    low, high = nodes[corner], nodes[corner + stride]
    low = low + (nodes[corner + 1] - low) * u
    high = high + (nodes[corner + stride + 1] - high) * u
    blended: Floats = low + (high - low) * v
    return blended
