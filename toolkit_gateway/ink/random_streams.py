"""Random numbers that are hashes of (key, name of the stream, index), so no stream depends on another.

They are computed from integers with ``+ - * /`` and square roots only: results of libm functions depend on the machine.
"""

import hashlib
import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]

_MIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIX_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_INDEX_FACTOR = np.uint64(0xD1342543DE82EF95)
# `field` computes this many points at a time, because it needs 150 bytes per point.
_POINTS_PER_BATCH = 100_000
_LOW_16_BITS = np.uint64(0xFFFF)
_WARM_UP_STEPS = 24  # after these steps, a value no longer depends on the first one


def mix(z: Hashes) -> Hashes:
    # The finaliser of splitmix64: every input bit reaches every output bit.
    z = z + _MIX_INCREMENT
    z = (z ^ (z >> np.uint64(30))) * _MIX_FACTOR_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_FACTOR_2
    return z ^ (z >> np.uint64(31))


def unit(hashes: Hashes) -> Floats:
    """Map hashes to uniform numbers in [0, 1)."""
    return (hashes >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))


def gaussian(hashes: Hashes, first: int = 0, parts: int = 4) -> Floats:
    """Return numbers of variance 1: the Irwin-Hall sum of 16-bit parts from the bit `first` on, without libm.

    The sum of four parts is between -3.47 and 3.47; that of two parts has a triangular distribution.
    """
    total = (hashes >> np.uint64(first)) & _LOW_16_BITS
    for shift in range(first + 16, first + 16 * parts, 16):
        total = total + ((hashes >> np.uint64(shift)) & _LOW_16_BITS)
    return (total.astype(np.float64) - 32767.5 * parts) * (math.sqrt(12 / parts) / 65536.0)


def _smoother_step(t: Floats) -> Floats:
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


class RandomStreams:
    """Named streams of random numbers for one key, such as seed, script and writer."""

    def __init__(self, *key: str) -> None:
        self._key = "\0".join(key)

    def stream(self, name: str) -> np.uint64:
        key = f"{self._key}\0{name}".encode("utf-8", "surrogatepass")
        return np.uint64(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little"))

    def number(self, name: str, ends: tuple[float, float] = (0.0, 1.0)) -> float:
        """Return one uniform number between two ends."""
        return ends[0] + (ends[1] - ends[0]) * ((int(self.stream(name)) >> 11) / (1 << 53))

    def hashes(self, name: str, count: int) -> Hashes:
        return mix(self.stream(name) ^ (np.arange(count, dtype=np.uint64) * _INDEX_FACTOR))

    def uniform(self, name: str, count: int) -> Floats:
        """Return uniform numbers in [-1, 1)."""
        return 2.0 * unit(self.hashes(name, count)) - 1.0

    def gaussian(self, name: str, count: int) -> Floats:
        return gaussian(self.hashes(name, count))

    def series(self, name: str, count: int, memory: float = 0.7) -> Floats:
        """Return an autoregressive series of variance 1: each value keeps the share `memory` of the value before."""
        kernel = np.cumprod(np.full(_WARM_UP_STEPS, memory)) / memory
        independent = self.gaussian(name, count + _WARM_UP_STEPS - 1)
        series: Floats = np.convolve(independent, kernel)[_WARM_UP_STEPS - 1 :][:count] * np.sqrt(1 - memory * memory)
        return series

    def drift(self, name: str, positions: Floats) -> Floats:
        """Return smooth noise along a line: variance 0.5 to 1, changing over one unit of `positions`."""
        [drift] = self.drifts([name], positions)
        return np.asarray(drift)

    def drifts(self, names: list[str], positions: Floats) -> Floats:
        """Return what `drift` returns for each name, shape (names, *positions.shape)."""
        cell = np.floor(positions).astype(np.int64)
        lowest = int(cell.min(initial=0))
        index = np.arange(lowest, int(cell.max(initial=0)) + 2).astype(np.uint64)
        knot, step = cell - lowest, _smoother_step(positions - cell)
        drifts = np.empty((len(names), *positions.shape))
        for name, drift in zip(names, drifts, strict=True):
            knots = gaussian(mix(self.stream(name) ^ (index * _INDEX_FACTOR)))
            np.multiply(np.diff(knots)[knot], step, out=drift)
            drift += knots[knot]
        return drifts

    def field(self, name: str, owner: Integers, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return a smooth displacement to the right and up for each point, variance 0.25 to 1.

        Each owner, such as a letter, has its own field. Positions are in cells of the lattice of random values.
        """
        right, up = np.empty(len(x)), np.empty(len(x))
        for first in range(0, len(x), _POINTS_PER_BATCH):
            part = slice(first, first + _POINTS_PER_BATCH)
            right[part], up[part] = self._field_of_batch(name, owner[part], x[part], y[part])
        return right, up

    def _field_of_batch(self, name: str, owner: Integers, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        column, row = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        u, v = _smoother_step(x - column), _smoother_step(y - row)
        lattice = mix(self.stream(name) ^ (owner.astype(np.uint64) * _INDEX_FACTOR))
        left, right = (mix(lattice ^ ((column + dx).astype(np.uint64) * _INDEX_FACTOR)) for dx in (0, 1))
        below, above = (
            [mix(side ^ ((row + dy).astype(np.uint64) * _MIX_FACTOR_2)) for side in (left, right)] for dy in (0, 1)
        )

        def blend(shift: int) -> Floats:
            low, low_right = (gaussian(corner, shift, parts=2) for corner in below)
            high, high_right = (gaussian(corner, shift, parts=2) for corner in above)
            low = low + (low_right - low) * u
            return low + (high + (high_right - high) * u - low) * v

        return blend(0), blend(32)
