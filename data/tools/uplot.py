"""Update the copy of uPlot: ``python -m data.tools.uplot [VERSION]``. Needs npm.

The hashes of the archive and of each file are in ``package.json`` beside the files, so that a test finds a change
without a network.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from data.tools.npm import fetch_package, npm, sha512

UPLOT = Path(__file__).parents[2] / "toolkit" / "charts" / "static" / "uplot"
#: File here -> (file in the package, text to append); the package has no minified ES module, so an export is appended.
_FILES = {
    "uPlot.js": ("dist/uPlot.iife.min.js", b"\nexport default uPlot;\n"),
    "uPlot.css": ("dist/uPlot.min.css", b"\n"),
    "LICENSE": ("LICENSE", b""),
}


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else json.loads(npm("view", "uplot", "version", "--json"))
    integrity = json.loads(npm("view", f"uplot@{version}", "dist.integrity", "--json"))
    files = fetch_package("uplot", version, integrity)
    contents = {name: files[member] + addition for name, (member, addition) in _FILES.items()}
    for name, content in contents.items():
        (UPLOT / name).write_bytes(content)
    hashes = {name: sha512(content) for name, content in contents.items()}
    about = {"name": "uplot", "version": version, "license": "MIT", "integrity": integrity, "files": hashes}
    (UPLOT / "package.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    print(f"uPlot {version}, {integrity}")


if __name__ == "__main__":
    main()
