"""The files of the operator in the data folder of a gateway: the key, and the address while the gateway runs."""

import logging
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import filelock

from toolkit.errors import StoreUnavailable
from toolkit.local_files import write_whole
from toolkit.secret import Secret

log = logging.getLogger("toolkit.gateway")

_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{32,64}")
_OWNER_ONLY = 0o600
_IS_POSIX = os.name == "posix"


def kept_key(folder: Path | None) -> Secret:
    """Return the key in a folder; a missing or invalid key, or one that other users could read, is replaced.

    Without a folder the key is new. Raises StoreUnavailable if the file cannot be read or written.
    """
    key = secrets.token_urlsafe(32)
    if folder is None:
        return Secret(key)
    file = folder / "operator.key"
    try:
        with suppress(FileNotFoundError):
            kept = file.read_text("ascii", "replace").strip()
            if _KEY_PATTERN.fullmatch(kept) and not (_IS_POSIX and stat.S_IMODE(file.stat().st_mode) & 0o077):
                return Secret(kept)
            log.warning("%s was readable by other users, or held no key: the operator has a new one", file)
        write_whole(file, f"{key}\n".encode("ascii"), _OWNER_ONLY)
    except OSError as error:
        raise StoreUnavailable(f"the key of the operator API cannot be kept: {error}") from None
    return Secret(key)


def write_address(folder: Path, url: str) -> None:
    try:
        write_whole(folder / "gateway.url", f"{url}\n{os.getpid()}\n".encode("ascii"), _OWNER_ONLY)
    except OSError as error:
        log.warning("`toolkit post`, `toolkit lock` and others cannot find this gateway: %s", error)


def remove_address(folder: Path) -> None:
    with suppress(OSError):
        (folder / "gateway.url").unlink(missing_ok=True)


def running_gateway(folder: Path) -> tuple[str, Secret] | None:
    """Return URL and key of the gateway that has the folder open; None if there is none, or no key to read."""
    try:
        url, process = (folder / "gateway.url").read_text("ascii").split()
        key = Secret((folder / "operator.key").read_text("ascii").strip())
        # A killed gateway leaves its address; another program may have the port now, and must not get the key.
        lock = filelock.FileLock(folder / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        with suppress(filelock.Timeout), lock:
            return None
        # A gateway that is starting has the folder, but has not yet removed the address of a killed gateway.
        return (url, key) if process == (folder / "gateway.pid").read_text("ascii").strip() else None
    except (OSError, ValueError):
        return None
