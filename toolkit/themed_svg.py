"""A matplotlib figure as SVG for a widget: texts stay text, and colours follow the theme of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Drawn in this colour, lines and words get the page's own.
INK = "#333333"

_PIXELS_AN_INCH = 80
# Where the page is narrower, the drawing scrolls.
_SMALLEST = 0.85
_FONT = re.compile(r"'DejaVu Sans'[^;\"]*")
# Inside a page its rule would hold for every other drawing, too.
_STYLE = re.compile(r"<defs>\s*<style.*?</defs>", re.DOTALL)


def themed_svg(figure: Figure, said: str, colours: Mapping[str, str] | None = None) -> str:
    """Return the figure as an ``svg`` element; `said` is for screen readers, `colours` maps old to CSS colours."""
    import matplotlib

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    file = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "toolkit"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    body = _STYLE.sub("", text[text.index(">", text.index("<svg")) + 1 :], count=1)
    for plain, themed in {INK: "currentColor", **(colours or {})}.items():
        body = body.replace(plain, themed)
    inches, high = figure.get_size_inches()
    width = inches * _PIXELS_AN_INCH
    return (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" role="img" aria-label="{escape(said)}" '
        f'viewBox="0 0 {inches * 72:g} {high * 72:g}" fill="currentColor" '
        f'style="width:{width:.0f}px;max-width:100%;min-width:{_SMALLEST * width:.0f}px;height:auto">'
        + _FONT.sub("system-ui,sans-serif", body)
    )
