"""Options that several commands share, and how a command reports an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

USUAL_PORT = 8787

FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
PORT = click.IntRange(0, 65535)


def _store(context: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    # Checked here, because the text of the URL may hold a password and must not come back in an error.
    from toolkit.stores.redis.address import BadAddress, RedisAddress

    try:
        if url is not None:
            RedisAddress(url)
    except BadAddress as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return url


STORE = click.option(
    "--store",
    metavar="URL",
    callback=_store,
    envvar="TOOLKIT_STORE",
    help="Keep everything in the Redis at redis://[user:password@]host[:port][/db], which many gateways may share."
    "  [env: TOOLKIT_STORE]",
)


URL = click.option(
    "--url",
    metavar="URL",
    envvar="TOOLKIT_URL",
    help=f"The gateway. If not set: that of `toolkit lab`, or the one on port {USUAL_PORT} of this machine."
    "  [env: TOOLKIT_URL]",
)
KEY = click.option(
    "--key",
    metavar="KEY",
    envvar="TOOLKIT_KEY",
    help="Key of a locked thing. Better in $TOOLKIT_KEY: every user of the machine can read the arguments of a command."
    "  [env: TOOLKIT_KEY]",
)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Report an error of the toolkit as one line on stderr, with exit code 1."""
    from toolkit.errors import ToolkitError

    try:
        yield
    except ToolkitError as error:
        raise click.ClickException(str(error)) from None
