"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

USUAL_PORT = 8787

FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
PORT = click.IntRange(0, 65535)

STORE = click.option(
    "--store",
    metavar="URL",
    envvar="TOOLKIT_STORE",
    show_envvar=True,
    help="Keep everything in the Redis at redis://[user:password@]host[:port][/db], which many gateways may share.",
)
URL = click.option(
    "--url",
    metavar="URL",
    envvar="TOOLKIT_URL",
    show_envvar=True,
    help=f"The gateway. If not set: that of `toolkit lab`, or the one on port {USUAL_PORT} of this machine.",
)
KEY = click.option(
    "--key",
    metavar="KEY",
    envvar="TOOLKIT_KEY",
    show_envvar=True,
    help="Key of a locked thing. Better in $TOOLKIT_KEY: other users of the machine can read arguments.",
)
