"""`HandwritingClient.letter`: a text on as many pages as it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.handwriting.client.style import Distance, InkStyle, Margin, Page, Style
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Align

if TYPE_CHECKING:
    from toolkit.handwriting.client.handwriting import HandwritingClient

LETTER_HANDWRITING_SIZE = 12  # points from the baseline to the top of a capital letter
_PREVIEW_DPI = 96


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
    render_page: Callable[[int, float], Handwritten] = field(repr=False, compare=False)  # page number, dpi

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
        """Return one page (the first is 1) as a PNG with `dpi` pixels per inch, and at most 9000 pixels per side."""
        if not 1 <= page <= self.pages:
            raise InvalidArgument(f"page is between 1 and {self.pages}, not {page}")
        return self.render_page(page, dpi)

    def save_pictures(
        self, folder: str | os.PathLike[str], *, dpi: float = 144, background: str | None = None
    ) -> list[Path]:
        """Write each page as ``page-1.png``, ``page-2.png``, ... into a folder, and return the paths.

        `background` is a CSS colour; without it and without `paper`, the pictures are transparent.
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


def letter_style(ink: InkStyle, page: Page, margin: Margin, align: Align | None, handwriting_size: Distance) -> Style:
    """Return the parameters of a letter, which is natural unless `ink` says False."""
    natural = True if ink.get("natural") is None else ink["natural"]
    style: Style = {"page": page, "margin": margin, "align": align, "handwriting_size": handwriting_size}
    return {**style, **ink, "natural": natural}


def letter(
    self: HandwritingClient,
    text: str,
    hand: str,
    *,
    page: Page = "A4",
    margin: Margin = "2cm",
    align: Align | None = None,
    handwriting_size: Distance = LETTER_HANDWRITING_SIZE,
    **ink: Unpack[InkStyle],
) -> Letter:
    r"""Write a letter on as many pages as it needs: ``POST /render/letter/pdf``, only on gateways of this toolkit.

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
        Height of a capital letter; a number is points.
    line_spacing
        Distance between two baselines as a multiple of `handwriting_size`. None: 1.5, or more if lines would touch.
    natural
        True (default): vary as a person does. False: the regular writing that is the default of `png`.
    handwriting_color, line_spacing_variance, word_spacing_variance, random_seed, pen, paper
        As in `png`, but `line_spacing_variance` only increases line spacings.

    Returns
    -------
    Letter
        Methods and attributes: ``.save("letter.pdf")``, ``.save_pictures(folder)``, ``.picture(page)``, ``.pages``.

    Raises
    ------
    InvalidArgument
        There is no such hand or page size, a distance is not valid, or the text is too long; nothing was rendered.
    InvalidParameters
        The service refused a value, such as margins that leave no room; the message names every problem.
    Overloaded
        Too many texts wait to be rendered; try again after ``retry_after`` seconds.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk:
    ...     tk.handwriting.letter("Dear Ada,\nhello", "Molly", page="A5", random_seed=7)
    <Letter by Molly, 1 page of 419.53 x 595.28, 2 lines, seed 7>
    """
    style = letter_style(ink, page, margin, align, handwriting_size)
    pdf = self._render_letter(text, hand, "pdf", style)
    seeded: Style = {**style, "random_seed": pdf.seed}

    def render_page(number: int, dpi: float) -> Handwritten:
        return self._render_letter(text, hand, "png", seeded, page_number=number, dpi=dpi)

    if pdf.overflow:
        warn_caller(f"some ink was cut off, from the line {pdf.cut!r} on: use smaller letters, or a larger page")
    return Letter(replace(pdf, preview=lambda: render_page(1, _PREVIEW_DPI).data), render_page)
