"""The leaves of nested contents, by their names with dots; plain Python, as the gateway's archive needs no frames."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

#: So many names get a column, the most frequent ones. Rows times all names may be far more than the memory holds.
MOST_COLUMNS = 200

_Column = list[Any]
# Each key gets a number at its place below another key (0 is the top). A name is made only for a leaf that gets a
# column: with long keys, the names of all leaves are many times larger than the contents.
_Places = dict[tuple[int, str], int]


def leaf_columns(contents: Sequence[Any]) -> tuple[dict[str, _Column], int]:
    """Return the values of the most frequent leaves, in order of appearance, and how many leaves are left out.

    A content without such a leaf has None there. What is not an object is a leaf ``content``.
    """
    try:
        return _even_leaves(contents, ""), 0
    except (KeyError, TypeError):  # the contents are not all of one shape
        return _uneven_leaves(contents)


def named_leaves(contents: Sequence[Any], names: Iterable[str]) -> dict[str, _Column]:
    objects = [content if type(content) is dict and content else {"content": content} for content in contents]
    return {name: [_leaf(content, name) for content in objects] for name in names}


def _leaf(content: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    """Return a leaf of an object; its keys may hold dots themselves."""
    value = content.get(name)
    if value is not None and not (type(value) is dict and value):
        return value
    for dot in (place for place, sign in enumerate(name) if sign == "."):
        inner = content.get(name[:dot])
        if type(inner) is dict and (value := _leaf(inner, name[dot + 1 :])) is not None:
            return value
    return None


def _even_leaves(contents: Sequence[Any], prefix: str) -> dict[str, _Column]:
    """Return the leaves of contents with equal names, five times as fast; KeyError or TypeError for other contents."""
    first = contents[0] if contents else None
    if type(first) is not dict or set(map(len, contents)) != {len(first)} or prefix.count(".") > MOST_COLUMNS:
        raise KeyError
    columns: dict[str, _Column] = {}
    for key in first:
        values = [content[key] for content in contents]
        kinds = set(map(type, values))
        if dict not in kinds:
            columns[prefix + key] = values
        elif kinds == {dict} and all(values):
            columns |= _even_leaves(values, prefix + key + ".")
        else:
            raise KeyError
        if len(columns) > MOST_COLUMNS:
            raise KeyError
    return columns


def _uneven_leaves(contents: Sequence[Any]) -> tuple[dict[str, _Column], int]:
    places: _Places = {}
    rows = [_row(content, places) for content in contents]
    counts = Counter(chain.from_iterable(rows))
    kept = set(heapq.nlargest(MOST_COLUMNS, counts, key=counts.__getitem__))
    keys = {place: key for key, place in places.items()}
    columns: dict[str, _Column] = {}
    for leaf in (leaf for leaf in counts if leaf in kept):
        values = [row.get(leaf) for row in rows]
        name = _name(leaf, keys)
        if same := columns.get(name):  # written flat and nested
            values = [old if new is None else new for old, new in zip(same, values, strict=True)]
        columns[name] = values
    return columns, len(counts) - len(kept)


def _row(content: Any, places: _Places) -> dict[int, Any]:  # noqa: ANN401
    """Return the leaves of one content by their places, in order. Not recursive: a content may nest 1,024 deep."""
    row: dict[int, Any] = {}
    objects = [(0, iter((content if type(content) is dict and content else {"content": content}).items()))]
    while objects:
        above, items = objects[-1]
        for key, value in items:
            at = (above, key)
            place = places.get(at) or places.setdefault(at, len(places) + 1)
            if type(value) is dict and value:
                objects.append((place, iter(value.items())))
                break
            row[place] = value
        else:
            objects.pop()
    return row


def _name(leaf: int, keys: dict[int, tuple[int, str]]) -> str:
    parts = []
    while leaf:
        leaf, key = keys[leaf]
        parts.append(key)
    return ".".join(reversed(parts))
