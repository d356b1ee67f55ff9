"""Make notebooks ready to be committed: ``python -m tests.strip_notebooks``.

Outputs and execution counts stay, since nbval compares them. Everything goes that differs from run to run or from
editor to editor: views and states of widgets, metadata of the run, the order of keys. Ruff formats the code.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
#: Cells that the lab shows collapsed: solutions, and what exists for nbval only. The site hides or removes them.
_COLLAPSED = {"hide-cell", "remove-cell"}


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
#: Where a warning came from: a file of the kernel, whose name differs from run to run.
_PLACE_OF_WARNING = re.compile(r"\S*ipykernel_\d+\S*:\d+: ")


def drop_views(notebook: NotebookNode) -> None:
    """Remove the views of widgets in place; what is beside a view, its picture or its text, is what a reader sees."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("data", {}).pop(WIDGET_VIEW, None) and not output.data:
                output.data["text/plain"] = "A widget. Run the cell to use it."


def stripped(text: str) -> str:
    """Return a notebook as it is committed, from what was saved."""
    notebook = nbformat.reads(text, as_version=4)
    drop_views(notebook)
    notebook.metadata = nbformat.from_dict(_METADATA)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                output.text = _PLACE_OF_WARNING.sub("", output.text)
        cell.metadata = nbformat.from_dict(_metadata_of(cell.metadata.get("tags", [])))
    return str(nbformat.writes(notebook, version=4)) + "\n"


def _metadata_of(tags: list[str]) -> dict[str, object]:
    """Return the tags, and for a solution or a cell for tests only that JupyterLab shows it collapsed."""
    hidden = {"source_hidden": True, "outputs_hidden": True}
    return ({"tags": tags} if tags else {}) | ({"jupyter": hidden} if _COLLAPSED.intersection(tags) else {})


def main() -> None:
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        path.write_text(stripped(path.read_text("utf-8")), "utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", *paths], check=True)


if __name__ == "__main__":
    main()
