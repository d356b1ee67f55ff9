"""A child process that does one job at a time and that its parent can kill: for work that can block the interpreter.

``multiprocessing`` would import the caller's script in every child, and its children outlive a killed parent. A child
of this module ends when its standard input ends, also in the middle of a job.

A child may run untrusted code, so its parent does not trust its answers: they are MessagePack of a declared type, each
behind its length. Jobs come from the parent, which a child trusts: they are pickled.
"""

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import msgspec

_START_SECONDS = 60.0
_EXIT_SECONDS = 5.0
# A child returns blocks of more than 4 MB to the system when it frees them. By default, glibc raises this limit up to
# 32 MB, and a large text leaves 100 MB of unused memory. The second limit would otherwise be so low that it costs time.
_MEMORY_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(16 << 20)}
#: Other variables may hold keys or passwords. Python needs those of the first line to start, TLS those of the last line
#: to find the certificate authorities.
INHERITED_VARIABLES = {
    "PATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "WINDIR",
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONUTF8", "PYTHONPYCACHEPREFIX",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
}  # fmt: skip
#: What a child runs. It drops its rights first: a thread that a library starts when it is imported would keep them.
PROGRAM = f"import {__name__} as worker; worker.drop_rights(); from {{}} import main; main()"
_LENGTH_BYTES = 4
# Of the thread that reads jobs; a stack of the usual 8 MB would count as memory of the child.
_READER_STACK_BYTES = 1024 * 1024
#: A longer answer counts as a crash; a rendering may take 480 MiB of memory in all.
_MAX_ANSWER_BYTES = 512 * 1024 * 1024
_PR_SET_NO_NEW_PRIVS = 38  # of <linux/prctl.h>
# Of <linux/landlock.h>, the same on all processors: two system calls, a flag of the first one, and the rights to write
# to a file (1), to remove and make files and folders of all kinds (4 to 12), and to empty a file (14, from version 3).
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF, _LANDLOCK_VERSION = 444, 446, 1
_WRITING, _EMPTYING = 1 << 1 | 0b1_1111_1111 << 4, 1 << 14
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
    #: The job is not the cause: the child was killed from outside (perhaps to free memory), stopped, or did not start.
    OTHER = "it was ended from outside"


class WorkerDied(Exception):
    """The child ended before it finished its job; ``answers`` are the answers to this job until then."""

    def __init__(self, death: Death, detail: str, answers: list[Any]) -> None:
        super().__init__(f"{death.value} ({detail})")
        self.death = death
        self.answers = answers


