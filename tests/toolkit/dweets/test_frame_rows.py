"""Rows of frames as JSON and as typed columns of an archive: as if each row were written alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.toolkit.archive.archive_rows import START
from toolkit.archive.parquet_files import LONGEST_TEXT, Row, table_of_frame, table_of_rows
from toolkit.dweets import frame_rows
from toolkit.dweets.frame_rows import row_contents, row_texts
from toolkit.errors import InvalidArgument

DAY = pd.Timestamp("2026-01-01T12:00:00.5")
FRAMES: dict[str, dict[str, Any]] = {
    "floats": {"a": [1.0, np.nan, -0.0, 1e22], "b": pd.array([0.5, None, 2, 3], dtype="Float64")},
    "small floats": {"a": np.array([1.1, np.nan, 2, 3], dtype="float32")},
    "integers": {"a": [1, 2**62, -3, 4], "b": pd.array([1, None, 3, 4], dtype="Int64"), "c": np.arange(4, dtype="u1")},
    "large integers": {"a": np.array([1, 2**63 + 5, 3, 4], dtype="uint64"), "b": [2**60, 1, 2, 3]},
    "truth": {"a": [True, False, True, True], "b": pd.array([True, None, False, None], dtype="boolean")},
    "texts": {"a": ["x", None, "ü\U0001f600", ""], "b": ['"', "\\", "\n\0", "x" * (LONGEST_TEXT + 1)]},
    "times": {"a": [DAY, pd.NaT, DAY, DAY], "b": pd.Categorical(["x", "y", None, "x"])},
    "objects": {"a": [{"b": 1}, [1, {"c": None}], None, "x"], "d": [1, 2.5, "x", True]},
    "objects of objects": {"a": [{"b": {"c": 1}}, {"b": {"c": 2}}, None, {"b": {"c": 3.5}}]},
    "arrow": {"a": pd.array([1, None, 3, 4], dtype=pd.ArrowDtype(pa.int16()))},
    "nested": {"a.b": [1, 2, 3, 4], "c": ["x", None, "y", "z"], "a.d.e": [np.nan, 1, np.nan, 2], "a.d.f": [1.5] * 4},
    "missing rows": {"a.b": [np.nan, 1, np.nan, 2], "a.c": [np.nan, np.nan, np.nan, 1]},
    "ambiguous": {"a": [1, None, 3, None], "a.b": [1, 2, 3, 4], "a.b.c": [1, 2, None, 4]},
    "odd names": {'say "ü"': [1, 2, 3, 4], "line\nend": [1.5] * 4, "": ["x"] * 4, ".": [1] * 4, "thing": [1] * 4},
    "sparse": {"a": pd.arrays.SparseArray([1.5, np.nan, np.nan, 2.5])},
    "nothing": {},
}


def content_of_row(row: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    present = {name: value for name, value in row.items() if value is not None}
    for name, value in present.items():
        path = name.split(".")
        if any(".".join(path[:length]) in present for length in range(1, len(path))):
            content[name] = value
            continue
        inner = content
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return content


@pytest.mark.parametrize("kind", FRAMES)
def test_each_row_has_the_json_of_its_values(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(FRAMES[kind], index=range(4))
    values = {name: frame[name].astype("object").where(frame[name].notna(), None).tolist() for name in frame}
    rows = [content_of_row({name: column[number] for name, column in values.items()}) for number in range(4)]
    expected = [json.loads(json.dumps(row, default=lambda time: time.isoformat())) for row in rows]
    assert [json.loads(text) for text in row_contents(frame)] == expected
    monkeypatch.setattr(frame_rows, "_ROWS_PER_ARRAY", 3)
    assert [json.loads(text) for text in row_contents(frame)] == expected


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_has_the_columns_of_its_rows(kind: str) -> None:
    frame = pd.DataFrame(FRAMES[kind], index=range(4))
    numbers = range(7, 11)
    times = np.array([START + number for number in numbers])
    rows = zip(numbers, times.tolist(), row_contents(frame), strict=True)
    of_rows = table_of_rows("t", [Row(number, at, None, content) for number, at, content in rows])
    of_frame = table_of_frame("t", 7, times, frame)
    assert sorted(of_frame.column_names) == sorted(of_rows.column_names)
    assert of_frame.select(of_rows.column_names).equals(of_rows)


def test_no_rows_give_no_text() -> None:
    assert row_texts(pd.DataFrame({"a": []})).to_pylist() == []
    assert row_contents(pd.DataFrame()) == []


def test_values_that_are_not_json_are_refused() -> None:
    for columns, reason in [
        ({"a": [1.0, np.inf]}, "the column 'a' holds an infinity"),
        ({"a": pd.array([1.0, -np.inf], dtype="Float64")}, "the column 'a' holds an infinity"),
        ({"a": [[1.0, np.nan], 1]}, "the column 'a' holds NaN or infinity"),
        ({"a": [1, 2], "b": [1j, 2j]}, "the column 'b' cannot be written as JSON"),
        ({"a": [object(), 1]}, "the column 'a' cannot be written as JSON"),
        ({"a": ["\ud800", 1]}, "the column 'a' cannot be written as JSON"),
        ({"a": ["x", "y" * 70_000]}, "at most 65536 bytes"),
        ({".".join("a" * 300): [1, 2]}, "nested too deeply"),
        ({"a" * 70_000: [1.0, 2.0]}, "the name of a column here is longer"),
        ({1: [1, 2]}, "name every column with text"),
    ]:
        with pytest.raises(InvalidArgument, match=reason):
            row_contents(pd.DataFrame(columns))
