"""A child process that does one job at a time and that its parent can kill: for work that can block the interpreter.

Not ``multiprocessing``, which would import the caller's script in every child, and whose children outlive a killed
parent. These end when their input ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

_START_SECONDS = 60.0
_EXIT_SECONDS = 5.0
_CRASH_SIGNALS = {
    -getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
    if hasattr(signal, name)
}


class Death(Enum):
    """Why a child ended before it had finished its job."""

    CPU_LIMIT = "it used up its CPU time"
    WALL_LIMIT = "it did not answer in time"
    CRASH = "it crashed"
    #: Nothing that the job did: killed from outside (also by the system, short of memory), closed, or not started.
    OTHER = "it was ended from outside"


class WorkerDied(Exception):
    """The child ended before it had finished its job; ``answers`` are those to this job before."""

    def __init__(self, death: Death, detail: str, answers: list[Any]) -> None:
        super().__init__(f"{death.value} ({detail})")
        self.death = death
        self.answers = answers


class WorkerProcess:
    """A child process, started by its first job and started again after its death.

    `module` has a function ``main`` that calls `serve`. One thread at a time calls `do`, any thread `kill` and `close`.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: threading.Thread | None = None
        self._deadline: float | None = None
        self._is_overdue = False
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None else None

    def do(self, job: object, seconds: float) -> list[Any]:
        """Return the answers to a job, or raise WorkerDied: also where one of them takes longer than `seconds`."""
        answers: list[Any] = []
        try:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            self._expect_within(seconds)
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            while (answer := pickle.load(process.stdout)) is not None:
                answers.append(answer[0])
                self._expect_within(seconds)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise self._died(error, answers) from None
        except BaseException:  # such as KeyboardInterrupt: the rest of the answers would be taken for the next job's
            self.kill()
            self._discard()
            raise
        with self._changed:
            self._deadline = None
        return answers

    def kill(self) -> None:
        """End the child at once; a job that it was doing raises WorkerDied."""
        with self._changed:
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the child at once and start no other. Call `join` after the last job."""
        with self._changed:
            self._is_closed = True
        self.kill()

    def join(self) -> None:
        """Wait until the child has ended; no job may run any more."""
        self.close()
        self._discard()

    # -- the life of one child ----------------------------------------------------------------------------

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._discard()  # it died between two jobs: neither of them is to blame
        if self._process is not None:
            return self._process
        with self._changed:
            if self._is_closed:
                raise BrokenPipeError("closed")
            process = self._process = _start(self._module)
            self._is_overdue = False
            self._deadline = time.monotonic() + _START_SECONDS
        self._watchdog = threading.Thread(target=self._watch, args=[process], name="worker-watchdog", daemon=True)
        self._watchdog.start()
        try:
            assert process.stdout is not None
            pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            # No job had reached it, so no job is to blame.
            self._discard()
            raise BrokenPipeError(f"it did not start, exit code {process.returncode}") from None
        return process

    def _expect_within(self, seconds: float) -> None:
        with self._changed:
            before, self._deadline = self._deadline, time.monotonic() + seconds
            if before is None or self._deadline < before:  # at an earlier deadline the watchdog wakes up by itself
                self._changed.notify()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        with self._changed:
            while process is self._process:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    self._is_overdue = True
                    process.kill()
                    return
                self._changed.wait(left)

    def _died(self, error: Exception, answers: list[Any]) -> WorkerDied:
        process = self._process
        if process is None:
            return WorkerDied(Death.OTHER, str(error), answers)
        try:
            code = process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        death = Death.WALL_LIMIT if self._is_overdue else _death_of(code)
        self._discard()
        return WorkerDied(death, f"exit code {code}", answers)

    def _discard(self) -> None:
        with self._changed:
            process, self._process = self._process, None
            self._deadline = None
            self._changed.notify()
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was not sent yet
                pipe.close()
        if self._watchdog is not None:
            self._watchdog.join()


def _start(module: str) -> subprocess.Popen[bytes]:
    # The child imports from the same places, whatever a notebook has added to them.
    # It needs none of our settings, which hold keys and passwords, and it may run the code of strangers.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOOLKIT_")}
    environment = {**inherited, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {module} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        # "Interrupt kernel" and Ctrl-C go to a whole session or group of processes.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def _death_of(code: int) -> Death:
    if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
        return Death.CPU_LIMIT
    return Death.CRASH if code > 0 or code in _CRASH_SIGNALS else Death.OTHER


# -- in the child -----------------------------------------------------------------------------------------


def serve(work: Callable[[Any], Iterable[object]], niceness: int = 0) -> None:
    """Send the answers that `work` gives to each job, until the input ends. Call it in the child only.

    An error in `work` ends the child, which counts as a crash.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    if hasattr(signal, "SIGPROF"):  # a parent that ignores or blocks it would hand that down
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core dumps: crashes must not fill the disk
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    jobs = sys.stdin.buffer

    def send(answer: object) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    try:
        send("ready")
        while True:
            for answer in work(pickle.load(jobs)):
                send((answer,))
            send(None)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent is gone, and nothing is left to be flushed


def limit_cpu(seconds: float) -> None:
    """Limit this child to so many more seconds of CPU time; 0 removes the limit. Windows has no such limit."""
    # No code in this process can delay the end: the signal has no handler, so the kernel ends the process.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def limit_memory(size: int) -> None:
    """Limit what this child can allocate, in bytes; past it an allocation raises MemoryError. Linux only."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
