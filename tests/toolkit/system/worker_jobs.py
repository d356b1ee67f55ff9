"""The child process of `test_worker_process.py`: jobs that end in all ways."""

from __future__ import annotations

import mmap
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.system.worker_process import limit_cpu, serve

_kept: list[bytes] = []


def main() -> None:
    serve(work)


def work(job: Any) -> Iterator[object]:
    kind, value = job
    if kind == "echo":
        yield from value
    elif kind == "environment":
        yield list(os.environ), os.environ.get(value)
    elif kind == "write":
        for change in (_write, _map, os.unlink, os.mkdir, lambda path: os.rename(path, path + "-2")):
            try:
                change(value)
                yield "done"
            except OSError as error:
                yield error.strerror
    elif kind == "start":
        yield subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE).pid
    elif kind == "keep":
        _kept.append(bytes(value))
        yield "kept"
    elif kind == "print":
        print("what a library prints", flush=True)
        yield value
    else:
        yield "begun"
        yield from _end(kind, value)


def _write(path: str) -> None:
    Path(path).write_text("what a child may not keep")


def _map(path: str) -> None:
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0] = 0


def _end(kind: str, value: Any) -> Iterator[object]:
    if kind == "compute":
        limit_cpu(value)
        while True:
            pass
    elif kind == "wait":
        if value:
            os.utime(value, (0, 0))  # all that it may do to a file
        threading.Event().wait()
    elif kind == "forge":
        # `serve` keeps the answers in the descriptor that it opened last.
        os.write(max(int(name) for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")), value)
        os._exit(0)
    elif kind == "abort":
        os.abort()
    elif kind == "raise":
        raise MemoryError
    elif kind == "exit":
        os._exit(value)
    yield "not reached"
