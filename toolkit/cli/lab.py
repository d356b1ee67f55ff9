"""`toolkit lab`: one process with a gateway that keeps everything, and JupyterLab on the notebooks."""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

import click

from toolkit.cli.options import FOLDER, PORT, USUAL_PORT, errors_in_one_line
from toolkit.cli.process import END_SIGNALS
from toolkit.errors import ToolkitError
from toolkit.extras import install_command
from toolkit.working_folder import copy_originals, gateway_folder, is_checkout, notebook_folder, originals

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from toolkit.gateway import Gateway

_SETTINGS = Path(__file__).resolve().parents[1] / "jupyter_settings"
_POSIX = os.name == "posix"


class LabCannotStart(ToolkitError):
    """Something that the lab needs is missing; the message tells the command that brings it."""


@dataclass(frozen=True)
class Lab:
    """What a person asked for.

    Parameters
    ----------
    data
        Folder of the gateway; None takes the one in the user's data folder.
    port, lab_port
        Of the gateway and of JupyterLab; None takes the usual one, or a free one where that is taken.
    folder
        Where to copy notebooks and data. None works in place in a checkout, and copies to the user's
        documents otherwise.
    open_browser
        Whether to show the first notebook at once.
    jupyter_options
        Further options of JupyterLab.
    demo
        Load the demo world, and give the notebooks its keys; nothing is kept without `data`.
    """

    data: Path | None = None
    port: int | None = None
    lab_port: int | None = None
    folder: Path | None = None
    open_browser: bool = True
    jupyter_options: tuple[str, ...] = ()
    demo: bool = False

    def run(self) -> None:
        """Run both until Ctrl-C or SIGTERM, and leave nothing behind.

        Raises
        ------
        LabCannotStart
            JupyterLab is not installed, or a folder cannot be written.
        CannotServe, StoreUnavailable
            As `Gateway`.
        """
        _require_jupyter()
        root = self._root()
        with _leaving_at_signals(), self._gateway() as gateway, _runtime_folder() as runtime:
            _set_environment(gateway, runtime)
            jupyter = _jupyter_server(self._jupyter_arguments(root))
            _stop_at_signals(jupyter)
            # On its loop, behind the callback that binds the port: who reads the address may call it.
            jupyter.io_loop.add_callback(_announce, gateway, jupyter, root, self._data)
            jupyter.start()

    def _root(self) -> Path:
        """Return the folder that JupyterLab shows, with fresh copies in it where they are needed."""
        if self.folder is None and is_checkout():
            return originals()
        root = (self.folder or notebook_folder()).resolve()
        try:
            copied = copy_originals(originals(), root)
        except OSError as error:
            raise LabCannotStart(f"the folder {root} cannot be written: {error.strerror}") from None
        for name in copied.kept:
            click.echo(f"{name} has a newer version; yours is kept (move it away to get the new one)", err=True)
        return root

    @property
    def _data(self) -> Path | None:
        # Keys that everybody can read do not get into a person's own folder unasked.
        return self.data or (None if self.demo else gateway_folder())

    def _gateway(self) -> Gateway:
        from toolkit.gateway import Gateway
        from toolkit.gateway.server import CannotServe

        try:
            return Gateway(self._data, port=USUAL_PORT if self.port is None else self.port, demo=self.demo)
        except CannotServe:
            if self.port is not None:
                raise
            return Gateway(self._data, port=0, demo=self.demo)

    def _jupyter_arguments(self, root: Path) -> list[str]:
        arguments = [
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.root_dir={root}",
            f"--ServerApp.open_browser={self.open_browser}",
            f"--LabApp.default_url=/{_first_page(root)}",
            f"--IdentityProvider.token={secrets.token_urlsafe(24)}",
            "--LabApp.extension_manager=readonly",
            # A saved notebook shows pictures of the widgets that have ended with its kernel.
            "--ServerApp.contents_manager_class=toolkit.cli.lab_contents.LabContents",
            # Only this user, only this machine; in a container the user is root, and nobody should be asked why.
            "--ServerApp.allow_root=True",
            # A newcomer's terminal has three lines; "not trusted" and the like are not for them.
            "--Application.log_level=ERROR",
        ]
        if self.lab_port is not None:
            arguments += [f"--ServerApp.port={self.lab_port}", "--ServerApp.port_retries=0"]
        if _POSIX:
            # Kernels on sockets that only this user can open, instead of TCP ports.
            arguments.append("--KernelManager.transport=ipc")
        return [*arguments, *self.jupyter_options]


