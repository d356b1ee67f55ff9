"""The parameters of one rendering, parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from toolkit.handwriting.catalogue import Handwriting

Format: TypeAlias = Literal["png", "pdf", "svg", "replay"]

POINTS_IN_AN_INCH = 72.0
DEFAULT_WIDTH, DEFAULT_HEIGHT = 504.0, 360.0
LONGEST: dict[str, tuple[float, str]] = {
    "png": (9000.0, "9000px"),
    "pdf": (100 * POINTS_IN_AN_INCH, "100in"),
    "svg": (9000.0, "9000px"),
    "replay": (9000.0, "9000px"),
}


@dataclass(frozen=True, slots=True)
class RGB:
    """Ink as red, green, blue, 0..255 each."""

    red: int
    green: int
    blue: int

    def rgb(self) -> tuple[int, int, int]:
        """Return the three channels, 0..255."""
        return self.red, self.green, self.blue


@dataclass(frozen=True, slots=True)
class CMYK:
    """Ink as cyan, magenta, yellow, black, 0..1 each."""

    cyan: float
    magenta: float
    yellow: float
    black: float

    def rgb(self) -> tuple[int, int, int]:
        """Return the ink as red, green, blue, 0..255: 255 (1 - C) (1 - K) and so on.

        Examples
        --------
        >>> CMYK(1, 0.5, 0, 0.2).rgb()
        (0, 102, 204)
        """
        c, m, y = (int(255 * (1 - ink) * (1 - self.black) + 0.5) for ink in (self.cyan, self.magenta, self.yellow))
        return c, m, y


@dataclass(frozen=True, slots=True)
class Parameters:
    """One rendering: the handwriting, the format and everything that a request may set.

    Lengths are in points, 72 to the inch; a pixel is a point.

    Attributes
    ----------
    handwriting : Handwriting
        From the catalogue.
    kind : {"png", "pdf", "svg", "replay"}
        The format; a replay is an SVG that writes itself.
    text : str
        What to write; tab, LF, CR and CRLF are the only control characters.
    handwriting_size : float
        Baseline to cap height.
    handwriting_color : RGB or CMYK
        The ink.
    width, height : float or None
        Size of the page; None is ``auto``.
    line_spacing : float
        Pitch of the lines in handwriting sizes, 0..5.
    line_spacing_variance, word_spacing_variance : float
        Largest relative change of a pitch or a word gap, 0..1.
    min_padding : float or None
        Centre the text with at least this margin; None leaves it at the top left.
    random_seed : int, Decimal or None
        The same positive seed gives the same writing in every format. The service replaces None with a fresh seed.

    Examples
    --------
    >>> from toolkit.handwriting.catalogue import catalogue
    >>> Parameters(catalogue().by_title("Molly"), "png", "Hello", height=None).handwriting_size
    20.0
    """

    # Left out of repr(), from which the ETag is made: it names them itself.
    handwriting: Handwriting = field(repr=False)
    kind: Format = field(repr=False)
    text: str
    handwriting_size: float = 20.0
    handwriting_color: RGB | CMYK = field(default=RGB(0, 0, 0))
    width: float | None = DEFAULT_WIDTH
    height: float | None = DEFAULT_HEIGHT
    line_spacing: float = 1.5
    line_spacing_variance: float = 0.0
    word_spacing_variance: float = 0.0
    min_padding: float | None = None
    random_seed: int | Decimal | None = None
