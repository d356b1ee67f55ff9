"""`HandwritingClient.letters`: one letter for each row of a frame, written into a folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import msgspec
import pandas as pd
from tqdm.auto import tqdm

from toolkit import errors
from toolkit.argument_checks import absolute_path
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.frames import declared_frame
from toolkit.handwriting.client.letter import LETTER_HANDWRITING_SIZE, letter_style
from toolkit.handwriting.client.style import Distance, InkStyle, Margin, Page, Style, query_of, scale_query
from toolkit.handwriting.handwritten import SUFFIXES, Handwritten, add_background, background_colour
from toolkit.handwriting.wire import Align, LetterFileKind
from toolkit.local_files import write_whole

if TYPE_CHECKING:
    from toolkit.handwriting.client.handwriting import HandwritingClient

_NUMBER_FIELD = "number"
_FORBIDDEN_CHARACTERS = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED_NAMES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # by Windows
_MAX_NAME_BYTES = 240  # most systems allow file names of 255 bytes
_LIST_FILE_NAME = "letters.jsonl"
_THREAD_COUNT = 4
_MAX_ATTEMPTS = 100  # for one letter, while the service is overloaded or the rate limit is reached
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
    kind: LetterFileKind = "pdf",
    page: Page = "A4",
    margin: Margin = "2cm",
    align: Align | None = None,
    handwriting_size: Distance = LETTER_HANDWRITING_SIZE,
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
        The text, with columns in braces: ``"Dear {name},\nyou owe us {amount:.2f}"``. ``{number}`` is the number of the
        row, from 1, unless a column has this name.
    hand
        Id or title of a hand, or the name of a column with ids or titles.
    folder
        The folder for the letters and a list of them, ``letters.jsonl``; created if it does not exist.
    file_name
        The template of the file names, without suffix.
    kind
        ``"pdf"`` with as many pages as needed; ``"png"`` and ``"svg"`` contain the first page only.
    random_seed
        The same seed gives the same letters, and each letter gets another seed from it. None: random seeds.
    background, dpi
        Background (a CSS colour) of a PNG or SVG, and pixels per inch of a PNG: at most 9000 pixels per side.
    progress
        Show a progress bar.
    page, margin, align, handwriting_size, ..., paper
        As in `letter`.

    Returns
    -------
    pandas.DataFrame
        The index of `frame`; ``path``, ``hand``, ``pages``, ``width`` and ``height`` of a page in points (pixels of a
        PNG), ``bytes``, ``seed``, ``overflow`` (some text did not fit), ``is_new`` (written by this call), and
        ``error``: why the letter was not written.

    Raises
    ------
    InvalidArgument
        No letter can be written: a field of a template is not a column, the folder is not writable, ...
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
    style = letter_style(ink, page, margin, align, handwriting_size)
    query = query_of(style, kind)  # raises an error for a wrong distance before anything is written
    if kind == "png":
        scale_query(query, dpi)
    if background is not None:
        background_colour(background, kind)
    if hand not in map(str, frame.columns):
        self._id_of(hand)
    rows = _letter_rows(frame, template, hand, file_name, SUFFIXES[kind])
    merge = _MailMerge(self._render_letter, absolute_path(folder), style, kind, dpi, background)
    return merge.run(rows, progress).set_index(frame.index)


class _LetterRow(NamedTuple):
    text: str
    hand: str
    file_name: str


class _Template:
    """A text with fields such as ``{name}`` or ``{amount:.2f}``: a column, or ``{number}``, the number of the row."""

    def __init__(self, subject: str, text: str, columns: list[str]) -> None:
        try:
            self._parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InvalidArgument(f"{subject} cannot be read: {error}; write {{{{ and }}}} for braces") from None
        self.columns = [column for _, column, _, _ in self._parts if column is not None]
        for _, column, spec, conversion in self._parts:
            if column not in (None, _NUMBER_FIELD, *columns):
                raise InvalidArgument(f"{subject} has {{{column}}}, which is no column: there are {', '.join(columns)}")
            if conversion or "{" in (spec or ""):
                raise InvalidArgument(f"{subject}: a field is written as {{{column}}} or {{{column}:.2f}}")

    def fill(self, values: Mapping[str, Any]) -> str:
        pieces = []
        for literal, column, spec, _ in self._parts:
            pieces.append(literal)
            if column is None:
                continue
            value = _require_value(values[column], column)
            try:
                pieces.append(format(value, spec or ""))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise InvalidArgument(f"{column} cannot be written as {{{column}:{spec}}}: {error}") from None
        return "".join(pieces)


def _letter_rows(frame: pd.DataFrame, template: str, hand: str, file_name: str, suffix: str) -> list[_LetterRow | str]:
    """Return for each row the letter to write, or an error text; InvalidArgument for a wrong template or frame."""
    columns = [str(name) for name in frame.columns]
    if len(set(columns)) < len(columns):
        raise InvalidArgument("two columns of the frame have the same name: rename one of them")
    text, name = _Template("the template", template, columns), _Template("file_name", file_name, columns)
    if not text.columns and hand not in columns:
        advice = f"write {{{columns[0]}}} in the template" if columns else "the frame has no columns"
        raise InvalidArgument(f"the template uses no column, so all letters would be the same: {advice}")
    rows: list[_LetterRow | str] = []
    number_of_name: dict[str, int] = {}
    for number, cells in enumerate(frame.itertuples(index=False, name=None), 1):
        values = {_NUMBER_FIELD: number, **dict(zip(columns, cells, strict=True))}
        try:
            full_name = name.fill(values) + suffix
            _check_file_name(full_name, suffix)
            key = unicodedata.normalize("NFC", full_name).casefold()  # some file systems ignore the case
            if (first := number_of_name.setdefault(key, number)) != number:
                raise InvalidArgument(f"row {first} has the file name {full_name!r} too")
            hand_of_row = str(_require_value(values.get(hand, hand), hand))
            rows.append(_LetterRow(text.fill(values), hand_of_row, full_name))
        except InvalidArgument as error:
            rows.append(str(error))
    return rows


def _require_value(value: object, column: str) -> object:
    if pd.api.types.is_scalar(value) and pd.isna(value):  # type: ignore[call-overload]
        raise InvalidArgument(f"{column} is missing")
    return value


def _check_file_name(file_name: str, suffix: str) -> None:
    stem = file_name.removesuffix(suffix)
    reason = ""
    if not stem.strip(". "):
        reason = "the name is empty"
    elif match := _FORBIDDEN_CHARACTERS.search(stem):
        reason = f"it contains {match[0]!r}"
    elif stem != stem.strip() or stem.startswith("."):
        reason = "it begins with a dot, or begins or ends with a space"
    elif _RESERVED_NAMES.fullmatch(stem):
        reason = "Windows reserves it"
    elif len(file_name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        reason = f"it is longer than {_MAX_NAME_BYTES} bytes"
    if reason:
        raise InvalidArgument(f"{file_name[:_MAX_NAME_BYTES]!r} cannot be a file name: {reason}")


class _FinishedLetter(msgspec.Struct, frozen=True):
    """A line of ``letters.jsonl``: a letter that was written."""

    file: str
    #: A hash of text, hand and parameters; if it changes, the letter is written again.
    request: str
    #: A hash of the file; if it changes, because somebody changed the file, the letter is written again.
    sha256: str
    bytes: int
    hand: str
    pages: int
    width: float
    height: float
    seed: str
    overflow: bool


@dataclass
class _MailMerge:
    render: Callable[..., Handwritten]
    folder: Path
    style: Style
    kind: LetterFileKind
    dpi: float
    background: str | None
    _list_file_lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self, rows: Sequence[_LetterRow | str], progress: bool) -> pd.DataFrame:
        finished = self._finished_letters()
        # For each row: an error text, the letter in the folder, or the letter to write.
        outcomes = [row if isinstance(row, str) else self._find_unchanged(finished, row) or row for row in rows]
        unwritten = {index: row for index, row in enumerate(outcomes) if isinstance(row, _LetterRow)}
        bar = tqdm(total=len(rows), initial=len(rows) - len(unwritten), unit="letter", disable=not progress)
        with bar, ThreadPoolExecutor(_THREAD_COUNT, thread_name_prefix="letters") as pool:
            futures = {pool.submit(self._write, row): index for index, row in unwritten.items()}
            try:
                for future in as_completed(futures):
                    outcomes[futures[future]] = future.result()
                    bar.update()
            except BaseException:  # also KeyboardInterrupt: finish the letters that were started, and start no others
                self._stopping.set()
                pool.shutdown(cancel_futures=True)
                raise
        return self._result_frame(outcomes, unwritten)

    def _finished_letters(self) -> dict[str, _FinishedLetter]:
        """Return the letters in the list by file name; make the folder if it does not exist."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / _LIST_FILE_NAME).touch()
            lines = (self.folder / _LIST_FILE_NAME).read_bytes().splitlines()
        except OSError as error:
            raise InvalidArgument(f"cannot write into the folder {self.folder}: {error.strerror}") from None
        finished = {}
        for line in filter(None, lines):
            try:
                letter = msgspec.json.decode(line, type=_FinishedLetter)
            except (msgspec.MsgspecError, UnicodeDecodeError):  # an incomplete line: this letter is written again
                continue
            finished[letter.file] = letter
        return finished

    def _find_unchanged(self, finished: Mapping[str, _FinishedLetter], row: _LetterRow) -> _FinishedLetter | None:
        """Return the finished letter of a row if its text, its parameters and its file have not changed."""
        letter = finished.get(row.file_name)
        if letter is None or letter.request != self._request_hash(row):
            return None
        try:
            data = (self.folder / letter.file).read_bytes()
        except OSError:
            return None
        return letter if hashlib.sha256(data).hexdigest() == letter.sha256 else None

    def _write(self, row: _LetterRow) -> _FinishedLetter | str:
        """Return the finished letter or an error text; retry after RateLimited and Overloaded."""
        attempts = 1
        while True:
            try:
                rendering = self.render(row.text, row.hand, self.kind, self._style_of(row), dpi=self.dpi)
            except (errors.RateLimited, errors.Overloaded) as error:
                if attempts == _MAX_ATTEMPTS or self._stopping.wait(error.retry_after):
                    raise
                attempts += 1
            except (InvalidArgument, errors.InvalidParameters, errors.ServiceFailure) as error:
                return str(error)
            else:
                return self._save(row, rendering)

    def _save(self, row: _LetterRow, rendering: Handwritten) -> _FinishedLetter:
        """Write the file of a letter, and add the letter to the list."""
        data = rendering.data if self.background is None else add_background(rendering.data, self.kind, self.background)
        overflow = rendering.overflow or (self.kind != "pdf" and rendering.pages > 1)
        letter = _FinishedLetter(
            row.file_name, self._request_hash(row), hashlib.sha256(data).hexdigest(), len(data), rendering.handwriting,
            rendering.pages, rendering.width, rendering.height, str(rendering.seed), overflow,
        )  # fmt: skip
        try:
            write_whole(self.folder / row.file_name, data)
            with self._list_file_lock, (self.folder / _LIST_FILE_NAME).open("ab") as file:
                # One write: a killed process leaves at most half a line, and the next entry begins with a line feed.
                file.write(b"\n" + msgspec.json.encode(letter))
        except OSError as error:
            advice = "earlier letters stay in the folder; repeat the call to write the missing ones"
            raise InvalidArgument(f"cannot write {self.folder / row.file_name}: {error.strerror}; {advice}") from None
        return letter

    def _style_of(self, row: _LetterRow) -> Style:
        """Return the parameters with a seed for this letter: with one seed for all, all letters would begin alike."""
        seed = self.style.get("random_seed")
        if seed is None:
            return self.style
        seed_hash = hashlib.sha256(f"{seed} {row.file_name}".encode("utf-8", "surrogatepass")).digest()
        return {**self.style, "random_seed": 1 + int.from_bytes(seed_hash[:6], "big")}

    def _request_hash(self, row: _LetterRow) -> str:
        parameters = query_of(self._style_of(row), self.kind), self.kind, self.dpi, self.background
        return hashlib.sha256(json.dumps([row.text, row.hand, *parameters], sort_keys=True).encode("ascii")).hexdigest()

    def _result_frame(self, outcomes: Sequence[object], new: Collection[int]) -> pd.DataFrame:
        rows: list[dict[str, object]] = []
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, _FinishedLetter):
                path = str(self.folder / outcome.file)
                rows.append({**msgspec.structs.asdict(outcome), "path": path, "is_new": index in new})
            else:
                rows.append({"error": outcome, "is_new": False})
        frame = declared_frame(rows, _RESULT_COLUMNS)
        letters = counted(len(frame), "letter")
        if failed := int(frame["error"].notna().sum()):
            warn_caller(f"{failed:,} of {letters} could not be written: the column error says why")
        if cut := int(frame["overflow"].sum()):
            warn_caller(f"text of {cut:,} of {letters} did not fit: see the column overflow")
        return frame
