"""The parsed parameters of one rendering."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from toolkit.handwriting.catalogue import Handwriting
from toolkit.handwriting.wire import MAX_PIXELS, Align, Format, Paper, Pen

DEFAULT_WIDTH, DEFAULT_HEIGHT = 504.0, 360.0
_MAX_PIXELS = (float(MAX_PIXELS), f"{MAX_PIXELS}px")
#: The largest distance of each format: in points, and as text for error messages.
MAX_DISTANCE: dict[Format, tuple[float, str]] = {
    "png": _MAX_PIXELS, "pdf": (7200.0, "100in"), "svg": _MAX_PIXELS, "replay": _MAX_PIXELS
}  # fmt: skip


class RGB(NamedTuple):
    """Channels from 0 to 255."""

    red: int
    green: int
    blue: int

    def rgb(self) -> RGB:
        return self


class CMYK(NamedTuple):
    """Inks from 0 to 1."""

    cyan: float
    magenta: float
    yellow: float
    black: float

    def rgb(self) -> RGB:
        return RGB(*(int(255 * (1 - ink) * (1 - self.black) + 0.5) for ink in (self.cyan, self.magenta, self.yellow)))


class Margin(NamedTuple):
    """Distances from the edges of the page, in points."""

    top: float
    right: float
    bottom: float
    left: float


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a rendering. Lengths are in points, 72 per inch; a pixel is a point."""

    # handwriting and kind are not in repr(), because `etag_of` hashes repr() together with id and kind.
    handwriting: Handwriting = field(repr=False)
    kind: Format = field(repr=False)
    text: str  # tab, LF, CR and CRLF are the only control characters
    handwriting_size: float = 20.0  # baseline to cap height
    handwriting_color: RGB | CMYK = field(default=RGB(0, 0, 0))
    width: float | None = DEFAULT_WIDTH  # None is ``auto``
    height: float | None = DEFAULT_HEIGHT
    # Distance between two baselines in handwriting sizes, 0 to 5; with None (letters only), lines just do not meet.
    line_spacing: float | None = 1.5
    line_spacing_variance: float = 0.0  # largest relative change of a line spacing, 0 to 1
    word_spacing_variance: float = 0.0  # largest relative change of a gap between words, 0 to 1
    min_padding: float | None = None  # centre the text with at least this margin; None starts at the top left
    # The same positive seed gives the same writing in every format; the service replaces None with a fresh seed.
    random_seed: int | Decimal | None = None
    pen: Pen = "plain"  # "plain" ink has one density
    natural: bool = False  # whether letters, joins and gaps vary as in a person's writing
    paper: Paper = "none"  # "none" is transparent
    corrections: float = 0.0  # share of words that are crossed out, retouched or squeezed, 0 to 1
    margin: Margin | None = None
    align: Align = "top"
    is_letter: bool = False  # whether the text may have several pages
    page_number: int | None = None  # the page of a letter to render, from 1; None means all pages

    @property
    def edges(self) -> Margin:
        """Return the distances of the text from the four edges of the page."""
        return self.margin or Margin(*[self.min_padding or 0.0] * 4)

    @property
    def text_width(self) -> float:
        """Return the width between the margins, in points."""
        return (self.width or 0.0) - self.edges.left - self.edges.right
