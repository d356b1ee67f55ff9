"""The pip command that installs the libraries of an extra, such as ``lab``."""

from __future__ import annotations

import re
import sys
from importlib.metadata import requires


def install_command(extra: str) -> str:
    # The command names the libraries, because this package itself is on no package index.
    wanted = []
    for requirement in requires("gateway-toolkit") or ():
        library, _, marker = requirement.partition(";")
        if re.search(rf"""extra == ['"]{extra}['"]""", marker):
            wanted.append(f"'{library.strip()}'")
    return f"{sys.executable} -m pip install {' '.join(wanted)}"
