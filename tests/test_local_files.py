"""Copies of the notebooks in a person's own folder: brought up to date, and never overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from toolkit import local_files
from toolkit.cli.lab_notebooks import copy_originals
from toolkit.local_files import write_whole


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in {"notebooks/1.ipynb": "one", "notebooks/2.ipynb": "two", "data/a/b.csv": "x,y"}.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "source"


@pytest.fixture
def folder(tmp_path: Path, source: Path) -> Path:
    assert copy_originals(source, tmp_path / "mine") == []
    assert (tmp_path / "mine" / "data" / "a" / "b.csv").read_text() == "x,y"
    return tmp_path / "mine"


def test_a_second_copy_changes_nothing(source: Path, folder: Path) -> None:
    before = (folder / "notebooks" / "1.ipynb").stat()
    assert copy_originals(source, folder) == []
    assert (folder / "notebooks" / "1.ipynb").stat().st_ino == before.st_ino, "it was not written again"


def test_what_a_person_changed_stays_and_is_named_once_there_is_a_newer_one(source: Path, folder: Path) -> None:
    mine = folder / "notebooks" / "1.ipynb"
    mine.write_text("mine")
    assert copy_originals(source, folder) == []
    (source / "notebooks" / "1.ipynb").write_text("newer")
    assert copy_originals(source, folder) == ["notebooks/1.ipynb"]
    assert mine.read_text() == "mine"


def test_what_nobody_changed_is_brought_up_to_date(source: Path, folder: Path) -> None:
    (source / "notebooks" / "2.ipynb").write_text("newer")
    assert copy_originals(source, folder) == []
    assert (folder / "notebooks" / "2.ipynb").read_text() == "newer"


def test_what_is_gone_comes_back(source: Path, folder: Path) -> None:
    (folder / "data" / "a" / "b.csv").unlink()
    assert copy_originals(source, folder) == []
    assert (folder / "data" / "a" / "b.csv").read_text() == "x,y"


def test_files_that_were_there_before_are_a_persons_own(source: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "notebooks" / "1.ipynb"
    own.parent.mkdir(parents=True)
    own.write_text("own")
    assert copy_originals(source, tmp_path / "own") == ["notebooks/1.ipynb"]
    assert own.read_text() == "own"


def test_a_broken_record_makes_everything_a_persons_own(source: Path, folder: Path) -> None:
    (folder / ".gateway-toolkit.json").write_text("{broken")
    (source / "notebooks" / "1.ipynb").write_text("newer")
    assert copy_originals(source, folder) == ["notebooks/1.ipynb"]
    assert (folder / "notebooks" / "1.ipynb").read_text() == "one"


def test_hidden_files_are_not_copied(source: Path, tmp_path: Path) -> None:
    hidden = source / "notebooks" / ".ipynb_checkpoints" / "1.ipynb"
    hidden.parent.mkdir()
    hidden.write_text("old")
    copy_originals(source, tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new" / "notebooks").iterdir()) == ["1.ipynb", "2.ipynb"]


def test_tools_of_a_checkout_are_not_copied(source: Path, tmp_path: Path) -> None:
    tool = source / "data" / "tools" / "hands" / "compile.py"
    tool.parent.mkdir(parents=True)
    tool.write_text("print()")
    copy_originals(source, tmp_path / "new")
    assert [path.name for path in (tmp_path / "new" / "data").iterdir()] == ["a"]


def test_an_installed_package_has_its_own_originals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "_PACKAGE", tmp_path / "toolkit")
    assert local_files.originals() == tmp_path / "toolkit" / "_lab"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes of files")
def test_a_left_over_file_reveals_no_private_content(tmp_path: Path) -> None:
    left_over = tmp_path / ".operator.key.new"
    left_over.write_text("of a killed process")
    with left_over.open() as earlier:
        write_whole(tmp_path / "operator.key", b"the key", 0o600)
        assert earlier.read() == "of a killed process"
    assert stat.S_IMODE((tmp_path / "operator.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["operator.key"]


def test_an_error_of_a_write_names_the_file_itself(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="1.ipynb") as caught:
        write_whole(tmp_path / "missing" / "1.ipynb", b"")
    assert caught.value.filename == str(tmp_path / "missing" / "1.ipynb")
