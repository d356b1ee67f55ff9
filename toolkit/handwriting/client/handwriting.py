"""The client of handwriting (section B): ``tk.handwriting``."""

import difflib
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import NotRequired, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, UnexpectedReply, warn_caller
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.letter import letter
from toolkit.handwriting.client.mail_merge import letters
from toolkit.handwriting.client.style import Distance, PageStyle, Style, query_of, scale_query
from toolkit.handwriting.client.sweeping import contact_sheet, sweep
from toolkit.handwriting.handwritten import Handwritten, set_resolution
from toolkit.handwriting.wire import FileKind
from toolkit.http_client import HttpReply, HttpSession, StrOrSecret
from toolkit.public_names import PublicNames
from toolkit.secret import Secret

#: The smallest and the largest rating; None means no bound.
Bounds: TypeAlias = tuple[float | None, float | None]
Query: TypeAlias = Mapping[str, StrOrSecret | None]
Json: TypeAlias = Mapping[str, object]  # the JSON object in the body of a request

_ROW_COLUMNS = {
    "id": "str",
    "title": "str",
    "date_created": "datetime64[us, UTC]",
    "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}


class HandwritingRow(TypedDict):
    """One handwriting in the list of a server; the specification has no ratings, so they may be missing."""

    id: str
    title: str
    date_created: str
    date_modified: str
    rating_neatness: NotRequired[int | None]
    rating_cursivity: NotRequired[int | None]
    rating_embellishment: NotRequired[int | None]
    rating_character_width: NotRequired[int | None]


DecodedT = TypeVar("DecodedT")


@checked_arguments
class HandwritingClient(PublicNames):
    """The available handwritings, and texts written in them. Use it as ``tk.handwriting``.

    To choose a handwriting, give its id or its title. Parameters have the names of the specification; None means the
    default of the service.
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
        frame = declared_frame(self._listing(order), _ROW_COLUMNS, index="id")
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
        row = self._get_json(HandwritingRow, wire.GET_HANDWRITING, {"id": self._id_of(handwriting)}, {})
        return declared_frame([row], _ROW_COLUMNS, index="id")

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
            toolkit know `pen`, `natural`, `paper`, `margin` and `align`.
        natural
            Vary what a person varies: forms of letters, joins, gaps, margins and the slope of lines. Default False:
            each letter has one form, and lines are almost straight.
        paper
            ``none`` (default, transparent), ``blank``, ``ruled``, ``grid`` or ``kraft``, as a scanner shows it.
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
        with_height: Style = {**style, "height": None if style.get("page") is not None and height == "auto" else height}
        return self._render_and_warn(text, handwriting, "replay", with_height)

    letter, letters, sweep, contact_sheet = letter, letters, sweep, contact_sheet

    def rendered(self, text: str, handwriting: str, kind: FileKind, style: Style) -> Handwritten:
        """Write a text as a file of this kind, without a warning if it does not fit; for the rest, see `png`."""
        _check_text(text, wire.MAX_TEXT_LENGTH, wire.TEXT_TOO_LONG)
        query = {"text": text, **query_of(style, kind)}
        rendering = self._request_rendering(wire.RENDER_ENDPOINTS[kind], kind, handwriting, query)
        if kind == "png":
            return rendering
        seeded: Style = {**style, "random_seed": rendering.seed}
        return replace(rendering, preview=lambda: self.rendered(text, handwriting, "png", seeded).data)

    def _render_and_warn(self, text: str, handwriting: str, kind: FileKind, style: Style) -> Handwritten:
        """Write a text as `rendered` does, and warn if it does not fit."""
        rendering = self.rendered(text, handwriting, kind, style)
        if rendering.overflow:
            where = f", from the line {rendering.cut!r} on" if rendering.cut else ""
            warn_caller(f"the text does not fit, and some ink was cut off{where}: use height='auto', or letter()")
        return rendering

    def _render_letter(
        self, text: str, handwriting: str, kind: FileKind, style: Style, *, page_number: int = 1, dpi: float = 72
    ) -> Handwritten:
        """Write a letter: a PDF of all pages, or one page as a PNG (with `dpi` pixels per inch) or an SVG."""
        _check_text(text, wire.MAX_LETTER_LENGTH, wire.LETTER_TOO_LONG)
        query = query_of(style, kind)
        if kind == "png":
            query = scale_query(query, dpi)
        if kind != "pdf":
            query["page_number"] = str(page_number)
        rendering = self._request_rendering(wire.POST_LETTER, kind, handwriting, query, {"text": text})
        return replace(rendering, data=set_resolution(rendering.data, dpi)) if kind == "png" else rendering

    def _listing(self, query: Query) -> list[HandwritingRow]:
        """Return the complete list: request parts of it until one has no new handwriting."""
        rows: dict[str, HandwritingRow] = {}
        while True:
            part_query = {**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(rows))}
            part = self._get_json(list[HandwritingRow], wire.GET_LISTING, {}, part_query)
            new_rows = {row["id"]: row for row in part}
            if new_rows.keys() <= rows.keys():
                return list(rows.values())
            rows |= new_rows

    @cached_property
    def _titles(self) -> dict[str, str]:
        """All titles by id."""
        return {row["id"]: row["title"] for row in self._listing({})}

    def _request_rendering(
        self, endpoint: Endpoint, kind: FileKind, handwriting: str, query: dict[str, str], body: Json | None = None
    ) -> Handwritten:
        handwriting_id = self._id_of(handwriting)
        began = time.perf_counter()
        reply = self._call(endpoint, {"kind": kind}, {"handwriting_id": handwriting_id, **query}, body)
        milliseconds = (time.perf_counter() - began) * 1000
        return Handwritten.from_response(reply.body, reply.headers, kind, self._titles[handwriting_id], milliseconds)

    def _get_json(self, type_: type[DecodedT], endpoint: Endpoint, values: Mapping[str, str], query: Query) -> DecodedT:
        """Return the body of a response as an object of this type; raise UnexpectedReply for another body."""
        try:
            return msgspec.json.decode(self._call(endpoint, values, query).body, type=type_)
        except msgspec.ValidationError as error:
            raise UnexpectedReply(f"the response to {endpoint} has an unexpected form: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UnexpectedReply(f"the response to {endpoint} is not JSON") from None

    def _call(self, endpoint: Endpoint, values: Mapping[str, str], query: Query, body: Json | None = None) -> HttpReply:
        reply = self._session.call(endpoint, values, query={"apikey": self._apikey, **query}, body=body)
        if reply.status != 200:
            request = f"{endpoint.method} {endpoint.path_for(**values)}"
            raise wire.error_of(reply.status, reply.headers, reply.body, request=request)
        return reply

    def _id_of(self, name: str) -> str:
        """Return the id of the handwriting whose id or title (in any case) is `name`."""
        if name in self._titles:
            return name
        ids = {title.casefold(): handwriting_id for handwriting_id, title in self._titles.items()}
        if name.casefold() in ids:
            return ids[name.casefold()]
        near = difflib.get_close_matches(name.casefold(), ids, n=3, cutoff=0.5)
        titles = ", ".join(self._titles[ids[title]] for title in near)
        advice = f"the nearest titles are {titles}" if titles else "see available()"
        raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")


def _check_text(text: str, max_length: int, too_long: str) -> None:
    if len(text) > max_length:
        raise InvalidArgument(too_long)
    if text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text:
        raise InvalidArgument(wire.TEXT_NOT_UTF8)
