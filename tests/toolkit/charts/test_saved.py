"""Charts and explorers as files and outputs that need no kernel. In a browser: ``tests/browser/test_saved_page``."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import toolkit
from toolkit.charts.chart import Chart
from toolkit.errors import InvalidArgument

HOSTILE = "</script><script>alert(1)</script>"


def waves(rows: int, things: tuple[str, ...] = ("roof",)) -> pd.DataFrame:
    times = pd.date_range("2026-01-01", periods=rows, freq="min", name="created", tz="UTC")
    frame = pd.DataFrame({"celsius": np.sin(np.arange(rows) / 300)}, index=times)
    return pd.concat([frame.assign(thing=thing) for thing in things])


def block(html: str, start: str) -> str:
    return html.split(start, 1)[1].split("</", 1)[0]


def test_a_file_allows_nothing_but_its_own_script(tmp_path: Path) -> None:
    waves(50_000).dweets.chart().save(tmp_path / "a <week>.html")
    html = (tmp_path / "a <week>.html").read_text("utf-8")
    assert len(html.encode()) < 3_000_000
    assert "<title>a &lt;week&gt;</title>" in html
    parts = {"script-src": block(html, '<script type="module">'), "style-src": block(html, "<style>")}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    for name, text in parts.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}';" in policy[1]
    (line,) = json.loads(block(html, '<script type="application/json" id="data">'))["figure"]["lines"]
    assert (len(line["x"]), line["x"][1], sum(line["x"][:2])) == (50_000, 60_000_000, 1_767_225_660_000_000)
    with pytest.raises(InvalidArgument, match=r"ends in \.html"):
        Chart().save("chart.png")


def test_names_stay_texts(tmp_path: Path) -> None:
    waves(2, (HOSTILE, "\N{RIGHT-TO-LEFT OVERRIDE}x", "y" * 300)).dweets.chart().save(tmp_path / "x.html")
    html = (tmp_path / "x.html").read_text("utf-8")
    assert html.count("<script") == 2
    assert json.loads(block(html, 'id="data">'))["figure"]["things"][0] == HOSTILE


def saved_page(html: str) -> dict[str, Any]:
    data = json.loads(block(html, '<script type="application/json">'))
    page: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(data["page"])))
    return page


def test_a_notebook_holds_few_points_and_a_picture() -> None:
    frame = waves(40_000, ("roof", "cellar"))
    frame.iloc[777, 0] = 99
    shown, _ = frame.dweets.chart()._repr_mimebundle_()
    assert sum(map(len, shown.values())) < 1_000_000
    assert f'src="data:image/png;base64,{shown["image/png"]}"' in shown["text/html"]
    roof, cellar = saved_page(shown["text/html"])["figure"]["lines"]
    assert max(len(roof["y"]), len(cellar["y"])) <= 5_000
    assert max(roof["y"]) == 99, "no spike is lost"


def test_an_explorer_is_saved_with_its_rows_and_tables(tmp_path: Path) -> None:
    explorer = toolkit.HistoryExplorer(waves(500).assign(on=True), fields=["celsius", "on"])
    explorer.start.value = "2026-01-01 02:00"
    explorer.save(tmp_path / "x.html")
    page = json.loads(block((tmp_path / "x.html").read_text("utf-8"), 'id="data">'))
    assert page["rows"]
    assert page["range"][0] == pd.Timestamp("2026-01-01 02:00").timestamp()
    assert [row[:2] for row in page["tables"]["Statistics"]["rows"]] == [["roof", "celsius"], ["roof", "on"]]
    assert saved_page(explorer._repr_mimebundle_()["text/html"])["rows"]
