"""Hostile conditions in a separate gateway process: it serves, other alerts trigger, and signals stop it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from tests.commands import end, started, url_of
from tests.conftest import raw_call
from tests.mail_server import eventually
from tests.toolkit.dweets.hostile_conditions import HOSTILE, OVERRAN, SLOW, kinds

LOCKS = {"oven": "oven-lock", "kitchen": "kitchen-lock"}
KEY = "correct-horse-battery"


class Running:
    def __init__(self, url: str, pid: int, folder: Path) -> None:
        self.url = url
        self.process = psutil.Process(pid)
        self.folder = folder

    def get(self, target: str) -> Any:
        return json.loads(raw_call(self.url, "GET", target).body)

    def set(self, thing: str, condition: str) -> Any:
        return self.get(f"/alert/a@b.example/when/{thing}/{quote(condition, safe='')}?key={KEY}")

    def post(self, thing: str, *contents: object) -> None:
        lines = b"\n".join(json.dumps(content).encode() for content in contents)
        assert (
            json.loads(raw_call(self.url, "POST", f"/dweets/for/{thing}?key={KEY}", lines).body)["this"] == "succeeded"
        )

    def status(self, thing: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/get/alert/for/{thing}?key={KEY}")["with"]["status"]
        return found

    def mails(self) -> int:
        return len(list((self.folder / "outbox").glob("*.eml")))

    def child(self) -> psutil.Process:
        (child,) = self.process.children()
        return child


class Command:
    """``toolkit gateway`` on a folder; ends with the block, by SIGTERM unless it has ended before."""

    def __init__(self, folder: Path) -> None:
        locks = [f"--lock={lock}={KEY}" for lock in LOCKS.values()]
        self._context = started("gateway", "--port=0", f"--data={folder}", *locks)
        self._folder = folder

    def __enter__(self) -> Running:
        self.process = self._context.__enter__()
        return Running(url_of(self.process), self.process.pid, self._folder)

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def locked(running: Running) -> None:
    for thing, lock in LOCKS.items():
        assert running.get(f"/lock/{thing}?lock={lock}&key={KEY}")["this"] == "succeeded"


def message(running: Running, thing: str, begins: str) -> Callable[[], bool]:
    return lambda: str(running.status(thing)["message"]).startswith(begins)


@kinds("memory bomb")
def test_hostile_alert_is_stopped_and_others_work(command: Command, kind: str) -> None:
    with command as running:
        locked(running)
        assert running.set("kitchen", "dweet > 1 && String(dweet)")["this"] == "succeeded"
        # It lies dormant at first, and then all of it comes at once.
        assert running.set("oven", f"if (dweet > 1) {{ {HOSTILE[kind]} }} return true")["this"] == "succeeded"
        running.post("oven", 1)
        eventually(lambda: running.status("oven")["open"] is True)
        for number in range(2, 5):
            running.post("oven", *[number] * 30)
            running.post("kitchen", number)
            eventually(message(running, "kitchen", str(number)))
        eventually(lambda: running.mails() == 4)
        eventually(message(running, "oven", "stopped"))
        assert "set the alert again: " in running.status("oven")["message"]
        assert running.set("oven", "dweet > 100")["this"] == "succeeded"
        running.post("oven", 101)
        eventually(message(running, "oven", "true"))
        end(command.process)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_many_hostile_alerts_of_one_owner_delay_no_other(tmp_path: Path) -> None:
    names = [f"hostile-{number}" for number in range(200)]
    locks = [f"--lock={name}-lock={KEY}" for name in [*names, "kitchen"]]
    with started("gateway", "--port=0", f"--data={tmp_path}", *locks) as process:
        running = Running(url_of(process), process.pid, tmp_path)
        for name in [*names, "kitchen"]:
            assert running.get(f"/lock/{name}?lock={name}-lock&key={KEY}")["this"] == "succeeded"
        kitchen = "/alert/cook@b.example/when/kitchen/String(dweet)"
        assert running.get(f"{kitchen}?key={KEY}")["this"] == "succeeded"
        for name, source in zip(names, cycle(HOSTILE.values())):
            assert running.set(name, f"if (dweet > 3) {{ {source} }} return dweet // {name}")["this"] == "succeeded"
        for number in range(10):
            for name in names:
                running.post(name, number)
            running.post("kitchen", number)
            eventually(message(running, "kitchen", str(number)))
            sizes = [each.memory_info().rss for each in [running.process, *running.process.children(recursive=True)]]
            assert sum(sizes) < 300 * 2**20
        end(process)


def test_a_gateway_with_a_hostile_alert_ends_and_starts(command: Command, tmp_path: Path) -> None:
    with command as running:
        locked(running)
        running.set("oven", f"{HOSTILE['join']}; return true")
        running.set("kitchen", "dweet > 1")
        child = running.child()
        idle = child.cpu_times().user
        running.post("oven", 1, 2, 3)
        eventually(lambda: not child.is_running() or child.cpu_times().user > idle)
        children = running.process.children()
        end(command.process)  # while it loops
        eventually(lambda: not any(each.is_running() for each in [child, *children]))
    with (again := Command(tmp_path)) as running:
        running.post("kitchen", 1, 2)
        eventually(message(running, "kitchen", "true"))
        running.post("oven", 4)
        eventually(message(running, "oven", f"stopped, set the alert again: {OVERRAN}"))
        end(again.process)


def test_killed_child_is_replaced_and_no_alert_is_stopped(command: Command) -> None:
    with command as running:
        locked(running)
        running.set("oven", SLOW)
        running.set("kitchen", "String(dweet)")
        for number in (signal.SIGKILL, signal.SIGTERM):
            child = running.child()
            running.post("oven", *[1] * 20)
            child.send_signal(number)
            running.post("kitchen", number)
            eventually(message(running, "kitchen", str(int(number))))
        eventually(message(running, "oven", "true"))
