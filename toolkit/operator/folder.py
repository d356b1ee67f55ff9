"""What a gateway leaves in its data folder for its operator: the key, and its address while it runs."""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import filelock

from toolkit.secret import Secret

log = logging.getLogger("toolkit.gateway")

_KEY = re.compile(r"[A-Za-z0-9_-]{32,64}")
_IS_POSIX = os.name == "posix"


class OperatorFolder:
    """The files of the operator in a data folder; None keeps nothing, for a gateway without one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def kept_key(self) -> Secret:
        """Return the key of the folder; the first gateway on it makes one. OSError where it cannot be written.

        A key that other users could read is replaced, and so is a file that holds no key.
        """
        if self._folder is None:
            return Secret(secrets.token_urlsafe(32))
        file = self._folder / "operator.key"
        with suppress(FileNotFoundError):
            text = file.read_text("ascii", "replace").strip()
            if _KEY.fullmatch(text) and not (_IS_POSIX and stat.S_IMODE(file.stat().st_mode) & 0o077):
                return Secret(text)
            log.warning("%s was readable by other users, or held no key: the operator has a new one", file)
        text = secrets.token_urlsafe(32)
        _write(file, text)
        return Secret(text)

    def write_address(self, url: str) -> None:
        """Write down where the gateway of this process listens, for the commands of its operator."""
        if self._folder is not None:
            try:
                _write(self._address, url)
            except OSError as error:
                log.warning("`toolkit post`, `toolkit lock` and others cannot find this gateway: %s", error)

    def remove_address(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._address.unlink(missing_ok=True)

    def running(self) -> tuple[str, Secret] | None:
        """Return URL and key of the gateway that has the folder open; None where they cannot be read."""
        assert self._folder is not None, "a gateway without a folder is not found by one"
        try:
            url = self._address.read_text("ascii").strip()
            key = Secret((self._folder / "operator.key").read_text("ascii").strip())
            # A killed gateway leaves its address, and another program may have that port now: it must not get the key.
            with filelock.FileLock(self._folder / "gateway.lock", timeout=0, mode=0o600, thread_local=False):
                return None
        except filelock.Timeout:
            return url, key
        except (OSError, ValueError):
            return None

    @property
    def _address(self) -> Path:
        assert self._folder is not None
        return self._folder / "gateway.url"


def _write(file: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)  # its mode may be another one
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as opened:
        opened.write(f"{text}\n")
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)
