"""The client of texts on one page: the list of handwritings, PNG, PDF, SVG and animation."""

from typing import TypeAlias, Unpack

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import warn_caller
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.style import Distance, PageStyle, Style
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import FileKind
from toolkit.http_client import HttpSession
from toolkit.public_api import PublicNames
from toolkit.secret import Secret

#: The smallest and the largest rating; None means no bound.
Bounds: TypeAlias = tuple[float | None, float | None]

_ROW_COLUMNS = {
    "id": "str",
    "title": "str",
    "date_created": "datetime64[us, UTC]",
    "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}


@checked_arguments
class SinglePageClient(PublicNames):
    """The available handwritings, and texts written in them on one page."""

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self._renderer = Renderer(session, apikey)

    def __repr__(self) -> str:
        return f"<Handwriting at {self._renderer.base_url}>"

    def available(
        self,
        *,
        rating_neatness: Bounds | None = None,
        rating_cursivity: Bounds | None = None,
        rating_embellishment: Bounds | None = None,
        rating_character_width: Bounds | None = None,
        order_by: str = "id",
        order_dir: str = "asc",
    ) -> pd.DataFrame:
        """Return the available handwritings: ``GET /handwritings``, repeated until the list is complete.

        Parameters
        ----------
        rating_neatness, rating_cursivity, rating_embellishment, rating_character_width
            The smallest and the largest rating to return, such as ``(1400, None)``; None is no bound. 1400 is the mean.
        order_by
            ``id``, ``title``, ``date_created``, ``date_modified`` or a rating; equal ratings are sorted by title.
        order_dir
            ``asc`` or ``desc``.

        Returns
        -------
        pandas.DataFrame
            Index ``id``; columns ``title``, ``date_created`` and ``date_modified`` (UTC), the four ratings (Int64).

        Raises
        ------
        InvalidParameters
            The service does not know this `order_by` or `order_dir`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.available().loc["2D5QW0F80001", "title"]
        'Molly'
        """
        order = {"order_by": order_by, "order_dir": order_dir}
        frame = declared_frame(self._renderer.listing(order), _ROW_COLUMNS, index="id")
        if order_by in wire.RATINGS:
            by_title = frame.iloc[frame["title"].str.casefold().argsort(kind="stable")]
            frame = by_title.sort_values(order_by, ascending=order_dir == "asc", kind="stable")
        all_bounds = (rating_neatness, rating_cursivity, rating_embellishment, rating_character_width)
        for rating, bounds in zip(wire.RATINGS, all_bounds, strict=True):
            minimum, maximum = bounds or (None, None)
            if minimum is not None:
                frame = frame[frame[rating] >= minimum]
            if maximum is not None:
                frame = frame[frame[rating] <= maximum]
        return frame

    def png(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as a PNG, which is transparent without `paper`: ``GET /render/png``.

        If the text does not fit on the page, a warning names the first line that is cut off.

        Parameters
        ----------
        text
            At most 9,000 characters; lines end with a line feed. Straight quotes are written as curly quotes.
        handwriting
            Id or title.
        handwriting_size
            Height of a capital letter, as ``"20px"`` or ``"8 mm"``; a number is pixels (72 per inch). Default 20.
        handwriting_color
            ``"#rrggbb"``, ``"#rgb"``, a CSS name such as ``"navy"``, or four inks (cyan, magenta, yellow, black) from
            0 to 1. Default black.
        width, height
            A distance, or ``"auto"`` for the size that the text needs. Default 504 x 360 pixels.
        min_padding
            Centre the text, with at least this distance to all edges; not together with `margin` or `align`.
        line_spacing
            Distance between two baselines as a multiple of `handwriting_size`, 0 to 5. Default 1.5.
        line_spacing_variance, word_spacing_variance
            Largest relative change of a line spacing or word gap: 0.1 is up to 10 % more or less. 0 to 1, default 0. On
            ``ruled`` and ``grid`` paper, the line spacing does not change.
        random_seed
            The same seed gives the same writing in every kind of file; 0 is a seed too. None: each call differs.
        pen
            ``plain`` (default), ``ballpoint``, ``gel``, ``fountain``, ``pencil`` or ``felt``. Only gateways of this
            toolkit know `pen`, `natural`, `paper`, `missing`, `margin` and `align`.
        natural
            Vary what a person varies: forms of letters, joins, gaps, margins and the slope of lines. Default False:
            each letter has one form, and lines are almost straight.
        paper
            ``none`` (default, transparent), ``blank``, ``ruled``, ``grid`` or ``kraft``, as a scanner shows it.
        missing
            What happens to characters that no hand has: ``"error"`` (default), ``"replace"`` by a question mark, or
            ``"skip"``.
        margin
            One distance, or four: top, right, bottom, left. The text begins at the margins.
        align
            ``"top"`` (default) or ``"middle"``, between top and bottom.

        Returns
        -------
        Handwritten
            A notebook shows the picture; ``.save(path, background="white")``, ``.seed`` to get the same writing again,
            ``.width``, ``.height``, ``.ink_share``.

        Raises
        ------
        InvalidArgument
            There is no such handwriting, or a value has a wrong type; nothing was rendered.
        InvalidParameters
            The service refused a value; the message names every problem.
        Overloaded
            Too many texts wait to be rendered; try again after ``retry_after`` seconds.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.png("Hello", "Molly", height="auto", random_seed=7).lines
        1
        """
        return self._render_and_warn(text, handwriting, "png", style)

    def pdf(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as a PDF whose words can be searched: ``GET /render/pdf``.

        Parameters, result and errors are as in `png`. Lengths may be up to 100 inches, and four inks stay CMYK in the
        file.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.pdf("Hello", "Molly", handwriting_color=(1, 0.5, 0, 0.2)).data[:5]
        b'%PDF-'
        """
        return self._render_and_warn(text, handwriting, "pdf", style)

    def svg(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as an SVG: ``GET /render/svg``, only on gateways of this toolkit. For the rest, see `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.svg("Hello", "Molly").data[:4]
        b'<svg'
        """
        return self._render_and_warn(text, handwriting, "svg", style)

    def animation(
        self, text: str, handwriting: str, *, height: Distance | None = "auto", **style: Unpack[PageStyle]
    ) -> Handwritten:
        """Write a text as an animated SVG: ``GET /render/replay``, only on gateways of this toolkit. See `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     b"animation" in tk.handwriting.animation("Hello", "Molly").data
        True
        """
        return self._render_and_warn(text, handwriting, "replay", {**style, "height": height})

    def _render_and_warn(self, text: str, handwriting: str, kind: FileKind, style: Style) -> Handwritten:
        rendering = self._renderer.render(text, handwriting, kind, style)
        if rendering.overflow:
            where = f", from the line {rendering.cut!r} on" if rendering.cut else ""
            warn_caller(f"the text does not fit, and some ink was cut off{where}: use height='auto', or letter()")
        if rendering.missing:
            warn_caller(f"no hand has these characters of the text: {rendering.missing}")
        return rendering
