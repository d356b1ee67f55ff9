"""Notebooks without views of widgets that are gone, as the lab opens them and as they are committed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.strip_notebooks import stripped
from toolkit.saved_widgets import WIDGET_VIEW, drop_views, widgets_shown

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def view_of(model: str) -> dict[str, Any]:
    return {WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": model}}


def notebook_of(*outputs: dict[str, Any]) -> dict[str, Any]:
    code = {
        "cell_type": "code",
        "execution_count": 3,
        "id": "code",
        "metadata": {"execution": {"iopub.execute_input": "2026-01-01"}, "trusted": True, "tags": ["kept"]},
        "outputs": list(outputs),
        "source": ["1 + 1"],
    }
    text = {"cell_type": "markdown", "id": "text", "metadata": {"editable": True}, "source": ["Words"]}
    state = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    metadata = {"widgets": state, "language_info": {"name": "python", "version": "3.11.4"}}
    return {"cells": [text, code], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def shown(*data: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"output_type": "display_data", "metadata": {}, "data": each} for each in data]


def data_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [output["data"] for output in notebook["cells"][1]["outputs"]]


def test_a_widget_that_is_gone_gives_way_to_its_picture() -> None:
    notebook = notebook_of(*shown({**view_of("gone"), "image/png": "AAAA", "text/plain": "<it>"}))
    drop_views(notebook, {"another"})
    assert data_of(notebook) == [{"image/png": "AAAA", "text/plain": "<it>"}]


def test_a_widget_that_is_alive_keeps_its_view() -> None:
    notebook = notebook_of(*shown({**view_of("gone"), "text/plain": "a"}, {**view_of("alive"), "text/plain": "b"}))
    assert widgets_shown(notebook) == {"gone", "alive"}
    drop_views(notebook, {"alive"})
    assert data_of(notebook) == [{"text/plain": "a"}, {**view_of("alive"), "text/plain": "b"}]


@pytest.mark.parametrize("view", [view_of("gone"), {WIDGET_VIEW: {}}, {WIDGET_VIEW: "no view"}])
def test_a_widget_without_a_picture_leaves_a_sentence(view: dict[str, Any]) -> None:
    notebook = notebook_of(*shown(view))
    drop_views(notebook)
    assert data_of(notebook) == [{"text/plain": "A widget. Run the cell to use it."}]


def test_other_outputs_and_cells_stay_as_they_are() -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": ["words"]}
    notebook = notebook_of(printed, *shown({"text/html": "<b>words</b>"}))
    before = json.dumps(notebook)
    drop_views(notebook)
    assert json.dumps(notebook) == before


def test_a_stripped_notebook_keeps_outputs_counts_and_tags() -> None:
    output = shown({**view_of("gone"), "image/png": "AAAA", "text/plain": "2"})
    result = json.loads(stripped(json.dumps(notebook_of(*output))))
    text, code = result["cells"]
    assert result["metadata"]["language_info"] == {"name": "python"}
    assert "widgets" not in result["metadata"]
    assert (text["metadata"], code["metadata"]) == ({}, {"tags": ["kept"]})
    assert (code["execution_count"], code["source"]) == (3, ["1 + 1"])
    assert data_of(result) == [{"image/png": "AAAA", "text/plain": ["2"]}]


def test_committed_notebooks_are_stripped_and_formatted() -> None:
    hint = "run: uv run python -m tests.strip_notebooks"
    assert [path.name for path in NOTEBOOKS if stripped(path.read_text("utf-8")) != path.read_text("utf-8")] == [], hint
    ruff = [sys.executable, "-m", "ruff", "format", "--check", *NOTEBOOKS]
    assert subprocess.run(ruff, timeout=60, check=False, capture_output=True).returncode == 0, hint


def test_no_tutorial_stops_its_gateway() -> None:
    # Else its widgets say "No answer" after Run All.
    def code_of(path: Path) -> str:
        cells = json.loads(path.read_bytes())["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")

    ends = ("gateway.close()", "tk.close()", "live.stop()", "folder.cleanup()")
    assert [path.name for path in NOTEBOOKS if any(end in code_of(path) for end in ends)] == []
