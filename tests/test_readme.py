"""What README, comparison and decisions say of tests, files and old clients is so; test_docs.py runs their code."""

from __future__ import annotations

import re
import typing

import dweepy
import handwritingio
import pytest
from traitlets import MetaHasTraits

import toolkit
from tests.conftest import ROOT
from tests.test_quality import committed_names

README = (ROOT / "README.md").read_text("utf-8")
COMPARISON = (ROOT / "docs" / "explanation" / "comparison.md").read_text("utf-8")
DECISIONS = (ROOT / "docs" / "explanation" / "decisions.md").read_text("utf-8")


def test_it_has_at_most_150_lines() -> None:
    assert len(README.splitlines()) <= 150


def test_what_the_docs_say_of_the_old_clients_is_so() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", COMPARISON, re.MULTILINE))
    classes = [
        sum(isinstance(each, type) and issubclass(each, Exception) for each in vars(module).values())
        for module in (dweepy, handwritingio)
    ]
    assert rows["classes of errors"] == "one for each cause | {} | {}".format(*classes)
    assert not {"stored", "things", "post_frame"} & set(dweepy.__all__)
    renders = [name for name in vars(handwritingio.Client) if name.startswith("render_")]
    assert renders == ["render_png", "render_pdf"]
    assert not typing.get_type_hints(dweepy.dweet_for)
    assert not typing.get_type_hints(handwritingio.Client.render_png)
    widgets = [name for name in toolkit.__all__ if issubclass(type(getattr(toolkit, name)), MetaHasTraits)]
    assert rows["type hints, widgets"] == f"yes, {len(widgets)} | no, 0 | no, 0"


def test_its_commands_are_the_ones_of_the_mission() -> None:
    assert "pip install uv && uv run toolkit lab" in README
    assert "uv run pytest" in README


@pytest.mark.parametrize("word", ["thing", "dweet"])
def test_a_word_of_the_service_is_defined_where_it_appears(word: str) -> None:
    first = next(part for part in README.split("\n\n") if re.search(rf"\b{word}s?\b(?!\.io)", part, re.IGNORECASE))
    assert re.search(rf"\ba \*{word}\* is \w", first, re.IGNORECASE)


def test_nothing_claims_that_the_package_is_on_an_index() -> None:
    files = [ROOT / name for name in committed_names() if not name.startswith("tests/")]
    texts = {
        file: file.read_text("utf-8") for file in files if file.suffix in (".md", ".py", ".ipynb", ".toml", ".html")
    }
    claim = re.compile(r"(install|add|uvx|pipx)\b[^\n#|]*\bgateway-toolkit\b|\[!\[|shields\.io")
    claims = [f"{file.name}: {found[0]}" for file, text in texts.items() for found in claim.finditer(text)]
    assert not claims
    assert "README.md" in {file.name for file in texts}


def test_every_test_that_a_decision_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", DECISIONS))
    written = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    }
    assert named
    assert not named - written


def test_every_file_that_it_links_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]
