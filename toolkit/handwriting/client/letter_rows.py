"""The rows of a mail merge: the text and the file name of each letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

import pandas as pd

from toolkit.errors import InvalidArgument

_NUMBER_FIELD = "number"
_FORBIDDEN_CHARACTERS = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED_NAMES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # by Windows
_MAX_NAME_BYTES = 240  # most systems allow file names of 255 bytes


@dataclass(frozen=True)
class LetterRow:
    """A row of the frame: the letter to write, or the error that prevents it."""

    number: int  # from 1
    text: str = ""
    hand: str = ""
    file_name: str = ""
    error: str = ""


class _RowProblem(Exception):
    pass


class Template:
    """A text with fields such as ``{name}`` or ``{amount:.2f}``; a field is a column, or ``{number}`` of the row."""

    def __init__(self, what: str, text: str, columns: list[str]) -> None:
        try:
            self._parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InvalidArgument(f"{what} cannot be read: {error}; write {{{{ and }}}} for braces") from None
        self.fields = [field for _, field, _, _ in self._parts if field is not None]
        for _, field, spec, conversion in self._parts:
            if field is None:
                continue
            if field not in columns and field != _NUMBER_FIELD:
                raise InvalidArgument(f"{what} has {{{field}}}, which is no column: there are {', '.join(columns)}")
            if conversion or "{" in (spec or ""):
                raise InvalidArgument(f"{what}: a field is written as {{{field}}} or {{{field}:.2f}}")

    def filled(self, values: Mapping[str, Any]) -> str:
        """Return the text with the values of one row instead of the fields."""
        pieces = []
        for literal, field, spec, _ in self._parts:
            pieces.append(literal)
            if field is None:
                continue
            if _is_missing(values[field]):
                raise _RowProblem(f"{field} is missing")
            try:
                pieces.append(format(values[field], spec or ""))
            except (ValueError, TypeError) as error:
                raise _RowProblem(f"{field} cannot be written as {{{field}:{spec}}}: {error}") from None
        return "".join(pieces)


def letter_rows(frame: pd.DataFrame, template: str, hand: str, file_name: str, suffix: str) -> list[LetterRow]:
    """Return a LetterRow for each row of the frame, or its error; raise InvalidArgument if all rows would fail."""
    columns = [str(name) for name in frame.columns]
    if len(set(columns)) < len(columns):
        raise InvalidArgument("two columns of the frame have the same name: rename one of them")
    text, name = Template("the template", template, columns), Template("file_name", file_name, columns)
    if not text.fields and hand not in columns:
        advice = f"write {{{columns[0]}}} in the template" if columns else "the frame has no columns"
        raise InvalidArgument(f"the template uses no column, so all letters would be the same: {advice}")
    rows: list[LetterRow] = []
    taken: dict[str, int] = {}
    for number, cells in enumerate(frame.itertuples(index=False, name=None), 1):
        values = {_NUMBER_FIELD: number, **dict(zip(columns, cells, strict=True))}
        try:
            full_name = name.filled(values) + suffix
            _check_file_name(full_name, suffix)
            key = unicodedata.normalize("NFC", full_name).casefold()  # some file systems ignore the case
            if key in taken:
                raise _RowProblem(f"row {taken[key]} has the file name {full_name!r} too")
            taken[key] = number
            chosen = values.get(hand, hand)
            if _is_missing(chosen):
                raise _RowProblem(f"{hand} is missing")
            rows.append(LetterRow(number, text.filled(values), str(chosen), full_name))
        except _RowProblem as problem:
            rows.append(LetterRow(number, error=str(problem)))
    return rows


def _is_missing(value: object) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))  # type: ignore[call-overload]


def _check_file_name(file_name: str, suffix: str) -> None:
    stem = file_name.removesuffix(suffix)
    reason = ""
    if not stem.strip(". "):
        reason = "the name is empty"
    elif hit := _FORBIDDEN_CHARACTERS.search(stem):
        reason = f"it contains {hit[0]!r}"
    elif stem != stem.strip() or stem.startswith("."):
        reason = "it begins with a dot, or begins or ends with a space"
    elif _RESERVED_NAMES.fullmatch(stem):
        reason = "Windows reserves it"
    elif len(file_name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        reason = f"it is longer than {_MAX_NAME_BYTES} bytes"
    if reason:
        raise _RowProblem(f"{file_name[:_MAX_NAME_BYTES]!r} cannot be a file name: {reason}")
