"""The Sphinx site: ``sphinx-build -W docs build/docs`` builds it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

SHOW_SOLUTION, HIDE_SOLUTION = "Show the solution", "Hide the solution"
# As MyST-NB folds a code cell; a Markdown cell with the same tag it leaves open.
FOLDED = f"""<div class="cell container"><details class="admonition hide above-input">
<summary aria-label="Toggle hidden content">
<p class="collapsed admonition-title">{SHOW_SOLUTION}</p>
<p class="expanded admonition-title">{HIDE_SOLUTION}</p></summary>

{{}}

</details></div>"""

# Sphinx reads only what lies below this folder.
# In the lab the tutorials link to ../docs/, here to the same pages as neighbours; `link_pages` does the opposite.
for path in (ROOT / "notebooks").glob("*.ipynb"):
    notebook = json.loads(path.read_text("utf-8").replace("](../docs/", "](../"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and "hide-cell" in cell["metadata"].get("tags", ()):
            cell["source"] = FOLDED.format("".join(cell["source"]))
    (HERE / "tutorials" / path.name).write_text(json.dumps(notebook), "utf-8")

project = "gateway-toolkit"
author = "the authors of gateway-toolkit"
copyright = f"2026, {author}"
html_title = project

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_nb",
    "sphinx_click",
    "sphinx_copybutton",
    "endpoint_pages",
    "gallery_page",
]
exclude_patterns = ["deploy/*.md"]
templates_path = ["_templates"]

# The tutorials are shown as they were committed: nbval has compared their outputs. A chart is HTML that can be zoomed;
# another widget, which has no kernel here, is a picture.
nb_execution_mode = "off"
nb_code_prompt_show, nb_code_prompt_hide = SHOW_SOLUTION, HIDE_SOLUTION
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}
# The home and the gallery lead everywhere by themselves, and need the width.
html_sidebars = {"**": ["whole-site.html"], "index": [], "gallery": []}
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# No page asks another host for anything.
html_js_files: list[str] = []
mathjax_path = "no-page-has-formulas.js"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}


def signature_of_widget(_app: Sphinx, kind: str, _name: str, item: type, *_rest: object) -> tuple[str, str] | None:
    """Return the arguments of a widget: its base class has a ``__new__`` that takes anything."""
    if kind != "class" or not hasattr(item, "class_traits"):
        return None
    return stringify_signature(signature(item.__init__, bound_method=True), show_annotation=False), ""


def link_pages(_: Sphinx, page: str, source: list[str]) -> None:
    """Lead links that fit the repository, to the notebooks and SECURITY.md, to the pages of this site."""
    up = "../" * page.count("/")
    text = source[0].replace(f"{up}../notebooks/", f"{up}tutorials/")
    source[0] = text.replace(f"]({up}../SECURITY.md", f"]({up}explanation/security.md")


def setup(app: Sphinx) -> None:
    app.connect("source-read", link_pages)
    app.connect("autodoc-process-signature", signature_of_widget)
