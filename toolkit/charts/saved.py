"""A chart, or an explorer with its tables, as a page that needs no kernel and makes no request.

`page_html` is a file for a browser; `output_html` is the output of a notebook, which trusted notebooks, nbconvert and
the documentation show. Without its script, as on a code hosting site, the output is a picture.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd

from toolkit.charts.assets import chart_styles, saved_module
from toolkit.charts.look import LOOK
from toolkit.charts.series import FigureData, seconds_of

#: How many points a file holds: more are thinned, without losing a spike.
_MOST_IN_FILE = 500_000
_STATIC = Path(__file__).parent / "static"
_PAGE = Template((_STATIC / "page.html").read_text("utf-8"))
_OUTPUT = Template(
    '<div class="toolkit-saved"><img alt="$summary" src="data:image/png;base64,$picture">'
    '<script type="application/json">$data</script><script>$script</script></div>'
)
_LOADER = (_STATIC / "loader.js").read_text("utf-8")


class SavedFigure(NamedTuple):
    """What a saved page shows."""

    figure: FigureData
    #: Options of `createChart` of chart.js.
    options: dict[str, Any]
    visible_range: tuple[pd.Timestamp, pd.Timestamp] | None
    #: Further tables by name, for an explorer; None for a chart without its rows.
    tables: Mapping[str, pd.DataFrame] | None = None

    def data(self, most_points: int, most_on_line: int) -> bytes:
        """Return what ``showSaved`` of saved.js takes, as JSON without ``<``."""
        lines = self.figure.lines
        most = min(most_on_line, most_points // max(1, len(lines)))
        limits = self.visible_range
        page = {
            "options": self.options,
            "range": None if limits is None else seconds_of(pd.DatetimeIndex(list(limits))).tolist(),
            "figure": self.figure.message()
            # `thinned` leaves a line of up to three values per piece as it is.
            | {"lines": [line.message(max(1, most // 3), _differences, np.asarray) for line in lines]},
            "rows": self.tables is not None,
            "tables": {name: _texts(table) for name, table in (self.tables or {}).items()},
        }
        # Without "<", no name can end the script element that holds it.
        return orjson.dumps(page, option=orjson.OPT_SERIALIZE_NUMPY).replace(b"<", b"\\u003c")


def page_html(saved: SavedFigure, title: str) -> str:
    """Return a page whose policy allows nothing but its own script and styles."""
    styles = chart_styles() + (_STATIC / "page.css").read_text("utf-8")
    script = (
        f"{saved_module()}\n"
        'showSaved(document.getElementById("figure"), JSON.parse(document.getElementById("data").textContent));\n'
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(styles)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = saved.data(_MOST_IN_FILE, _MOST_IN_FILE).decode("utf-8")
    return _PAGE.substitute(policy=policy, title=escape(title), styles=styles, data=data, script=script)


def output_html(saved: SavedFigure, picture: bytes, summary: str) -> str:
    """Return the HTML of an output: the picture, and a script that replaces it by the chart."""
    version, module = _packed_module()
    data = saved.data(LOOK["saved"]["mostPoints"], LOOK["saved"]["mostOnLine"])
    packed = orjson.dumps({"version": version, "module": module, "page": _packed(data)}).decode("ascii")
    encoded = base64.b64encode(picture).decode("ascii")
    return _OUTPUT.substitute(summary=escape(summary), picture=encoded, data=packed, script=_LOADER)


@cache
def _packed_module() -> tuple[str, str]:
    styles = orjson.dumps(chart_styles()).decode("utf-8")
    text = f"{saved_module()}\nexport const styles = {styles};\nexport {{ showSaved }};\n".encode()
    return hashlib.sha256(text).hexdigest()[:16], _packed(text)


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _differences(times: pd.Index[Any]) -> np.ndarray[Any, Any]:
    """Return microseconds since 1970, each but the first as the difference from the one before."""
    return np.diff(pd.DatetimeIndex(times).as_unit("us").asi8, prepend=0)


def _texts(table: pd.DataFrame) -> dict[str, Any]:
    rows = table.astype("object").where(table.notna(), "").to_numpy().tolist()
    return {"columns": [str(name) for name in table.columns], "rows": [[str(cell) for cell in row] for row in rows]}
