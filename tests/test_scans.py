"""Scans of the tracked files for forbidden content: a failure lists the offenders."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.conftest import ROOT, required_program
from tests.strip_notebooks import stripped

LARGEST_BYTES = 2_000_000
#: The longest file of code that can be read in one sitting.
MOST_LINES = 400
#: The only file that may hold the secrets of the demo world, and the parts of it in which every text is a secret.
DEMO_WORLD, SECRET_PARTS = "data/demo_world.json", {"credentials", "locks"}
#: The folders of our own code.
CODE = ("toolkit/", "toolkit_gateway/", "data/tools/")
#: The only files that may read a secret's raw value, each with the outside it is for.
REVEALERS = {
    "toolkit/secret.py",
    "toolkit/http_client.py",
    "toolkit_gateway/dweets/mail_delivery.py",
    "toolkit_gateway/configuration.py",
    "toolkit_gateway/gateway.py",
    "toolkit_gateway/routes/operator.py",
    "toolkit_gateway/services.py",
    "toolkit_gateway/handwriting/handwriting.py",
    "toolkit/operator/client.py",
    "toolkit_gateway/cli/lock.py",
    "toolkit/cli/lab.py",
}
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "yarn.lock"}
#: The clients of 2016 are tested as they were; the versions of dask are years.
PINNED, CALENDAR_VERSIONS = {"dweepy", "handwritingio"}, {"dask"}
# Written in two halves, so that this file does not hold what it looks for.
REGISTRIES = "|".join(
    rf"{name}\.{end}"
    for name, end in [
        ("pypi", r"(org|python\.org)"),
        (r"pythonh[o]sted", "org"),
        (r"registry\.npmjs", "org"),
        (r"registry\.yarnpkg", "com"),
        (r"(deb|security|ftp)\.debian", "org"),
        (r"proxy\.golang", "org"),
        ("crates", "io"),
    ]
)
PATTERNS = {
    "a registry": re.compile(
        REGISTRIES + r"|https?://[\w.-]*\b(pypi|npm|registry|artifactory|nexus|devpi|mirror|mirrors)\b[\w-]*\."
        r"|--(extra-)?index-url[ =]\S|[-_]index[-_]url *="
    ),
    "a path of a machine": re.compile(
        r"(?<![\w.}/~-])/(root|home|Users|work|mnt)/\w"
        r"|(?<![\w.}/~-])/tmp/(wt|tmp|pytest-|ipykernel_)|\b[A-Z]:\\Users\b"
    ),
    "an index that has the package": re.compile(r"(install|add|uvx|pipx)\b[^\n#|]*\bgateway-[t]oolkit\b|shields\.[i]o"),
}
CARD = re.compile(r"(?<![\w.+/=-])\d(?:[ -]?\d){12,18}(?![\w+/=-])(?!\.\d)")
CARD_PREFIX = re.compile(
    r"4|5[1-5]|2(22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)|3[47]|30[0-5]|3[689]|35(2[89]|[3-8]\d)|6(011|4[4-9]|5)"
)
#: An output of a notebook that is a picture: one text, or a list of lines as of an SVG.
PICTURE = re.compile(r'"image/[\w+]+": (?:"[^"]*"|\[(?:\s*"(?:[^"\\]|\\.)*",?)*\s*\])')

#: A page with one of these can be read on the built site only.
SITE_DIRECTIVE = re.compile(r"^```\{(?:eval-rst|gallery|glossary|include|toctree)\}", re.MULTILINE)


@cache
def committed_names() -> tuple[str, ...]:
    """Return the files that git tracks, as paths relative to the root."""
    git = [required_program("git"), "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(git, capture_output=True, check=True, timeout=60).stdout.decode("utf-8").split("\0")
    assert "pyproject.toml" in names
    return tuple(name for name in names if name and (ROOT / name).is_file())


@cache
def texts() -> dict[str, str]:
    """Return the texts of all files but binary ones; pictures inside of notebooks are left out."""
    found = {}
    for name in committed_names():
        data = (ROOT / name).read_bytes()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            found[name] = PICTURE.sub('""', text) if name.endswith(".ipynb") else text
    return found


@cache
def notebooks() -> dict[str, dict[str, Any]]:
    names = [name for name in committed_names() if name.endswith(".ipynb")]
    return {name: json.loads((ROOT / name).read_bytes()) for name in names}


def code_cells(notebook: dict[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def is_card_number(text: str) -> bool:
    """Return whether these are the digits of a payment card: a prefix that is in use, and the check digit fits."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    fits = (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
    return fits and CARD_PREFIX.match("".join(map(str, digits))) is not None


