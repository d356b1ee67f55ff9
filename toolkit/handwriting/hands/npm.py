"""Fetch one exact package with npm, and refuse it unless its sha512 is the pinned one."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
from pathlib import Path


class WrongArchive(Exception):
    pass


def fetch(package: str, version: str, integrity: str, folder: Path) -> Path:
    """Fetch with ``npm pack`` unless the archive is there; raise WrongArchive if its sha512 is not `integrity`."""
    archive = folder / f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"]
        subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise WrongArchive(f"{archive.name}: sha512-{digest}, expected {integrity}")
    return archive


def read_member(archive: Path, name: str) -> bytes | None:
    with tarfile.open(archive) as files:
        if f"package/{name}" not in files.getnames():
            return None
        member = files.extractfile(f"package/{name}")
        return None if member is None else member.read()
