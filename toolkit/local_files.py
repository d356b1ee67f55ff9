"""Files on this machine: the default folders, copies of notebooks and data, and files that are written atomically.

The originals of notebooks and data are in the checkout, or in the installed package.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import platformdirs

APPLICATION = "gateway-toolkit"
FOLDERS = ("notebooks", "data")

_PACKAGE = Path(__file__).resolve().parent
_RECORD_FILE = ".gateway-toolkit.json"
_NOT_COPIED = ("__pycache__", "tools")  # data/tools of a checkout is for maintainers


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
    """Return the folder with the original ``notebooks`` and ``data``: the checkout, or one in the installed package."""
    return _PACKAGE.parent if is_checkout() else _PACKAGE / "_lab"


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
    for path in sorted(path for name in FOLDERS for path in (source / name).rglob("*")):
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


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file so that readers see all of it or nothing, even if the disk is full or this process crashes."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)  # a file left by a crash may have another mode
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the caller does not know the temporary file
    finally:
        with suppress(OSError):  # the folder cannot be written
            temporary.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
