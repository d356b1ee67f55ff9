"""Where the gateway on a data folder listens: a file that it writes into the folder while it runs."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

import filelock

log = logging.getLogger("toolkit.gateway")

_FILE = "gateway.url"


def write_address(folder: Path, url: str) -> None:
    # Beside it first: a reader must not find half of a URL.
    fresh = folder / f"{_FILE}.new"
    try:
        with open(fresh, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"{url}\n")
        fresh.replace(folder / _FILE)
    except OSError as error:  # a full disk, say: the gateway itself works
        log.warning("commands such as `toolkit post` cannot find this gateway without --url: %s", error)


def remove_address(folder: Path) -> None:
    with suppress(OSError):
        (folder / _FILE).unlink(missing_ok=True)


def running_address(folder: Path) -> str | None:
    """Return the URL of the gateway that has the folder open, or None."""
    try:
        url = (folder / _FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    # A killed gateway leaves its address, and another program may have the port by now: the lock of the folder tells.
    lock = filelock.FileLock(folder / "gateway.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        return url
    except OSError:
        return None
    lock.release()
    return None
