"""Update the copy of uPlot: ``python -m data.tools.uplot [VERSION]``. Needs npm.

npm gives the hash of a version's archive, and downloads the archive from the configured registry. The hashes of the
archive and of each file are in ``package.json`` beside them, so that a test finds a change without a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

UPLOT = Path(__file__).parents[2] / "toolkit" / "charts" / "static" / "uplot"
#: File here -> (file in the archive, text to append); the package has no minified ES module, so an export is appended.
_FILES = {
    "uPlot.js": ("package/dist/uPlot.iife.min.js", b"\nexport default uPlot;\n"),
    "uPlot.css": ("package/dist/uPlot.min.css", b"\n"),
    "LICENSE": ("package/LICENSE", b""),
}


class WrongArchive(Exception):
    pass


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else json.loads(_npm("view", "uplot", "version", "--json"))
    integrity = json.loads(_npm("view", f"uplot@{version}", "dist.integrity", "--json"))
    with tempfile.TemporaryDirectory() as folder:
        (name,) = json.loads(_npm("pack", f"uplot@{version}", "--json", "--pack-destination", folder))
        unpack(Path(folder) / name["filename"], version, integrity, UPLOT)
    print(f"uPlot {version}, {integrity}")


def unpack(archive: Path, version: str, integrity: str, folder: Path) -> None:
    """Write the files of an archive and a package.json with their hashes; WrongArchive if `integrity` does not fit."""
    if (found := sha512(archive.read_bytes())) != integrity:
        raise WrongArchive(f"{archive.name} has {found}, and the registry says {integrity}")
    hashes = {}
    with tarfile.open(archive) as files:
        for name, (member, addition) in _FILES.items():
            source = files.extractfile(member)
            assert source is not None, f"{archive.name} has no {member}"
            content = source.read() + addition
            (folder / name).write_bytes(content)
            hashes[name] = sha512(content)
    about = {"name": "uplot", "version": version, "license": "MIT", "integrity": integrity, "files": hashes}
    (folder / "package.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")


def sha512(content: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def _npm(*arguments: str) -> str:
    return subprocess.run(["npm", *arguments], capture_output=True, text=True, check=True, timeout=120).stdout


if __name__ == "__main__":
    main()