class WorkerProcess:
    """A child process, started by its first job and started again after its death.

    `module` has a ``main`` that calls `serve`, and its answers are of the type `answer`, which `msgspec` can decode.
    One thread at a time may call `do`; any thread may `kill` or `stop`. On Linux, a child that has grown by more than
    `cache_bytes` since its start is replaced before its next job.
    """

    def __init__(self, module: str, answer: object, cache_bytes: int | None = None) -> None:
        self._module = module
        # None is the end of the answers to a job; an answer is the only item of a tuple.
        self._decoder = msgspec.msgpack.Decoder(tuple[answer] | None)  # type: ignore[valid-type]
        self._cache_bytes = cache_bytes
        self._bytes_at_start = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_overdue = False
        self.is_stopped = False

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None else None

    def do(self, job: object, seconds: float) -> list[Any]:
        """Return the answers to a job; raise WorkerDied if the child ends or the job takes longer than `seconds`."""
        answers: list[Any] = []
        is_complete = False
        try:
            process = self._running_process()
            assert process.stdin is not None
            assert process.stdout is not None
            with self._time_limit(process, seconds):
                pickle.dump(job, process.stdin)
                process.stdin.flush()
                while (answer := self._decoder.decode(_read_message(process.stdout))) is not None:
                    answers.append(answer[0])
            is_complete = True
        except (EOFError, OSError) as error:
            raise self._death_error(error, answers) from None
        except msgspec.DecodeError as error:  # what it runs has taken it over, or it is a bug
            raise WorkerDied(Death.CRASH, f"its answer is not valid: {error}", answers) from None
        finally:
            if not is_complete:  # also after KeyboardInterrupt: the next job would read the answers of this one
                self._end_child()
        return answers

    def kill(self) -> None:
        """End the child at once; its current job raises WorkerDied."""
        if (process := self._process) is not None:
            _kill(process)

    def stop(self) -> None:
        """End the child at once, and never start another one; later jobs raise WorkerDied. Call `close` at the end."""
        with self._lock:
            self.is_stopped = True
        self.kill()

    def close(self) -> None:
        """Stop, and wait until the child has ended; no thread may be in `do`."""
        self.stop()
        self._end_child()

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._is_usable(self._process):
            return self._process
        self._end_child()  # it died, or kept too much memory, after its last job
        with self._lock:
            if self.is_stopped:
                raise BrokenPipeError("stopped")
            process = self._process = _start_child(self._module)
            self._is_overdue = False
        try:
            assert process.stdout is not None
            with self._time_limit(process, _START_SECONDS):
                _read_message(process.stdout)
        except (EOFError, OSError, msgspec.DecodeError):
            self._end_child()
            raise BrokenPipeError(f"it did not start, exit code {process.returncode}") from None
        self._bytes_at_start = _allocated_bytes(process.pid)
        return process

    def _is_usable(self, process: subprocess.Popen[bytes]) -> bool:
        if self._is_overdue or process.poll() is not None:
            return False
        cache = self._cache_bytes
        return cache is None or _allocated_bytes(process.pid) <= self._bytes_at_start + cache

    @contextlib.contextmanager
    def _time_limit(self, process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
        def kill_overdue() -> None:
            self._is_overdue = True
            _kill(process)

        timer = threading.Timer(seconds, kill_overdue)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _death_error(self, error: Exception, answers: list[Any]) -> WorkerDied:
        process = self._process
        if process is None:
            return WorkerDied(Death.OTHER, str(error), answers)
        try:
            code = process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(process)
            code = process.wait()
        self._end_child()
        if self._is_overdue:
            death = Death.WALL_LIMIT
        elif code == -getattr(signal, "SIGPROF", sys.maxsize):  # the signal of `limit_cpu`
            death = Death.CPU_LIMIT
        else:
            death = Death.CRASH if code > 0 or code in _CRASH_SIGNALS else Death.OTHER
        return WorkerDied(death, f"exit code {code}", answers)

    def _end_child(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # of a job that was only partly sent
                pipe.close()


def _start_child(module: str) -> subprocess.Popen[bytes]:
    # The child has the same import path, with what a notebook added to it.
    inherited = {name: value for name, value in os.environ.items() if name in INHERITED_VARIABLES}
    environment = {**inherited, **_MEMORY_SETTINGS, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM.format(module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        # "Interrupt kernel" and Ctrl-C signal a whole group of processes, so the child is in another group.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and what it has started; something that it started may outlive it."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: no permission if all have ended
            os.killpg(process.pid, signal.SIGKILL)


def _read_message(pipe: IO[bytes]) -> bytes:
    if len(head := pipe.read(_LENGTH_BYTES)) < _LENGTH_BYTES:
        raise EOFError
    if (length := int.from_bytes(head, "big")) > _MAX_ANSWER_BYTES:
        raise msgspec.DecodeError(f"{length} bytes")
    if len(message := pipe.read(length)) < length:
        raise EOFError
    return message


def serve(work: Callable[[Any], Iterable[object]], niceness: int = 0) -> None:
    """In the child: do jobs from standard input until it ends; an error in `work` counts as a crash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    if hasattr(signal, "SIGPROF"):  # if the parent ignores or blocks the signal, the child inherits that
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output that a library prints must not mix with the answers
    jobs: SimpleQueue[Any] = SimpleQueue()
    threading.stack_size(_READER_STACK_BYTES)
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()

    def send(answer: object) -> None:
        message = msgspec.msgpack.encode(answer)
        answers.write(len(message).to_bytes(_LENGTH_BYTES, "big"))
        answers.write(message)
        answers.flush()

    try:
        send("ready")
        while True:
            for answer in work(jobs.get()):
                send((answer,))
            send(None)
    except BrokenPipeError:
        _end_with_parent()


def _read_jobs(jobs: SimpleQueue[Any]) -> None:
    """Read jobs in a thread, so that the child notices the end of its parent whatever it is doing."""
    try:
        while True:
            jobs.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        _end_with_parent()
    finally:  # no memory for the job, or it cannot be unpickled
        os._exit(1)


def _end_with_parent() -> None:
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # also what this child has started
    os._exit(0)


def drop_rights() -> None:
    """Take from this child for ever what it does not need: to write to files, and on Linux, programs with more rights.

    It may still read what its user may read, and open connections: there is no seccomp filter.
    """
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core dumps, which could fill the disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # a write to a file raises OSError; pipes and sockets work
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
        _forbid_writing(libc)


def _forbid_writing(libc: ctypes.CDLL) -> None:
    """Let this child open no file for writing, and change no folder, where the kernel has Landlock (Linux 5.13).

    A limit of sizes alone leaves memory mapping, renaming and removing.
    """
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    if version < 1:
        return
    rights = ctypes.c_uint64(_WRITING | (_EMPTYING if version >= 3 else 0))
    rules = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rights), ctypes.c_size_t(ctypes.sizeof(rights)), 0)
    if rules < 0 or libc.syscall(_LANDLOCK_RESTRICT_SELF, rules, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock")
    os.close(rules)


def limit_cpu(seconds: float) -> None:
    """Make the kernel end this child after `seconds` more of CPU time; 0 removes the limit. Windows has no limit."""
    # The signal has no handler, so the kernel ends the process whatever code is running.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def limit_memory(size: int, *, for_good: bool = False) -> None:
    """Let this child allocate `size` more bytes; a further allocation raises MemoryError. Linux only.

    A limit `for_good` cannot be raised again, not even by code that has taken over the child.
    """
    if sys.platform == "linux":
        import resource

        # The limit is relative: on a machine with more cores, libraries have allocated more, for their threads.
        _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _allocated_bytes(os.getpid()) + size
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit if for_good else hard_limit))


def _allocated_bytes(pid: int) -> int:
    """Return about how many bytes `limit_memory` counts for a process; 0 if it has ended, or if this is not Linux."""
    if sys.platform != "linux":
        return 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[5]) * os.sysconf("SC_PAGE_SIZE")
    return 0
