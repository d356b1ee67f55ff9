"""Keyed hashes instead of dice: the same device and moment draw the same number, whatever the order of calls."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

_BYTES = 8


class Draws:
    """Numbers in [0, 1) from a seed and named parts.

    Parameters
    ----------
    seed
        Any integer; another seed gives other numbers.

    Examples
    --------
    >>> Draws(7).number("a", "b") == Draws(7).number("a", "b"), Draws(7).number("ab", "") == Draws(7).number("a", "b")
    (True, False)
    """

    def __init__(self, seed: int) -> None:
        self._keyed = hashlib.blake2b(key=str(seed).encode("ascii"), digest_size=_BYTES)

    def number(self, *parts: str) -> float:
        """Return the number of these parts, uniform in [0, 1) over different parts."""
        digest = self._keyed.copy()
        for part in parts:
            # The length goes first, or ("a|b") and ("a", "b") would draw the same.
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(b"%d:%b" % (len(raw), raw))
        # 53 bits: all that a float holds, so that the result never rounds up to 1.
        return (int.from_bytes(digest.digest(), "big") >> 11) / (1 << 53)

    def choice(self, weights: Mapping[str, float], *parts: str) -> str:
        """Return one of the names, each as likely as its weight."""
        return weighted(weights.items(), self.number(*parts))


def weighted(weights: Iterable[tuple[str, float]], number: float) -> str:
    """Return the name at `number` (0 to 1) of the way through the weights laid end to end."""
    pairs = list(weights)
    target = number * sum(weight for _, weight in pairs)
    for name, weight in pairs:
        target -= weight
        if target < 0:
            return name
    return pairs[-1][0]
