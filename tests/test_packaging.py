"""The wheel, built and installed into an empty environment, does the main job without this checkout."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.commands import TOOLKIT, call_lab, end, started_lab, url_of
from tests.conftest import ROOT, raw_call, required_program
from tests.test_scans import committed_names

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]  # the first test that needs an environment makes it
POST_AND_READ = """
import toolkit
with toolkit.connect() as tk:
    tk.dweets.post("kitchen", {"celsius": 21.5})
    print(tk.dweets.latest("kitchen")["celsius"].iloc[0])
    print(toolkit.__file__)
"""


def uv(*arguments: str | Path) -> None:
    command = [required_program("uv"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the bytecode of the environment that is made here in it, and import nothing of this checkout."""
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


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("plain") / "venv"
    uv("venv", "--python", sys.executable, folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    install(wheel, programs)
    return programs


def run(command: list[str | Path], folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command as a newcomer: an empty home, nothing of this checkout in the environment."""
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "MPLCONFIGDIR")}
    environment |= {"HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def notebooks_and_data() -> set[str]:
    """Return what the wheel brings; the tools of the maintainers stay in the checkout."""
    names = {name for name in committed_names() if name.startswith(("notebooks/", "data/"))}
    return {name for name in names if not name.startswith("data/tools/")}


def test_the_wheel_has_all_that_is_needed_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"toolkit/py.typed", "toolkit/jupyter_settings/labconfig/default_setting_overrides.json"} <= names
    assert {name for name in names if name.startswith("toolkit/_lab/")} == {
        f"toolkit/_lab/{name}" for name in notebooks_and_data()
    }
    package = {name for name in committed_names() if name.startswith("toolkit/")}
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


def test_it_says_what_it_is(programs: Path, tmp_path: Path) -> None:
    assert "Usage:" in run([programs / "python", "-m", "toolkit", "--help"], tmp_path).stdout
    assert re.fullmatch(r"toolkit, version \d\S*\n", run([programs / "toolkit", "--version"], tmp_path).stdout)


def test_it_posts_and_reads(programs: Path, tmp_path: Path) -> None:
    said = run([programs / "python", "-W", "error", "-c", POST_AND_READ], tmp_path).stdout.splitlines()
    assert said[0] == "21.5"
    assert Path(said[1]).is_relative_to(programs.parent)


def test_its_gateway_serves(programs: Path, tmp_path: Path) -> None:
    command = [programs / "toolkit", "gateway", "--port=0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert raw_call(url_of(process), "GET", "/dweet/for/kitchen?n=1").status == 200
            end(process)
        finally:
            process.kill()


def test_without_jupyter_lab_and_doctor_say_what_to_install(programs: Path, tmp_path: Path) -> None:
    refused = run([programs / "toolkit", "lab"], tmp_path, code=1)
    assert re.fullmatch(
        r"Error: JupyterLab is not installed here; run: \S+ -m pip install( '[a-z-]+(\[dataframe\])?<\S+,>=\S+')+\n",
        refused.stderr,
    )
    assert "'jupyterlab<" in refused.stderr
    assert "gateway-toolkit" not in refused.stderr
    said = run([programs / "toolkit", "doctor"], tmp_path).stdout
    assert re.search(r"^  missing +JupyterLab +`toolkit lab` cannot start; run: \S+ -m pip", said, re.MULTILINE)


@pytest.fixture(scope="module")
def lab_programs(wheel: Path, programs: Path) -> Path:
    """The same environment, from here on with JupyterLab: another one would compile all modules again."""
    install(wheel, programs, "[archive,lab]")
    return programs


def test_its_lab_works_on_copies(lab_programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tests.commands.TOOLKIT", (str(lab_programs / "python"), *TOOLKIT[1:]))
    with started_lab(tmp_path, "--port=0", "--lab-port=0") as (process, _, lab, token):
        shown = call_lab(lab, token, "/api/contents?content=1")
        _, complained = end(process, signal.SIGTERM)
    assert complained == ""
    visible = {name for name in notebooks_and_data() if "/." not in name}
    copies = tmp_path / "lab"
    assert {path.relative_to(copies).as_posix() for path in copies.rglob("[!.]*.*")} == visible
    assert {entry["name"] for entry in shown["content"]} == {"notebooks", "data"}


NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if number else []) for number, name in enumerate(NOTEBOOKS)]
)
def test_its_notebooks_run(name: str, lab_programs: Path, tmp_path: Path) -> None:
    # All of them are compared and driven in a browser elsewhere; here: that the wheel has what they need.
    python = lab_programs / "python"
    copy = "import pathlib, toolkit.system.files as f; f.copy_missing(f.originals(), pathlib.Path('mine'))"
    run([python, "-c", copy], tmp_path)
    run([lab_programs / "jupyter-execute", "--inplace", f"mine/notebooks/{name}"], tmp_path)
    executed = json.loads((tmp_path / "mine" / "notebooks" / name).read_bytes())
    counts = [cell["execution_count"] for cell in executed["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
