"""How a text is to be written, as one gives it in a notebook, and how that is said on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from PIL import ImageColor

from toolkit.errors import InvalidArgument
from toolkit.handwriting.client.page_layout import Distance, Margin, Page, distance_text, margin_text, page_sides
from toolkit.handwriting.wire import Align, Format, Paper, Pen

#: ``"#1b3a8a"``, ``"#13a"``, a CSS name as ``"navy"``, or cyan, magenta, yellow, black from 0 to 1.
Ink: TypeAlias = str | Sequence[float]


@dataclass(frozen=True)
class Style:
    """All parameters of a rendering besides text and handwriting; None leaves one to the service.

    Examples
    --------
    >>> Style(width=300, handwriting_color=(1, 0.5, 0, 0.2)).query("pdf")
    {'handwriting_color': '(1, 0.5, 0, 0.2)', 'width': '300pt'}
    """

    handwriting_size: Distance | None = None
    handwriting_color: Ink | None = None
    width: Distance | None = None
    height: Distance | None = None
    min_padding: Distance | None = None
    line_spacing: float | None = None
    line_spacing_variance: float | None = None
    word_spacing_variance: float | None = None
    random_seed: int | Decimal | None = None
    pen: Pen | None = None
    natural: bool | None = None
    paper: Paper | None = None
    corrections: float | None = None
    page: Page | None = None
    margin: Margin | None = None
    align: Align | None = None

    def query(self, kind: Format) -> dict[str, str]:
        """Return the given parameters as they are written in a query; a wrong type raises InvalidArgument."""
        unit = "pt" if kind == "pdf" else "px"
        given = self.given()
        query = {name: _written(name, value, unit) for name, value in given.items() if name not in ("page", "margin")}
        if self.page is not None:
            if "width" in given or "height" in given:
                raise InvalidArgument("give page, or width and height, not both")
            query["width"], query["height"] = page_sides(self.page, unit)
        if self.margin is not None:
            query["margin"] = margin_text(self.margin, unit)
        return query

    def given(self) -> dict[str, Any]:
        """Return the parameters that are not None, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


#: Looks of real writing: ``tk.handwriting.png("Dear Ada", "Molly", **PRESETS["note"].given())``.
PRESETS: dict[str, Style] = {
    "letter": Style(pen="fountain", natural=True, paper="blank", handwriting_color="#16265f", line_spacing=1.7),
    "note": Style(pen="ballpoint", natural=True, paper="ruled", handwriting_color="#1c2f7d", line_spacing=1.8),
    "card": Style(pen="gel", natural=True, handwriting_color="#17171c"),
    "sketch": Style(pen="pencil", natural=True, paper="grid", handwriting_color="#2b2b2f", line_spacing=2.0),
    "label": Style(pen="felt", natural=True, paper="kraft", handwriting_color="#1d1c1b", line_spacing=1.7),
}

#: What 0 is on the wire, where only a positive number is a seed.
SEED_ZERO = 2**63 - 1

_DISTANCES = frozenset({"handwriting_size", "width", "height", "min_padding"})


def _written(name: str, value: Distance | Ink | Decimal, unit: str) -> str:
    if isinstance(value, str):
        return _css_colour(value) if name == "handwriting_color" else value
    if name == "natural" and isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bool):
        raise InvalidArgument(f"{name} cannot be {value!r}")
    if name == "random_seed" and isinstance(value, Real | Decimal) and not value > 0:
        if value != 0:
            raise InvalidArgument("random_seed is 0 or above; None gives another writing each time")
        return str(SEED_ZERO)
    if isinstance(value, Real | Decimal):
        return distance_text(value, unit) if name in _DISTANCES else str(value)
    if name == "handwriting_color" and isinstance(value, Sequence | np.ndarray):
        return f"({', '.join(f'{ink:g}' for ink in value)})"
    raise InvalidArgument(f"{name} cannot be a {type(value).__name__}")


def _css_colour(text: str) -> str:
    """Return a CSS colour as ``#rrggbb``; the service refuses what is none."""
    try:
        colour = ImageColor.getrgb(text.strip())
    except ValueError:
        return text
    return "#{:02x}{:02x}{:02x}".format(*colour) if len(colour) == 3 else text
