"""The gateway that a command calls."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import USUAL_PORT
from toolkit.operator.folder import OperatorFolder
from toolkit.working_folder import gateway_folder

if TYPE_CHECKING:
    from toolkit.dweets.client.calls import DweetCalls

_CONNECT_SECONDS = 0.5


def dweet_calls(url: str | None) -> DweetCalls:
    """Return what calls thing messaging of the gateway, without pandas, which takes a second to import."""
    from toolkit.dweets.client.calls import DweetCalls
    from toolkit.http_client import HttpSession

    return DweetCalls(HttpSession(gateway_url(url)))


def gateway_url(given: str | None) -> str:
    """Return the URL that was given, or that of a gateway on this machine; a ClickException if there is none."""
    if found := given or local_url():
        return found
    raise click.ClickException(
        f"no gateway runs in {gateway_folder()} or on port {USUAL_PORT}: start one with `toolkit lab` or "
        "`toolkit gateway`, or name another one with --url"
    )


def local_url() -> str | None:
    """Return the URL of the gateway on the default folder, or of what listens on the usual port."""
    if running := OperatorFolder(gateway_folder()).running():
        return running[0]
    with socket.socket() as caller:
        caller.settimeout(_CONNECT_SECONDS)
        is_open = caller.connect_ex(("127.0.0.1", USUAL_PORT)) == 0
    return f"http://127.0.0.1:{USUAL_PORT}" if is_open else None
