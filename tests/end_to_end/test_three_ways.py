"""The CLI page of the docs: its table is executed, and Python, command line and HTTP give the same data."""

from __future__ import annotations

import contextlib
import email.policy
import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests

import toolkit
from tests.commands import TOOLKIT, called
from tests.conftest import ROOT, raw_call
from tests.mail_server import eventually
from toolkit.cli.history import history
from toolkit.cli.post import post
from toolkit.cli.tail import tail
from toolkit.cli.write import write
from toolkit.errors import DataWarning
from toolkit.operator import wire
from toolkit_gateway import DEMO_SEED, DEMO_START, SteppedClock

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
CODE = re.compile(r"`([^`]+)`")
#: Question, and the code of each way.
ROWS = {
    cells[0]: [CODE.findall(cell) for cell in cells[1:]]
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 4 and "`tk." in line
}
DWEETS = [{"celsius": 21.5}, {"celsius": 20, "air": {"humidity": 48}, "on": True}, {"celsius": -0.1, "text": "ü, \n"}]
Data = list[tuple[pd.Timestamp, dict[str, Any]]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[toolkit.Connection, Path]]:
    """A demo world on the day that the page names, and a folder for files; its gateway keeps everything in FOLDER."""
    clock = SteppedClock(DEMO_START, timedelta(seconds=1))
    with toolkit.Gateway(tmp_path / "FOLDER", clock=clock, seed=DEMO_SEED) as gateway, toolkit.connect(gateway) as tk:
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
    arguments, _, file = command.partition(" < ")
    stdin = (folder / file).read_bytes() if file else b""
    with contextlib.chdir(folder):
        return called(*shlex.split(arguments)[1:], stdin=stdin, TOOLKIT_URL=tk.base_url).stdout


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
    lines = called(*shlex.split(command)[1:], "--json", f"--url={tk.base_url}").stdout.splitlines()
    assert of_frame(table) == expected
    assert of_records([json.loads(line) for line in lines]) == expected
    assert of_records(by_http(request, tk)) == expected


def test_a_text_is_the_same_file_in_all_three_ways(world: tuple[toolkit.Connection, Path]) -> None:
    tk, folder = world
    (python,), (command,), (request,) = ROWS["a text in handwriting"]
    by_command(command, tk, folder)
    rendered = eval(python, {"tk": tk}).data
    assert rendered.startswith(b"%PDF-")
    assert (folder / "hi.pdf").read_bytes() == rendered == raw_call(tk.base_url, *request.split(" ")).body


def test_listening_is_the_same_in_all_three_ways(world: tuple[toolkit.Connection, Path]) -> None:
    tk, _ = world
    (python,), (command,), (request,) = ROWS["what comes now"]
    arguments = [*TOOLKIT, *command.split()[1:], "--url", tk.base_url]
    url = tk.base_url + request.removeprefix("GET ")
    with (
        eval(python, {"tk": tk}) as listener,
        requests.get(url, stream=True, timeout=60) as response,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT) as tail,
        ThreadPoolExecutor(1) as threads,
    ):
        assert tail.stdout is not None
        line = threads.submit(tail.stdout.readline)
        eventually(lambda: not tk.dweets.post("kitchen", DWEETS[1]).empty and line.done())  # it begins with the next
        tail.kill()
        told = json.loads(line.result())
        dweet = next(dweet for dweet in listener if dweet.created == pd.Timestamp(told["created"]))
        sent = (json.loads(json.loads(each)) for each in response.iter_lines() if each.startswith(b'"'))
        record = next(record for record in sent if record["created"] == told["created"])
    assert dweet.content == told["content"] == record["content"] == DWEETS[1]
    assert dweet.thing == told["thing"] == record["thing"] == "kitchen"