def secrets_in(value: object, secret: bool = False) -> Iterator[str]:
    """Walk the demo world and give every text of its secret parts."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from secrets_in(inner, secret or name in SECRET_PARTS)
    elif isinstance(value, list):
        for inner in value:
            yield from secrets_in(inner, secret)
    elif secret and isinstance(value, str):
        yield value


@pytest.mark.parametrize("what", PATTERNS)
def test_forbidden_texts_are_in_no_file(what: str) -> None:
    found = {name: match.group() for name, text in texts().items() if (match := PATTERNS[what].search(text))}
    assert found == {}


def test_no_lock_file_and_no_large_file_is_committed() -> None:
    names = committed_names()
    assert [name for name in names if PurePosixPath(name).name in LOCK_FILES] == []
    assert [name for name in names if (ROOT / name).stat().st_size > LARGEST_BYTES] == []


def test_no_full_card_number_is_committed() -> None:
    numbers = ((name, match.group()) for name, text in texts().items() for match in CARD.finditer(text))
    assert [(name, number[:6]) for name, number in numbers if is_card_number(number)] == []


def test_demo_secrets_are_in_one_file() -> None:
    secrets = set(secrets_in(json.loads((ROOT / DEMO_WORLD).read_bytes())))
    assert secrets
    others = [name for name, text in texts().items() if any(secret in text for secret in secrets)]
    assert others == [DEMO_WORLD]


def test_secrets_are_revealed_in_few_files() -> None:
    package = {name for name in texts() if name.startswith(CODE) and name.endswith(".py")}
    assert {name for name in package if ".reveal" in texts()[name]} - REVEALERS == set()


def test_no_private_name_of_a_library_is_imported() -> None:
    # Ruff finds private attributes (SLF001), but not these: they may change in any release.
    private = re.compile(r"^ *(?:from|import) [^#\n]*(?<![\w])_(?!_)\w+", re.MULTILINE)
    code = {name: text for name, text in texts().items() if name.startswith(CODE)}
    found = {
        name: match.group() for name, text in code.items() if name.endswith(".py") and (match := private.search(text))
    }
    assert found == {}


def test_no_file_of_code_is_long() -> None:
    lengths = {name: text.count("\n") for name, text in texts().items() if name.endswith(".py")}
    package = {name: length for name, length in lengths.items() if not name.startswith("tests/")}
    assert {name: length for name, length in package.items() if length > MOST_LINES} == {}


def test_links_of_pages_lead_to_what_a_code_host_shows() -> None:
    pages = {name: text for name, text in texts().items() if name.endswith((".md", ".ipynb"))}
    made_for_site = {name for name, text in pages.items() if SITE_DIRECTIVE.search(text)}
    links = [
        (name, os.path.normpath(PurePosixPath(name).parent / link))
        for name in pages.keys() - made_for_site
        for link in re.findall(r"\]\(([^)#:]+)[)#]", pages[name])
    ]
    assert len(links) > 50
    assert [link for link in links if link[1] in made_for_site or not (ROOT / link[1]).exists()] == []


def test_tests_that_the_decisions_name_exist() -> None:
    tests = re.findall(r"`(test_\w+)`", texts()["docs/explanation/decisions.md"])
    written = {found for text in texts().values() for found in re.findall(r"def (test_\w+)\(", text)}
    assert [name for name in tests if name not in written] == []


def requirements() -> list[Requirement]:
    document = tomllib.loads(texts()["pyproject.toml"])
    project = document["project"]
    groups = [document["build-system"]["requires"], project["dependencies"]]
    groups += [*project["optional-dependencies"].values(), *document["dependency-groups"].values()]
    found = [Requirement(text) for group in groups for text in group if isinstance(text, str)]  # or an included group
    return [each for each in found if each.name not in PINNED | {project["name"]}]


def has_bounds(requirement: Requirement) -> bool:
    """Return whether there is a tested lower bound, and as upper bound the next version that may break us."""
    bounds = {each.operator: Version(each.version) for each in requirement.specifier}
    if bounds.keys() != {">=", "<"}:
        return False
    lower, upper = bounds[">="], bounds["<"]
    is_next = upper.major == 0 or upper.micro == upper.minor == 0
    return lower < upper and is_next and (upper.major > 2000) is (requirement.name in CALENDAR_VERSIONS)


def test_each_dependency_has_one_pair_of_bounds() -> None:
    assert [str(each) for each in requirements() if not has_bounds(each)] == []
    specifiers = {(each.name, each.specifier) for each in requirements()}
    assert len(specifiers) == len({name for name, _ in specifiers})


def test_notebooks_are_committed_as_they_ran_and_stripped() -> None:
    # nbval compares nothing in a cell that was never run, and says so nowhere.
    for name, notebook in notebooks().items():
        counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert counts == list(range(1, len(counts) + 1)), name
    saved = {name: (ROOT / name).read_text("utf-8") for name in notebooks()}
    hint = "run: uv run python -m tests.strip_notebooks"
    assert [name for name, text in saved.items() if stripped(text) != text] == [], hint


def test_cells_of_tutorials_are_short() -> None:
    cells = {name: code_cells(notebook) for name, notebook in notebooks().items()}
    lines = {name: [line for cell in found for line in cell.splitlines()] for name, found in cells.items()}
    assert [name for name in cells if len(lines[name]) > 3 * len(cells[name])] == []
    assert [line for found in lines.values() for line in found if len(line) > 90] == []


def test_no_tutorial_stops_what_its_widgets_use() -> None:
    # Else its widgets say "No answer" after Run All.
    ends = ("gateway.close()", "tk.close()", "live.stop()", "folder.cleanup()")
    codes = {name: "\n".join(code_cells(notebook)) for name, notebook in notebooks().items()}
    assert [name for name, code in codes.items() if any(end in code for end in ends)] == []


def test_no_later_cell_changes_an_earlier_widget() -> None:
    # Else a reader's own clicks are overwritten, and the picture no longer fits to the text above it.
    changed = []
    for path, notebook in notebooks().items():
        shown: list[str] = []
        for code in code_cells(notebook):
            changed += [(path, name) for name in shown if re.search(rf"\b{name}\.(\w+\.value\b|try_|run_)", code)]
            shown += re.findall(r"^(?:display\()?(\w+)\)?$", code, re.MULTILINE)
    assert changed == []
