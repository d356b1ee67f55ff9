"""Random numbers that are hashes of (key, name of the stream, index), so no stream depends on another.

They are computed from integers with ``+ - * /`` and square roots only: results of libm functions depend on the machine.
"""

import hashlib
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
_Reals: TypeAlias = npt.NDArray[np.floating[Any]]

_MIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIX_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_INDEX_FACTOR = np.uint64(0xD1342543DE82EF95)
# `field` computes this many points at a time, because it needs 150 bytes per point.
_POINTS_PER_BATCH = 100_000
_LOW_HALVES, _LOW_32_BITS = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_WARM_UP_STEPS = 24  # after these steps, a value no longer depends on the first one


def mix(z: Hashes) -> Hashes:
    # The finaliser of splitmix64: every input bit reaches every output bit.
    z = z + _MIX_INCREMENT
    z ^= z >> np.uint64(30)
    z *= _MIX_FACTOR_1
    z ^= z >> np.uint64(27)
    z *= _MIX_FACTOR_2
    z ^= z >> np.uint64(31)
    return z


def unit(hashes: Hashes) -> Floats:
    """Map hashes to uniform numbers in [0, 1)."""
    return (hashes >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))


def gaussian(hashes: Hashes) -> Floats:
    """Return numbers of variance 1, from -3.47 to 3.47: the Irwin-Hall sum of four 16-bit parts, without libm."""
    low, high = _sums_of_two_parts(hashes)
    return _standardised(low + high, 4)


def triangular(hashes: Hashes) -> tuple[Floats, Floats]:
    """Return two numbers of variance 1 with a triangular distribution for each hash."""
    low, high = _sums_of_two_parts(hashes)
    return _standardised(low, 2), _standardised(high, 2)


def _sums_of_two_parts(hashes: Hashes) -> tuple[Hashes, Hashes]:
    """Return the sum of the two lower 16-bit parts of each hash, and that of the two upper parts."""
    sums = (hashes & _LOW_HALVES) + ((hashes >> np.uint64(16)) & _LOW_HALVES)
    return sums & _LOW_32_BITS, sums >> np.uint64(32)


def _standardised(sums: Hashes, parts: int) -> Floats:
    standardised = sums.view(np.int64).astype(np.float64)  # from signed integers, which is faster
    standardised -= 32767.5 * parts
    standardised *= math.sqrt(12 / parts) / 65536.0
    return standardised


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

    def drifts(self, names: list[str], positions: _Reals) -> _Reals:
        """Return what `drift` returns for each name, shape (names, *positions.shape), as precise as the positions."""
        cell = np.floor(positions).astype(np.int64)
        lowest = int(cell.min(initial=0))
        index = np.arange(lowest, int(cell.max(initial=0)) + 2).astype(np.uint64)
        knot, step = cell - lowest, _smoother_step((positions - cell).astype(positions.dtype))
        drifts = np.empty((len(names), *positions.shape), positions.dtype)
        for name, drift in zip(names, drifts, strict=True):
            knots = gaussian(mix(self.stream(name) ^ (index * _INDEX_FACTOR))).astype(positions.dtype)
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
        sides = [mix(lattice ^ ((column + dx).astype(np.uint64) * _INDEX_FACTOR)) for dx in (0, 1)]
        corners = (mix(side ^ ((row + dy).astype(np.uint64) * _MIX_FACTOR_2)) for dy in (0, 1) for side in sides)

        def blend(low: Floats, low_right: Floats, high: Floats, high_right: Floats) -> Floats:
            low = low + (low_right - low) * u
            return low + (high + (high_right - high) * u - low) * v

        to_right, upwards = zip(*map(triangular, corners), strict=True)
        return blend(*to_right), blend(*upwards)
