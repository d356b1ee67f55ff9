"""The contents of dweets as JSON: single values, and the rows of a frame.

Rows are built by columns, without Python objects for the values. Each column becomes an array of the texts
``,"name":value``, which is null where a value is missing. The texts of a row are joined, and the first comma becomes a
brace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.argument_checks import described
from toolkit.dweets import wire
from toolkit.errors import InvalidArgument
from toolkit.frames import check_columns_differ

ROWS_PER_REQUEST = 1_000
_ROW_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
# An Arrow array holds at most 2 GB of text, and a content at most 64 KiB.
_ROWS_PER_ARRAY = 32_000
#: The path of a value in an object, and the column with the values.
_Member = tuple[Sequence[str], "pd.Series[Any]"]
# Most parsers of JSON limit the depth.
_MOST_LEVELS = 250
_ESCAPED_IN_JSON = r'[\x00-\x1f"\\]'
# Times have no decimals, six or nine, as in `isoformat`.
_TIME_UNITS: tuple[Literal["s", "us", "ns"], ...] = ("s", "us", "ns")


def content_bytes(content: Any) -> bytes:  # noqa: ANN401
    try:
        written = orjson.dumps(content, _json_value, orjson.OPT_SERIALIZE_NUMPY)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidArgument(f"the content cannot be written as JSON: {error.__cause__ or error}") from None
    if _holds_nan(content):  # after `dumps`, which refuses contents that are too deep for a recursive function
        raise InvalidArgument("JSON has no NaN and no infinity: leave the value out, or send None")
    if len(written) > wire.MAX_DWEET_BYTES:
        raise InvalidArgument(f"{wire.too_large().message}, and one here has {len(written)}")
    return written


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


def _json_value(value: object) -> object:
    """Convert a value that orjson cannot write itself, or raise TypeError with advice."""
    if isinstance(value, pd.Timestamp):
        return _iso_text(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":  # orjson cannot write values[::2]
        return value.tolist()
    advice = "send a text or a number"
    if value is pd.NA or value is pd.NaT:
        advice = "leave the value out, or send None"
    elif hasattr(value, "to_dict"):
        advice = "send its to_dict(), or a frame with post_frame"
    raise TypeError(f"it holds {described(value)}: {advice}")


def _iso_text(time: pd.Timestamp) -> str:
    """Return a time in ISO 8601; in UTC if its offset has seconds, as before there were zones (parsers fail)."""
    offset = time.utcoffset()
    return (time if offset is None or offset.seconds % 60 == 0 else time.tz_convert("UTC")).isoformat()


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


# -- rows of a frame --------------------------------------------------------------------------------------


def row_contents(frame: pd.DataFrame) -> list[bytes]:
    """Encode each row of a frame without its index: dotted columns are nested, missing values left out."""
    return list(map(str.encode, row_texts(frame).to_pylist()))


def row_texts(frame: pd.DataFrame) -> pa.ChunkedArray:
    """Encode each row of a frame without its index, as JSON texts; InvalidArgument if a value cannot be JSON."""
    check_columns_differ(frame)
    if not all(isinstance(name, str) for name in frame.columns):
        raise InvalidArgument(
            "name every column with text, which becomes the name in the content: "
            "frame.set_axis(frame.columns.map(str), axis='columns')"
        )
    if any(name.count(".") > _MOST_LEVELS for name in frame.columns):
        raise InvalidArgument("a row is nested too deeply")
    if any(len(name.encode("utf-8", "replace")) > wire.MAX_DWEET_BYTES for name in frame.columns):
        raise InvalidArgument(f"{wire.too_large().message}, and the name of a column here is longer")
    if frame.columns.empty:
        return pa.chunked_array([["{}"] * len(frame)], pa.string())
    starts = range(0, len(frame), _ROWS_PER_ARRAY)
    arrays = [_texts_of_rows(frame.iloc[start : start + _ROWS_PER_ARRAY]) for start in starts]
    largest = max((pc.max(pc.binary_length(array)).as_py() for array in arrays), default=0)
    if largest > wire.MAX_DWEET_BYTES:
        raise InvalidArgument(f"{wire.too_large().message}, and one here has {largest}")
    return pa.chunked_array(arrays, pa.string())


def _texts_of_rows(frame: pd.DataFrame) -> pa.Array:
    members, names = [], set(frame.columns)
    for name in frame.columns:
        column, path = frame[name], name.split(".")
        outer = names & set(accumulate(path[:-1], "{}.{}".format))
        if outer:
            # In rows where a column that is named like its beginning has a value too, the name keeps its dots.
            is_taken = frame[list(outer)].notna().any(axis="columns")
            column = column.astype("object")
            members.append(([name], column.where(is_taken, None)))
            column = column.mask(is_taken, None)
        members.append((path, column))
    return _objects(members, pa.array(["{}"] * len(frame)))


def _objects(members: Sequence[_Member], empty: pa.Array) -> pa.Array:
    """Return one JSON object per row, or the text in `empty` for a row without a member."""
    # A value and a nested object may have the same key, in different rows.
    by_key: dict[tuple[str, bool], list[_Member]] = {}
    for (key, *rest), column in members:
        by_key.setdefault((key, bool(rest)), []).append((rest, column))
    texts = []
    for (key, is_object), inner in by_key.items():
        prefix = f",{orjson.dumps(key).decode('utf-8')}:"
        if is_object:
            objects = _objects(inner, pa.nulls(len(empty), pa.string()))
            texts.append(pc.binary_join_element_wise(prefix, objects, ""))
        else:
            texts += [prefixed_texts(prefix, column) for _, column in inner]
    written = pc.binary_join_element_wise(*texts, "}", "", null_handling="replace", null_replacement="")
    # The brace replaces the first comma. In a row without a member it replaces the closing brace.
    return pc.if_else(pc.equal(written, "}"), empty, pc.binary_replace_slice(written, 0, 1, "{"))


def prefixed_texts(prefix: str, column: pd.Series[Any]) -> pa.Array:
    """Return the JSON text of each value after a prefix, null where a value is missing."""
    if column.dtype.kind in "biuf":
        return _number_texts(prefix, column)
    if isinstance(column.dtype, pd.StringDtype):
        return _string_texts(prefix, pa.array(column, pa.string()))
    if isinstance(column.dtype, np.dtype | pd.DatetimeTZDtype) and column.dtype.kind == "M":
        return _string_texts(prefix, _iso_texts(column))
    values, encoded = column.astype("object").where(column.notna(), None).tolist(), prefix.encode("utf-8")
    try:
        texts = [
            None if value is None else encoded + orjson.dumps(value, _json_value, _ROW_OPTIONS) for value in values
        ]
    except (orjson.JSONEncodeError, TypeError) as error:
        fault = f"the column {column.name!r} cannot be written as JSON: {error.__cause__ or error}"
        raise InvalidArgument(fault) from None
    if any(map(_holds_nan, values)):
        raise InvalidArgument(f"the column {column.name!r} holds NaN or infinity, which JSON cannot write")
    return pa.array(texts, pa.string())


def _number_texts(prefix: str, column: pd.Series[Any]) -> pa.Array:
    values, is_missing = numbers_of(column)
    if values.dtype.kind == "f" and not np.isfinite(values[~is_missing]).all():
        raise InvalidArgument(f"the column {column.name!r} holds an infinity, which JSON cannot write")
    if values.dtype.kind == "b":
        return pc.if_else(pa.array(values, mask=is_missing), f"{prefix}true", f"{prefix}false")
    numbers, start = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1], prefix.encode("utf-8")
    commas = np.flatnonzero(np.frombuffer(numbers, np.uint8) == ord(","))
    # The prefix replaces each comma between the numbers, so the positions of the commas give those of the texts.
    ends = np.concatenate([[0], commas + 1, [len(numbers) + 1]]) + np.arange(len(values) + 1) * (len(start) - 1)
    is_present = pa.array(~is_missing).buffers()[1] if is_missing.any() else None
    texts = pa.py_buffer(start + numbers.replace(b",", start))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends.astype(np.int32)), texts, is_present)


def numbers_of(column: pd.Series[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the numbers or booleans of a column, and which are missing; floats have 64 bits."""
    is_missing = column.isna().to_numpy()
    if column.dtype.kind == "f":
        return np.ascontiguousarray(column.to_numpy("float64", na_value=np.nan)), is_missing
    if is_missing.any():
        column = column.fillna(False if column.dtype.kind == "b" else 0)
    return np.ascontiguousarray(
        column.to_numpy(), {"b": "bool", "i": "int64", "u": "uint64"}[column.dtype.kind]
    ), is_missing


