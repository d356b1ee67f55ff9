"""`HandwritingClient.letters`: one letter for each row of a frame, written into a folder."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack, cast

import msgspec
import pandas as pd
from tqdm.auto import tqdm

from toolkit.errors import (
    InvalidArgument,
    InvalidParameters,
    Overloaded,
    RateLimited,
    ServiceFailure,
    counted,
    warn_caller,
)
from toolkit.frames import declared_frame
from toolkit.handwriting.client.calls import HandwritingCalls, id_of
from toolkit.handwriting.client.letter import LETTER_SIZE, checked_dpi
from toolkit.handwriting.client.letter_folder import FinishedLetter, LetterFolder
from toolkit.handwriting.client.letter_rows import LetterRow, letter_rows
from toolkit.handwriting.client.style import Distance, InkStyle, Margin, Page, Style, query_of
from toolkit.handwriting.handwritten import SUFFIXES, css_colour, on_background
from toolkit.handwriting.wire import Align, Format

if TYPE_CHECKING:
    from toolkit.handwriting.client.handwriting import HandwritingClient

_THREAD_COUNT = 4
_MAX_ATTEMPTS = 100  # for one letter, while the service is overloaded
_RESULT_COLUMNS = {
    "path": "str", "hand": "str", "pages": "Int64", "width": "float64", "height": "float64", "bytes": "Int64",
    "seed": "str", "overflow": "boolean", "is_new": "boolean", "error": "str",
}  # fmt: skip


def letters(
    self: HandwritingClient,
    frame: pd.DataFrame,
    template: str,
    hand: str,
    folder: str | os.PathLike[str],
    *,
    file_name: str = "letter-{number:04}",
    kind: Format = "pdf",
    page: Page = "A4",
    margin: Margin = "2cm",
    align: Align | None = None,
    handwriting_size: Distance = LETTER_SIZE,
    background: str | None = None,
    dpi: float = 144,
    progress: bool = True,
    **ink: Unpack[InkStyle],
) -> pd.DataFrame:
    r"""Write a letter for each row of a frame into a folder: a mail merge.

    Files are complete or absent. If a call was interrupted, the same call writes the missing letters. A letter is
    written again if the text, a parameter or the file has changed.

    Parameters
    ----------
    frame
        One row per letter.
    template
        The text, with columns in braces: ``"Dear {name},\nyou owe us {amount:.2f}"``; ``{number}`` is the row, from 1.
    hand
        Id or title of a hand, or the name of a column with ids or titles.
    folder
        The folder for the letters and a list of them, ``letters.jsonl``; created if it does not exist.
    file_name
        The template of the file names, without suffix.
    kind
        ``"pdf"`` with as many pages as needed; ``"png"`` and ``"svg"`` hold one page.
    random_seed
        The same seed gives the same letters; each row differs from the others. None: each letter has its own seed.
    background, dpi
        Background (a CSS colour) of a PNG or SVG, and pixels per inch of a PNG.
    progress
        Show a progress bar.
    page, margin, align, handwriting_size, ..., corrections
        As in `letter`.

    Returns
    -------
    pandas.DataFrame
        The index of `frame`; ``path``, ``hand``, ``pages``, ``width`` and ``height`` of a page in points (pixels of a
        PNG), ``bytes``, ``seed``, ``overflow`` (some text did not fit), ``is_new`` (written by this call), and
        ``error``: why there is no letter.

    Raises
    ------
    InvalidArgument
        No letter can be written: a field of a template is no column, the folder is not writable, ...
    Unreachable
        The service does not answer; earlier letters stay in the folder.

    Warns
    -----
    UserWarning
        Some rows have an error, or text that did not fit.

    Examples
    --------
    >>> import tempfile, pandas as pd, toolkit
    >>> guests = pd.DataFrame({"name": ["Ada", "Grace"]})
    >>> with toolkit.connect() as tk, tempfile.TemporaryDirectory() as folder:
    ...     done = tk.handwriting.letters(guests, "Dear {name}", "Molly", folder, file_name="{name}", progress=False)
    >>> done["pages"].tolist()
    [1, 1]
    """
    page_style = {"page": page, "margin": margin, "align": align, "handwriting_size": handwriting_size}
    style = cast("Style", {"natural": True, **ink, **page_style})
    if kind == "replay":
        raise InvalidArgument("a letter is a pdf, png or svg")
    query_of(style, kind)  # refuses wrong distances before anything is written
    checked_dpi(dpi)
    if background is not None:
        css_colour(background, kind)
    titles = self._calls.titles
    if hand not in map(str, frame.columns):
        id_of(hand, titles)
    rows = letter_rows(frame, template, hand, file_name, SUFFIXES[kind])
    merge = _MailMerge(self._calls, LetterFolder(folder), style, kind, dpi, background)
    return merge.run(rows, frame.index, progress)


@dataclass
class _MailMerge:
    calls: HandwritingCalls
    folder: LetterFolder
    style: Style
    kind: Format
    dpi: float
    background: str | None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self, rows: Sequence[LetterRow], index: pd.Index, progress: bool) -> pd.DataFrame:
        known = {row: row.error or self.folder.finished(row.file_name, self._request_digest(row)) for row in rows}
        waiting = [row for row, outcome in known.items() if outcome is None]
        new: dict[LetterRow, FinishedLetter | str] = {}
        bar = tqdm(total=len(rows), initial=len(rows) - len(waiting), unit="letter", disable=not progress)
        with bar, ThreadPoolExecutor(_THREAD_COUNT, thread_name_prefix="letters") as pool:
            futures = {pool.submit(self._write, row): row for row in waiting}
            try:
                for future in as_completed(futures):
                    new[futures[future]] = future.result()
                    bar.update()
            except BaseException:  # also KeyboardInterrupt: started letters are finished, and no other letter starts
                self._stopping.set()
                pool.shutdown(cancel_futures=True)
                raise
        return self._result({**known, **new}, new).set_index(index)

    def _write(self, row: LetterRow) -> FinishedLetter | str:
        """Return a finished letter, or the error that prevents it; retry while the service is overloaded."""
        attempts = 1
        while True:
            try:
                done = self.calls.letter(row.text, row.hand, self.kind, self._style_of(row), dpi=self.dpi)
                break
            except (RateLimited, Overloaded) as error:
                if attempts == _MAX_ATTEMPTS or self._stopping.wait(error.retry_after):
                    raise
            except (InvalidArgument, InvalidParameters, ServiceFailure) as error:
                return str(error)
            attempts += 1
        data = done.data if self.background is None else on_background(done.data, self.kind, self.background)
        return self.folder.write(row.file_name, self._request_digest(row), done, data)

    def _style_of(self, row: LetterRow) -> Style:
        """Return the parameters with a seed for this letter: with the same seed, all letters would begin alike."""
        seed = self.style.get("random_seed")
        if seed is None:
            return self.style
        digest = hashlib.sha256(f"{seed} {row.file_name}".encode("utf-8", "surrogatepass")).digest()
        return {**self.style, "random_seed": 1 + int.from_bytes(digest[:6], "big")}

    def _request_digest(self, row: LetterRow) -> str:
        look = query_of(self._style_of(row), self.kind), self.kind, self.dpi, self.background
        return hashlib.sha256(json.dumps([row.text, row.hand, *look], sort_keys=True).encode("ascii")).hexdigest()

    def _result(
        self, outcomes: Mapping[LetterRow, FinishedLetter | str | None], new: Mapping[LetterRow, object]
    ) -> pd.DataFrame:
        records: list[dict[str, object]] = []
        for row, outcome in outcomes.items():
            if isinstance(outcome, FinishedLetter):
                path = str(self.folder.path / outcome.file)
                records.append({**msgspec.structs.asdict(outcome), "path": path, "is_new": row in new})
            else:
                records.append({"error": outcome, "is_new": False})
        frame = declared_frame(records, _RESULT_COLUMNS)
        letters = counted(len(frame), "letter")
        if failed := int(frame["error"].notna().sum()):
            warn_caller(f"{failed:,} of {letters} could not be written: the column error says why")
        if cut := int(frame["overflow"].sum()):
            warn_caller(f"text of {cut:,} of {letters} did not fit: see the column overflow")
        return frame