def by_operator(request: str, tk: toolkit.Connection) -> dict[str, Any]:
    assert tk.gateway is not None
    method, target = request.split(" ")
    header = f"Authorization: Bearer {tk.gateway.operator_key.reveal()}\r\n"
    answer = raw_call(tk.base_url, method, target, headers=header)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_locks_are_the_same_in_all_three_ways(world: tuple[toolkit.Connection, Path]) -> None:
    tk, folder = world
    (python,), (command,), (request,) = ROWS["issue a lock"]
    by_python, printed, sent = eval(python, {"tk": tk}), by_command(command, tk, folder), by_operator(request, tk)
    names = [by_python.lock, printed.split()[1], sent["lock"]]
    (python,), (command,), (request,) = ROWS["which locks there are, and which are damaged"]
    assert eval(python, {"tk": tk})["lock"].tolist() == sorted(names)
    assert [line.split()[0] for line in by_command(command, tk, folder).splitlines()] == sorted(names)
    assert [lock["lock"] for lock in by_operator(request, tk)["locks"]] == sorted(names)
    tk.dweets.lock("kitchen", lock=names[0], key=by_python.master_key)
    (python,), (command,), (request,) = ROWS["remove a lock for good; its thing becomes public"]
    assert eval(python.replace("LOCK", names[0]), {"tk": tk}) == "kitchen"
    by_command(command.replace("LOCK", names[1]), tk, folder)
    assert by_operator(request.replace("LOCK", names[2]), tk) == {"lock": names[2], "thing": None}
    assert tk.operator.locks().empty


def test_alert_mails_are_the_same_in_all_three_ways(world: tuple[toolkit.Connection, Path]) -> None:
    tk, folder = world
    issued = tk.operator.issue_lock()
    tk.dweets.lock("oven", lock=issued.lock, key=issued.master_key)
    with pytest.warns(DataWarning, match="^the gateway has no mail server"):
        tk.dweets.set_alert("oven", who="a@b.c", condition="dweet.celsius > 30", key=issued.master_key)
    tk.dweets.post("oven", {"celsius": 31}, key=issued.master_key)
    (python,), (command,), (request,) = ROWS["alert mails"]
    eventually(lambda: tk.operator.outbox()["state"].tolist() == ["kept"])
    (mail,) = eval(python, {"tk": tk}).to_dict("records")
    (sent,) = by_operator(request, tk)["mails"]
    (path,) = folder.glob(command.removeprefix("cat "))
    file = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    assert (mail["to"], mail["subject"]) == (file["To"], file["Subject"]) == ("a@b.c", sent["subject"])
    assert mail["text"] == sent["text"]
    assert mail["text"].splitlines() == file.get_content().splitlines()


@pytest.mark.parametrize(("question", "field"), [("reward decisions", "decisions"), ("reward sessions", "sessions")])
def test_operator_frames_match_the_http_answers(
    question: str, field: str, world: tuple[toolkit.Connection, Path]
) -> None:
    tk, _ = world
    device = tk.rewards.new_device_id("acme")
    tk.rewards.start_session(device)
    tk.rewards.moment(device, "finished_5k_run")
    (python,), _, (request,) = ROWS[question]
    frame, rows = eval(python, {"tk": tk}), by_operator(request, tk)[field]
    key = frame.columns[0]
    assert frame[key].tolist() == [row[key] for row in rows]
    assert len(frame) == 1


def test_the_clock_is_the_same_in_python_and_http(world: tuple[toolkit.Connection, Path]) -> None:
    tk, _ = world
    (advance,), _, _ = ROWS["advance the clock of `Gateway.demo()`"]
    (python,), _, (request,) = ROWS["the gateway's time"]
    assert eval(advance, {"tk": tk}) == DEMO_START + timedelta(seconds=300)
    assert eval(python, {"tk": tk}) == pd.Timestamp(by_operator(request, tk)["now"], unit="ms", tz="UTC")


def test_every_task_of_the_cli_page_is_executed() -> None:
    assert all(len(ways) == 3 and ways[0] and ways[2] for ways in ROWS.values())
    assert {request.split("?")[0] for _, _, (request, *_) in ROWS.values() if "/operator/" in request} == {
        f"{endpoint.method} {endpoint.path_for(lock='LOCK', alias='ALIAS')}" for endpoint in wire.ENDPOINTS
    }


@pytest.mark.parametrize("command", [post, tail, history, write], ids=lambda command: command.name)
def test_cli_page_names_every_option(command: Any) -> None:
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
    assert f"## `toolkit {command.name} " in PAGE
    assert not [option for option in options if not re.search(rf"`{option}[` ]", PAGE)]
