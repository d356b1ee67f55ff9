"""`toolkit tail`: print the dweets of a thing as they arrive, until Ctrl-C."""

import click

from toolkit.cli.options import KEY, URL, dweet_calls
from toolkit.cli.process import json_text, terminal_safe, write_text


@click.command(context_settings={"show_default": True})
@click.argument("thing")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line: thing, created and content.")
@click.option(
    "--patience",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60.0,
    help="Give up after this long without a connection.",
)
@URL
@KEY
def tail(thing: str, as_json: bool, patience: float, url: str | None, key: str | None) -> None:
    """Print the dweets of a thing as they arrive.

    A line has the time of a dweet and its content as JSON. If the connection is lost, the command reconnects and prints
    what it missed, as far as the gateway still has it. If the thing has no dweet yet, the first line says so. Ctrl-C
    ends the command.

    \b
      toolkit tail kitchen
      toolkit tail kitchen --json | jq .content.celsius
    """  # noqa: D301 - click keeps the lines behind \b as they are
    from toolkit.dweets.client.listening import Listener

    calls = dweet_calls(url)
    with Listener(lambda position: calls.stream(thing, key, position), None, patience) as dweets:
        dweets.on_connection = lambda is_connected: click.echo(
            "connected again" if is_connected else "the connection is lost; reconnecting", err=True
        )
        # A misspelt name would print nothing for ever.
        unknown = "" if calls.has_dweet(thing, key) else f"; {terminal_safe(calls.no_dweet_text([thing]))}"
        click.echo(f"listening to {thing} at {calls.session.base_url}{unknown}", err=True)
        for dweet in dweets:
            if as_json:
                write_text(f"{json_text(dweet.record())}\n")
            else:
                write_text(f"{dweet.time} {json_text(dweet.content)}\n")
