"""Conditions that loop or exhaust memory, mostly where the engine's own limits do not stop them, and a slow one."""

from __future__ import annotations

import pytest

OVERRAN = "it ran past its limit of CPU time and had to be killed"
HOSTILE = {
    "endless loop": "while (true) {}",
    "memory bomb": "const all = []; while (true) all.push('x'.repeat(1e6) + all.length)",
    "toString of what it throws": "throw {toString() { while (1); }}",
    "toPrimitive of what it throws": "throw {[Symbol.toPrimitive]() { while (1); }}",
    "stack of an error": "throw Object.defineProperty(new Error, 'stack', {get() { while (1); }})",
    "toString of all errors": "Error.prototype.toString = () => { while (1); }; nothing",
    "proxy": "throw new Proxy({}, {get() { while (1); }})",
    "join": "[].join.call({length: 2 ** 53 - 1})",
    "sort": "[].sort.call({length: 2 ** 53 - 1})",
    "sparse array": "let a = []; a[4294967294] = 1; a.sort(); a.reverse(); a.indexOf(2)",
    "splice": "[].splice.call({length: 2 ** 53 - 1}, 0, 1)",
    "copyWithin": "[].copyWithin.call({length: 2 ** 53 - 1}, 1, 0)",
    "search": "'a'.repeat(4e6).indexOf('a'.repeat(2e6) + 'b')",
    "digits": "(3n ** 600000n).toString()",
}


def kinds(*usual: str, never: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Give a test these kinds of hostile conditions, and all others with ``--long``: each takes a second or more."""
    others = [pytest.param(kind, marks=pytest.mark.long) for kind in HOSTILE if kind not in (*usual, *never)]
    return pytest.mark.parametrize("kind", [*usual, *others])


# Computes for 20 ms at each dweet.
SLOW = "const until = Date.now() + 20; while (Date.now() < until); return true"
