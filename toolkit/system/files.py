"""Files on this machine: the default folders and their gateway, the originals of notebooks and data, safe writing."""

import os
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import platformdirs

from toolkit.secret import Secret

APPLICATION = "gateway-toolkit"

_NOT_COPIED = ("__pycache__", "tools")  # at any depth; data/tools is for maintainers
_PACKAGE = Path(__file__).resolve().parents[1]
_FORMULA_START, _PLAIN_NUMBER = re.compile(r"[=+\-@\t\r\n]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def gateway_folder() -> Path:
    return platformdirs.user_data_path(APPLICATION, appauthor=False) / "gateway"


def running_gateway(folder: Path) -> tuple[str, Secret] | None:
    """Return URL and key of the gateway that has the folder open; None if no gateway has, or the key cannot be read."""
    try:
        url, process = (folder / "gateway.url").read_text("ascii").split()
        key = Secret((folder / "operator.key").read_text("ascii").strip())
        import filelock  # part of the gateway: without it, none has been started from this environment

        # A killed gateway leaves its address; another program may have the port now, and must not get the key.
        file_lock = filelock.FileLock(folder / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        with suppress(filelock.Timeout), file_lock:
            return None
        # A gateway that is starting has the folder, but has not yet removed the address of a killed gateway.
        return (url, key) if process == (folder / "gateway.pid").read_text("ascii").strip() else None
    except (ImportError, OSError, ValueError):
        return None


def is_checkout() -> bool:
    root = _PACKAGE.parent
    return (root / "pyproject.toml").is_file() and (root / "notebooks").is_dir()


def originals() -> Path:
    return _PACKAGE.parent if is_checkout() else _PACKAGE / "_lab"


def copy_missing(source: Path, folder: Path) -> None:
    """Copy notebooks and data to a folder, except the files that it has: a person may have changed them."""
    for original in sorted(path for name in ("notebooks", "data") for path in (source / name).rglob("*")):
        name = original.relative_to(source)
        target = folder / name
        is_wanted = not any(part.startswith(".") or part in _NOT_COPIED for part in name.parts)
        if is_wanted and original.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, original.read_bytes())


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file so that readers see all of it or nothing, even if the disk is full or this process crashes."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with open(temporary, "wb", opener=partial(os.open, mode=mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the caller does not know the temporary file
    finally:
        with suppress(OSError):  # the folder cannot be written
            temporary.unlink(missing_ok=True)


def escaped_formula(cell: Any) -> Any:  # noqa: ANN401
    """Return a cell of a CSV file; a text that a spreadsheet would execute as a formula begins with an apostrophe."""
    is_formula = isinstance(cell, str) and _FORMULA_START.match(cell) and not _PLAIN_NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell
