"""Make notebooks ready to be committed: ``python -m tests.strip_notebooks``.

Outputs and execution counts stay, since nbval compares them. Everything goes that differs from run to run or from
editor to editor: views and states of widgets, metadata of the run, the order of keys. Ruff formats the code.
"""

from __future__ import annotations

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


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


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
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
    return str(nbformat.writes(notebook, version=4)) + "\n"


def main() -> None:
    """Strip all notebooks of the checkout in place."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        path.write_text(stripped(path.read_text("utf-8")), "utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", *paths], check=True)


if __name__ == "__main__":
    main()
