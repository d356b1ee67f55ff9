"""The leaves of nested contents with their dotted names. Plain Python: the command line uses it without pandas.

A frame of dweets has the columns (or the index) ``created`` and ``thing``, so a field of a content with this name is
the column ``content.created`` or ``content.thing``; one with that name has another ``content.`` in front of it.
"""

import heapq
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from toolkit.errors import warn_caller
from toolkit.system.nearest_name import missing_names

#: The column with the time of arrival, and the one with the name of the thing.
CREATED, THING = "created", "thing"
_PREFIX = "content."
_TAKEN = re.compile(rf"(content\.)*({CREATED}|{THING})")
#: Only the most frequent names get a column: a column for every name of every row could exceed the memory.
MOST_COLUMNS = 200
# Contents nest up to 1,024 levels, but Python limits recursion: the fast path is only for less depth.
_MAX_DEPTH = 200

_Column = list[Any]
_NO_LEAF = object()
# (number of the parent node, key) -> number of the node; the root is 0. Names are built only for leaves that get a
# column: with long keys, the names of all leaves would be many times larger than the contents.
_NodeNumbers = dict[tuple[int, str], int]


def column_of_field(field: str) -> str:
    """Return the name of the column that a field of the contents has in a frame."""
    return _PREFIX + field if _TAKEN.fullmatch(field) else field


def field_of_column(column: str) -> str:
    """Return the name of the field as which a column of a frame is posted: `column_of_field` undone."""
    return column.removeprefix(_PREFIX) if _TAKEN.fullmatch(column) else column


def content_columns(contents: Sequence[Any]) -> dict[str, _Column]:
    """Return a column for each of the most frequent leaves; warn if leaves are left out or names are ambiguous."""
    columns, left_out, ambiguous = frequent_leaf_columns(contents)
    if left_out:
        warn_caller(
            f"{left_out:,} of the {left_out + len(columns):,} names in the contents are left out, because a frame "
            f"has columns for the {MOST_COLUMNS} most frequent; select others with columns=[...]"
        )
    if ambiguous:
        name = repr(ambiguous[0][:80])
        warn_caller(f"a content has {name} as a key and as nested keys: the column has the key's value")
    return columns


def column_type(values: _Column) -> tuple[type, bool]:
    """Return float, int, bool or str if all values have this type, else object; and whether some are missing (None).

    Integers are floats where the column has floats too, except beyond 2**53, where a float is not exact.
    """
    types = {*map(type, values)}
    has_missing = type(None) in types
    types.discard(type(None))
    if types == {int, float} and all(abs(value) <= 2**53 for value in values if type(value) is int):
        return float, has_missing
    return types.pop() if len(types) == 1 and types <= {float, int, bool, str} else object, has_missing


def frequent_leaf_columns(contents: Sequence[Any]) -> tuple[dict[str, _Column], int, list[str]]:
    """Return a column for each of the most frequent leaves, how many leaves have no column, and the ambiguous names.

    Columns are in order of appearance; None is a missing value. A content that is an empty object or no object is a
    leaf named ``content``. A name is ambiguous if two leaves of one content have it, as ``a.b`` in ``{"a.b": 1, "a":
    {"b": 2}}``; then the column has the value of the key with the dot, here 1.
    """
    try:
        return _leaves_of_same_keys(contents, ""), 0, []
    except (KeyError, TypeError):  # the contents differ in their keys
        return _leaves_of_any_keys(contents)


def named_leaf_columns(contents: Sequence[Any], names: Sequence[str]) -> dict[str, _Column]:
    objects = [content if type(content) is dict and content else {"content": content} for content in contents]
    columns = {name: [_leaf(content, name) for content in objects] for name in names}
    return {name: [None if leaf is _NO_LEAF else leaf for leaf in column] for name, column in columns.items()}


