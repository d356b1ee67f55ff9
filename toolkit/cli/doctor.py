"""`toolkit doctor`: what is missing on this machine, and what does not work without it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from toolkit.cli.options import DEFAULT_PORT, is_listening
from toolkit.extras import install_command
from toolkit.working_folder import APPLICATION, gateway_folder

_SUBJECT_WIDTH = 14


@dataclass(frozen=True)
class Finding:
    """One thing that `toolkit doctor` looked for."""

    subject: str
    #: The path or the version that was found; None if it is missing.
    found: str | None
    #: What does not work without the subject, and what to do.
    cost: str
    #: Whether nothing works without the subject.
    needed: bool = False


def examine() -> list[Finding]:
    """Look for everything, in the order in which a newcomer needs it; change nothing."""
    jupyter = install_command("lab")
    return [
        _data_folder(gateway_folder()),
        _port(DEFAULT_PORT),
        _distribution("JupyterLab", "jupyterlab", f"`toolkit lab` cannot start; run: {jupyter}"),
        _distribution("ipykernel", "ipykernel", f"notebooks have no Python; run: {jupyter}"),
        _distribution("DuckDB", "duckdb", "archives cannot be asked in SQL: install the extra [archive]"),
        _distribution("Dask", "dask", "archives have no .dask(): install the extra [archive]"),
        _mail_server("127.0.0.1", 25),
        _program("Redis", "many gateways need one elsewhere; its tests are skipped", "redis-server", "valkey-server"),
        _program("Chromium", "tests in the browser are skipped", "chromium", "chromium-browser", "google-chrome"),
    ]


def report(findings: list[Finding]) -> str:
    try:
        version = importlib.metadata.version(APPLICATION)
    except importlib.metadata.PackageNotFoundError:
        version = "(not installed, run from its sources)"
    lines = [f"{APPLICATION} {version}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"]
    for finding in findings:
        mark, text = ("ok", finding.found) if finding.found else ("missing", finding.cost)
        lines.append(f"  {mark:8} {finding.subject:{_SUBJECT_WIDTH}} {text}")
    return "\n".join(lines)


def _data_folder(folder: Path) -> Finding:
    # The folder itself may not exist yet, so the nearest existing folder above is tested.
    present = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=present):
            found: str | None = str(folder)
    except OSError:
        found = None
    return Finding("data folder", found, f"{folder} cannot be written: give --data another folder", needed=True)


def _port(port: int) -> Finding:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
            found: str | None = "free"
        except OSError:
            found = None
    cost = "taken, perhaps by a gateway: `toolkit lab` takes a free one, `toolkit gateway` needs --port"
    return Finding(f"port {port}", found, cost)


def _distribution(subject: str, name: str, cost: str) -> Finding:
    try:
        found: str | None = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    return Finding(subject, found, cost)


def _program(subject: str, cost: str, *names: str) -> Finding:
    return Finding(subject, next((path for name in names if (path := shutil.which(name))), None), cost)


def _mail_server(host: str, port: int) -> Finding:
    found = f"smtp://{host}:{port}" if is_listening(host, port) else None
    return Finding("mail server", found, "alert mails stay in the outbox, unless --smtp names a server elsewhere")


@click.command()
def doctor() -> None:
    """Say what is missing on this machine, and what does not work without it."""
    findings = examine()
    click.echo(report(findings))
    sys.exit(any(finding.needed and finding.found is None for finding in findings))
