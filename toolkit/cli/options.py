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
    from toolkit.stores.redis.address import BadAddress, redis_address

    try:
        if url is not None:
            redis_address(url)
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


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Report an error of the toolkit as one line on stderr, with exit code 1."""
    from toolkit.errors import ToolkitError

    try:
        yield
    except ToolkitError as error:
        raise click.ClickException(str(error)) from None
