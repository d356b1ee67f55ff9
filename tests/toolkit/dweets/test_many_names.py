"""Contents with too many names for a frame: at most 200 columns, in memory proportional to the contents."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest

from tests.conftest import raw_call
from toolkit import LiveDweets
from toolkit.archive.parquet_files import Row, table_of_rows
from toolkit.connection import Connection
from toolkit.errors import DataWarning, InvalidArgument

ROWS, NAMES = 150, 1_000


def written(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def post(tk: Connection, thing: str, values: list[Any]) -> None:
    body = b"\n".join(map(written, values))
    reply = raw_call(tk.base_url, "POST", f"/dweets/for/{thing}", body, "Content-Type: application/x-ndjson\r\n")
    assert b'"succeeded"' in reply.body[:30]


def attack() -> list[dict[str, int]]:
    """Return 150 contents, 2.2 MB in all; only ``celsius`` is a name of more than one of them."""
    return [{"celsius": row, **{f"{row:03d}-{n:04d}": n for n in range(NAMES)}} for row in range(ROWS)]


def bytes_used(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_unique_names_use_bounded_memory(tk: Connection) -> None:
    post(tk, "t", attack())

    def read() -> None:
        with pytest.warns(UserWarning, match=r"149,801 of the 150,001 names .* columns=\["):
            frame = tk.dweets.history("t")
        assert frame.shape == (ROWS, 200)
        assert frame["celsius"].tolist() == list(range(ROWS))

    assert bytes_used(read) < 120_000_000


def test_archive_file_of_many_names_uses_bounded_memory() -> None:
    rows = [Row(n, n, None, written(content)) for n, content in enumerate(attack(), 1)]

    def write() -> None:
        table = table_of_rows("t", rows)
        assert "celsius" in table.column_names
        assert len(table.column_names) == 206

    assert bytes_used(write) < 120_000_000


def test_long_parent_keys_use_bounded_memory(tk: Connection) -> None:
    post(tk, "t", [{f"{row}" + "k" * 20_000: {f"{n}": n for n in range(3_000)}} for row in range(30)])

    def read() -> None:
        with pytest.warns(UserWarning, match="89,800 of the 90,000 names"):
            assert tk.dweets.history("t").shape == (30, 200)

    assert bytes_used(read) < 120_000_000


def test_most_frequent_names_become_columns(tk: Connection) -> None:
    values: list[dict[str, Any]] = [{f"rare-{row}-{n}": n for n in range(20)} for row in range(30)]
    for row, value in enumerate(values):
        value["air"] = {"celsius": row}
        value["often" if row % 2 else "on"] = True
    post(tk, "t", values)
    with pytest.warns(UserWarning, match="403 of the 603 names") as warned:
        frame = tk.dweets.history("t")
    assert warned[0].filename == __file__, "the warning points at the call"
    assert {"air.celsius", "often", "on"} < set(frame.columns)
    assert len(frame.columns) == 200


def readers(tk: Connection) -> dict[str, Callable[..., pd.DataFrame]]:
    return {
        "history": lambda **wanted: tk.dweets.history("t", **wanted),
        "latest": lambda **wanted: tk.dweets.latest("t", **wanted),
        "since": lambda **wanted: tk.dweets.history("t", since="2026-01-01", **wanted),
        "backtest": lambda **wanted: tk.dweets.backtest("t", "dweet.n0 > 1", **wanted).iloc[:, 4:],
        "several": lambda **wanted: tk.dweets.history(["t", "t"], **wanted).iloc[:, 1:],
    }


def test_columns_argument_selects_other_names(tk: Connection) -> None:
    post(tk, "t", [{"deep": {"a.b": {"c": 1.5}}, **{f"n{n}": n for n in range(300)}}])
    for read in readers(tk).values():
        with pytest.warns(UserWarning, match="101 of the 301 names"):
            assert len(read().columns) == 200
        with pytest.warns(DataWarning, match="no dweet has the field 'nowhere'"):
            few = read(columns=["n299", "deep.a.b.c", "nowhere"])
        assert few.columns.tolist() == ["n299", "deep.a.b.c", "nowhere"]
        assert few.iloc[0].tolist() == [299, 1.5, None]
        assert read(columns="n299").columns.tolist() == ["n299"]
        with pytest.raises(InvalidArgument, match="columns is a str or a list of str"):
            read(columns=[7])
    assert tk.dweets.history("t", columns=[f"n{n}" for n in range(300)]).shape == (1, 300)  # without a warning


def test_key_with_a_dot_wins_over_nested_keys(tk: Connection) -> None:
    for number, content in enumerate(({"a.b": 1, "a": {"b": 2}}, {"a": {"b": 2}, "a.b": 1})):
        contents = [content, {"a": {"b": 3}}, {"a.b": 4}]
        thing = f"thing {number}"
        post(tk, quote(thing), contents)
        for read in (tk.dweets.history, partial(tk.dweets.history, since="2026-01-01")):
            with pytest.warns(UserWarning, match="a content has 'a.b' as a key and as nested keys"):
                assert read(thing)["a.b"].tolist() == read(thing, columns=["a.b"])["a.b"].tolist() == [1, 3, 4]
        rows = [Row(number, number, None, written(each)) for number, each in enumerate(contents, 1)]
        assert table_of_rows("t", rows).column("a.b").to_pylist() == [1, 3, 4]


def test_a_live_widget_draws_a_field_beyond_the_200(tk: Connection) -> None:
    with LiveDweets(tk, "t", "n299") as live:
        post(tk, "t", [{f"n{n}": n for n in range(300)}] * 2)
        live.wait(2)
        with pytest.warns(UserWarning, match="100 of the 300 names"):
            assert live.frame.shape == (2, 200)
    assert repr(live.chart) == "<Chart: 2 points of n299>"


def test_a_content_may_nest_as_deep_as_json_does(tk: Connection) -> None:
    body = b'{"a":' * 1_000 + b"1" + b"}" * 1_000
    raw_call(tk.base_url, "POST", "/dweet/for/t", body, "Content-Type: application/json\r\n")
    frame = tk.dweets.history("t")
    assert frame.columns.tolist() == [".".join("a" * 1_000)]
    assert frame.iloc[0, 0] == 1
