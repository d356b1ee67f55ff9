"""The child of `tests/test_worker_process.py`: jobs that end in all ways."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.worker_process import limit_cpu, serve

_jobs_that_wear_out: list[object] = []


def main() -> None:
    serve(work, is_worn_out=lambda: bool(_jobs_that_wear_out))


def work(job: Any) -> Iterator[object]:
    kind, value = job
    if kind == "echo":
        yield from value
    elif kind == "environment":
        yield os.environ.get(value)
    elif kind == "wear out":
        _jobs_that_wear_out.append(job)
        yield value
    elif kind == "print":
        print("what a library prints", flush=True)
        yield value
    else:
        yield "begun"
        yield from _end(kind, value)


def _end(kind: str, value: Any) -> Iterator[object]:
    if kind == "compute":
        limit_cpu(value)
        while True:
            pass
    elif kind == "wait":
        if value:
            Path(value).touch()
        threading.Event().wait()
    elif kind == "abort":
        os.abort()
    elif kind == "raise":
        raise MemoryError
    elif kind == "exit":
        os._exit(value)
    yield "not reached"
