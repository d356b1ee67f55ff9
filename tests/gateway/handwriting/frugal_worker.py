"""A render worker for tests: a text may take little memory."""

from __future__ import annotations

from toolkit_gateway.handwriting import render_worker


def main() -> None:
    render_worker.MEMORY_BYTES = 120 * 1024 * 1024
    render_worker.main()
