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
from toolkit.handwriting.client.style import Distance, PageStyle, Style, query_of, scaled_query
from toolkit.handwriting.client.sweeping import contact_sheet, sweep
from toolkit.handwriting.handwritten import Handwritten, at_resolution
from toolkit.handwriting.wire import Format
from toolkit.http_client import HttpReply, HttpSession, StrOrSecret
from toolkit.public_names import PublicNames
from toolkit.secret import Secret

#: The smallest and the largest rating; None means no bound.
Bounds: TypeAlias = tuple[float | None, float | None]
Query: TypeAlias = Mapping[str, StrOrSecret | None]
Body: TypeAlias = Mapping[str, object]

_ROW_COLUMNS = {
    "id": "str",
    "title": "str",
    "date_created": "datetime64[us, UTC]",
    "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}


class HandwritingRow(TypedDict):
    """One handwriting of a server's list; ratings may be missing, since the specification has none."""

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
    """Handwriting: the available hands, and texts written by them. Use it as ``tk.handwriting``.

    To name a handwriting, give the id or the title. Parameters have the names of the specification; None means the
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
        frame = declared_frame(self._listing(order), _ROW_COLUMNS, index="id")
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
        record = self._decoded(HandwritingRow, wire.GET_HANDWRITING, {"id": self._id_of(handwriting)}, {})
        return declared_frame([record], _ROW_COLUMNS, index="id")

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
            toolkit know `pen`, `natural`, `paper`, `corrections`, `margin` and `align`.
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
        return self._written(text, handwriting, "png", style)

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
        return self._written(text, handwriting, "pdf", style)

    def svg(self, text: str, handwriting: str, **style: Unpack[Style]) -> Handwritten:
        """Write a text as an SVG: ``GET /render/svg``, only of this toolkit. Parameters and result as in `png`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.svg("Hello", "Molly").data[:4]
        b'<svg'
        """
        return self._written(text, handwriting, "svg", style)

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
        return self._written(text, handwriting, "replay", full)

    letter, letters, sweep, contact_sheet = letter, letters, sweep, contact_sheet

    def rendered(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text in the format `kind`; see `png` for the result and the errors."""
        _check_text(text, wire.MAX_TEXT_LENGTH, wire.TEXT_TOO_LONG)
        query = {"text": text, **query_of(style, kind)}
        done = self._request_rendering(wire.RENDER_ENDPOINTS[kind], kind, handwriting, query)
        if kind == "png":
            return done
        again: Style = {**style, "random_seed": done.seed}
        return replace(done, preview=lambda: self.rendered(text, handwriting, "png", again).data)

    def _written(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text as `rendered` does, and warn if it does not fit."""
        done = self.rendered(text, handwriting, kind, style)
        if done.overflow:
            where = f", from the line {done.cut!r} on" if done.cut else ""
            warn_caller(f"the text does not fit, and some ink was cut off{where}: use height='auto', or letter()")
        return done

    def _letter_file(
        self, text: str, handwriting: str, kind: Format, style: Style, *, page_number: int = 1, dpi: float = 72
    ) -> Handwritten:
        """Write a letter: a PDF of all pages, or one page in another format; `dpi` is for a PNG."""
        _check_text(text, wire.MAX_LETTER_LENGTH, wire.LETTER_TOO_LONG)
        query = query_of(style, kind)
        if kind == "png":
            query = scaled_query(query, dpi)
        if kind != "pdf":
            query["page_number"] = str(page_number)
        done = self._request_rendering(wire.POST_LETTER, kind, handwriting, query, {"text": text})
        return replace(done, data=at_resolution(done.data, dpi)) if kind == "png" else done

    def _listing(self, query: Query) -> list[HandwritingRow]:
        """Return the records of all pages; the last page is empty, or has no new record."""
        records: dict[str, HandwritingRow] = {}
        while True:
            page = {**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(records))}
            found = self._decoded(list[HandwritingRow], wire.GET_LISTING, {}, page)
            new = {record["id"]: record for record in found}
            if new.keys() <= records.keys():
                return list(records.values())
            records |= new

    @cached_property
    def _titles(self) -> dict[str, str]:
        """All titles by id."""
        return {record["id"]: record["title"] for record in self._listing({})}

    def _request_rendering(
        self, endpoint: Endpoint, kind: Format, handwriting: str, query: dict[str, str], body: Body | None = None
    ) -> Handwritten:
        handwriting_id = self._id_of(handwriting)
        began = time.perf_counter()
        reply = self._call(endpoint, {"kind": kind}, {"handwriting_id": handwriting_id, **query}, body)
        milliseconds = (time.perf_counter() - began) * 1000
        return Handwritten.from_response(reply.body, reply.headers, kind, self._titles[handwriting_id], milliseconds)

    def _decoded(self, shape: type[DecodedT], endpoint: Endpoint, values: Mapping[str, str], query: Query) -> DecodedT:
        """Return the decoded body of a response, such as ``list[HandwritingRow]``, or raise UnexpectedReply."""
        try:
            return msgspec.json.decode(self._call(endpoint, values, query).body, type=shape)
        except msgspec.ValidationError as error:
            raise UnexpectedReply(f"the response is not a list of handwritings: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UnexpectedReply(f"the response to {endpoint} is not JSON") from None

    def _call(self, endpoint: Endpoint, values: Mapping[str, str], query: Query, body: Body | None = None) -> HttpReply:
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
        hint = ", ".join(self._titles[ids[title]] for title in near)
        advice = f"the nearest titles are {hint}" if hint else "see available()"
        raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")


def _check_text(text: str, most: int, too_long: str) -> None:
    if len(text) > most:
        raise InvalidArgument(too_long)
    if text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text:
        raise InvalidArgument(wire.TEXT_NOT_UTF8)