def missing_columns(contents: Sequence[Any], columns: dict[str, _Column]) -> str:
    """Say, for a warning, which columns no content has; empty if all are there."""
    empty = [name for name, values in columns.items() if values and values.count(None) == len(values)]
    objects = [content for content in contents if type(content) is dict]
    # A field that is null in every content is there.
    missing = [name for name in empty if all(_leaf(content, name) is _NO_LEAF for content in objects)]
    if not missing:
        return ""
    return missing_names("no dweet has", "field", missing, len(columns), list(frequent_leaf_columns(contents)[0]))


def _leaf(content: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    """Return the leaf with this dotted name, or `_NO_LEAF`; keys may contain dots too, and a null gives way."""
    leaf = content.get(name, _NO_LEAF)
    if type(leaf) is dict and leaf:
        leaf = _NO_LEAF
    for dot in (position for position, character in enumerate(name) if character == "."):
        if leaf is not None and leaf is not _NO_LEAF:
            break
        inner = content.get(name[:dot])
        if type(inner) is dict and (nested := _leaf(inner, name[dot + 1 :])) is not _NO_LEAF:
            leaf = nested
    return leaf


def _leaves_of_same_keys(contents: Sequence[Any], prefix: str) -> dict[str, _Column]:
    """Return the columns of contents with equal keys, five times as fast; KeyError or TypeError for other contents."""
    first = contents[0] if contents else None
    # An empty object has no leaves: it is a leaf itself.
    if not (first and type(first) is dict) or {*map(len, contents)} != {len(first)} or prefix.count(".") > _MAX_DEPTH:
        raise KeyError
    columns: dict[str, _Column] = {}
    for key in first:
        values = [content[key] for content in contents]
        is_nested = dict in map(type, values)
        leaves = _leaves_of_same_keys(values, f"{prefix}{key}.") if is_nested else {prefix + key: values}
        if len(columns) + len(leaves) > MOST_COLUMNS or not columns.keys().isdisjoint(leaves):
            raise KeyError
        columns |= leaves
    return columns


def _leaves_of_any_keys(contents: Sequence[Any]) -> tuple[dict[str, _Column], int, list[str]]:
    nodes: _NodeNumbers = {}
    rows = [_leaves_of_content(content, nodes) for content in contents]
    counts = Counter(chain.from_iterable(rows))
    frequent = set(heapq.nlargest(MOST_COLUMNS, counts, key=counts.__getitem__))
    keys = {node: parent_and_key for parent_and_key, node in nodes.items()}
    paths = {leaf: _path(leaf, keys) for leaf in counts if leaf in frequent}
    columns: dict[str, _Column] = {".".join(path): [] for path in paths.values()}
    ambiguous = []
    # Several paths may have one name, as ("a.b",) and ("a", "b"). The last one wins, which is the first for `_leaf`.
    for leaf, path in sorted(paths.items(), key=lambda item: [*map(len, item[1][:-1]), -1], reverse=True):
        name, values = ".".join(path), [row.get(leaf) for row in rows]
        if earlier := columns[name]:
            ambiguous += [name for both in zip(earlier, values, strict=True) if None not in both][:1]
            values = [old if new is None else new for old, new in zip(earlier, values, strict=True)]
        columns[name] = values
    return columns, len(counts) - len(frequent), ambiguous


def _leaves_of_content(content: Any, nodes: _NodeNumbers) -> dict[int, Any]:  # noqa: ANN401
    """Return the leaves of one content by node, in order, without recursive calls; number new nodes in `nodes`."""
    leaves: dict[int, Any] = {}
    open_objects = [(0, iter((content if type(content) is dict and content else {"content": content}).items()))]
    while open_objects:
        parent, items = open_objects[-1]
        for key, value in items:
            node = nodes.get((parent, key)) or nodes.setdefault((parent, key), len(nodes) + 1)
            if type(value) is dict and value:
                open_objects.append((node, iter(value.items())))
                break
            leaves[node] = value
        else:
            open_objects.pop()
    return leaves


def _path(node: int, keys: dict[int, tuple[int, str]]) -> list[str]:
    path = []
    while node:  # 0 is the root
        node, key = keys[node]
        path.append(key)
    return path[::-1]
