"""Encode a Python value as the JSON content of a dweet; split contents into requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd

from toolkit.argument_checks import described
from toolkit.dweets import wire
from toolkit.errors import InvalidArgument

ROWS_PER_REQUEST = 1_000
ROW_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def content_bytes(content: Any) -> bytes:  # noqa: ANN401
    try:
        written = orjson.dumps(content, json_value, orjson.OPT_SERIALIZE_NUMPY)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidArgument(f"the content cannot be written as JSON: {error.__cause__ or error}") from None
    if holds_nan(content):  # after `dumps`, which refuses contents that are too deep for a recursive function
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


def json_value(value: object) -> object:
    """Convert a value that orjson cannot write itself, or raise TypeError with advice."""
    if isinstance(value, pd.Timestamp):
        return iso_text(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":  # orjson cannot write values[::2]
        return value.tolist()
    advice = "send a text or a number"
    if value is pd.NA or value is pd.NaT:
        advice = "leave the value out, or send None"
    elif hasattr(value, "to_dict"):
        advice = "send its to_dict(), or a frame with post_frame"
    raise TypeError(f"it holds {described(value)}: {advice}")


def iso_text(time: pd.Timestamp) -> str:
    """Return a time in ISO 8601; in UTC if its offset has seconds, as before there were zones (parsers fail)."""
    offset = time.utcoffset()
    return (time if offset is None or offset.seconds % 60 == 0 else time.tz_convert("UTC")).isoformat()


def holds_nan(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, float | np.floating):
        return not np.isfinite(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":  # orjson would write null
        return not np.isfinite(value).all()
    if isinstance(value, dict):
        return any(map(holds_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_nan, value))
    return False
