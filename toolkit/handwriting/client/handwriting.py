"""What one types in a notebook for section B: ``tk.handwriting``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.calls import COLUMNS, Bounds, HandwritingCalls
from toolkit.handwriting.client.letter import letter
from toolkit.handwriting.client.mail_merge import letters
from toolkit.handwriting.client.picture_sheet import ContactSheet, picture_sheet
from toolkit.handwriting.client.style import Distance, PageStyle, Style
from toolkit.handwriting.client.sweeping import sweep
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Format
from toolkit.http_client import HttpSession
from toolkit.public_names import PublicNames
from toolkit.secret import Secret


@checked_arguments
class HandwritingClient(PublicNames):
    """Handwriting: the available hands, and texts written by them. Use it as ``tk.handwriting``.

    A handwriting is named by its id or its title. Parameters have the names of the specification; None leaves one to
    the service.
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
            Keep what lies between two ratings, both included; None for no bound. 1400 is the average.
        order_by
            ``id``, ``title``, ``date_created``, ``date_modified`` or one of the ratings; equal ratings by title.
        order_dir
            ``asc`` or ``desc``.

        Returns
        -------
        pandas.DataFrame
            Index ``id``; columns ``title``, ``date_created`` and ``date_modified`` (UTC), the four ratings (Int64).

        Raises
        ------
        InvalidParameters
            An order the service does not know.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.available().loc["2D5QW0F80001", "title"]
        'Molly'
        """
        frame = declared_frame(self._calls.listing({"order_by": order_by, "order_dir": order_dir}), COLUMNS, index="id")
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
            There is none of this name; the nearest titles are named.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.hand("Molly").index.tolist()
        ['2D5QW0F80001']
        """
        return declared_frame([self._calls.record(handwriting)], COLUMNS, index="id")

    def png(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as a PNG with transparent paper: ``GET /render/png``.

        A warning says which line is the first that does not fit on the page.

        Parameters
        ----------
        text
            At most 9,000 characters; lines end with a line feed. Straight quotes are written as curly ones.
        handwriting
            Id or title.
        handwriting_size
            Baseline to cap height: ``"20px"``, ``"0.3in"``, ``"8 mm"``; a number is pixels (72 an inch). Default 20.
        handwriting_color
            ``"#rrggbb"``, ``"#rgb"``, a CSS name as ``"navy"``, or four inks (cyan, magenta, yellow, black) from 0 to
            1. Default black.
        width, height
            A distance, or ``"auto"`` for what the text needs. Default 504 x 360 pixels.
        min_padding
            Centre the text, with at least this margin.
        line_spacing
            Pitch of the lines in handwriting sizes, 0 to 5. Default 1.5.
        line_spacing_variance, word_spacing_variance
            Largest relative change of a pitch or a word gap, 0 to 1. Default 0. On rules the pitch is even.
        random_seed
            The same writing every time, in every format; 0 is a seed too. None: each call differs a little.
        pen
            ``plain`` (default), ``ballpoint``, ``gel``, ``fountain``, ``pencil`` or ``felt``. Like the next three, only
            a gateway of this toolkit has it.
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
            Shows itself; ``.save(path, background="white")``, ``.seed`` to have it again, ``.width``, ``.height``,
            ``.ink_share``.

        Raises
        ------
        InvalidArgument
            There is no such handwriting, or a value cannot be; nothing was rendered.
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
        """Write a text as an SVG: ``GET /render/svg``, which only a gateway of this toolkit has. Else as `png`.

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
        """Write a text as an SVG that writes itself: ``GET /render/replay``, only of this toolkit. Else as `png`.

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
        """Put many writings on one picture.

        Parameters
        ----------
        pictures
            What `sweep` returned, or a list of writings.
        columns
            How many side by side.
        labels
            One a picture. None takes what differs between the rows of a sweep, or the titles of the hands.

        Returns
        -------
        ContactSheet
            Shows itself; ``.image``, ``.save(path)``.

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
