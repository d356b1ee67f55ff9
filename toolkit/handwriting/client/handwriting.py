"""What one types in a notebook for section B: ``tk.handwriting``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument
from toolkit.handwriting import wire
from toolkit.handwriting.client.hands_on_offer import Bounds, Record, id_of, listing_frame, rated_within, records_of
from toolkit.handwriting.client.picture_sheet import ContactSheet, picture_sheet
from toolkit.handwriting.client.style import Distance, Ink, Style
from toolkit.handwriting.client.sweeping import Few, swept
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Format
from toolkit.http_client import HttpReply, HttpSession, Value
from toolkit.public_names import PublicNames
from toolkit.secret import Secret


@checked_arguments
class HandwritingClient(PublicNames):
    """Handwriting: the available hands, and texts written by them. Use it as ``tk.handwriting``.

    A handwriting is named by its id or its title. Parameters have the names of the specification; None leaves one to
    the service.
    """

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self._session = session
        self._apikey = apikey

    def __repr__(self) -> str:
        return f"<Handwriting at {self._session.base_url}>"

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
        frame = listing_frame(self._listing({"order_by": order_by, "order_dir": order_dir}))
        if order_by in wire.RATINGS:
            titles = frame["title"].str.casefold()
            frame = frame.iloc[titles.argsort(kind="stable")]
            frame = frame.sort_values(order_by, ascending=order_dir == "asc", kind="stable")
        given = (rating_neatness, rating_cursivity, rating_embellishment, rating_character_width)
        return rated_within(frame, dict(zip(wire.RATINGS, given, strict=True)))

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
        values = {"id": id_of(handwriting, self._titles)}
        return listing_frame([records_of(self._call(wire.RECORD, values).body, Record)])

    def png(
        self,
        text: str,
        handwriting: str,
        *,
        handwriting_size: Distance | None = None,
        handwriting_color: Ink | None = None,
        width: Distance | None = None,
        height: Distance | None = None,
        min_padding: Distance | None = None,
        line_spacing: float | None = None,
        line_spacing_variance: float | None = None,
        word_spacing_variance: float | None = None,
        random_seed: int | Decimal | None = None,
    ) -> Handwritten:
        """Write a text as a PNG with transparent paper: ``GET /render/png``.

        Parameters
        ----------
        text
            At most 9,000 characters; lines end with a line feed. Straight quotes are written as curly ones.
        handwriting
            Id or title.
        handwriting_size
            Baseline to cap height: ``"20px"``, ``"0.3in"``, ``"8 mm"``; a number is pixels (72 an inch). Default 20.
        handwriting_color
            ``"#rrggbb"``, or four inks (cyan, magenta, yellow, black) from 0 to 1. Default black.
        width, height
            A distance, or ``"auto"`` for what the text needs. Default 504 x 360 pixels.
        min_padding
            Centre the text, with at least this margin.
        line_spacing
            Pitch of the lines in handwriting sizes, 0 to 5. Default 1.5.
        line_spacing_variance, word_spacing_variance
            Largest relative change of a pitch or a word gap, 0 to 1. Default 0.
        random_seed
            The same writing every time, in every format; 0 is a seed too. None: each call differs a little.

        Returns
        -------
        Handwritten
            Shows itself; ``.save(path)``, ``.seed`` to have it again, ``.width``, ``.height``, ``.ink_share``.

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
        style = Style(
            handwriting_size, handwriting_color, width, height, min_padding,
            line_spacing, line_spacing_variance, word_spacing_variance, random_seed,
        )  # fmt: skip
        return self.rendered(text, handwriting, "png", style)

    def pdf(
        self,
        text: str,
        handwriting: str,
        *,
        handwriting_size: Distance | None = None,
        handwriting_color: Ink | None = None,
        width: Distance | None = None,
        height: Distance | None = None,
        min_padding: Distance | None = None,
        line_spacing: float | None = None,
        line_spacing_variance: float | None = None,
        word_spacing_variance: float | None = None,
        random_seed: int | Decimal | None = None,
    ) -> Handwritten:
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
        style = Style(
            handwriting_size, handwriting_color, width, height, min_padding,
            line_spacing, line_spacing_variance, word_spacing_variance, random_seed,
        )  # fmt: skip
        return self.rendered(text, handwriting, "pdf", style)

    def svg(
        self,
        text: str,
        handwriting: str,
        *,
        handwriting_size: Distance | None = None,
        handwriting_color: Ink | None = None,
        width: Distance | None = None,
        height: Distance | None = None,
        min_padding: Distance | None = None,
        line_spacing: float | None = None,
        line_spacing_variance: float | None = None,
        word_spacing_variance: float | None = None,
        random_seed: int | Decimal | None = None,
    ) -> Handwritten:
        """Write a text as an SVG: ``GET /render/svg``, which only a gateway of this toolkit has. Else as `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.svg("Hello", "Molly").data[:4]
        b'<svg'
        """
        style = Style(
            handwriting_size, handwriting_color, width, height, min_padding,
            line_spacing, line_spacing_variance, word_spacing_variance, random_seed,
        )  # fmt: skip
        return self.rendered(text, handwriting, "svg", style)

    def animation(
        self,
        text: str,
        handwriting: str,
        *,
        handwriting_size: Distance | None = None,
        handwriting_color: Ink | None = None,
        width: Distance | None = None,
        height: Distance | None = "auto",
        min_padding: Distance | None = None,
        line_spacing: float | None = None,
        random_seed: int | Decimal | None = None,
    ) -> Handwritten:
        """Write a text as an SVG that writes itself: ``GET /render/replay``, only of this toolkit. Else as `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     b"animation" in tk.handwriting.animation("Hello", "Molly").data
        True
        """
        style = Style(
            handwriting_size, handwriting_color, width, height, min_padding, line_spacing, random_seed=random_seed
        )
        return self.rendered(text, handwriting, "replay", style)

    def sweep(
        self,
        text: str,
        handwriting: Few[str],
        *,
        kind: Format = "png",
        handwriting_size: Few[Distance] | None = None,
        handwriting_color: Few[str] | None = None,
        width: Few[Distance] | None = None,
        height: Few[Distance] | None = "auto",
        min_padding: Few[Distance] | None = None,
        line_spacing: Few[float] | None = None,
        line_spacing_variance: Few[float] | None = None,
        word_spacing_variance: Few[float] | None = None,
        random_seed: Few[int] | None = None,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Write a text once for each combination of parameters.

        Parameters
        ----------
        text, handwriting, ...
            As in `png`; each may be a list, and the last list changes fastest.
        progress
            Show a bar where there are more than 20 combinations.

        Returns
        -------
        pandas.DataFrame
            One row a combination: ``handwriting``, a column for each parameter given as a list, then ``thumbnail``
            (`Handwritten`), ``ms``, ``width``, ``height``, ``lines``, ``ink_share``, ``seed``.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.sweep("Hello", "Molly", line_spacing=[1, 2], random_seed=7)["height"].tolist()
        [38.0, 60.0]
        """
        lists = {
            "handwriting_size": handwriting_size, "handwriting_color": handwriting_color, "width": width,
            "height": height, "min_padding": min_padding, "line_spacing": line_spacing,
            "line_spacing_variance": line_spacing_variance, "word_spacing_variance": word_spacing_variance,
            "random_seed": random_seed,
        }  # fmt: skip
        return swept(lambda name, style: self.rendered(text, name, kind, style), handwriting, lists, progress)

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

    def rendered(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text in the format `kind`; see `png` for the result and the errors."""
        if len(text) > wire.MAX_TEXT:
            raise InvalidArgument(wire.TEXT_TOO_LONG)
        handwriting_id = id_of(handwriting, self._titles)
        if text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text:
            raise InvalidArgument(wire.TEXT_NOT_UTF8)
        query = {"handwriting_id": handwriting_id, "text": text, **style.query(kind)}
        began = time.perf_counter()
        reply = self._call(wire.RENDER[kind], query=query)
        milliseconds = (time.perf_counter() - began) * 1000
        done = Handwritten.from_response(reply.body, reply.headers, kind, self._titles[handwriting_id], milliseconds)
        if kind == "png":
            return done
        again = replace(style, random_seed=done.seed)
        return replace(done, preview=lambda: self.rendered(text, handwriting_id, "png", again).data)

    def _listing(self, query: Mapping[str, Value | None]) -> list[Record]:
        """Return the records of all pages; the last one is empty, or has nothing new."""
        records: dict[str, Record] = {}
        while True:
            page = {**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(records))}
            listed = records_of(self._call(wire.LISTING, query=page).body, list[Record])
            new = {record["id"]: record for record in listed}
            if new.keys() <= records.keys():
                return list(records.values())
            records |= new

    @cached_property
    def _titles(self) -> dict[str, str]:
        return {record["id"]: record["title"] for record in self._listing({})}

    def _call(
        self,
        endpoint: Endpoint,
        values: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, Value | None] | None = None,
    ) -> HttpReply:
        full: dict[str, Value | None] = {"apikey": self._apikey, **(query or {})}
        reply = self._session.call(endpoint, values or {}, query=full)
        if reply.status != 200:
            request = f"{endpoint.method} {endpoint.path_for(**(values or {}))}"
            raise wire.error_of(reply.status, reply.headers, reply.body, request=request)
        return reply
