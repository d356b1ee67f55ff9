"""The wheel, built and installed into an empty environment, does the main job without this checkout.

The environment grows from test to test: the base, the extra [gateway], all extras.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import toolkit
from tests.commands import TOOLKIT, call_lab, end, started_lab, url_of
from tests.conftest import ROOT, raw_call, required_program
from tests.test_scans import committed_names
from tests.wheel_programs import CALLS, CLIENT, COMMANDS, GATEWAY_LIBRARIES, NEEDS, POST_AND_READ

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]  # the first test that needs an environment makes it


def uv(*arguments: str | Path) -> None:
    command = [required_program("uv"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the bytecode of the environment that is made here in it, and import nothing of this checkout."""
    # Each home is empty, and matplotlib would look for all fonts in each.
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path_factory.getbasetemp() / "matplotlib"))
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--out-dir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (wheel,) = distributions.glob("*.whl")
    return wheel


def install(wheel: Path, programs: Path, extra: str = "") -> None:
    requirement = f"gateway-toolkit{extra} @ {wheel.as_uri()}"
    uv("pip", "install", "--python", programs / "python", requirement)
    lend_bytecode(programs)


def lend_bytecode(programs: Path) -> None:
    """Give the environment the bytecode of libraries that this one has too: compiling it would take half a minute.

    Python uses it only where the source has the same time and size.
    """
    ours = Path(sysconfig.get_path("purelib"))
    theirs = Path(sysconfig.get_path("purelib", vars={"base": str(programs.parent)}))
    for source in theirs.rglob("*.py"):
        compiled = Path(importlib.util.cache_from_source(str(ours / source.relative_to(theirs))))
        lent = source.parent / "__pycache__" / compiled.name
        if compiled.exists() and not lent.exists():
            lent.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, lent)


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("plain") / "venv"
    uv("venv", "--python", sys.executable, folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    install(wheel, programs)
    return programs


def run(command: list[str | Path], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program as a newcomer would: with an empty home, and nothing of this checkout."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "MPLCONFIGDIR")}
    environment = {**kept, "HOME": str(folder), **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def notebooks_and_data() -> set[str]:
    """Return what the wheel brings; the tools of the maintainers stay in the checkout."""
    names = {name for name in committed_names() if name.startswith(("notebooks/", "data/"))}
    return {name for name in names if not name.startswith("data/tools/")}


def test_wheel_has_all_needed_files_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"toolkit/py.typed", "toolkit/jupyter_settings/labconfig/default_setting_overrides.json"} <= names
    assert {name for name in names if name.startswith("toolkit/_lab/")} == {
        f"toolkit/_lab/{name}" for name in notebooks_and_data()
    }
    package = {name for name in committed_names() if name.startswith(("toolkit/", "toolkit_gateway/"))}
    assert {".css", ".html", ".js", ".lua", ".npz", ".py", ".toml"} <= {Path(name).suffix for name in package}
    assert {name for name in names if not name.startswith(("toolkit/_lab/", "gateway_toolkit-"))} == package
    extension = "gateway_toolkit-0.1.0.data/data/share/jupyter/labextensions/gateway-toolkit"
    assert {f"{extension}/package.json", f"{extension}/saved_widgets.js"} <= names


def test_the_source_distribution_has_tests_and_notebooks(distributions: Path) -> None:
    (source,) = distributions.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "README.md", "LICENSE", "tests/conftest.py", "data/tools/hands/compile.py"}
    assert needed | notebooks_and_data() <= names
    assert not {name for name in names if name.startswith((".venv", "tests/artefacts", "uv.lock"))}


@pytest.fixture
def variables() -> Iterator[dict[str, str]]:
    """The variables by which a client reaches a gateway of another environment, as `toolkit lab` sets them."""
    with toolkit.Gateway() as gateway:
        keys = {f"TOOLKIT_{name.upper()}": key.reveal() for name, key in gateway.credentials.items()}
        yield {"TOOLKIT_URL": gateway.base_url, "TOOLKIT_OPERATOR_KEY": gateway.operator_key.reveal(), **keys}


def test_the_base_is_a_whole_client(programs: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    program = CLIENT.replace("LIBRARIES", repr(GATEWAY_LIBRARIES))
    done = json.loads(run([programs / "python", "-W", "error", "-c", program], tmp_path, **variables).stdout)
    assert done == {
        "read": [21.5, 31.0],
        "triggered": [False, True],
        "rendered": "PNG",
        "decided": ["TEST"],
        "payments": 2,
        "drawn": ["PNG"] * 5,
        "errors": [],
        "walked": "<IdentityWalkthrough: happy, unlocked after 6 calls, 1 attack refused>",
        "gateway": [],
        "helped": [True, True],
        "libraries": [],
    }


def test_commands_of_the_base_use_a_gateway_elsewhere(
    programs: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    used = (
        "post kitchen celsius=21.5",
        "history kitchen",
        "write Hi --hand=Molly -o hi.png",
        "--version",
    )
    said = called(used, [], programs, tmp_path, **variables)
    assert {said[command][:2] for command in used} == {"0 "}
    assert '"celsius":21.5' in said["post kitchen celsius=21.5"]
    assert "21.5" in said["history kitchen"]
    assert re.fullmatch(r"0 toolkit, version \d\S*\n", said["--version"])
    assert (tmp_path / "hi.png").read_bytes().startswith(b"\x89PNG")


def called(commands: Iterable[str], code: Iterable[str], programs: Path, folder: Path, **variables: str) -> Any:
    """Run commands of the toolkit and pieces of code, all in one process; return what each one said."""
    arguments = [json.dumps([*commands]), json.dumps([*code])]
    return json.loads(run([programs / "python", "-c", CALLS, *arguments], folder, **variables).stdout)


def test_a_missing_extra_says_what_to_install(programs: Path, tmp_path: Path) -> None:
    said = called(chain(*COMMANDS.values(), ["doctor"]), chain(*NEEDS.values()), programs, tmp_path)
    first = {"gateway": "'cachetools<", "archive": "'dask[dataframe]<", "lab": "'cachetools<"}
    for table, before in (NEEDS, ""), (COMMANDS, "1 Error: "):
        for extra, calls in table.items():
            pattern = rf"{before}\w+ \(extra \[{extra}\]\) is not installed here; run: \S+ -m pip install "
            for call in calls:
                assert re.match(pattern + re.escape(first[extra]), said[call]), f"{call}: {said[call]}"
                assert "gateway-toolkit" not in said[call]
    assert "'jupyterlab<" in said["lab"]
    for subject, advice in [
        ("gateway", "no `toolkit.Gateway`"),
        ("JupyterLab", "`toolkit lab` cannot start"),
        ("DuckDB", "`toolkit.Archive` has no SQL"),
        ("Dask", "`toolkit.Archive` has no .dask()"),
    ]:
        pattern = rf"^  missing +{subject} +{re.escape(advice)}.*; run: \S+ -m pip install '"
        assert re.search(pattern, said["doctor"], re.MULTILINE), subject


@pytest.fixture(scope="module")
def gateway_programs(wheel: Path, programs: Path) -> Path:
    """The same environment, from here on with the extra [gateway]."""
    install(wheel, programs, "[gateway]")
    return programs


def test_with_a_gateway_it_posts_and_reads(gateway_programs: Path, tmp_path: Path) -> None:
    said = run([gateway_programs / "python", "-W", "error", "-c", POST_AND_READ], tmp_path).stdout.splitlines()
    assert said[0] == "21.5"
    assert Path(said[1]).is_relative_to(gateway_programs.parent)


def test_installed_gateway_serves(gateway_programs: Path, tmp_path: Path) -> None:
    command = [gateway_programs / "toolkit", "gateway", "--port=0", "--data=data", "--archive=years"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert raw_call(url_of(process), "GET", "/dweet/for/kitchen?n=1").status == 200
            end(process)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def lab_programs(wheel: Path, gateway_programs: Path) -> Path:
    """The same environment, from here on with JupyterLab: another one would compile all modules again."""
    install(wheel, gateway_programs, "[lab]")
    return gateway_programs


def test_installed_lab_works_on_copies(lab_programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tests.commands.TOOLKIT", (str(lab_programs / "python"), *TOOLKIT[1:]))
    with started_lab(tmp_path, "--port=0", "--lab-port=0") as (process, _, lab, token):
        shown = call_lab(lab, token, "/api/contents?content=1")
        _, complained = end(process, signal.SIGTERM)
    assert complained == "Starting JupyterLab ...\n"
    visible = {name for name in notebooks_and_data() if "/." not in name}
    copies = tmp_path / "lab"
    assert {path.relative_to(copies).as_posix() for path in copies.rglob("[!.]*.*")} == visible
    assert {entry["name"] for entry in shown["content"]} == {"notebooks", "data"}


NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if number else []) for number, name in enumerate(NOTEBOOKS)]
)
def test_installed_notebooks_run(name: str, lab_programs: Path, tmp_path: Path) -> None:
    # All of them are compared and driven in a browser elsewhere; here: that the wheel has what they need.
    python = lab_programs / "python"
    copy = "import pathlib, toolkit.system.files as f; f.copy_missing(f.originals(), pathlib.Path('mine'))"
    run([python, "-c", copy], tmp_path)
    run([lab_programs / "jupyter-execute", "--inplace", f"mine/notebooks/{name}"], tmp_path)
    executed = json.loads((tmp_path / "mine" / "notebooks" / name).read_bytes())
    counts = [cell["execution_count"] for cell in executed["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
