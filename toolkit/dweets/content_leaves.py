"""The leaves of nested contents, by their names with dots; plain Python, as the gateway's archive needs no frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_Column = list[Any]


def leaf_columns(contents: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the values of each leaf name, None where a content has no such leaf, in order of appearance.

    Examples
    --------
    >>> leaf_columns([{"a": 1}, {"p": {"lat": 47.6}}])
    {'a': [1, None], 'p.lat': [None, 47.6]}
    """
    try:
        return _even_leaves(contents, "")
    except (KeyError, TypeError):  # the contents are not all of one shape
        return _leaves(contents)


def _even_leaves(contents: Sequence[Any], prefix: str) -> dict[str, _Column]:
    """Return the leaves of contents that all have the names of the first, column by column: five times as fast.

    Raises
    ------
    KeyError, TypeError
        They do not.
    """
    first = contents[0] if contents else None
    if type(first) is not dict or set(map(len, contents)) != {len(first)}:
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
    return columns


def _leaves(contents: Sequence[Any]) -> dict[str, _Column]:
    columns: dict[str, _Column] = {}
    for row, content in enumerate(contents):
        if type(content) is dict and content:
            _take(content, "", row, columns)
        else:
            _put("content", content, row, columns)
    rows = len(contents)
    for column in columns.values():
        if len(column) < rows:
            column.extend([None] * (rows - len(column)))
    return columns


def _take(content: dict[str, Any], prefix: str, row: int, columns: dict[str, _Column]) -> None:
    for key, value in content.items():
        name = prefix + key
        if type(value) is dict and value:
            _take(value, name + ".", row, columns)
            continue
        column = columns.get(name)
        if column is not None and len(column) == row:
            column.append(value)  # the usual case: no gap before
        else:
            _put(name, value, row, columns)


def _put(name: str, value: Any, row: int, columns: dict[str, _Column]) -> None:  # noqa: ANN401
    column = columns.setdefault(name, [])
    if len(column) > row:  # the same name twice in one content: written flat and nested
        column[row] = value
        return
    column.extend([None] * (row - len(column)))
    column.append(value)
