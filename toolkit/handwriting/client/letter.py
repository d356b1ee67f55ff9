"""`HandwritingClient.letter`: a text on as many pages as it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.handwriting.client.style import Distance, InkStyle, Margin, Page, Style
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Align

if TYPE_CHECKING:
    from toolkit.handwriting.client.handwriting import HandwritingClient

LETTER_SIZE = 12  # points from baseline to cap height
_SHOWN_DPI = 96


@checked_arguments
@dataclass(frozen=True)
class Letter:
    """A letter of one or more pages. A notebook shows the first page.

    Attributes
    ----------
    pdf : Handwritten
        All pages in one file whose words can be searched.
    """

    pdf: Handwritten
    draw: Callable[[int, float], Handwritten] = field(repr=False, compare=False)

    @property
    def pages(self) -> int:
        """The number of pages."""
        return self.pdf.pages

    @property
    def seed(self) -> int | Decimal | None:
        """Pass it as `random_seed` to render the same letter again."""
        return self.pdf.seed

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the PDF and return its path."""
        return self.pdf.save(path)

    def picture(self, page: int = 1, *, dpi: float = 144) -> Handwritten:
        """Return one page as a PNG of at most 9000 pixels a side; the first `page` is 1, `dpi` is pixels per inch."""
        if not 1 <= page <= self.pages:
            raise InvalidArgument(f"page is between 1 and {self.pages}, not {page}")
        return self.draw(page, dpi)

    def save_pictures(
        self, folder: str | os.PathLike[str], *, dpi: float = 144, background: str | None = None
    ) -> list[Path]:
        """Write each page as ``page-1.png``, ``page-2.png``, ... into a folder, and return the paths.

        Without a `background` (a CSS colour) the pictures are transparent.
        """
        target = absolute_path(folder)
        target.mkdir(parents=True, exist_ok=True)
        numbers = range(1, self.pages + 1)
        return [self.picture(n, dpi=dpi).save(target / f"page-{n}.png", background=background) for n in numbers]

    def __repr__(self) -> str:
        size = f"{self.pdf.width:g} x {self.pdf.height:g}"
        shown = f"{counted(self.pages, 'page')} of {size}, {counted(self.pdf.lines or 0, 'line')}, seed {self.seed}"
        return f"<Letter by {self.pdf.handwriting}, {shown}>"

    def _repr_mimebundle_(self, **given: object) -> dict[str, Any]:
        return {**self.pdf._repr_mimebundle_(**given), "text/plain": repr(self)}


def letter(
    self: HandwritingClient,
    text: str,
    hand: str,
    *,
    page: Page = "A4",
    margin: Margin = "2cm",
    align: Align | None = None,
    handwriting_size: Distance = LETTER_SIZE,
    **ink: Unpack[InkStyle],
) -> Letter:
    r"""Write a letter on as many pages as it needs: ``POST /render/letter/pdf``, only of this toolkit.

    Parameters
    ----------
    text
        At most 60,000 characters; lines end with a line feed.
    hand
        Id or title.
    page
        ``"A3"`` to ``"A6"``, ``"Letter"``, ``"Legal"`` or (width, height).
    margin
        One distance, or four: top, right, bottom, left.
    align
        ``"top"`` (default) or ``"middle"``, on each page.
    handwriting_size
        Baseline to cap height; a number is points.
    line_spacing
        Distance between two baselines in handwriting sizes. If None, the lines of the hand just do not collide.
    natural
        Vary as a person does (default); False for the regular writing of `png`.
    handwriting_color, line_spacing_variance, word_spacing_variance, random_seed, pen, paper, corrections
        As in `png`; here `line_spacing_variance` only increases the distance of the lines.

    Returns
    -------
    Letter
        Methods and attributes: ``.save("letter.pdf")``, ``.save_pictures(folder)``, ``.picture(page)``, ``.pages``.

    Raises
    ------
    InvalidArgument
        There is no such hand or page size, a distance is not valid, or the text is too long; nothing was rendered.
    InvalidParameters
        The service refused, for example because the margins leave no room; the message names every problem.
    Overloaded
        Too many texts wait to be rendered; try again after ``retry_after`` seconds.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk:
    ...     tk.handwriting.letter("Dear Ada,\nhello", "Molly", page="A5", random_seed=7)
    <Letter by Molly, 1 page of 419.53 x 595.28, 2 lines, seed 7>
    """
    page_style = {"page": page, "margin": margin, "align": align, "handwriting_size": handwriting_size}
    style = cast("Style", {"natural": True, **ink, **page_style})
    done = self._letter_file(text, hand, "pdf", style)
    again: Style = {**style, "random_seed": done.seed}

    def draw(number: int, dpi: float) -> Handwritten:
        return self._letter_file(text, hand, "png", again, page_number=number, dpi=dpi)

    if done.overflow:
        warn_caller(f"some ink was cut off, from the line {done.cut!r} on: use smaller letters, or a larger page")
    return Letter(replace(done, preview=lambda: draw(1, _SHOWN_DPI).data), draw)
