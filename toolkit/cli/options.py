"""Options that several commands share, and the gateway that a command uses without ``--url``."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolkit.system.files import gateway_folder, running_gateway

if TYPE_CHECKING:
    from toolkit.dweets.client.calls import DweetCalls

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

DEFAULT_PORT = 8787
_CONNECT_SECONDS = 0.5

FOLDER = click.Path(file_okay=False, path_type=Path)
PORT = click.IntRange(0, 65535)


def environment_option(*names: str, **attributes: Any) -> Callable[[CommandT], CommandT]:  # noqa: ANN401
    """Declare an option that an environment variable can set: ``TOOLKIT_`` and the last of the names."""
    variable = f"TOOLKIT_{names[-1].lstrip('-').replace('-', '_').upper()}"
    return click.option(*names, envvar=variable, show_envvar=True, **attributes)


URL = environment_option(
    "--url",
    metavar="URL",
    help=f"The gateway. If not set: that of `toolkit lab`, or the one on port {DEFAULT_PORT} of this machine.",
)
KEY = environment_option(
    "--key",
    metavar="KEY",
    help="Key of a locked thing. Better in $TOOLKIT_KEY: other users of the machine can read arguments.",
)


def dweet_calls(url: str | None) -> DweetCalls:
    """Return the calls of thing messaging, without a DweetClient: it would import pandas, which takes a second."""
    from toolkit.dweets.client.calls import DweetCalls
    from toolkit.http_client import HttpSession

    return DweetCalls(HttpSession(gateway_url(url)))


def gateway_url(given: str | None) -> str:
    if found := given or local_url():
        return found
    raise click.ClickException(
        f"no gateway runs in {gateway_folder()} or on port {DEFAULT_PORT}: start one with `toolkit lab` or "
        "`toolkit gateway`, or name another one with --url"
    )


def local_url() -> str | None:
    """Return the URL of the gateway in the default folder, or of a server on the default port; None without both."""
    if running := running_gateway(gateway_folder()):
        return running[0]
    return f"http://127.0.0.1:{DEFAULT_PORT}" if is_listening("127.0.0.1", DEFAULT_PORT) else None


def is_listening(host: str, port: int) -> bool:
    with socket.socket() as caller:
        caller.settimeout(_CONNECT_SECONDS)
        return caller.connect_ex((host, port)) == 0