def _iso_texts(column: pd.Series[Any]) -> pa.Array:
    """Return times in ISO 8601, with their offset if they have one; null where there is none."""
    times = pd.DatetimeIndex(column)
    present = (times if times.tz is None else times.tz_convert("UTC")).dropna()
    if len(present) and not (present.year.min() >= 1 and present.year.max() <= 9999):
        raise InvalidArgument(f"the times of {column.name!r} must be in the years 1 to 9999 (UTC)")
    if str(times.tz) not in ("None", "UTC"):
        return pa.array(
            [_iso_text(time) if is_time else None for time, is_time in zip(times, times.notna(), strict=True)],
            pa.string(),
        )
    offset, values = "" if times.tz is None else "+00:00", times.tz_localize(None).to_numpy()
    is_exact = [(values.astype(f"M8[{unit}]") == values)[times.notna()].all() for unit in _TIME_UNITS]
    unit = _TIME_UNITS[is_exact.index(True)]
    texts = np.char.add(np.datetime_as_string(values, unit=unit), offset)
    return pa.array(texts.astype("object"), pa.string(), mask=times.isna())


def _string_texts(prefix: str, strings: pa.Array | pa.ChunkedArray) -> pa.Array:
    strings = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
    if not pc.any(pc.match_substring_regex(strings, _ESCAPED_IN_JSON)).as_py():
        return pc.binary_join_element_wise(f'{prefix}"', strings, '"', "")
    encoded = strings.dictionary_encode()
    texts = [prefix.encode("utf-8") + orjson.dumps(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)
