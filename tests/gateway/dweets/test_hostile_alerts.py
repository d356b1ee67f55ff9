"""Hostile conditions in a separate gateway process: it serves, other alerts trigger, and signals stop it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from tests.commands import end, started, url_of
from tests.conftest import raw_call
from tests.mail_server import eventually
from tests.toolkit.dweets.hostile_conditions import HOSTILE, OVERRAN, SLOW, kinds

LOCKS = {"oven": "oven-lock", "kitchen": "kitchen-lock"}
KEY = "correct-horse-battery"


class Running:
    """``toolkit gateway`` on a folder, with two locked things."""

    def __init__(self, command: subprocess.Popen[str], folder: Path) -> None:
        self.command, self.folder = command, folder
        self.process = psutil.Process(command.pid)
        self._url = url_of(command)
        for thing, lock in LOCKS.items():
            self.get(f"/lock/{thing}?lock={lock}&key={KEY}")

    def get(self, target: str) -> Any:
        return json.loads(raw_call(self._url, "GET", target).body)

    def set(self, thing: str, condition: str) -> None:
        answer = self.get(f"/alert/a@b.example/when/{thing}/{quote(condition, safe='')}?key={KEY}")
        assert answer["this"] == "succeeded"

    def post(self, thing: str, *contents: object) -> None:
        lines = b"\n".join(json.dumps(content).encode() for content in contents)
        answer = raw_call(self._url, "POST", f"/dweets/for/{thing}?key={KEY}", lines)
        assert json.loads(answer.body)["this"] == "succeeded"

    def message(self, thing: str) -> str:
        return str(self.get(f"/get/alert/for/{thing}?key={KEY}")["with"]["status"]["message"])

    def wait_for(self, thing: str, message: str) -> None:
        eventually(lambda: self.message(thing).startswith(message))

    def child(self) -> psutil.Process:
        (child,) = self.process.children()
        return child


@contextmanager
def running_on(folder: Path) -> Iterator[Running]:
    locks = [f"--lock={lock}={KEY}" for lock in LOCKS.values()]
    with started("gateway", "--port=0", f"--data={folder}", *locks) as process:
        yield Running(process, folder)


@kinds("memory bomb")
def test_hostile_alert_is_stopped_and_others_work(tmp_path: Path, kind: str) -> None:
    with running_on(tmp_path) as running:
        running.set("kitchen", "dweet > 1 && String(dweet)")
        # It lies dormant at first, and then all of it comes at once.
        running.set("oven", f"if (dweet > 1) {{ {HOSTILE[kind]} }} return true")
        running.post("oven", 1)
        running.wait_for("oven", "true")
        for number in range(2, 5):
            running.post("oven", *[number] * 30)
            running.post("kitchen", number)
            running.wait_for("kitchen", str(number))
            assert sum(each.memory_info().rss for each in [running.process, running.child()]) < 300 * 2**20
        eventually(lambda: len(list(tmp_path.glob("outbox/*.eml"))) == 4)
        running.wait_for("oven", "stopped")
        assert "set the alert again: " in running.message("oven")
        running.set("oven", "dweet > 100")
        running.post("oven", 101)
        running.wait_for("oven", "true")
        end(running.command)


def test_a_gateway_with_a_hostile_alert_ends_and_starts(tmp_path: Path) -> None:
    with running_on(tmp_path) as running:
        running.set("oven", f"{HOSTILE['join']}; return true")
        running.set("kitchen", "dweet > 1")
        child = running.child()
        idle = child.cpu_times().user
        running.post("oven", 1, 2, 3)
        eventually(lambda: not child.is_running() or child.cpu_times().user > idle)
        children = running.process.children()
        end(running.command)  # while it loops
        eventually(lambda: not any(each.is_running() for each in [child, *children]))
    with running_on(tmp_path) as running:
        running.post("kitchen", 1, 2)
        running.wait_for("kitchen", "true")
        running.post("oven", 4)
        running.wait_for("oven", f"stopped, set the alert again: {OVERRAN}")
        end(running.command)


def test_killed_child_is_replaced_and_no_alert_is_stopped(tmp_path: Path) -> None:
    with running_on(tmp_path) as running:
        running.set("oven", SLOW)
        running.set("kitchen", "String(dweet)")
        for number in (signal.SIGKILL, signal.SIGTERM):
            child = running.child()
            running.post("oven", *[1] * 20)
            child.send_signal(number)
            running.post("kitchen", number)
            running.wait_for("kitchen", str(int(number)))
        running.wait_for("oven", "true")
