"""The gates of the house, so that the one test command is all of them: style, types, and what must not be committed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT, required_program

LARGEST_BYTES = 2_000_000
#: Larger files that are needed, each with its reason.
LARGE_FOR_A_REASON: dict[str, str] = {}
#: The only file that may hold the secrets of the demo world.
DEMO_WORLD = "data/demo_world.json"
#: Parts of the demo world in which every text is a secret.
SECRET_PARTS = {"credentials", "locks"}

LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "yarn.lock"}
# Written in two halves, so that this file does not hold what it looks for.
REGISTRIES = re.compile(
    "|".join(
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
    + r"|https?://[\w.-]*\b(pypi|npm|registry|artifactory|nexus|devpi|mirror|mirrors)\b[\w-]*\."
    + r"|--(extra-)?index-url[ =]\S|[-_]index[-_]url *="
)
MACHINE_PATH = re.compile(
    r"(?<![\w.}/~-])/(root|home|Users|work|mnt)/\w|(?<![\w.}/~-])/tmp/(wt|tmp|pytest-|ipykernel_)|\b[A-Z]:\\Users\b"
)
CARD = re.compile(r"(?<![\w.+/=-])\d(?:[ -]?\d){12,18}(?![\w+/=-])(?!\.\d)")
CARD_PREFIX = re.compile(
    r"4|5[1-5]|2(22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)|3[47]|30[0-5]|3[689]|35(2[89]|[3-8]\d)|6(011|4[4-9]|5)"
)

#: An output of a notebook that is a picture: one text, or a list of lines as of an SVG.
PICTURE = re.compile(r'"image/[\w+]+": (?:"[^"]*"|\[(?:\s*"(?:[^"\\]|\\.)*",?)*\s*\])')


@cache
def committed_names() -> tuple[str, ...]:
    """Return the files that git has or would add, as paths relative to the root."""
    git = [required_program("git"), "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    listing = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, capture_output=True, check=True, timeout=60).stdout.decode("utf-8").split("\0")
    return tuple(name for name in names if name and (ROOT / name).is_file())


@cache
def text_of(name: str) -> str | None:
    """Return the text of a file, None of a binary one; pictures inside of notebooks are left out."""
    try:
        text = (ROOT / name).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return PICTURE.sub('""', text) if name.endswith(".ipynb") else text


def texts() -> Iterator[tuple[str, str]]:
    for name in committed_names():
        if (text := text_of(name)) is not None:
            yield name, text


def found(pattern: re.Pattern[str], *, exempt: frozenset[str] = frozenset()) -> list[str]:
    return [
        f"{name}: {match.group()}" for name, text in texts() if name not in exempt for match in pattern.finditer(text)
    ]


def run_tool(*command: str) -> None:
    """Run a tool of this environment on the checkout; what it says is the failure."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_ruff_finds_nothing() -> None:
    run_tool("ruff", "check", "--no-fix")


def test_everything_is_formatted() -> None:
    run_tool("ruff", "format", "--check")


def test_types_are_right() -> None:
    run_tool("mypy")


def test_there_is_something_to_scan() -> None:
    names = committed_names()
    assert "pyproject.toml" in names
    assert "toolkit/cli/lock.py" in names
    assert text_of("toolkit/cli/lock.py")


def test_no_registry_is_named() -> None:
    assert not LOCK_FILES & {Path(name).name for name in committed_names()}
    assert not found(REGISTRIES)


def test_no_path_of_a_machine_is_named() -> None:
    assert not found(MACHINE_PATH)


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        (REGISTRIES, "https://py" + "pi.org/simple"),
        (REGISTRIES, "https://art" + "ifactory.example/api"),
        (MACHINE_PATH, "see /ro" + "ot/x"),
        (MACHINE_PATH, '"/ho' + 'me/jane/a.csv"'),
        (MACHINE_PATH, "C:\\Us" + "ers\\jane"),
    ],
)
def test_the_scans_see_what_they_look_for(pattern: re.Pattern[str], sample: str) -> None:
    assert pattern.search(sample)


def test_no_file_is_large_without_a_reason() -> None:
    large = {name for name in committed_names() if (ROOT / name).stat().st_size > LARGEST_BYTES}
    assert large == set(LARGE_FOR_A_REASON)


def is_card_number(text: str) -> bool:
    """Whether these are the digits of a payment card: a prefix that is in use, and the check digit fits (Luhn)."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    fits = (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
    return fits and CARD_PREFIX.match("".join(map(str, digits))) is not None


@pytest.mark.parametrize(
    ("number", "expected"), [("4111" + 3 * " 1111", True), ("4111" + 3 * " 1112", False), ("1" * 12 + "7", False)]
)
def test_card_numbers_are_known(number: str, expected: bool) -> None:
    assert CARD.fullmatch(number)
    assert is_card_number(number) is expected


def test_no_full_card_number_is_committed() -> None:
    places = [
        f"{name}: {match.group()[:6]}..."
        for name, text in texts()
        for match in CARD.finditer(text)
        if is_card_number(match.group())
    ]
    assert not places


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


def test_demo_secrets_stand_in_one_place() -> None:
    world = ROOT / DEMO_WORLD
    if not world.exists():
        pytest.skip("there is no demo world in this checkout")
    secrets = set(secrets_in(json.loads(world.read_bytes())))
    assert secrets
    places = [name for name, text in texts() if name != DEMO_WORLD and any(secret in text for secret in secrets)]
    assert not places


def test_continuous_integration_runs_the_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert script.read_text("utf-8").splitlines()[-1] == 'uv run pytest "$@"'
    assert "\nuv run pytest\n" in (ROOT / "README.md").read_text("utf-8")
    subprocess.run([required_program("bash"), "-n", script], timeout=60, check=True)


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_it_ran(path: Path) -> None:
    notebook = json.loads(path.read_bytes())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    # nbval compares nothing in a cell that was never run, and says so nowhere.
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert "widgets" not in notebook["metadata"], "widget state hides the pictures and spoils differences"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_of_a_tutorial_are_short(path: Path) -> None:
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_bytes())["cells"] if cell["cell_type"] == "code"]
    lines = [line for cell in cells for line in cell.splitlines()]
    assert len(lines) <= 3 * len(cells)
    assert max(map(len, lines)) <= 90
