"""`toolkit config` prints an example of a gateway's configuration or checks a file; and the option ``--config``."""

from pathlib import Path
from typing import Any

import click

from toolkit.cli.options import environment_option


def _read_tables(context: click.Context, parameter: click.Parameter, path: Path | None) -> dict[str, Any]:
    from toolkit.gateway.configuration import tables_of

    return tables_of(path)


#: The option gives a command the checked tables of the file; none without a file.
CONFIG = environment_option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_read_tables,
    help="Take settings, partners, clients and subscribers from this TOML or JSON file; options replace what it says. "
    "`toolkit config example` prints one.",
)


@click.group()
def config() -> None:
    """Write and check the configuration file of a gateway."""


@config.command()
def example() -> None:
    """Print a configuration with every key, its default and what it means."""
    from toolkit.gateway.configuration import EXAMPLE

    click.echo(EXAMPLE.read_text("utf-8"), nl=False)


@config.command()
@click.argument("file", type=click.Path(path_type=Path), callback=_read_tables, metavar="FILE")
def check(file: dict[str, Any]) -> None:
    """Check a configuration file and say what a gateway has with it.

    Exit code 2 and one line with the key if something in it is wrong.
    """
    from toolkit.gateway.configuration import configuration_of
    from toolkit.gateway.demo_world import DemoWorld

    own = configuration_of(file)
    warning = DemoWorld(own).warning
    if warning:
        click.echo(f"Warning: {warning}", err=True)
    without = "nobody" if warning else "the demo world"
    partners = without if own.rewards is None else f"partners: {len(own.rewards.partners)}"
    clients = without if own.identity is None else f"clients: {len(own.identity.clients)}"
    click.echo(f"no errors; rewards has {partners}; identity has {clients}")
