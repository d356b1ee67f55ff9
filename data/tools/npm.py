"""Fetches npm packages of known hashes."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
from pathlib import Path


class WrongArchive(Exception):
    pass


def npm(*arguments: str) -> str:
    return subprocess.run(["npm", *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


def fetch_package(package: str, version: str, integrity: str, folder: Path) -> dict[str, bytes]:
    """Return the files of a package by name. The archive is fetched to `folder` if it is not there yet.

    Raises WrongArchive if its sha512 is not `integrity`.
    """
    archive = folder / f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        npm("pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}")
    found = sha512(archive.read_bytes())
    if found != integrity:
        raise WrongArchive(f"{archive.name}: {found}, expected {integrity}")
    with tarfile.open(archive) as files:
        opened = {member.name: files.extractfile(member) for member in files}
        return {name.removeprefix("package/"): file.read() for name, file in opened.items() if file}


def sha512(content: bytes) -> str:
    """Return the hash as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
