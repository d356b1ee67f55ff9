"""`toolkit config` prints an example of a gateway's configuration or checks a file; and the option ``--config``."""

from pathlib import Path
from typing import Any

import click

from toolkit.cli.options import environment_option


def _read_tables(context: click.Context, parameter: click.Parameter, path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from toolkit_gateway.configuration import tables_of

    return tables_of(path)


#: The option passes the checked tables of the file to a command; an empty dict without the option.
CONFIG = environment_option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_read_tables,
    help="Take settings, partners, clients and subscribers from this TOML or JSON file; options override the file. "
    "`toolkit config example` prints one.",
)

STORE = environment_option(
    "--store",
    metavar="URL",
    help="Store all data in the Redis at redis://[user:password@]host[:port][/db], which several gateways may share.",
)


@click.group()
def config() -> None:
    """Print an example configuration of a gateway, or check a file."""


@config.command()
def example() -> None:
    """Print a configuration with every key, its default and what it means."""
    from toolkit_gateway.configuration import EXAMPLE

    click.echo(EXAMPLE.read_text("utf-8"), nl=False)


@config.command()
@click.argument("file", type=click.Path(path_type=Path), callback=_read_tables, metavar="FILE")
def check(file: dict[str, Any]) -> None:
    """Check a configuration file, and count the partners and clients that a gateway has with it.

    If something in the file is wrong, print one line that names the key; the exit code is 2.
    """
    from toolkit_gateway.configuration import configuration_of
    from toolkit_gateway.demo_world import DemoWorld

    configuration = configuration_of(file)
    rewards, identity, warning = configuration.rewards, configuration.identity, DemoWorld(configuration).warning
    if warning:
        click.echo(f"Warning: {warning}", err=True)
    default = "nobody" if warning else "the demo world"
    rewards_text = default if rewards is None else f"partners: {len(rewards.partners)}"
    identity_text = default if identity is None else f"clients: {len(identity.clients)}"
    click.echo(f"no errors; rewards has {rewards_text}; identity has {identity_text}")
