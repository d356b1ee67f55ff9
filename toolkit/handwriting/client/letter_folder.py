"""The folder of a mail merge: its letters, and the list of those that are finished."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from threading import Lock

import msgspec

from toolkit.errors import InvalidArgument
from toolkit.handwriting.handwritten import Handwritten, write_whole

LIST = "letters.jsonl"


class Finished(msgspec.Struct, frozen=True):
    """A letter that was written, as the list has it."""

    file: str
    #: A digest of text, hand and parameters: a letter that would be another one is written again.
    request: str
    #: Of the file, which may have been changed or cut off since.
    sha256: str
    bytes: int
    hand: str
    pages: int
    width: float
    height: float
    seed: str
    overflow: bool


class LetterFolder:
    """Writes letters into a folder, and knows which ones are whole; several threads may write."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder).expanduser()
        self._lock = Lock()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
            self._finished = {entry.file: entry for entry in self._entries()}
        except OSError as error:
            raise InvalidArgument(f"cannot write into the folder {self.path}: {error.strerror}") from None

    def finished(self, file_name: str, request: str) -> Finished | None:
        """Return what the list says of a letter, if it is this one and its file is whole."""
        entry = self._finished.get(file_name)
        if entry is None or entry.request != request:
            return None
        try:
            data = (self.path / file_name).read_bytes()
        except OSError:
            return None
        return entry if hashlib.sha256(data).hexdigest() == entry.sha256 else None

    def keep(self, file_name: str, request: str, done: Handwritten, data: bytes) -> Finished:
        """Write a letter and add it to the list."""
        entry = Finished(
            file_name, request, hashlib.sha256(data).hexdigest(), len(data), done.handwriting, done.pages, done.width,
            done.height, str(done.seed), done.overflow or (done.kind != "pdf" and done.pages > 1),
        )  # fmt: skip
        try:
            write_whole(self.path / file_name, data)
            with self._lock, (self.path / LIST).open("ab") as file:
                # One write: a process that is killed leaves half a line at most, which the next entry ends.
                file.write(b"\n" + msgspec.json.encode(entry))
        except OSError as error:
            advice = "the letters before it stay; run the same call again for the rest"
            raise InvalidArgument(f"cannot write {self.path / file_name}: {error.strerror}; {advice}") from None
        return entry

    def _entries(self) -> list[Finished]:
        try:
            lines = (self.path / LIST).read_bytes().splitlines()
        except FileNotFoundError:
            return []
        entries = []
        for line in filter(None, lines):
            try:
                entries.append(msgspec.json.decode(line, type=Finished))
            except (msgspec.MsgspecError, UnicodeDecodeError):  # half a line: its letter is written again
                continue
        return entries
