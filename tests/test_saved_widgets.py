"""Notebooks as they are committed: stripped alike, every widget a picture."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.strip_notebooks import WIDGET_VIEW, stripped

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


def test_stripped_widgets_are_pictures_or_texts() -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": ["words"]}
    outputs = shown({**view_of("one"), "image/png": "AAAA"}, {**view_of("two"), "text/plain": "b"}, view_of("three"))
    words, *others = json.loads(stripped(json.dumps(notebook_of(printed, *outputs))))["cells"][1]["outputs"]
    assert words == printed
    assert [output["data"] for output in others] == [
        {"image/png": "AAAA"},
        {"text/plain": ["b"]},
        {"text/plain": ["A widget. Run the cell to use it."]},
    ]


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


def test_no_later_cell_changes_an_earlier_widget() -> None:
    # Else a reader's own clicks are overwritten, and the picture no longer fits to the text above it.
    changed = []
    for path in NOTEBOOKS:
        shown: list[str] = []
        for cell in json.loads(path.read_bytes())["cells"]:
            code = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
            changed += [(path.name, name) for name in shown if re.search(rf"\b{name}\.(\w+\.value\b|try_|run_)", code)]
            shown += re.findall(r"^(?:display\()?(\w+)\)?$", code, re.MULTILINE)
    assert changed == []
