"""Files on this machine: the default folders, the originals of notebooks and data, and files written atomically."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import platformdirs

APPLICATION = "gateway-toolkit"

_NOT_COPIED = ("__pycache__", "tools")  # at any depth; data/tools is for maintainers
_PACKAGE = Path(__file__).resolve().parents[1]


def gateway_folder() -> Path:
    return platformdirs.user_data_path(APPLICATION, appauthor=False) / "gateway"


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
