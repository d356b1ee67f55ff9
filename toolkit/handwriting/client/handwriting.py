"""The client of handwriting (section B): ``tk.handwriting``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.calls import ROW_COLUMNS, Bounds, HandwritingCalls
from toolkit.handwriting.client.letter import letter
from toolkit.handwriting.client.mail_merge import letters
from toolkit.handwriting.client.style import Distance, PageStyle, Style
from toolkit.handwriting.client.sweeping import ContactSheet, picture_sheet, sweep
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Format
from toolkit.http_client import HttpSession
from toolkit.public_names import PublicNames
from toolkit.secret import Secret


@checked_arguments
class HandwritingClient(PublicNames):
    """Handwriting: the available hands, and texts written by them. Use it as ``tk.handwriting``.

    To name a handwriting, give the id or the title. Parameters have the names of the specification; None means the
    default of the service.
    """

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self._calls = HandwritingCalls(session, apikey)

    def __repr__(self) -> str:
        return f"<Handwriting at {self._calls.base_url}>"

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
        """Return the available handwritings: ``GET /handwritings``, all pages.

        Parameters
        ----------
        rating_neatness, rating_cursivity, rating_embellishment, rating_character_width
            The smallest and largest rating of the handwritings to return; None for no bound. 1400 is the average.
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
            The service does not know this order.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.available().loc["2D5QW0F80001", "title"]
        'Molly'
        """
        order = {"order_by": order_by, "order_dir": order_dir}
        frame = declared_frame(self._calls.listing(order), ROW_COLUMNS, index="id")
        if order_by in wire.RATINGS:
            titled = frame.iloc[frame["title"].str.casefold().argsort(kind="stable")]
            frame = titled.sort_values(order_by, ascending=order_dir == "asc", kind="stable")
        given = (rating_neatness, rating_cursivity, rating_embellishment, rating_character_width)
        for rating, bounds in zip(wire.RATINGS, given, strict=True):
            least, most = bounds or (None, None)
            if least is not None:
                frame = frame[frame[rating] >= least]
            if most is not None:
                frame = frame[frame[rating] <= most]
        return frame

    def hand(self, handwriting: str) -> pd.DataFrame:
        """Return one handwriting: ``GET /handwritings/{id}``.

        Returns
        -------
        pandas.DataFrame
            One row as in `available`.

        Raises
        ------
        InvalidArgument
            No handwriting has this id or title; the message names the nearest titles.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.hand("Molly").index.tolist()
        ['2D5QW0F80001']
        """
        return declared_frame([self._calls.record(handwriting)], ROW_COLUMNS, index="id")

    def png(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as a PNG with transparent paper: ``GET /render/png``.

        If the text does not fit on the page, a warning names the first line that is cut off.

        Parameters
        ----------
        text
            At most 9,000 characters; lines end with a line feed. Straight quotes are written as curly quotes.
        handwriting
            Id or title.
        handwriting_size
            Baseline to cap height: ``"20px"``, ``"0.3in"``, ``"8 mm"``; a number is pixels (72 an inch). Default 20.
        handwriting_color
            ``"#rrggbb"``, ``"#rgb"``, a CSS name as ``"navy"``, or four inks (cyan, magenta, yellow, black) from 0 to
            1. Default black.
        width, height
            A distance, or ``"auto"`` for the size that the text needs. Default 504 x 360 pixels.
        min_padding
            Centre the text, with at least this margin.
        line_spacing
            Distance between two baselines in handwriting sizes, 0 to 5. Default 1.5.
        line_spacing_variance, word_spacing_variance
            Largest relative change of a line spacing or word gap, 0 to 1. Default 0. Ruled paper has even lines.
        random_seed
            The same seed gives the same writing in every format; 0 is a seed too. None: each call differs a little.
        pen
            ``plain`` (default), ``ballpoint``, ``gel``, ``fountain``, ``pencil`` or ``felt``. Only gateways of this
            toolkit know `pen`, `natural`, `paper` and `corrections`.
        natural
            Vary what a person varies: forms of letters, joins, gaps, margins and the slope of lines. The text still
            stays on the page. Default False: letters keep their form and lines are straight.
        paper
            ``none`` (default, transparent), ``blank``, ``ruled``, ``grid`` or ``kraft``, as a scanner shows it.
        corrections
            Share of words that are crossed out, retouched or squeezed, 0 to 1. Default 0.
        page
            ``"A3"`` to ``"A6"``, ``"Letter"``, ``"Legal"`` or (width, height), instead of `width` and `height`.
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
            There is no such handwriting, or a value is not allowed; nothing was rendered.
        InvalidParameters
            The service refused; the message names every problem.
        Overloaded
            Too many texts wait to be rendered; try again after ``retry_after`` seconds.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.png("Hello", "Molly", height="auto", random_seed=7).lines
        1
        """
        return self._calls.written(text, handwriting, "png", style)

    def pdf(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as a PDF whose words can be searched: ``GET /render/pdf``.

        Parameters, result and errors as in `png`; sizes may be up to 100 inches, four inks stay CMYK in the file, and
        the default is 7 x 5 inches.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.pdf("Hello", "Molly", handwriting_color=(1, 0.5, 0, 0.2)).data[:5]
        b'%PDF-'
        """
        return self._calls.written(text, handwriting, "pdf", style)

    def svg(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as an SVG: ``GET /render/svg``, only of this toolkit. Parameters and result as in `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.svg("Hello", "Molly").data[:4]
        b'<svg'
        """
        return self._calls.written(text, handwriting, "svg", style)

    def animation(
        self, text: str, handwriting: str, *, height: Distance | None = "auto", **style: Unpack[PageStyle]
    ) -> Handwritten:
        """Write a text as an SVG animation of the writing pen: ``GET /render/replay``, only of this toolkit. See `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     b"animation" in tk.handwriting.animation("Hello", "Molly").data
        True
        """
        full: Style = {**style, "height": None if style.get("page") is not None and height == "auto" else height}
        return self._calls.written(text, handwriting, "replay", full)

    def contact_sheet(
        self, pictures: pd.DataFrame | Sequence[Handwritten], *, columns: int = 2, labels: Sequence[str] | None = None
    ) -> ContactSheet:
        """Put many renderings on one picture.

        Parameters
        ----------
        pictures
            The frame that `sweep` returned, or a list of renderings.
        columns
            Number of renderings side by side.
        labels
            One label per rendering. If None, the parameters that differ within the sweep, or the titles of the hands.

        Returns
        -------
        ContactSheet
            A notebook shows the picture; ``.image``, ``.save(path)``.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     notes = tk.handwriting.sweep("Hello", ["Molly", "Perry"], width=200, random_seed=7)
        ...     tk.handwriting.contact_sheet(notes).image.width
        448
        """
        return picture_sheet(pictures, columns, labels)

    letter, letters, sweep = letter, letters, sweep

    def rendered(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text in the format `kind`; see `png` for the result and the errors."""
        return self._calls.rendered(text, handwriting, kind, style)
