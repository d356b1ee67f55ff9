"""Child processes: each kind of death is distinguished, and no child is left behind."""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT
from tests.mail_server import eventually
from toolkit.system import worker_process
from toolkit.system.worker_process import Death, WorkerDied, WorkerProcess
from toolkit_gateway.ink.catalogue import catalogue
from toolkit_gateway.ink.parameters import Parameters

JOBS = "tests.toolkit.system.worker_jobs"


def has_landlock() -> bool:
    return sys.platform == "linux" and ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) > 0


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    worker = WorkerProcess(JOBS, Any)
    yield worker
    worker.close()
    assert worker.pid is None


def test_a_child_gets_only_the_variables_it_needs(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOOLKIT_LOCKS", "AWS_SECRET_ACCESS_KEY", "OTHER"):
        monkeypatch.setenv(name, "a secret")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/authorities.pem")
    ((names, authorities),) = worker.do(("environment", "SSL_CERT_FILE"), 60)
    assert authorities == "/etc/authorities.pem"
    ours = {"PYTHONPATH", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
    assert ours <= set(names) <= ours | worker_process.INHERITED_VARIABLES


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_every_child_has_fewer_rights_than_we(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "a secret")
    rendering = Parameters(next(iter(catalogue().values())), "png", "Hello", random_seed=1), False, 60.0
    for module, job in (
        ("toolkit.dweets.condition_engine", ("true", None, 1.0)),
        ("toolkit_gateway.handwriting.render_worker", rendering),
        ("toolkit_gateway.dweets.mail_delivery", ("smtp://127.0.0.1:1", "a@b", ["c@d"], b"")),
    ):
        worker = WorkerProcess(module, Any)
        worker.do(job, 60)
        process = Path(f"/proc/{worker.pid}")
        statuses, limits = process.glob("task/*/status"), (process / "limits").read_text()
        rights_of_threads = {line for status in statuses for line in status.read_text().splitlines() if "NoNew" in line}
        environment = (process / "environ").read_bytes()
        worker.close()
        assert rights_of_threads == {"NoNewPrivs:\t1"}  # Landlock also holds for each thread that begins after it
        assert re.search(r"^Max file size +0 +0 +bytes", limits, re.MULTILINE)
        # A limit that the child may raise again is one for each rendering.
        is_final = re.search(r"^Max data size +([0-9]+) +\1 +bytes", limits, re.MULTILINE)
        assert bool(is_final) == (job is not rendering)
        assert b"PATH=" in environment
        assert b"DATABASE_PASSWORD" not in environment


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of a file")
@pytest.mark.skipif(not has_landlock(), reason="needs Landlock, as Linux has it from 5.13 on")
def test_a_child_changes_no_file(worker: WorkerProcess, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"of the user")
    assert worker.do(("write", str(kept)), 60) == ["Permission denied"] * 3 + ["File exists", "Permission denied"]
    assert worker.do(("write", str(tmp_path / "new")), 60)[3] == "Permission denied"
    assert kept.read_bytes() == b"of the user"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_wrong_answer_counts_as_a_crash() -> None:
    worker = WorkerProcess(JOBS, str)
    for message, death in (
        (b"\x00\x00\x00\x04\x91\xa1", Death.OTHER),  # the child ends within a message
        (b"\xff\xff\xff\xff", Death.CRASH),
        (b"\x00\x00\x00\x01\xc1", Death.CRASH),
        (b"\x00\x00\x00\x02\x91\x07", Death.CRASH),  # 7, where a text is declared
        (b"\x00\x00\x00\x12cposix\n_exit\n(I7\ntR.", Death.CRASH),  # a pickle that would end the parent
    ):
        died = death_of(worker, "forge", message)
        assert (died.death, died.answers) == (death, ["begun"])
    assert worker.do(("echo", ["again"]), 60) == ["again"]
    worker.close()


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


def test_each_death_has_its_cause(worker: WorkerProcess) -> None:
    for kind, value, seconds, death in (
        ("compute", 0.2, 60, Death.CPU_LIMIT),
        ("wait", None, 0.5, Death.WALL_LIMIT),
        ("abort", None, 60, Death.CRASH),
        ("raise", None, 60, Death.CRASH),
        ("exit", 1, 60, Death.CRASH),
        ("exit", 0, 60, Death.OTHER),
    ):
        assert worker.do(("echo", ["alive"]), 60) == ["alive"]
        died = death_of(worker, kind, value, seconds)
        assert (died.death, died.answers) == (death, ["begun"])
    assert worker.do(("echo", ["again"]), 60) == ["again"]


@contextmanager
def when_it_waits(sign: Path, action: Callable[[], object]) -> Iterator[None]:
    """Act from another thread as soon as the child waits."""

    def act() -> None:
        eventually(lambda: sign.stat().st_mtime == 0)
        action()

    sign.touch()
    actor = threading.Thread(target=act)
    actor.start()
    yield
    actor.join()


def test_child_killed_from_outside_is_not_a_crash(worker: WorkerProcess, tmp_path: Path) -> None:
    sign = tmp_path / "waits"
    with when_it_waits(sign, lambda: psutil.Process(worker.pid).kill()):
        assert death_of(worker, "wait", str(sign)).death is Death.OTHER


def test_a_child_that_died_between_two_jobs_is_replaced(worker: WorkerProcess) -> None:
    worker.do(("echo", []), 60)
    child = worker.pid
    assert child is not None
    os.kill(child, signal.SIGSEGV)
    # Its first thread may be a zombie while another one has not ended yet.
    eventually(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None)
    assert worker.do(("echo", [1]), 60) == [1]
    assert worker.pid != child


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux only")
def test_a_child_that_keeps_too_much_memory_is_replaced() -> None:
    worker = WorkerProcess(JOBS, Any, cache_bytes=64 << 20)
    children = []
    for size in (1 << 20, 1 << 20, 80 << 20, 1 << 20):
        assert worker.do(("keep", size), 60) == ["kept"]
        children.append(worker.pid)
    worker.close()
    first, last = children[0], children[-1]
    assert children == [first, first, first, last]
    assert first != last


def test_child_that_cannot_start_is_reported() -> None:
    worker = WorkerProcess("tests.no_such_module", Any)
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
def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    """So does a process that the child has started."""
    program = f"""
import sys, threading
from toolkit.system.worker_process import WorkerProcess
worker = WorkerProcess({JOBS!r}, object)
started = worker.do(('start', None), 60)
print(worker.pid, *started, flush=True)
threading.Thread(target=worker.do, args=(('wait', None), 60)).start()
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, cwd=ROOT) as parent:
        assert parent.stdout is not None
        descriptors = [os.pidfd_open(int(child)) for child in parent.stdout.readline().split()]
        parent.kill()
    assert_ended(descriptors)


def assert_ended(descriptors: list[int]) -> None:
    ended = [bool(select.select([descriptor], [], [], 60)[0]) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    assert all(ended)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is no child, as Linux can")
def test_what_a_child_has_started_ends_with_it(worker: WorkerProcess) -> None:
    (started,) = worker.do(("start", None), 60)
    descriptor = os.pidfd_open(started)
    worker.close()
    assert_ended([descriptor])
