"""Where the demo data lies: beside the package in the repository, inside of it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder() -> Path:
    """Return the folder with the demo world and the data of the notebooks."""
    # A wheel first: whatever lies beside site-packages is not ours.
    for folder in (_PACKAGE / "_lab" / "data", _PACKAGE.parent / "data"):
        if (folder / "demo_world.json").is_file():
            return folder
    raise FileNotFoundError("the folder with demo_world.json is neither in the package nor beside it")
