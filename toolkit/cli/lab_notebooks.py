"""The notebooks of `toolkit lab`: the originals in a checkout, otherwise copies that a person may change."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import click
import platformdirs

from toolkit.local_files import APPLICATION, is_checkout, originals, write_whole

_COPIED_FOLDERS = ("notebooks", "data")
_NOT_COPIED = ("__pycache__", "tools")  # at any depth; data/tools is for maintainers
_RECORD_FILE = ".gateway-toolkit.json"


def prepare_notebooks(folder: Path | None) -> Path:
    """Return the folder that JupyterLab shows: the checkout, or a folder to which notebooks and data were copied."""
    if folder is None and is_checkout():
        return originals()
    root = (folder or _default_folder()).resolve()
    try:
        outdated = copy_originals(originals(), root)
    except OSError as error:
        raise click.ClickException(f"the folder {root} cannot be written: {error.strerror}") from None
    for name in outdated:
        click.echo(f"{name} has a newer version; yours is kept (move it away to get the new one)", err=True)
    return root


def _default_folder() -> Path:
    return platformdirs.user_documents_path() / APPLICATION


def copy_originals(source: Path, folder: Path) -> list[str]:
    """Copy notebooks and data to a folder, but never overwrite a file that a person changed.

    A file that nobody changed since an earlier copy is updated; a missing file is copied again. Returns the names of
    the files that a person changed and that have a newer original.
    """
    record_file = folder / _RECORD_FILE
    copied, outdated = _read_record(record_file), []
    for name in _file_names(source):
        original, target = (source / name).read_bytes(), folder / name
        digest = _digest(original)
        present_digest = _digest(target.read_bytes()) if target.exists() else None
        if present_digest in (None, digest, copied.get(name)):
            if present_digest != digest:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, original)
            copied[name] = digest
        elif copied.get(name) != digest:
            outdated.append(name)
    write_whole(record_file, json.dumps(copied, indent=1).encode("utf-8"))
    return outdated


def _file_names(source: Path) -> Iterator[str]:
    for path in sorted(path for name in _COPIED_FOLDERS for path in (source / name).rglob("*")):
        parts = path.relative_to(source).parts
        if path.is_file() and not any(part.startswith(".") or part in _NOT_COPIED for part in parts):
            yield "/".join(parts)


def _read_record(path: Path) -> dict[str, str]:
    """Return the digest of each file at its latest copy."""
    try:
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        # Without a record of earlier copies, every file counts as changed by a person.
        return {}
    return record if isinstance(record, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
