"""A render worker for tests, with a low memory limit for each text."""

from __future__ import annotations

from toolkit_gateway.handwriting import render_worker


def main() -> None:
    render_worker.MEMORY_BYTES = 120 * 1024 * 1024
    render_worker.main()
