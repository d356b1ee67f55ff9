"""The demo data is found beside the package, and inside of it once it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from toolkit import data_folder


def test_the_repository_holds_the_data_beside_the_package() -> None:
    assert data_folder.data_folder() == ROOT / "data"


def test_an_installed_wheel_holds_it_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "toolkit" / "_lab" / "data"
    inside.mkdir(parents=True)
    (inside / "demo_world.json").write_text("{}", "utf-8")
    monkeypatch.setattr(data_folder, "_PACKAGE", tmp_path / "toolkit")
    assert data_folder.data_folder() == inside


def test_a_package_taken_apart_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "_PACKAGE", tmp_path / "toolkit")
    with pytest.raises(FileNotFoundError, match="neither"):
        data_folder.data_folder()
