"""`toolkit record` is gone: the command says what archives dweets now."""

import click

from toolkit.dweets.checked_values import NO_RECORDER
from toolkit.errors import InvalidArgument


@click.command(hidden=True, add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def record(arguments: tuple[str, ...]) -> None:
    raise InvalidArgument(NO_RECORDER)
