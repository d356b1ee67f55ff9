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
# Most parsers of JSON limit the depth.
_MOST_LEVELS = 250
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
    frame = frame.reset_index(drop=True)  # columns without an index are cheaper to take
    starts = range(0, len(frame), _ROWS_PER_ARRAY)
    arrays = [_texts_of_rows(frame.iloc[start : start + _ROWS_PER_ARRAY]) for start in starts]
    largest = max((pc.max(pc.binary_length(array)).as_py() for array in arrays), default=0)
    if largest > wire.MAX_DWEET_BYTES:
        raise InvalidArgument(f"{wire.too_large().message}, and one here has {largest}")
    return pa.chunked_array(arrays, pa.string())


class _JsonObject:
    """One JSON object per row, after the text `opening`; a row without a member has the text `empty` instead."""

    def __init__(self, opening: str, empty: str) -> None:
        self._opening = opening
        self._empty = empty
        self._members: list[pa.Array | _JsonObject] = []
        self._inner: dict[str, _JsonObject] = {}
        self._is_never_empty = False

    def add(self, path: Sequence[str], column: pd.Series[Any]) -> None:
        """Add the values of a column as members with this path."""
        prefix = f",{orjson.dumps(path[0]).decode('utf-8')}:"
        if len(path) == 1:
            if not self._members and column.notna().all():
                self._is_never_empty, prefix = True, prefix[1:]
            self._members.append(prefixed_texts(prefix, column))
            return
        if path[0] not in self._inner:
            self._inner[path[0]] = _JsonObject(f"{prefix}{{", "")
            self._members.append(self._inner[path[0]])
        self._inner[path[0]].add(path[1:], column)

    def texts(self) -> pa.Array:
        return _joined(self.parts())

    def parts(self) -> list[pa.Array | str]:
        """Return what is to be joined for the texts of the rows: arrays, and texts that all rows have."""
        members: list[pa.Array | str] = []
        for member in self._members:
            members += member.parts() if isinstance(member, _JsonObject) else [member]
        if self._is_never_empty:
            return [self._opening, *members, "}"]
        # The opening replaces the first comma, or the } if there is no member.
        written = pc.binary_replace_slice(_joined([*members, "}"]), 0, 1, self._opening)
        is_empty = pc.equal(written, self._opening)
        return [pc.if_else(is_empty, self._empty, written) if pc.any(is_empty).as_py() else written]


def _joined(parts: Sequence[pa.Array | str]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def _texts_of_rows(frame: pd.DataFrame) -> pa.Array:
    if frame.columns.empty:
        return pa.array(["{}"] * len(frame))
    root, names = _JsonObject("{", "{}"), set(frame.columns)
    for name in frame.columns:
        column, path = frame[name], name.split(".")
        outer = names & set(accumulate(path[:-1], "{}.{}".format))
        if outer:
            # In rows where a column that is named like its beginning has a value too, the name keeps its dots.
            is_taken = frame[list(outer)].notna().any(axis="columns")
            column = column.astype("object")
            root.add([name], column.where(is_taken, None))
            column = column.mask(is_taken, None)
        root.add(path, column)
    return root.texts()


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
    kind = column.dtype.kind
    if kind == "f":
        values = np.ascontiguousarray(column.to_numpy("float64"))
        is_missing = np.isnan(values)
        if np.isinf(values).any():
            raise InvalidArgument(f"the column {column.name!r} holds an infinity, which JSON cannot write")
    else:
        is_missing = column.isna().to_numpy()
        present = column.fillna(False if kind == "b" else 0) if is_missing.any() else column
        values = np.ascontiguousarray(present.to_numpy(), {"b": "bool", "i": "int64", "u": "uint64"}[kind])
    if kind == "b":
        return pc.if_else(pa.array(values, mask=is_missing), f"{prefix}true", f"{prefix}false")
    numbers, start = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1], prefix.encode("utf-8")
    commas = np.flatnonzero(np.frombuffer(numbers, np.uint8) == ord(","))
    # The prefix replaces each comma between the numbers, so the positions of the commas give those of the texts.
    ends = np.concatenate([[0], commas + 1, [len(numbers) + 1]]) + np.arange(len(values) + 1) * (len(start) - 1)
    is_present = pa.array(~is_missing).buffers()[1] if is_missing.any() else None
    texts = pa.py_buffer(start + numbers.replace(b",", start))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends.astype(np.int32)), texts, is_present)


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
    _, positions, characters = strings.buffers()  # of a whole column, of which this may be a slice
    ends = np.frombuffer(positions, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    data = np.frombuffer(characters or b"", np.uint8)[ends[0] : ends[-1]]
    if not ((data < 0x20) | (data == ord('"')) | (data == ord("\\"))).any():  # nothing that JSON escapes
        return pc.binary_join_element_wise(f'{prefix}"', strings, '"', "")
    encoded = strings.dictionary_encode()
    texts = [prefix.encode("utf-8") + orjson.dumps(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)
