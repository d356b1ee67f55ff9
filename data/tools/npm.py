"""Fetches npm packages, and refuses an archive whose hash is not the expected one."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path


class WrongArchive(Exception):
    pass


def npm(*arguments: str) -> str:
    return subprocess.run(["npm", *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


def fetch_package(package: str, version: str, integrity: str) -> dict[str, bytes]:
    """Return the files of a package by name."""
    with tempfile.TemporaryDirectory() as folder:
        npm("pack", "--silent", "--pack-destination", folder, f"{package}@{version}")
        (archive,) = Path(folder).iterdir()
        return read_archive(archive, integrity)


def read_archive(archive: Path, integrity: str) -> dict[str, bytes]:
    if (found := sha512(archive.read_bytes())) != integrity:
        raise WrongArchive(f"{archive.name} has {found}, expected {integrity}")
    with tarfile.open(archive) as files:
        opened = {member.name: files.extractfile(member) for member in files}
        return {name.removeprefix("package/"): file.read() for name, file in opened.items() if file}


def sha512(content: bytes) -> str:
    """Return the hash as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
