"""Which gateway a command calls if no URL is given."""

from __future__ import annotations

import socket

import click

from toolkit.cli.options import USUAL_PORT
from toolkit.gateway_address import running_address
from toolkit.working_folder import gateway_folder

_CONNECT_SECONDS = 0.5
_NONE = (
    f"no gateway runs in {{folder}} or on port {USUAL_PORT}: start one with `toolkit lab` or `toolkit gateway`, "
    "or name another one with --url"
)


def gateway_url(given: str | None) -> str:
    """Return the URL that was given, or that of a gateway on this machine; a ClickException if there is none."""
    if found := given or local_url():
        return found
    raise click.ClickException(_NONE.format(folder=gateway_folder()))


def local_url() -> str | None:
    """Return the URL of the gateway on the default folder, or of what listens on the usual port."""
    if url := running_address(gateway_folder()):
        return url
    with socket.socket() as caller:
        caller.settimeout(_CONNECT_SECONDS)
        is_open = caller.connect_ex(("127.0.0.1", USUAL_PORT)) == 0
    return f"http://127.0.0.1:{USUAL_PORT}" if is_open else None
