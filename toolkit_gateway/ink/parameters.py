"""The parsed parameters of one rendering, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

import msgspec

from toolkit.handwriting.wire import MAX_PIXELS, Align, FileKind, Missing, Paper, Pen
from toolkit_gateway.ink.catalogue import Handwriting

DEFAULT_WIDTH, DEFAULT_HEIGHT = 504.0, 360.0
_PIXEL_LIMIT = (float(MAX_PIXELS), f"{MAX_PIXELS}px")
#: The longest side, size or margin for each kind of file: in points, and as text for error messages.
LENGTH_LIMITS: dict[FileKind, tuple[float, str]] = {
    "png": _PIXEL_LIMIT, "pdf": (7200.0, "100in"), "svg": _PIXEL_LIMIT, "replay": _PIXEL_LIMIT
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
    """The parameters of a rendering. Lengths are in points unless a comment says otherwise; a pixel is a point."""

    # repr() omits these two, because `etag_of` hashes the handwriting's id and the kind together with repr().
    handwriting: Handwriting = field(repr=False)
    kind: FileKind = field(repr=False)
    text: str  # without control characters, except tab, LF and CR
    handwriting_size: float = 20.0  # from the baseline to the top of a capital letter
    handwriting_color: RGB | CMYK = field(default=RGB(0, 0, 0))
    width: float | None = DEFAULT_WIDTH  # None is ``auto``
    height: float | None = DEFAULT_HEIGHT
    # From baseline to baseline, in handwriting sizes, 0 to 5. None (only if is_multipage): 1.5, or more if lines touch.
    line_spacing: float | None = 1.5
    line_spacing_variance: float = 0.0  # largest relative change of a line spacing, 0 to 1
    word_spacing_variance: float = 0.0  # largest relative change of a gap between words, 0 to 1
    min_padding: float | None = None  # centre the text with at least this margin; None starts at the top left
    # The same positive seed gives the same writing in every kind of file; the service replaces None with a random seed.
    random_seed: int | Decimal | None = None
    pen: Pen = "plain"  # "plain" ink has one density
    natural: bool = False  # whether letters, joins and gaps vary as in a person's writing
    paper: Paper = "none"  # "none" is transparent
    missing: Missing = "error"  # what happens to characters that no hand has
    margin: Margin | None = None
    align: Align = "top"  # of the text between the top and the bottom of the page
    is_multipage: bool = False  # whether a text that is too long for one page continues on further pages
    page_number: int | None = None  # the page to render, from 1; None means all pages

    @property
    def effective_margin(self) -> Margin:
        """Return `margin`, or else `min_padding` (None is 0) on all sides."""
        return self.margin or Margin(*[self.min_padding or 0.0] * 4)

    @property
    def text_width(self) -> float:
        """Return the width between the margins, in points."""
        return (self.width or 0.0) - self.effective_margin.left - self.effective_margin.right


class Rendering(msgspec.Struct, frozen=True):
    """A finished file; see `toolkit.handwriting.handwritten.Handwritten`, which a client makes of it."""

    kind: FileKind
    data: bytes
    seed: str
    width: float
    height: float
    lines: int
    ink_share: float
    overflow: bool
    cut: str
    pages: int
    missing: str
