"""The files of the operator in the data folder of a gateway: the key, and the address while the gateway runs.

`toolkit.system.files.running_gateway` reads them.
"""

import logging
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from toolkit.errors import StoreUnavailable
from toolkit.secret import Secret
from toolkit.system.files import write_whole

log = logging.getLogger("toolkit_gateway")

_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{32,64}")
_OWNER_ONLY = 0o600


def read_or_make_key(folder: Path | None) -> Secret:
    """Return the key in a folder; replace it if it is missing or invalid.

    Without a folder, return a new key. Raises StoreUnavailable if the file cannot be read or written.
    """
    key = secrets.token_urlsafe(32)
    if folder is None:
        return Secret(key)
    file = folder / "operator.key"
    try:
        with suppress(FileNotFoundError):
            stored = file.read_text("ascii", "replace").strip()
            if _KEY_PATTERN.fullmatch(stored):
                return Secret(stored)
            log.warning("%s held no key: it now has a new key", file)
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
