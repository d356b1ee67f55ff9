"""The rules of the house: who may import whom, docstrings, and that every endpoint has both of its sides."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "toolkit"
FILES = sorted(PACKAGE.rglob("*.py"))

SERVICES = ("dweets", "handwriting", "rewards", "identity")
FLOOR = {"contract", "errors", "public_names", "rate_limit", "secret", "worker_process"}
# What a service may take from the gateway: two protocols that it is handed, never a part that speaks HTTP.
HANDED = {"gateway.stores", "gateway.outside_world"}
CLIENT_FLOOR = FLOOR | {"http_session", "frames", "data_folder", "extras"}

#: File -> modules of this package it may import, as prefixes; "own" is its own service folder without the names
#: after the dash. The first pattern that matches counts, and a file that matches none fails.
RULES: list[tuple[str, set[str]]] = [
    (r"(errors|secret|frames|data_folder|notebook_cell|public_names)\.py", set()),
    (r"(rate_limit|extras|worker_process|saved_widgets)\.py", set()),
    (r"contract\.py", {"errors"}),
    (r"http_session\.py", {"contract", "errors", "secret"}),
    (r"connection\.py", {"*"}),
    (r"(__init__|__main__|cli|lab|lab_contents|doctor|recorder|working_folder)\.py", {"*"}),
    (r"gateway/stores/.*\.py", {"gateway.stores"}),
    (r"gateway/(outside_world|exchange|router|sink)\.py", FLOOR | {"gateway"}),
    (r"gateway/.*\.py", {"*"}),
    (r"\w+/__init__\.py", set()),
    (r"\w+/wire\.py", {"contract", "errors"}),
    (r"\w+/client\.py", CLIENT_FLOOR | {"own"}),
    (r"\w+/service\.py", FLOOR | HANDED | {"own"}),
    (r"\w+/(widget|\w+_widget)\.py", CLIENT_FLOOR | {"own", "widget_family"}),
    (r"widget_family\.py", {"errors", "notebook_cell"}),
    (r"(dweets|handwriting|rewards|identity)/.*\.py", CLIENT_FLOOR | HANDED | {"own"}),
]
#: The only files that may read a secret's raw value, each with the outside it is for.
REVEALERS = {
    "http_session.py",
    "gateway/mail.py",
    "gateway/options.py",
    "gateway/services.py",
    "cli.py",
    "lab.py",
    "secret.py",
}
STANDARD_LIBRARY_ONLY = (r"contract\.py", r"errors\.py", r"secret\.py", r"\w+/wire\.py")


def imported(path: Path) -> set[str]:
    """Return the dotted names that a file imports, also inside of functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module or "")
            names |= {
                f"{node.module}.{alias.name}" for alias in node.names if _is_module(f"{node.module}.{alias.name}")
            }
    return names


def _is_module(dotted: str) -> bool:
    path = ROOT.joinpath(*dotted.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def own_imports(path: Path) -> set[str]:
    return {name.removeprefix("toolkit").lstrip(".") for name in imported(path) if name.split(".")[0] == "toolkit"}


def rule_of(relative: str) -> set[str]:
    for pattern, allowed in RULES:
        if re.fullmatch(pattern, relative):
            return allowed
    raise AssertionError(f"no rule for {relative}: add it to the table, or move the file")


def allowed_by(name: str, allowed: set[str], folder: str) -> bool:
    if "*" in allowed or name == "":
        return True
    if folder in SERVICES and name.split(".")[0] == folder:
        return "own" in allowed
    return any(name == module or name.startswith(module + ".") for module in allowed - {"own"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_follow_the_table(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    folder = relative.split("/")[0] if "/" in relative else ""
    allowed = rule_of(relative)
    wrong = {name for name in own_imports(path) if not allowed_by(name, allowed, folder)}
    assert not wrong, f"{relative} may not import {wrong}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_client_and_a_service_do_not_know_each_other(path: Path) -> None:
    names = own_imports(path)
    if path.name == "client.py":
        assert not any(name.endswith(".service") for name in names)
    if path.name == "service.py":
        assert not any(name.endswith((".client", ".widget")) for name in names)


def test_only_http_session_imports_requests() -> None:
    users = {path.name for path in FILES if any(name.split(".")[0] == "requests" for name in imported(path))}
    assert users == {"http_session.py"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_what_travels_needs_the_standard_library_only(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    if not any(re.fullmatch(pattern, relative) for pattern in STANDARD_LIBRARY_ONLY):
        return
    foreign = {name for name in imported(path) if name.split(".")[0] not in sys.stdlib_module_names | {"toolkit"}}
    assert not foreign, f"{relative} imports {foreign}"


def test_secrets_are_revealed_in_few_places() -> None:
    places = {p.relative_to(PACKAGE).as_posix() for p in FILES if ".reveal()" in p.read_text("utf-8")}
    assert places <= REVEALERS, places - REVEALERS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_files_can_be_read_in_one_sitting(path: Path) -> None:
    assert path.read_text("utf-8").count("\n") <= 335


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_service_folder_says_how_to_read_it(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree), f"{path}: a file says what it is for"
    if path.name == "__init__.py" and path.parent.name in SERVICES:
        assert len(tree.body) == 1, f"{path} holds a docstring only"


# Each module once as the first of the package, in one process: whoever begins to read there can also begin there.
_EACH_ALONE = """
import importlib, sys, warnings
warnings.simplefilter("ignore")  # pandas says that an accessor is registered again
for module in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "toolkit"]:
        del sys.modules[name]
    importlib.import_module(module)
"""


def test_every_module_can_be_imported_first() -> None:
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]
    build_only = re.compile(r".*\.hands\.\w+|.*__main__")
    modules = [module.removesuffix(".__init__") for module in modules if not build_only.fullmatch(module)]
    command = [sys.executable, "-c", _EACH_ALONE, *modules]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr[-600:]