def _require_jupyter() -> None:
    if not all(importlib.util.find_spec(name) for name in ("jupyterlab", "ipykernel")):
        raise LabCannotStart(f"JupyterLab is not installed here; run: {install_command('lab')}")


def _first_page(root: Path) -> str:
    first = min((root / "notebooks").glob("*.ipynb"), default=None)
    return f"lab/tree/{quote(first.relative_to(root).as_posix())}" if first else "lab"


@contextmanager
def _runtime_folder() -> Iterator[Path]:
    """Make a private folder for the keys and sockets of the kernels, gone at the end.

    Its path is short, because a socket's may have about 100 characters.
    """
    short = "/tmp" if _POSIX and os.access("/tmp", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lab-", dir=short, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _set_environment(gateway: Gateway, runtime: Path) -> None:
    """Tell the kernels, which inherit it, where the gateway is, with the demo world's keys; Jupyter our settings."""
    os.environ["TOOLKIT_URL"] = gateway.base_url
    for name, key in gateway.credentials.items():
        os.environ[f"TOOLKIT_{name.upper()}"] = key.reveal()
    os.environ["JUPYTER_RUNTIME_DIR"] = str(runtime)
    paths = (str(_SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH", ""))
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(path for path in paths if path)


def _jupyter_server(arguments: list[str]) -> ServerApp:
    from jupyterlab.labapp import LabApp

    server: ServerApp = LabApp.initialize_server(argv=arguments)
    return server


def _announce(gateway: Gateway, jupyter: ServerApp, root: Path, data: Path | None) -> None:
    token = jupyter.identity_provider.token
    query = f"?token={token}" if token else ""
    click.echo(f"gateway at {gateway.base_url}")
    click.echo(f"lab at {jupyter.connection_url}{_first_page(root)}{query}")
    kept = "nothing is kept" if data is None else f"dweets kept in {data}"
    click.echo(f"notebooks in {root}, {kept}; Ctrl-C ends both")


@contextmanager
def _leaving_at_signals() -> Iterator[None]:
    """Let a signal unwind everything while the lab starts, and disturb nothing while it ends."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(0)

    before = {number: signal.signal(number, leave) for number in END_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_at_signals(jupyter: ServerApp) -> None:
    """Stop JupyterLab at the first signal, without its question whether one is sure."""

    def stop(number: int, frame: FrameType | None) -> None:
        for again in END_SIGNALS:
            signal.signal(again, signal.SIG_IGN)
        jupyter.stop(from_signal=True)

    for number in END_SIGNALS:
        signal.signal(number, stop)


@click.command(context_settings={"show_default": True})
@click.option("--data", type=FOLDER, help="Folder of the gateway.  [default: in your own data folder]")
@click.option("--port", type=PORT, help=f"Port of the gateway.  [default: {USUAL_PORT}, or a free one]")
@click.option("--lab-port", type=PORT, help="Port of JupyterLab.  [default: 8888, or a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address of the notebooks.")
@click.option("--folder", type=FOLDER, help="Copy notebooks and data to this folder and work there.")
@click.option(
    "--demo", is_flag=True, help="With the demo world, whose keys the notebooks get; nothing is kept without --data."
)
@click.argument("jupyter_options", nargs=-1, type=click.UNPROCESSED)
def lab(
    data: Path | None,
    port: int | None,
    lab_port: int | None,
    no_browser: bool,
    folder: Path | None,
    demo: bool,
    jupyter_options: tuple[str, ...],
) -> None:
    """Open the notebooks in JupyterLab, with a gateway that keeps what they post.

    Options of JupyterLab itself may follow after "--". Ctrl-C ends both.
    """
    with errors_in_one_line():
        Lab(data, port, lab_port, folder, not no_browser, jupyter_options, demo).run()
