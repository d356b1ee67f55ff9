"""The client of handwriting (section B): ``tk.handwriting``."""

import os
from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.mail_merge import Merge, merge_letters
from toolkit.handwriting.client.renderer import LISTING_COLUMNS, Renderer
from toolkit.handwriting.client.style import (
    Distance,
    OneOrMore,
    Page,
    PageStyle,
    Seed,
    Style,
    SweptOption,
    letter_style,
)
from toolkit.handwriting.client.sweeping import ContactSheet, contact_sheet, sweep
from toolkit.handwriting.handwritten import Handwritten, Letter, warn_of_losses
from toolkit.handwriting.wire import FileKind
from toolkit.http_client import HttpSession
from toolkit.public_api import PublicNames
from toolkit.secret import Secret


@checked_arguments
class HandwritingClient(PublicNames):
    """The available hands, and texts written in them. Use it as ``tk.handwriting``.

    All calls that write take the options of `toolkit.handwriting.Style`: together in `style`, or as keywords.
    """

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self._renderer = Renderer(session, apikey)

    def __repr__(self) -> str:
        return f"<Handwriting at {self._renderer.base_url}>"

    def available(self, *, order_by: str = "id", order_dir: str = "asc") -> pd.DataFrame:
        """Return the available hands: ``GET /handwritings``, repeated until the list is complete.

        Parameters
        ----------
        order_by, order_dir
            ``id``, ``title``, ``date_created``, ``date_modified`` or a rating (equal ratings are sorted by title);
            ``asc`` or ``desc``.

        Returns
        -------
        pandas.DataFrame
            Index ``id``; columns ``title``, ``date_created`` and ``date_modified`` (UTC), and the four ratings
            ``rating_neatness``, ``rating_cursivity``, ``rating_embellishment`` and ``rating_character_width`` (Int64);
            the mean of each is 1400.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.available().loc["2D5QW0F80001", "title"]
        'Molly'
        """
        order = {"order_by": order_by, "order_dir": order_dir}
        frame = declared_frame(self._renderer.listing(order), LISTING_COLUMNS, index="id")
        if order_by in wire.RATINGS:
            by_title = frame.iloc[frame["title"].str.casefold().argsort(kind="stable")]
            frame = by_title.sort_values(order_by, ascending=order_dir == "asc", kind="stable")
        return frame

    def png(
        self,
        text: str,
        hand: str,
        style: Style | None = None,
        *,
        width: Distance = 504,
        height: Distance = "auto",
        random_seed: Seed | None = None,
        **options: Unpack[Style],
    ) -> Handwritten:
        """Write a text as a PNG, which is transparent without `paper`: ``GET /render/png``.

        If the text does not fit on the page, a warning names the first line that is cut off.

        Parameters
        ----------
        text, hand
            At most 9,000 characters, with line feeds; straight quotes are written as curly quotes. An id or a title.
        style
            A `toolkit.handwriting.Style` or one of `toolkit.handwriting.PRESETS`: options that several calls share.
        width, height
            A distance, such as ``"8 cm"``; a number is pixels, 72 per inch. ``"auto"`` is what the text needs.
        random_seed
            The same seed gives the same writing in every kind of file; 0 is a seed too. None: each call differs.
        **options
            handwriting_size, handwriting_color, line_spacing, line_spacing_variance, word_spacing_variance, pen,
            natural, paper, missing, margin, align, min_padding: see `toolkit.handwriting.Style`.

        Returns
        -------
        Handwritten
            A notebook shows the picture; ``.save(path, background="white")``, ``.seed`` to get the same writing again.

        Raises
        ------
        InvalidArgument, InvalidParameters, Overloaded
            There is no such hand or option, or a value has a wrong type; the service refused a value; too many texts
            wait to be rendered.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.png("Hello", "Molly", pen="gel", random_seed=7).lines
        1
        """
        page = PageStyle(width=width, height=height, random_seed=random_seed)
        return self._write("png", text, hand, style, {**options, **page})

    def pdf(self, text: str, hand: str, style: Style | None = None, **options: Unpack[PageStyle]) -> Handwritten:
        """Write a text as a PDF whose words can be searched, up to 100 inches wide: ``GET /render/pdf``.

        The options are those of `png`, with `width`, `height` and `random_seed`.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.pdf("Hello", "Molly", handwriting_color=(1, 0.5, 0, 0.2)).data[:5]
        b'%PDF-'
        """
        return self._write("pdf", text, hand, style, options)

    def svg(self, text: str, hand: str, style: Style | None = None, **options: Unpack[PageStyle]) -> Handwritten:
        """Write a text as an SVG: ``GET /render/svg``, only on gateways of this toolkit. Options as in `png`."""
        return self._write("svg", text, hand, style, options)

    def animation(self, text: str, hand: str, style: Style | None = None, **options: Unpack[PageStyle]) -> Handwritten:
        """Write a text as an animated SVG: ``GET /render/replay``, on gateways of this toolkit. Options as in `png`."""
        return self._write("replay", text, hand, style, options)

    def letter(
        self,
        text: str,
        hand: str,
        style: Style | None = None,
        *,
        page: Page = "A4",
        random_seed: Seed | None = None,
        **options: Unpack[Style],
    ) -> Letter:
        r"""Write a letter on as many pages as it needs: ``POST /render/letter/pdf``, only on gateways of this toolkit.

        A letter is natural, its size is 12 points and its margin is 2 cm, unless `style` or an option says otherwise.

        Parameters
        ----------
        text
            At most 60,000 characters; lines end with a line feed.
        page
            ``"A3"`` to ``"A6"``, ``"Letter"``, ``"Legal"`` or (width, height).
        hand, style, random_seed, **options
            As in `png`; errors, too.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.letter("Dear Ada,\nhello", "Molly", page="A5", random_seed=7)
        <Letter by Molly, 1 page of 419.53 x 595.28, 2 lines, seed 7>
        """
        letter = self._renderer.letter(text, hand, letter_style(style, options, page, random_seed))
        warn_of_losses(letter, "use smaller letters or a larger page")
        return letter

    def letters(
        self,
        frame: pd.DataFrame,
        template: str,
        hand: str,
        folder: str | os.PathLike[str],
        style: Style | None = None,
        *,
        file_name: str = "letter-{number:04}",
        page: Page = "A4",
        random_seed: Seed | None = None,
        progress: bool = True,
        **options: Unpack[Style],
    ) -> pd.DataFrame:
        r"""Write a letter for each row of a frame into a folder, as a PDF: a mail merge.

        Files are complete or absent, and the same call again writes those that are missing or have changed.

        Parameters
        ----------
        template
            The text, with columns in braces: ``"Dear {name},\nyou owe us {amount:.2f}"``. ``{number}`` is the number of
            the row, from 1, unless a column has this name.
        hand
            Id or title of a hand, or the name of a column with ids or titles.
        folder, file_name
            The folder for the letters and a list of them, ``letters.jsonl``; the template of the file names, without
            suffix.
        random_seed
            The same seed gives the same letters, and each letter gets another seed from it. None: random seeds.
        style, page, **options
            As in `letter`.

        Returns
        -------
        pandas.DataFrame
            The index of `frame`; ``path``, ``hand``, ``pages``, ``width`` and ``height`` of a page in points,
            ``bytes``, ``seed``, ``overflow`` (some text did not fit), ``is_new`` (written by this call), and ``error``:
            why the letter was not written. Warnings count the rows with an error or an overflow. InvalidArgument if no
            letter can be written: a field of a template is not a column, the folder is not writable, ...

        Examples
        --------
        >>> import tempfile, pandas as pd, toolkit
        >>> guests = pd.DataFrame({"name": ["Ada", "Grace"]})
        >>> with toolkit.connect() as tk, tempfile.TemporaryDirectory() as folder:
        ...     tk.handwriting.letters(guests, "Dear {name}", "Molly", folder, progress=False)["pages"].tolist()
        [1, 1]
        """
        merge = Merge(template, hand, file_name, letter_style(style, options, page, random_seed))
        return merge_letters(self._renderer, merge, frame, absolute_path(folder), progress)

    def sweep(
        self,
        text: str,
        hand: OneOrMore[str],
        style: Style | None = None,
        *,
        kind: FileKind = "png",
        width: OneOrMore[Distance] = 504,
        height: OneOrMore[Distance] = "auto",
        random_seed: OneOrMore[Seed] | None = None,
        progress: bool = True,
        **options: SweptOption,
    ) -> pd.DataFrame:
        """Write a text once for each combination of hands, sizes, seeds and options.

        Parameters
        ----------
        text, hand, style, width, height, random_seed, **options
            As in `png`; all but the text and the style may be lists of values. Write four margins or four inks as one
            str: ``"1cm,2cm,1cm,2cm"``, ``"(1, 0.5, 0, 0.2)"``.
        kind, progress
            ``png``, ``pdf``, ``svg`` or ``replay`` (an animation); a progress bar for more than 20 combinations.

        Returns
        -------
        pandas.DataFrame
            One row per combination: ``hand``, a column for each list (the last one changes fastest), then ``writing``
            (the `Handwritten`), ``ms``, ``width``, ``height``, ``lines``, ``ink_share``, ``seed``, ``overflow``
            (whether ink was cut off).

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.sweep("Hello", "Molly", line_spacing=[1, 2], random_seed=7)["height"].tolist()
        [39.0, 60.0]
        """
        swept = {**options, "width": width, "height": height, "random_seed": random_seed}
        return sweep(self._renderer, text, hand, style or {}, swept, kind, progress)

    def contact_sheet(
        self, pictures: pd.DataFrame | Sequence[Handwritten], *, columns: int = 2, labels: Sequence[str] | None = None
    ) -> ContactSheet:
        """Put many renderings on one picture, `columns` of them side by side.

        Parameters
        ----------
        pictures
            The frame that `sweep` returned, or a list of renderings.
        labels
            One label per rendering. None: the parameters that differ within a sweep, or the titles of the hands.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     notes = tk.handwriting.sweep("Hello", ["Molly", "Perry"], width=200, random_seed=7)
        ...     tk.handwriting.contact_sheet(notes).image().width
        448
        """
        return contact_sheet(pictures, columns, labels)

    def _write(self, kind: FileKind, text: str, hand: str, style: Style | None, options: PageStyle) -> Handwritten:
        rendering = self._renderer.render(text, hand, kind, {**(style or {}), **options})
        warn_of_losses(rendering, "use height='auto', or letter()")
        return rendering


def renderer_of(client: HandwritingClient) -> Renderer:
    """Return the renderer of a client, for widgets and commands, which show in their own way that text was cut off."""
    return client._renderer  # noqa: SLF001 - Tab does not offer it to users
