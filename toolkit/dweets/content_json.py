"""Encode a Python value, or each row of a frame, as the JSON content of a dweet; split contents into requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import orjson
import pandas as pd

from toolkit.argument_checks import described
from toolkit.dweets import wire
from toolkit.errors import InvalidArgument
from toolkit.frames import check_columns_differ

ROWS_PER_REQUEST = 1_000
_ROW_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def content_bytes(content: Any) -> bytes:  # noqa: ANN401
    try:
        written = orjson.dumps(content, _json_value, orjson.OPT_SERIALIZE_NUMPY)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidArgument(f"the content cannot be written as JSON: {error.__cause__ or error}") from None
    if _holds_nan(content):  # after `dumps`, which refuses contents that are too deep for a recursive function
        raise InvalidArgument("JSON has no NaN and no infinity: leave the value out, or send None")
    return _checked_sizes([written])[0]


def row_contents(frame: pd.DataFrame) -> list[bytes]:
    """Encode each row of a frame: dotted columns are nested, missing values left out, a named index is included."""
    try:
        table = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    except ValueError:
        raise InvalidArgument("the index and a column have the same name: rename one of them") from None
    check_columns_differ(table)
    if not all(isinstance(name, str) for name in table.columns):
        raise InvalidArgument(
            "name every column with text, which becomes the name in the content: "
            "frame.set_axis(frame.columns.map(str), axis='columns')"
        )
    paths = [name.split(".") for name in table.columns]
    number_of = {name: number for number, name in enumerate(table.columns)}
    outers = [
        [number_of[name] for name in accumulate(path[:-1], "{}.{}".format) if name in number_of] for path in paths
    ]
    columns = [_json_values(table.iloc[:, number]) for number in range(len(paths))]
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    try:
        contents = _checked_sizes([_row_content(paths, outers, row) for row in rows])
    except (orjson.JSONEncodeError, TypeError):
        faults = filter(None, map(_column_fault, table.columns, columns))
        raise InvalidArgument("; ".join(faults) or "a row is nested too deeply") from None
    for name, values in zip(table.columns, columns, strict=True):
        if table[name].dtype.kind == "O" and any(map(_holds_nan, values)):
            raise InvalidArgument(f"the column {name!r} holds NaN or infinity, which JSON cannot write")
    return contents


def batches(contents: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split contents into batches, each small enough (in rows and bytes) for one request."""
    batch: list[bytes] = []
    size = 0
    for content in contents:
        size += len(content) + 1
        if batch and (len(batch) == ROWS_PER_REQUEST or size > wire.MAX_BATCH_BYTES):
            yield batch
            batch, size = [], len(content) + 1
        batch.append(content)
    if batch:
        yield batch


def _checked_sizes(contents: list[bytes]) -> list[bytes]:
    largest = max(map(len, contents), default=0)
    if largest > wire.MAX_DWEET_BYTES:
        raise InvalidArgument(f"{wire.too_large().message}, and one here has {largest}")
    return contents


def _json_values(column: pd.Series[Any]) -> list[Any]:
    if column.dtype.kind == "f" and np.isinf(column.to_numpy(dtype="float64", na_value=np.nan)).any():
        raise InvalidArgument(f"the column {column.name!r} holds an infinity, which JSON cannot write")
    return column.astype("object").where(column.notna(), None).tolist()


def _row_content(paths: Sequence[Sequence[str]], outers: Sequence[Sequence[int]], row: Sequence[Any]) -> bytes:
    """Nest the values by their paths; a key keeps its dots if a column named like its beginning has a value too."""
    content: dict[str, Any] = {}
    for path, outer, value in zip(paths, outers, row, strict=True):
        if value is None:
            continue
        if outer and any(row[number] is not None for number in outer):
            content[".".join(path)] = value
            continue
        inner = content
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return orjson.dumps(content, _json_value, _ROW_OPTIONS)


def _column_fault(name: str, values: Sequence[Any]) -> str:
    """Return why a column cannot be written; an empty text if it can."""
    try:
        orjson.dumps({name: values}, _json_value, _ROW_OPTIONS)
    except (orjson.JSONEncodeError, TypeError) as error:
        return f"the column {name!r} cannot be written as JSON: {error.__cause__ or error}"
    return ""


def _json_value(value: object) -> object:
    """Convert a value that orjson cannot write itself, or raise TypeError with advice."""
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":  # orjson cannot write values[::2]
        return value.tolist()
    advice = "send a text or a number"
    if value is pd.NA or value is pd.NaT:
        advice = "leave the value out, or send None"
    elif hasattr(value, "to_dict"):
        advice = "send its to_dict(), or a frame with post_frame"
    raise TypeError(f"it holds {described(value)}: {advice}")


def _holds_nan(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, float | np.floating):
        return not np.isfinite(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":  # orjson would write null
        return not np.isfinite(value).all()
    if isinstance(value, dict):
        return any(map(_holds_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_nan, value))
    return False
