"""Child processes: each kind of death is distinguished, and no child is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.mail_server import eventually
from toolkit.system.worker_process import Death, WorkerDied, WorkerProcess

JOBS = "tests.toolkit.system.worker_jobs"


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    before = set(threading.enumerate())
    worker = WorkerProcess(JOBS)
    yield worker
    worker.close()
    assert set(threading.enumerate()) == before
    assert worker.pid is None


def test_child_process_gets_no_keys(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_LOCKS", "garage=its-master-key")
    monkeypatch.setenv("OTHER", "is handed down")
    assert worker.do(("environment", "TOOLKIT_LOCKS"), 60) == [None]
    assert worker.do(("environment", "OTHER"), 60) == ["is handed down"]


def death_of(worker: WorkerProcess, kind: str, value: object = None, seconds: float = 60) -> WorkerDied:
    with pytest.raises(WorkerDied) as died:
        worker.do((kind, value), seconds)
    return died.value


def test_answers_come_in_order_from_one_child(worker: WorkerProcess) -> None:
    assert worker.pid is None, "no child before the first job"
    values = [None, b"x" * 1_000_000, {"a": 1}]
    assert worker.do(("echo", values), 60) == values
    child = worker.pid
    assert worker.do(("echo", []), 60) == []
    assert worker.do(("print", "the answer"), 60) == ["the answer"]
    assert worker.pid == child


@pytest.mark.parametrize(
    ("kind", "value", "seconds", "death"),
    [
        ("compute", 0.2, 60, Death.CPU_LIMIT),
        ("wait", None, 0.5, Death.WALL_LIMIT),
        ("abort", None, 60, Death.CRASH),
        ("raise", None, 60, Death.CRASH),
        ("exit", 1, 60, Death.CRASH),
        ("exit", 0, 60, Death.OTHER),
    ],
)
def test_each_death_has_its_cause(
    worker: WorkerProcess, kind: str, value: object, seconds: float, death: Death
) -> None:
    worker.do(("echo", []), 60)
    died = death_of(worker, kind, value, seconds)
    assert (died.death, died.answers) == (death, ["begun"])
    assert worker.do(("echo", ["again"]), 60) == ["again"]


@contextmanager
def when_it_waits(sign: Path, action: Callable[[], object]) -> Iterator[None]:
    """Act from another thread as soon as the child waits."""

    def act() -> None:
        eventually(sign.exists)
        action()

    actor = threading.Thread(target=act)
    actor.start()
    yield
    actor.join()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_child_killed_from_outside_is_not_a_crash(worker: WorkerProcess, number: int, tmp_path: Path) -> None:
    sign = tmp_path / "waits"
    with when_it_waits(sign, lambda: psutil.Process(worker.pid).send_signal(number)):
        assert death_of(worker, "wait", str(sign)).death is Death.OTHER


def test_a_child_that_died_between_two_jobs_is_replaced(worker: WorkerProcess) -> None:
    worker.do(("echo", []), 60)
    child = worker.pid
    assert child is not None
    os.kill(child, signal.SIGSEGV)
    eventually(lambda: psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    assert worker.do(("echo", [1]), 60) == [1]
    assert worker.pid != child


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux only")
def test_a_child_that_keeps_too_much_memory_is_replaced() -> None:
    worker = WorkerProcess(JOBS, cache_bytes=64 << 20)
    children = []
    for size in (1 << 20, 1 << 20, 80 << 20, 1 << 20):
        assert worker.do(("keep", size), 60) == ["kept"]
        children.append(worker.pid)
    worker.close()
    first, last = children[0], children[-1]
    assert children == [first, first, first, last]
    assert first != last


def test_child_that_cannot_start_is_reported() -> None:
    worker = WorkerProcess("tests.no_such_module")
    died = death_of(worker, "echo")
    assert died.death is Death.OTHER
    assert "did not start, exit code 1" in str(died)


def test_stop_ends_a_job_without_a_new_child(worker: WorkerProcess, tmp_path: Path) -> None:
    sign = tmp_path / "waits"
    with when_it_waits(sign, worker.stop):
        assert death_of(worker, "wait", str(sign)).death is Death.OTHER
    assert "stopped" in str(death_of(worker, "echo"))


def test_an_interrupted_job_leaves_nothing_for_the_next(worker: WorkerProcess, tmp_path: Path) -> None:
    sign = tmp_path / "waits"
    with when_it_waits(sign, lambda: os.kill(os.getpid(), signal.SIGINT)):
        with pytest.raises(KeyboardInterrupt):
            worker.do(("wait", str(sign)), 60)
    assert worker.do(("echo", ["mine"]), 60) == ["mine"]


def test_an_interrupt_of_the_whole_group_does_not_reach_it(worker: WorkerProcess) -> None:
    worker.do(("echo", []), 60)
    assert worker.pid is not None
    assert os.getsid(worker.pid) != os.getsid(0)
    child = worker.pid
    os.kill(child, signal.SIGINT)
    assert worker.do(("echo", [1]), 60) == [1]
    assert worker.pid == child


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is no child, as Linux can")
@pytest.mark.parametrize("job", ["('echo', [])", "('compute', 0.5)"])
def test_a_child_ends_with_a_parent_that_is_killed(job: str) -> None:
    program = f"""
import sys, threading
from toolkit.system.worker_process import WorkerProcess
worker = WorkerProcess({JOBS!r})
worker.do(('echo', []), 60)
print(worker.pid, flush=True)
threading.Thread(target=worker.do, args=({job}, 60)).start()
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        descriptor = os.pidfd_open(child)
        parent.kill()
    try:
        assert select.select([descriptor], [], [], 60)[0], "the child outlived its parent"
    finally:
        os.close(descriptor)
    assert not Path(f"/proc/{child}/stat").exists() or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
