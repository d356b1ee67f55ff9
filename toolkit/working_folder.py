"""Folders of notebooks and data: a checkout, the installed package, or a copy in a person's own folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

APPLICATION = "gateway-toolkit"
FOLDERS = ("notebooks", "data")

_PACKAGE = Path(__file__).resolve().parent
_RECORD = ".gateway-toolkit.json"


def gateway_folder() -> Path:
    """Return the default data folder of the lab's gateway."""
    return platformdirs.user_data_path(APPLICATION, appauthor=False) / "gateway"


def notebook_folder() -> Path:
    """Return the default folder for copies of the notebooks of an installed package."""
    return platformdirs.user_documents_path() / APPLICATION


def is_checkout() -> bool:
    root = _PACKAGE.parent
    return (root / "pyproject.toml").is_file() and (root / "notebooks").is_dir()


def originals() -> Path:
    """Return the folder of the original ``notebooks`` and ``data``; read only in an installed package."""
    return _PACKAGE.parent if is_checkout() else _PACKAGE / "_lab"


@dataclass
class Copied:
    """The files of one copy, as paths relative to the folder."""

    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    #: Changed by a person, and the original has a newer version.
    kept: list[str] = field(default_factory=list)


def copy_originals(source: Path, folder: Path) -> Copied:
    """Copy notebooks and data to a folder, and never overwrite what a person changed.

    A file that nobody changed since an earlier copy is updated; a file that is gone is copied again.
    """
    record_file = folder / _RECORD
    written = _read_record(record_file)
    copied = Copied()
    for name in _names(source):
        _copy_one(name, source, folder, written, copied)
    _write(record_file, json.dumps(written, indent=1).encode("utf-8"))
    return copied


def _copy_one(name: str, source: Path, folder: Path, written: dict[str, str], copied: Copied) -> None:
    original, target = (source / name).read_bytes(), folder / name
    digest = _digest(original)
    present = _digest(target.read_bytes()) if target.exists() else None
    if present not in (None, digest, written.get(name)):
        if written.get(name) != digest:
            copied.kept.append(name)
        return
    if present != digest:
        (copied.new if present is None else copied.updated).append(name)
        _write(target, original)
    written[name] = digest


def _names(source: Path) -> Iterator[str]:
    for path in sorted(path for name in FOLDERS for path in (source / name).rglob("*")):
        parts = path.relative_to(source).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            yield "/".join(parts)


def _read_record(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_bytes())
    except ValueError:
        # Without the record, every file counts as changed.
        return {}
    return record if isinstance(record, dict) else {}


def _write(path: Path, content: bytes) -> None:
    # Beside it first: a full disk must not leave half a notebook.
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
