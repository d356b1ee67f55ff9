"""The Sphinx site: ``uv run toolkit-docs`` is ``sphinx-build -W docs build/docs``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

# Sphinx reads only what lies below this folder.
# In the lab the tutorials link to ../docs/, here to the same pages as neighbours.
for notebook in (ROOT / "notebooks").glob("*.ipynb"):
    text = notebook.read_text("utf-8").replace("](../docs/", "](../")
    (HERE / "tutorials" / notebook.name).write_text(text, "utf-8")

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

# The tutorials are shown as they were committed: nbval has compared their outputs. A chart is HTML that can be zoomed;
# another widget, which has no kernel here, is a picture.
nb_execution_mode = "off"
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
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# No page asks another host for anything.
html_js_files: list[str] = []
mathjax_path = "no-page-has-formulas.js"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
