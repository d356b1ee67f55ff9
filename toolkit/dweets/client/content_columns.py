"""Nested content to typed columns, and rows of a frame back to nested content.

``{"position": {"lat": 47.6}}`` becomes the column ``position.lat``. Each column gets the narrowest dtype that is
honest: int64, float64, boolean, str; with gaps Int64 (a gap is NA, and an integer stays one); else object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray

from toolkit.dweets.content_leaves import leaf_columns
from toolkit.errors import InvalidArgument

# The text of pandas 3; missing is NaN.
_TEXT = pd.StringDtype(na_value=np.nan)

_Column = list[Any]
Array = np.ndarray[Any, Any] | ExtensionArray


def typed_columns(contents: Sequence[Any]) -> dict[str, Array]:
    """Return one typed column for each leaf name of the contents, in order of appearance.

    Parameters
    ----------
    contents
        JSON values; what is not an object goes to a column ``content``.

    Examples
    --------
    >>> columns = typed_columns([{"a": 1, "p": {"lat": 47.6}}, {"a": 2}])
    >>> {name: str(column.dtype) for name, column in columns.items()}
    {'a': 'int64', 'p.lat': 'float64'}
    """
    return {name: typed(values) for name, values in leaf_columns(contents).items()}


def typed(values: _Column) -> Array:
    """Return values (None: a gap) as an array of the narrowest honest dtype."""
    kinds = set(map(type, values))
    gaps = type(None) in kinds
    kinds.discard(type(None))
    if kinds == {float} or (kinds == {int, float} and _fit_floats(values)):
        return np.array(values, dtype="float64")
    if kinds == {int} and (whole := _as_integers(values, gaps)) is not None:
        return whole
    if kinds == {bool} and not gaps:  # as pandas makes it after a look at each value, five times as fast
        return pd.arrays.BooleanArray(np.array(values, dtype="bool"), np.zeros(len(values), dtype="bool"))
    if kinds == {bool}:
        return pd.array(values, dtype="boolean")
    if kinds == {str}:
        return pd.arrays.ArrowStringArray(pa.array(values, type=pa.large_string()), dtype=_TEXT)  # type: ignore[call-arg]
    array = np.empty(len(values), dtype="object")
    array[:] = values
    return array


def _as_integers(values: _Column, gaps: bool) -> Array | None:
    """Return integers as an array, or None where one of them has more than 64 bits."""
    try:
        return pd.array(values, dtype="Int64") if gaps else np.array(values, dtype="int64")
    except OverflowError:
        return None


def _fit_floats(values: _Column) -> bool:
    return all(abs(value) <= 2**53 for value in values if type(value) is int)


def contents_of(frame: pd.DataFrame) -> Iterator[bytes]:
    """Write each row of a frame as JSON content: dotted columns nested, gaps left out, a named index included.

    Raises
    ------
    InvalidArgument
        A value that JSON cannot hold (infinity, a complex number, ...), or a column name that is not text or not
        the only one of its name.
    """
    named = any(name is not None for name in frame.index.names)
    if named and not set(frame.index.names).isdisjoint(frame.columns):
        raise InvalidArgument("the index and a column have the same name: rename one of them")
    table = frame.reset_index() if named else frame
    if not table.columns.is_unique:
        raise InvalidArgument("two columns have the same name: rename one of them")
    if not all(isinstance(name, str) for name in table.columns):
        raise InvalidArgument("name every column with text: the names become the names in the content")
    names = [name.split(".") for name in table.columns]
    columns = [_plain(table.iloc[:, place]) for place in range(len(names))]
    for row in zip(*columns, strict=True) if columns else ():
        content: dict[str, Any] = {}
        for path, value in zip(names, row, strict=True):
            if value is not None:
                _nest(content, path, value)
        yield _as_json(content)


def _plain(column: pd.Series[Any]) -> list[Any]:
    if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind == "M":
        return [None if value is pd.NaT else value.isoformat() for value in column]
    if column.dtype.kind == "f" and np.isinf(column.to_numpy(dtype="float64", na_value=np.nan)).any():
        raise InvalidArgument(f"the column {column.name!r} holds an infinity, which JSON cannot write")
    values: list[Any] = column.astype("object").where(column.notna(), None).tolist()
    if column.dtype.kind == "O" and any(map(_holds_nan, values)):
        raise InvalidArgument(f"the column {column.name!r} holds NaN or infinity, which JSON cannot write")
    return values


def _nest(content: dict[str, Any], path: Sequence[str], value: Any) -> None:  # noqa: ANN401
    for name in path[:-1]:
        inner = content.setdefault(name, {})
        if not isinstance(inner, dict):
            content[name] = inner = {"": inner}
        content = inner
    inner = content.get(path[-1])
    if isinstance(inner, dict):  # "a.b" came before "a": as above, the other way round
        inner[""] = value
    else:
        content[path[-1]] = value


def _as_json(content: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidArgument(f"a row cannot be written as JSON: {error}") from None


def content_bytes(content: Any) -> bytes:  # noqa: ANN401
    """Write any JSON value; what JSON cannot hold is refused before anything is sent.

    Raises
    ------
    InvalidArgument
        NaN, infinity, a set, text that is not Unicode, ...
    """
    try:
        if _holds_nan(content):
            raise InvalidArgument("NaN and infinity are no JSON: leave the value out, or send None")
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    except RecursionError:
        raise InvalidArgument("the content is nested too deeply, or holds itself") from None
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidArgument(f"the content cannot be written as JSON: {error}") from None


def _holds_nan(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, float | np.floating):
        return not np.isfinite(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":  # written as null otherwise, without a word
        return not np.isfinite(value).all()
    if isinstance(value, dict):
        return any(map(_holds_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_nan, value))
    return False
