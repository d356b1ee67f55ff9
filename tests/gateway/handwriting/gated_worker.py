"""A render worker for tests: it notes every text in a file, and holds "wait" until the file ``open`` exists."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.system.worker_process import serve
from toolkit_gateway.handwriting.render_worker import outcomes


def main() -> None:
    serve(gated)


def gated(job: Any) -> Iterator[object]:
    folder = Path(os.environ["TEST_GATE"])
    with (folder / "begun").open("a") as file:
        file.write(f"{job[0].text}\n")
    while job[0].text == "wait" and not (folder / "open").exists():
        time.sleep(0.01)
    yield from outcomes(job)
