"""`toolkit lab`: JupyterLab on the notebooks, and a gateway that stores its data, in one process."""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
import platformdirs

from toolkit.cli.options import DEFAULT_PORT, FOLDER, PORT
from toolkit.cli.process import END_SIGNALS, handling_end_signals
from toolkit.errors import CannotServe, ExtraMissing
from toolkit.system.files import APPLICATION, copy_missing, gateway_folder, is_checkout, originals
from toolkit_gateway.cli.config import CONFIG

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from toolkit_gateway import Gateway

_JUPYTER_SETTINGS = Path(__file__).resolve().parents[1] / "jupyter_settings"
_IS_POSIX = os.name == "posix"


def _prepare_notebooks(folder: Path | None) -> Path:
    if folder is None and is_checkout():
        return originals()
    root = (folder or platformdirs.user_documents_path() / APPLICATION).resolve()
    try:
        copy_missing(originals(), root)
    except OSError as error:
        raise click.ClickException(f"the folder {root} cannot be written: {error.strerror}") from None
    return root


def _gateway_settings(config: dict[str, Any], data: Path | None, port: int | None) -> dict[str, Any]:
    """Let the options override the configuration; if neither names a folder or a store, add the default folder."""
    from toolkit_gateway.configuration import with_changes

    settings = with_changes({"gateway": {}, **config}, {"gateway": {"folder": data, "port": port}})
    if not {"folder", "store"} & settings["gateway"].keys():
        settings["gateway"]["folder"] = gateway_folder()
    return settings


def _start_gateway(settings: dict[str, Any]) -> Gateway:
    from toolkit_gateway import Gateway

    if "port" in settings["gateway"]:
        return Gateway(config=settings)
    try:
        return Gateway(config=settings, port=DEFAULT_PORT)
    except CannotServe:
        return Gateway(config=settings, port=0)


def _jupyter_arguments(root: Path, lab_port: int | None, open_browser: bool) -> list[str]:
    arguments = [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={root}",
        f"--ServerApp.open_browser={open_browser}",
        f"--LabApp.default_url=/{_start_path(root)}",
        f"--IdentityProvider.token={secrets.token_urlsafe(24)}",
        "--LabApp.extension_manager=readonly",
        # In a container the user is often root. That is safe: only holders of the token on this machine can connect.
        "--ServerApp.allow_root=True",
        # A newcomer should see only our lines, and no warnings such as "not trusted".
        "--Application.log_level=ERROR",
    ]
    if lab_port is not None:
        arguments += [f"--ServerApp.port={lab_port}", "--ServerApp.port_retries=0"]
    if _IS_POSIX:
        # Kernels on sockets that only this user can open, instead of TCP ports.
        arguments.append("--KernelManager.transport=ipc")
    return arguments


def _start_path(root: Path) -> str:
    first = min((root / "notebooks").glob("*.ipynb"), default=None)
    return f"lab/tree/{quote(first.relative_to(root).as_posix())}" if first else "lab"


def _set_environment(gateway: Gateway, runtime: str) -> None:
    """Set environment variables: URL and keys of the gateway for the kernels, and our settings for Jupyter."""
    os.environ["TOOLKIT_URL"] = gateway.base_url
    os.environ["TOOLKIT_OPERATOR_KEY"] = gateway.operator_key.reveal()
    for name, key in gateway.credentials.items():
        os.environ[f"TOOLKIT_{name.upper()}"] = key.reveal()
    os.environ["JUPYTER_RUNTIME_DIR"] = runtime
    for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH"):  # folders of settings, and of front-end extensions
        os.environ[name] = os.pathsep.join(path for path in (str(_JUPYTER_SETTINGS), os.environ.get(name, "")) if path)


def _print_urls(jupyter: ServerApp, root: Path, storage: object) -> None:
    query = f"?token={token}" if (token := jupyter.identity_provider.token) else ""
    click.echo(f"lab at {jupyter.connection_url}{_start_path(root)}{query}")
    click.echo(f"notebooks in {root}, dweets in {storage}; Ctrl-C stops lab and gateway")


def _stop_at_signals(jupyter: ServerApp) -> None:
    """Make the first signal stop JupyterLab without asking for confirmation; later signals are ignored."""

    def stop(number: int, frame: FrameType | None) -> None:
        for ignored in END_SIGNALS:
            signal.signal(ignored, signal.SIG_IGN)
        jupyter.stop(from_signal=True)

    for number in END_SIGNALS:
        signal.signal(number, stop)


@click.command(context_settings={"show_default": True})
@CONFIG
@click.option("--data", type=FOLDER, help="Folder for the data of the gateway.  [default: in your user data folder]")
@click.option("--port", type=PORT, help=f"Port of the gateway.  [default: {DEFAULT_PORT}, or a free one]")
@click.option("--lab-port", type=PORT, help="Port of JupyterLab.  [default: 8888, or a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address of the notebooks.")
@click.option("--folder", type=FOLDER, help="Copy notebooks and data to this folder and work there; files in it stay.")
@click.argument("jupyter_options", nargs=-1, type=click.UNPROCESSED)
def lab(
    config: dict[str, Any],
    data: Path | None,
    port: int | None,
    lab_port: int | None,
    no_browser: bool,
    folder: Path | None,
    jupyter_options: tuple[str, ...],
) -> None:
    """Open the notebooks in JupyterLab, with a gateway that stores its data.

    Options of JupyterLab itself may follow after "--". Ctrl-C stops JupyterLab and the gateway.
    """
    if not all(importlib.util.find_spec(name) for name in ("jupyterlab", "ipykernel")):
        raise ExtraMissing("JupyterLab", "lab")
    root = _prepare_notebooks(folder)
    settings = _gateway_settings(config, data, port)
    # Systems allow only about 100 characters in the path of a socket of a kernel.
    short = "/tmp" if _IS_POSIX and os.access("/tmp", os.W_OK) else None
    # A signal during the start stops the gateway and removes the runtime folder.
    with (
        handling_end_signals(lambda _number, _frame: sys.exit(0)),
        _start_gateway(settings) as running,
        tempfile.TemporaryDirectory(prefix="lab-", dir=short, ignore_cleanup_errors=True) as runtime,
    ):
        _set_environment(running, runtime)
        click.echo(f"gateway at {running.base_url}")
        click.echo("Starting JupyterLab ...", err=True)
        from jupyterlab.labapp import LabApp

        arguments = [*_jupyter_arguments(root, lab_port, not no_browser), *jupyter_options]
        jupyter: ServerApp = LabApp.initialize_server(argv=arguments)
        _stop_at_signals(jupyter)
        # Print on JupyterLab's loop, after the callback that binds the port: a program may open the URL at once.
        jupyter.io_loop.add_callback(_print_urls, jupyter, root, settings["gateway"].get("folder", "Redis"))
        jupyter.start()
