"""Sphinx extension: the directive ``gallery``, which shows entries of gallery.toml as cards with a picture.

A picture is the output of a cell of a tutorial, or a file in ``_static/gallery``.
"""

from __future__ import annotations

import base64
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
ENTRIES: dict[str, dict[str, str]] = tomllib.loads((HERE / "gallery.toml").read_text("utf-8"))


def picture_in_notebook(entry: dict[str, str]) -> bytes:
    """Return the picture of the output of the first cell with the text `cell`."""
    notebook = json.loads((HERE.parent / "notebooks" / f"{entry['notebook']}.ipynb").read_bytes())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and entry["cell"] in "".join(cell["source"]):
            for output in cell["outputs"]:
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output["data"]["image/png"])
    raise LookupError(f"{entry['notebook']} has no picture of {entry['cell']}")


def write_pictures(app: Sphinx) -> None:
    """Put the picture of each entry below the sources, where Sphinx finds it."""
    folder = HERE / "gallery"
    folder.mkdir(exist_ok=True)
    for name, entry in ENTRIES.items():
        if "notebook" in entry:
            (folder / f"{name}.png").write_bytes(picture_in_notebook(entry))
        else:
            shutil.copy(HERE / "_static" / "gallery" / entry["picture"], folder)


class Gallery(SphinxDirective):
    """Cards of the named entries; with the option ``code``, also their code."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"code": directives.flag}

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(HERE / "gallery.toml"))
        cards = [self._card(name, ENTRIES[name]) for name in self.arguments[0].split()]
        return [nodes.container("", *cards, classes=["gallery"])]

    def _card(self, name: str, entry: dict[str, str]) -> nodes.container:
        uri = f"/gallery/{entry.get('picture', f'{name}.png')}"
        # An image with a width links to the file, where the picture is shown in full size.
        picture = nodes.image("", uri=uri, alt=entry["title"], width="100%")
        parts: list[Any] = [picture, nodes.paragraph("", "", nodes.strong("", entry["title"]))]
        if "code" in self.options:
            language = "sh" if entry["code"].startswith("toolkit ") else "python"
            code = entry["code"].strip()
            parts.append(nodes.literal_block(code, code, language=language))
            if "tutorial" in entry:
                notebook, heading = entry["tutorial"].split("#")
                parts += self.parse_text_to_nodes(f"[In tutorial {notebook[0]}](/tutorials/{notebook}.ipynb#{heading})")
        return nodes.container("", *parts, classes=["gallery-card"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("gallery", Gallery)
    app.connect("builder-inited", write_pictures)
    return {"parallel_read_safe": True}
