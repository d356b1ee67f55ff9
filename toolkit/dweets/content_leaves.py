"""The leaves of nested contents, with dotted names. Plain Python: the gateway uses it without pandas."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

#: Only the most frequent names get a column: one for every name of every row could exceed the memory.
MOST_COLUMNS = 200

_Column = list[Any]
# (number of the parent node, key) -> number of the node; the root is 0. Names are built only for leaves that get a
# column: with long keys, the names of all leaves would be many times larger than the contents.
_NodeNumbers = dict[tuple[int, str], int]


def leaf_columns(contents: Sequence[Any]) -> tuple[dict[str, _Column], int, list[str]]:
    """Return the most frequent leaves, in order of appearance, and the number of leaves that were left out.

    A missing value is None. A content that is not an object is a leaf named ``content``. The third result has the names
    that two leaves of one content share, as ``a.b`` in ``{"a.b": 1, "a": {"b": 2}}``: the key with the dot counts.
    """
    try:
        return _leaves_of_same_keys(contents, ""), 0, []
    except (KeyError, TypeError):  # the contents differ in their keys
        return _leaves_of_any_keys(contents)


def named_leaves(contents: Sequence[Any], names: Iterable[str]) -> dict[str, _Column]:
    objects = [content if type(content) is dict and content else {"content": content} for content in contents]
    return {name: [_leaf(content, name) for content in objects] for name in names}


def _leaf(content: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    """Return the leaf with this dotted name; keys may contain dots too."""
    value = content.get(name)
    if value is not None and not (type(value) is dict and value):
        return value
    for dot in (place for place, sign in enumerate(name) if sign == "."):
        inner = content.get(name[:dot])
        if type(inner) is dict and (value := _leaf(inner, name[dot + 1 :])) is not None:
            return value
    return None


def _leaves_of_same_keys(contents: Sequence[Any], prefix: str) -> dict[str, _Column]:
    """Fast path for contents with the same keys, five times as fast; KeyError or TypeError for other contents."""
    first = contents[0] if contents else None
    # An empty object has no leaves: it is a value by itself.
    if not (first and type(first) is dict) or {*map(len, contents)} != {len(first)} or prefix.count(".") > MOST_COLUMNS:
        raise KeyError
    columns: dict[str, _Column] = {}
    for key in first:
        values = [content[key] for content in contents]
        nested = dict in map(type, values)
        found = _leaves_of_same_keys(values, f"{prefix}{key}.") if nested else {prefix + key: values}
        if len(columns) + len(found) > MOST_COLUMNS or not columns.keys().isdisjoint(found):
            raise KeyError
        columns |= found
    return columns


def _leaves_of_any_keys(contents: Sequence[Any]) -> tuple[dict[str, _Column], int, list[str]]:
    nodes: _NodeNumbers = {}
    rows = [_leaves_of_content(content, nodes) for content in contents]
    counts = Counter(chain.from_iterable(rows))
    kept = set(heapq.nlargest(MOST_COLUMNS, counts, key=counts.__getitem__))
    keys = {place: key for key, place in nodes.items()}
    paths = {leaf: _path(leaf, keys) for leaf in counts if leaf in kept}
    columns: dict[str, _Column] = {".".join(path): [] for path in paths.values()}
    shared = []
    # A key may be flat in one place and nested in another. The last one counts, which is the first that `_leaf` finds.
    for leaf, path in sorted(paths.items(), key=lambda each: [*map(len, each[1][:-1]), -1], reverse=True):
        name, values = ".".join(path), [row.get(leaf) for row in rows]
        if same := columns[name]:
            shared += [name for both in zip(same, values, strict=True) if None not in both][:1]
            values = [old if new is None else new for old, new in zip(same, values, strict=True)]
        columns[name] = values
    return columns, len(counts) - len(kept), shared


def _leaves_of_content(content: Any, nodes: _NodeNumbers) -> dict[int, Any]:  # noqa: ANN401
    """Return the leaves of one content by node, in order. Not recursive, because contents nest up to 1,024 levels."""
    row: dict[int, Any] = {}
    objects = [(0, iter((content if type(content) is dict and content else {"content": content}).items()))]
    while objects:
        above, items = objects[-1]
        for key, value in items:
            at = (above, key)
            place = nodes.get(at) or nodes.setdefault(at, len(nodes) + 1)
            if type(value) is dict and value:
                objects.append((place, iter(value.items())))
                break
            row[place] = value
        else:
            objects.pop()
    return row


def _path(leaf: int, keys: dict[int, tuple[int, str]]) -> list[str]:
    path = []
    while leaf:
        leaf, key = keys[leaf]
        path.append(key)
    return path[::-1]
