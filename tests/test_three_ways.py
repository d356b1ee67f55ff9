"""The CLI page of the docs: its table is executed, and Python, command line and HTTP give the same data."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import toolkit
from tests.conftest import ROOT, raw_call
from tests.test_cli import TOOLKIT
from toolkit.cli.history import history
from toolkit.cli.post import post
from toolkit.cli.tail import tail
from toolkit.cli.write import write

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
CODE = re.compile(r"`([^`]+)`")
#: Question, and the code of each way.
ROWS = {
    cells[0]: [CODE.findall(cell) for cell in cells[1:]]
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 4 and "toolkit" in line
}
DWEETS = [{"celsius": 21.5}, {"celsius": 20, "air": {"humidity": 48}, "on": True}, {"celsius": -0.1, "text": "ü, \n"}]
Data = list[tuple[pd.Timestamp, dict[str, Any]]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[toolkit.Connection, Path]]:
    """A demo world on the day that the page names, and a folder for files."""
    with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(dweet)}\n" for dweet in DWEETS), "utf-8")
        yield tk, tmp_path


def flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in content.items():
        leaves |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return leaves


def of_frame(frame: pd.DataFrame) -> Data:
    rows = frame.astype("object").where(frame.notna(), None).to_dict("records")
    values = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return list(zip(frame.index, values, strict=True))


def of_records(records: list[dict[str, Any]]) -> Data:
    return [(pd.Timestamp(record["created"]), flat(record["content"])) for record in records]


def by_command(command: str, tk: toolkit.Connection, folder: Path) -> str:
    """Run a command in a shell, with `toolkit` as in this environment."""
    program = command.replace("toolkit", shlex.join(TOOLKIT), 1)
    environment = {"TOOLKIT_URL": tk.base_url, "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
    done = subprocess.run(
        ["bash", "-c", program], cwd=folder, env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8")


def by_http(request: str, tk: toolkit.Connection, body: str = "") -> list[dict[str, Any]]:
    """Make a request; return the dweets in the order in which they came."""
    method, _, target = request.partition(" ")
    headers = "Content-Type: application/json\r\n" if body else ""
    answer = json.loads(raw_call(tk.base_url, method, target, body.encode(), headers).body)["with"]
    return answer[::-1] if method == "GET" else answer if isinstance(answer, list) else [answer]


def test_posting_is_the_same_in_all_three_ways(world: tuple[toolkit.Connection, Path]) -> None:
    tk, folder = world
    (python,), (command,), (request, body) = ROWS["post a dweet"]
    one = [eval(python, {"tk": tk}), json.loads(by_command(command, tk, folder)), *by_http(request, tk, body)]
    (python,), (command,), (request,) = ROWS["post many"]
    many = [eval(python, {"tk": tk, "rows": pd.json_normalize(DWEETS)})]
    many += [by_command(command, tk, folder).splitlines(), by_http(request, tk, (folder / "rows.jsonl").read_text())]
    assert [record["content"] for record in one[1:]] == [{"celsius": 21.5}] * 2
    assert [len(receipts) for receipts in many] == [3, 3, 3]
    assert [json.loads(line)["content"] for line in many[1]] == [record["content"] for record in many[2]] == DWEETS
    kept = [values for _, values in of_frame(tk.dweets.history("kitchen"))]
    assert kept == 3 * [{"celsius": 21.5}] + 3 * [flat(dweet) for dweet in DWEETS]
    assert tk.dweets.history("kitchen").index[0] == one[0].index[0]


@pytest.mark.parametrize("question", ["the newest dweet", "the last 500", "a day"])
def test_reading_is_the_same_in_all_three_ways(question: str, world: tuple[toolkit.Connection, Path]) -> None:
    tk, folder = world
    for dweet in DWEETS:
        tk.dweets.post("kitchen", dweet)
    (python,), (command,), (request,) = ROWS[question]
    expected = of_frame(eval(python, {"tk": tk}))
    assert [flat(dweet) for dweet in DWEETS][-len(expected) :] == [values for _, values in expected]
    table = pd.read_csv(io.StringIO(by_command(command, tk, folder)), index_col="created", parse_dates=["created"])
    lines = by_command(f"{command} --json", tk, folder).splitlines()
    assert of_frame(table) == expected
    assert of_records([json.loads(line) for line in lines]) == expected
    assert of_records(by_http(request, tk)) == expected


def test_every_question_has_its_three_ways() -> None:
    assert len(ROWS) == 7
    assert all(len(ways) == 3 and all(ways) for ways in ROWS.values())


@pytest.mark.parametrize("command", [post, tail, history, write], ids=lambda command: command.name)
def test_the_page_names_every_option(command: Any) -> None:
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
    assert f"## `toolkit {command.name} " in PAGE
    assert not [option for option in options if not re.search(rf"`{option}[` ]", PAGE)]
