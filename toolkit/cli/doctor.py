"""`toolkit doctor`: what is missing on this machine, and what does not work without it."""

import importlib.metadata
import platform
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from toolkit.cli.options import DEFAULT_PORT, is_listening
from toolkit.errors import install_command, libraries_of
from toolkit.system.files import APPLICATION, gateway_folder

_NO_GATEWAY = (
    "no `toolkit.Gateway`, no `toolkit.connect()` without a URL, no `toolkit` config, gateway, lab, lock and move"
)


def _findings() -> list[tuple[str, object, str]]:
    """Return what was checked, what was found (None if it is missing, or a port taken), and advice for None."""
    folder, jupyter, archive = gateway_folder(), install_command("lab"), install_command("archive")
    taken = "perhaps by a gateway: `toolkit lab` takes a free one, `toolkit gateway` needs --port"
    free = None if is_listening("127.0.0.1", DEFAULT_PORT) else "free"
    mail_server = "smtp://127.0.0.1:25" if is_listening("127.0.0.1", 25) else None
    no_mail_server = "alert mails stay in the outbox, unless --smtp names a server elsewhere"
    redis = shutil.which("redis-server") or shutil.which("valkey-server")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return [
        ("data folder", _if_writable(folder), f"{folder} cannot be written: give --data another folder"),
        (f"port {DEFAULT_PORT}", free, taken),
        ("gateway", _if_complete("gateway"), f"{_NO_GATEWAY}; run: {install_command('gateway')}"),
        ("JupyterLab", _version("jupyterlab"), f"`toolkit lab` cannot start; run: {jupyter}"),
        ("ipykernel", _version("ipykernel"), f"notebooks have no Python; run: {jupyter}"),
        ("DuckDB", _version("duckdb"), f"`toolkit.Archive` has no SQL queries; run: {archive}"),
        ("Dask", _version("dask"), f"`toolkit.Archive` has no .dask(); run: {archive}"),
        ("mail server", mail_server, no_mail_server),
        ("Redis", redis, "gateways that share a store need one elsewhere; its tests are skipped"),
        ("Chromium", chromium, "tests in the browser are skipped"),
    ]


def _if_complete(extra: str) -> str | None:
    libraries = [re.split(r"[^\w-]", library)[0] for library in libraries_of(extra)]
    return "its libraries are installed" if all(map(_version, libraries)) else None


def _if_writable(folder: Path) -> Path | None:
    # The folder itself may not exist yet, so its nearest existing parent is tested.
    present = next(path for path in (folder, *folder.parents) if path.exists())
    with suppress(OSError), tempfile.TemporaryFile(dir=present):
        return folder
    return None


def _version(distribution: str) -> str | None:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return None


@click.command()
def doctor() -> None:
    """Say what is missing on this machine, and what does not work without it."""
    version = _version(APPLICATION) or "(not installed, run from its sources)"
    click.echo(f"{APPLICATION} {version}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    findings = _findings()
    for subject, found, advice in findings:
        state = "ok" if found else "taken" if subject.startswith("port") else "missing"
        click.echo(f"  {state:8} {subject:14} {found or advice}")
    sys.exit(findings[0][1] is None)  # nothing works without a data folder
