"""`Letter`: a text on as many pages as it needs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, counted
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.style import PageStyle
from toolkit.handwriting.handwritten import Handwritten

_PREVIEW_DPI = 96


@checked_arguments
@dataclass(frozen=True, repr=False)
class Letter(Handwritten):
    """A letter: a PDF of one or more pages, whose words can be searched. A notebook shows the first page."""

    render_page: Callable[[int, float], Handwritten] = field(kw_only=True, compare=False)  # page number, dpi

    def picture(self, page: int = 1, *, dpi: float = 144) -> Handwritten:
        """Return one page (the first is 1) as a PNG with `dpi` pixels per inch, and at most 9000 pixels per side."""
        if not 1 <= page <= self.pages:
            raise InvalidArgument(f"page is between 1 and {self.pages}, not {page}")
        return self.render_page(page, dpi)

    def __repr__(self) -> str:
        size = f"{self.width:g} x {self.height:g}"
        shown = f"{counted(self.pages, 'page')} of {size}, {counted(self.lines or 0, 'line')}, seed {self.seed}"
        return f"<Letter by {self.handwriting}, {shown}>"


def write_letter(renderer: Renderer, text: str, hand: str, style: PageStyle) -> Letter:
    """Write a letter; see `HandwritingClient.letter`."""
    pdf = renderer.render_letter(text, hand, "pdf", style)
    seeded: PageStyle = {**style, "random_seed": pdf.seed}

    def render_page(number: int, dpi: float) -> Handwritten:
        return renderer.render_letter(text, hand, "png", seeded, page_number=number, dpi=dpi)

    return Letter(**{**vars(pdf), "preview": lambda: render_page(1, _PREVIEW_DPI).data}, render_page=render_page)
