"""Write values and rows of a frame as JSON contents, in batches that a gateway accepts as one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd

from toolkit.argument_checks import described
from toolkit.dweets import wire
from toolkit.errors import InvalidArgument
from toolkit.frames import check_columns_differ

ROWS_A_REQUEST = 1_000
_ROW_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def content_bytes(content: Any) -> bytes:  # noqa: ANN401
    try:
        if _holds_nan(content):
            raise InvalidArgument("JSON has no NaN, NA, NaT and no infinity: leave the value out, or send None")
        written = orjson.dumps(content, _json_value, orjson.OPT_SERIALIZE_NUMPY)
    except RecursionError:
        raise InvalidArgument("the content is nested too deeply, or contains itself") from None
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidArgument(f"the content cannot be written as JSON: {error.__cause__ or error}") from None
    return _checked_sizes([written])[0]


def row_contents(frame: pd.DataFrame) -> list[bytes]:
    """Encode each row of a frame: dotted columns are nested, missing values left out, a named index is included."""
    named = any(name is not None for name in frame.index.names)
    if named and not set(frame.index.names).isdisjoint(frame.columns):
        raise InvalidArgument("the index and a column have the same name: rename one of them")
    table = frame.reset_index() if named else frame
    check_columns_differ(table)
    if not all(isinstance(name, str) for name in table.columns):
        raise InvalidArgument(
            "name every column with text, which becomes the name in the content: "
            "frame.set_axis(frame.columns.map(str), axis='columns')"
        )
    paths = [name.split(".") for name in table.columns]
    columns = [_json_values(table.iloc[:, place]) for place in range(len(paths))]
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    try:
        return _checked_sizes([_row_content(paths, row) for row in rows])
    except (orjson.JSONEncodeError, TypeError):
        faults = filter(None, map(_fault, table.columns, columns))
        raise InvalidArgument("; ".join(faults) or "a row is nested too deeply") from None


def batches(contents: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split contents into batches, limited in rows and bytes."""
    batch: list[bytes] = []
    size = 0
    for content in contents:
        size += len(content) + 1
        if batch and (len(batch) == ROWS_A_REQUEST or size > wire.MAX_BATCH_BYTES):
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
    values: list[Any] = column.astype("object").where(column.notna(), None).tolist()
    if column.dtype.kind == "O" and any(map(_holds_nan, values)):
        raise InvalidArgument(f"the column {column.name!r} holds NaN or infinity, which JSON cannot write")
    return values


def _row_content(paths: Sequence[Sequence[str]], row: Sequence[Any]) -> bytes:
    content: dict[str, Any] = {}
    for path, value in zip(paths, row, strict=True):
        if value is not None:
            _nest(content, path, value)
    return orjson.dumps(content, _json_value, _ROW_OPTIONS)


def _fault(name: str, values: Sequence[Any]) -> str:
    """Say why a column cannot be written; nothing if it can."""
    try:
        orjson.dumps({name: values}, _json_value, _ROW_OPTIONS)
    except (orjson.JSONEncodeError, TypeError) as error:
        return f"the column {name!r} cannot be written as JSON: {error.__cause__ or error}"
    return ""


def _json_value(value: object) -> object:
    """Convert a value of pandas or numpy that orjson cannot write."""
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":  # orjson cannot write a slice with steps
        return value.tolist()
    advice = "a text or a number" if not hasattr(value, "to_dict") else "its to_dict(), or a frame with post_frame"
    raise TypeError(f"it holds {described(value)}: send {advice}")


def _nest(content: dict[str, Any], path: Sequence[str], value: Any) -> None:  # noqa: ANN401
    for name in path[:-1]:
        inner = content.setdefault(name, {})
        if not isinstance(inner, dict):
            content[name] = inner = {"": inner}
        content = inner
    inner = content.get(path[-1])
    if isinstance(inner, dict):  # "a.b" came before "a"
        inner[""] = value
    else:
        content[path[-1]] = value


def _holds_nan(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, float | np.floating):
        return not np.isfinite(value)
    if value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":  # orjson would write null
        return not np.isfinite(value).all()
    if isinstance(value, dict):
        return any(map(_holds_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_nan, value))
    return False
