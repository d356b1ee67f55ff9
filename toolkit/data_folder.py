"""Where the demo data lies: beside the package in the repository, inside of it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder() -> Path:
    """Return the folder with the demo world and the data of the notebooks.

    Returns
    -------
    pathlib.Path
        ``data/`` of the repository, or ``toolkit/_lab/data`` of an installed wheel.

    Raises
    ------
    FileNotFoundError
        Neither is there: the package was taken apart.

    Examples
    --------
    >>> (data_folder() / "demo_world.json").exists()
    True
    """
    # A wheel first: whatever lies beside site-packages is not ours.
    for folder in (_PACKAGE / "_lab" / "data", _PACKAGE.parent / "data"):
        if (folder / "demo_world.json").is_file():
            return folder
    raise FileNotFoundError("the folder with demo_world.json is neither in the package nor beside it")
