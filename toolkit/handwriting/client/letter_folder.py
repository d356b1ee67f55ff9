"""The folder of a mail merge: the letters, and a list of the finished letters."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from threading import Lock

import msgspec

from toolkit.errors import InvalidArgument
from toolkit.handwriting.handwritten import Handwritten, write_atomically

LIST_FILE_NAME = "letters.jsonl"


class FinishedLetter(msgspec.Struct, frozen=True):
    """An entry of the list: one letter that was written."""

    file: str
    #: A digest of text, hand and parameters; if it changes, the letter is written again.
    request: str
    #: A digest of the file, to detect that the file was changed or cut off later.
    sha256: str
    bytes: int
    hand: str
    pages: int
    width: float
    height: float
    seed: str
    overflow: bool


class LetterFolder:
    """Writes letters into a folder, and knows which letters are finished; several threads may write."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder).expanduser()
        self._lock = Lock()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
            self._finished = {entry.file: entry for entry in self._read_list()}
        except OSError as error:
            raise InvalidArgument(f"cannot write into the folder {self.path}: {error.strerror}") from None

    def finished(self, file_name: str, request: str) -> FinishedLetter | None:
        """Return the list entry of a letter if the entry has the same `request` digest and the file is unchanged."""
        entry = self._finished.get(file_name)
        if entry is None or entry.request != request:
            return None
        try:
            data = (self.path / file_name).read_bytes()
        except OSError:
            return None
        return entry if hashlib.sha256(data).hexdigest() == entry.sha256 else None

    def write(self, file_name: str, request: str, done: Handwritten, data: bytes) -> FinishedLetter:
        """Write a letter and add it to the list."""
        entry = FinishedLetter(
            file_name, request, hashlib.sha256(data).hexdigest(), len(data), done.handwriting, done.pages, done.width,
            done.height, str(done.seed), done.overflow or (done.kind != "pdf" and done.pages > 1),
        )  # fmt: skip
        try:
            write_atomically(self.path / file_name, data)
            with self._lock, (self.path / LIST_FILE_NAME).open("ab") as file:
                # One write: a killed process leaves at most half a line, and the next entry begins with a line feed.
                file.write(b"\n" + msgspec.json.encode(entry))
        except OSError as error:
            advice = "earlier letters stay in the folder; repeat the call to write the missing ones"
            raise InvalidArgument(f"cannot write {self.path / file_name}: {error.strerror}; {advice}") from None
        return entry

    def _read_list(self) -> list[FinishedLetter]:
        try:
            lines = (self.path / LIST_FILE_NAME).read_bytes().splitlines()
        except FileNotFoundError:
            return []
        entries = []
        for line in filter(None, lines):
            try:
                entries.append(msgspec.json.decode(line, type=FinishedLetter))
            except (msgspec.MsgspecError, UnicodeDecodeError):  # half a line: this letter is written again
                continue
        return entries
