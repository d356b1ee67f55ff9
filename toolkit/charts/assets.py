"""The chart for a browser: one ES module and one style sheet, from the files in ``static``."""

import re
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
#: Ordered: a module imports only from earlier modules.
_MODULES = (
    "uplot/uPlot.js", "elements.js", "numerals.js", "lines.js", "files.js", "panel.js", "legend.js", "tip.js",
    "chart.js",
)  # fmt: skip
_IMPORT_LINE = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT_KEYWORD = re.compile(r"^export (?:default uPlot;\n|(?=const|function|class))", re.MULTILINE)


@cache
def chart_module() -> str:
    """Return the ES module of the chart; it exports ``createChart``, which ``static/chart.js`` documents."""
    return _bundle(_MODULES) + "export { createChart };\n"


@cache
def widget_module() -> str:
    """Return the ES module of the chart for anywidget: the default export renders a widget model."""
    return _bundle((*_MODULES, "widget.js"))


@cache
def saved_module() -> str:
    """Return the script of a saved page; it defines ``showSaved``, which ``static/saved.js`` documents."""
    return _bundle((*_MODULES, "table.js", "saved.js"))


@cache
def chart_styles() -> str:
    return "".join((_STATIC / name).read_text("utf-8") for name in ("uplot/uPlot.css", "chart.css"))


def _bundle(names: tuple[str, ...]) -> str:
    # Join the files into one module: anywidget resolves no relative imports.
    modules = [_EXPORT_KEYWORD.sub("", _IMPORT_LINE.sub("", (_STATIC / name).read_text("utf-8"))) for name in names]
    return f"const LOOK = {(_STATIC / 'look.json').read_text('utf-8').strip()};\n{''.join(modules)}"
