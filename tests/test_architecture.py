"""The rules of the house: who may import whom, the size of files, and where secrets are revealed."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from tests.conftest import ROOT

PACKAGE = ROOT / "toolkit"
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "data" / "tools").rglob("*.py")])

SERVICES = ("dweets", "handwriting", "rewards", "identity")
#: The only files that may read a secret's raw value, each with the outside it is for.
REVEALERS = {
    "toolkit/http_client.py",
    "toolkit/dweets/service/mail_delivery.py",
    "toolkit/gateway/configuration.py",
    "toolkit/gateway/gateway.py",
    "toolkit/gateway/routes/operator.py",
    "toolkit/gateway/services.py",
    "toolkit/handwriting/service/handwriting.py",
    "toolkit/operator/client.py",
    "toolkit/cli/lock.py",
    "toolkit/cli/lab.py",
    "toolkit/secret.py",
}
# A file above this length needs a reason, and a line here.
LONGEST_FILE = 400


def test_imports_keep_to_the_contracts() -> None:
    lint = subprocess.run(["lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout


def test_secrets_are_revealed_in_few_places() -> None:
    places = {p.relative_to(ROOT).as_posix() for p in FILES if ".reveal()" in p.read_text("utf-8")}
    assert places <= REVEALERS, places - REVEALERS


def test_files_can_be_read_in_one_sitting() -> None:
    long = [path.relative_to(ROOT).as_posix() for path in FILES if _length(path) > LONGEST_FILE]
    assert not long


def _length(path: Path) -> int:
    return path.read_text("utf-8").count("\n")


def test_a_file_says_what_it_is_for() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in FILES}
    silent = [path.name for path, tree in trees.items() if not ast.get_docstring(tree)]
    assert not silent
    services = [tree for path, tree in trees.items() if path.name == "__init__.py" and path.parent.name in SERVICES]
    assert len(services) == len(SERVICES)
    code = (ast.FunctionDef, ast.ClassDef, ast.Import)
    assert not [tree for tree in services for node in tree.body if isinstance(node, code)], "a docstring and names only"
