"""Copies of the notebooks in a user's folder, and atomic writes of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.system.files import copy_missing, write_whole

ORIGINALS = {"notebooks/1.ipynb": "one", "notebooks/2.ipynb": "two", "data/a/b.csv": "x,y"}
NOT_FOR_COPIES = ("notebooks/.ipynb_checkpoints/1.ipynb", "data/tools/hands/compile.py", "docs/index.md")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in ORIGINALS.items() | dict.fromkeys(NOT_FOR_COPIES, "other").items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "source"


def test_notebooks_and_data_are_copied_and_nothing_else(source: Path, tmp_path: Path) -> None:
    copies = tmp_path / "mine"
    copy_missing(source, copies)
    found = {path.relative_to(copies).as_posix(): path.read_text() for path in copies.rglob("*") if path.is_file()}
    assert found == ORIGINALS


def test_existing_file_is_never_overwritten(source: Path, tmp_path: Path) -> None:
    copy_missing(source, tmp_path)
    (tmp_path / "notebooks" / "1.ipynb").write_text("mine")
    (tmp_path / "data" / "a" / "b.csv").unlink()
    (source / "notebooks" / "1.ipynb").write_text("newer")
    copy_missing(source, tmp_path)
    assert (tmp_path / "notebooks" / "1.ipynb").read_text() == "mine"
    assert (tmp_path / "data" / "a" / "b.csv").read_text() == "x,y"


def test_write_error_names_the_target_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"1\.ipynb") as caught:
        write_whole(tmp_path / "missing" / "1.ipynb", b"")
    assert caught.value.filename == str(tmp_path / "missing" / "1.ipynb")
