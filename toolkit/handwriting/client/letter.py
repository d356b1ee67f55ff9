"""`Letter`: a text on as many pages as it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.errors import InvalidArgument, counted
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.style import Distance, InkStyle, LetterStyle, Margin, Page
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Align

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


def write_letter(renderer: Renderer, text: str, hand: str, style: LetterStyle) -> Letter:
    """Write a letter; see `HandwritingClient.letter`."""
    pdf = renderer.render_letter(text, hand, "pdf", style)
    seeded: LetterStyle = {**style, "random_seed": pdf.seed}

    def render_page(number: int, dpi: float) -> Handwritten:
        return renderer.render_letter(text, hand, "png", seeded, page_number=number, dpi=dpi)

    return Letter(replace(pdf, preview=lambda: render_page(1, _PREVIEW_DPI).data), render_page)


def letter_style(
    ink: InkStyle, page: Page, margin: Margin, align: Align | None, handwriting_size: Distance
) -> LetterStyle:
    """Return the parameters of a letter, which is natural unless `ink` says False."""
    natural = True if ink.get("natural") is None else ink["natural"]
    placed = LetterStyle(page=page, margin=margin, align=align, handwriting_size=handwriting_size)
    return {**placed, **ink, "natural": natural}
