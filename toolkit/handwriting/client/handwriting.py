"""The client of handwriting (section B): ``tk.handwriting``."""

import os
from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.errors import counted, warn_caller
from toolkit.frames import declared_frame
from toolkit.handwriting.client.letter import LETTER_HANDWRITING_SIZE, Letter, letter_style, write_letter
from toolkit.handwriting.client.mail_merge import Merge, check_merge, write_letters
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.single_page import SinglePageClient
from toolkit.handwriting.client.style import Distance, InkStyle, Margin, Page
from toolkit.handwriting.client.sweeping import ContactSheet, OneOrMore, SweptStyle, contact_sheet, sweep
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Align, FileKind

_REPORT_COLUMNS = {
    "path": "str", "hand": "str", "pages": "Int64", "width": "float64", "height": "float64", "bytes": "Int64",
    "seed": "str", "overflow": "boolean", "is_new": "boolean", "error": "str",
}  # fmt: skip


@checked_arguments
class HandwritingClient(SinglePageClient):
    """The available handwritings, and texts written in them. Use it as ``tk.handwriting``.

    To choose a handwriting, give its id or its title. Parameters have the names of the specification; None means the
    default of the service.
    """

    def letter(
        self,
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
        handwriting_color, line_spacing_variance, word_spacing_variance, random_seed, pen, paper, missing
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
        letter = write_letter(self._renderer, text, hand, style)
        if letter.pdf.overflow:
            cut = letter.pdf.cut
            warn_caller(f"some ink was cut off, from the line {cut!r} on: use smaller letters, or a larger page")
        if letter.pdf.missing:
            warn_caller(f"no hand has these characters of the text: {letter.pdf.missing}")
        return letter

    def letters(
        self,
        frame: pd.DataFrame,
        template: str,
        hand: str,
        folder: str | os.PathLike[str],
        *,
        file_name: str = "letter-{number:04}",
        page: Page = "A4",
        margin: Margin = "2cm",
        align: Align | None = None,
        handwriting_size: Distance = LETTER_HANDWRITING_SIZE,
        progress: bool = True,
        **ink: Unpack[InkStyle],
    ) -> pd.DataFrame:
        r"""Write a letter for each row of a frame into a folder, as a PDF: a mail merge.

        Files are complete or absent. If a call was interrupted, the same call writes the missing letters. A letter is
        written again if the text, a parameter or the file has changed.

        Parameters
        ----------
        frame
            One row per letter.
        template
            The text, with columns in braces: ``"Dear {name},\nyou owe us {amount:.2f}"``. ``{number}`` is the number of
            the row, from 1, unless a column has this name.
        hand
            Id or title of a hand, or the name of a column with ids or titles.
        folder
            The folder for the letters and a list of them, ``letters.jsonl``; created if it does not exist.
        file_name
            The template of the file names, without suffix.
        random_seed
            The same seed gives the same letters, and each letter gets another seed from it. None: random seeds.
        progress
            Show a progress bar.
        page, margin, align, handwriting_size, ..., paper
            As in `letter`.

        Returns
        -------
        pandas.DataFrame
            The index of `frame`; ``path``, ``hand``, ``pages``, ``width`` and ``height`` of a page in points,
            ``bytes``, ``seed``, ``overflow`` (some text did not fit), ``is_new`` (written by this call), and ``error``:
            why the letter was not written.

        Raises
        ------
        InvalidArgument
            No letter can be written: a field of a template is not a column, the folder is not writable, ...
        Unreachable
            The service does not answer; earlier letters stay in the folder.

        Warns
        -----
        DataWarning
            Some rows have an error, or text that did not fit.

        Examples
        --------
        >>> import tempfile, pandas as pd, toolkit
        >>> guests = pd.DataFrame({"name": ["Ada", "Grace"]})
        >>> with toolkit.connect() as tk, tempfile.TemporaryDirectory() as folder:
        ...     done = tk.handwriting.letters(guests, "Dear {name}", "Molly", folder, progress=False)
        >>> done["pages"].tolist()
        [1, 1]
        """
        style = letter_style(ink, page, margin, align, handwriting_size)
        merge, named = Merge(template, hand, file_name, style), frame.rename(columns=str)
        check_merge(merge, named)
        if hand not in named.columns:
            self._renderer.id_of(hand)
        reports = write_letters(self._renderer, merge, named, absolute_path(folder), progress)
        done = declared_frame(reports, _REPORT_COLUMNS)
        count = counted(len(done), "letter")
        done = done.set_index(frame.index)
        failed, cut = done[done["error"].notna()], done[done["overflow"]]
        if len(failed):
            example = f"such as that of row {failed.index[0]!r}"
            warn_caller(f"{len(failed):,} of {count} could not be written, {example}: the column error says why")
        if len(cut):
            example = f"such as that of row {cut.index[0]!r}"
            warn_caller(f"text of {len(cut):,} of {count} did not fit, {example}: see the column overflow")
        return done

    def sweep(
        self,
        text: str,
        handwriting: OneOrMore[str],
        *,
        kind: FileKind = "png",
        height: OneOrMore[Distance] | None = "auto",
        progress: bool = True,
        **style: Unpack[SweptStyle],
    ) -> pd.DataFrame:
        """Write a text once for each combination of parameters.

        Parameters
        ----------
        text, handwriting, ...
            As in `png`; each but the text may be a list of values. Write four margins or four inks as one str:
            ``"1cm,2cm,1cm,2cm"``, ``"(1, 0.5, 0, 0.2)"``.
        kind
            ``png`` (default), ``pdf``, ``svg`` or ``replay``, an animation.
        progress
            Show a progress bar if there are more than 20 combinations.

        Returns
        -------
        pandas.DataFrame
            One row per combination: ``handwriting``, a column for each parameter given as a list (the last one changes
            fastest), then ``thumbnail`` (the bytes of the file; ``.writing`` is the `Handwritten`), ``ms``, ``width``,
            ``height``, ``lines``, ``ink_share``, ``seed``, ``overflow`` (whether ink was cut off).

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect() as tk:
        ...     tk.handwriting.sweep("Hello", "Molly", line_spacing=[1, 2], random_seed=7)["height"].tolist()
        [39.0, 60.0]
        """
        return sweep(self._renderer, text, handwriting, {**style, "height": height}, kind, progress)

    def contact_sheet(
        self,
        pictures: pd.DataFrame | Sequence[Handwritten],
        *,
        columns: int = 2,
        labels: Sequence[str] | None = None,
    ) -> ContactSheet:
        """Put many renderings on one picture.

        Parameters
        ----------
        pictures
            The frame that `sweep` returned, or a list of renderings.
        columns
            Number of renderings side by side.
        labels
            One label per rendering. None: the parameters that differ within a sweep, or the titles of the hands.

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
        return contact_sheet(pictures, columns, labels)


def renderer_of(client: HandwritingClient) -> Renderer:
    """Return the renderer of a client, for widgets and commands, which show in their own way that text was cut off."""
    return client._renderer  # noqa: SLF001 - Tab does not offer it to users
