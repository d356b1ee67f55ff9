"""`toolkit record`: write the dweets of some things to an archive, until a signal."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from toolkit.cli.options import FOLDER, URL, gateway_url
from toolkit.cli.process import end_signal_event, log_to_stderr, wait_for
from toolkit.errors import counted
from toolkit.secret import Secret


def _read_keys(context: click.Context, parameter: click.Parameter, ask: bool) -> Mapping[str, Secret]:
    # Keys come from the environment or a prompt, never from an argument, which every user of the machine can read.
    keys: dict[str, Secret] = {}
    for text in os.environ.get("TOOLKIT_KEYS", "").split():
        thing, _, key = text.rpartition("=")
        if not (thing and key):
            raise click.UsageError("TOOLKIT_KEYS must be THING=KEY, separated by spaces; its value is not shown")
        keys[thing] = Secret(key)
    for thing in context.params.get("things", ()) if ask else ():
        if typed := click.prompt(f"Key of {thing} (empty for none)", default="", hide_input=True, show_default=False):
            keys[thing] = Secret(typed)
    return keys


@click.command(context_settings={"show_default": True})
@click.argument("things", metavar="THING...", nargs=-1, required=True, is_eager=True)
@click.option("--to", "folder", type=FOLDER, required=True, help="Folder of the archive; made if missing.")
@URL
@click.option(
    "--ask-key",
    "keys",
    is_flag=True,
    callback=_read_keys,
    help="Ask for the key of each thing, without showing it.  [env: TOOLKIT_KEYS, THING=KEY with spaces between]",
)
@click.option("--seconds", type=click.FloatRange(min=0.01), default=10.0, help="Seconds between two writes.")
@click.option("--rows", type=click.IntRange(min=1), default=10_000, help="Write earlier after this many dweets.")
def record(
    things: tuple[str, ...], folder: Path, url: str | None, keys: Mapping[str, Secret], seconds: float, rows: int
) -> None:
    """Write every dweet of some things to an archive, until Ctrl-C or SIGTERM.

    The archive begins with the dweets that the gateway still keeps. The next run with the folder resumes where this run
    ended: it skips no dweet that the gateway keeps, and writes none twice. `tk.dweets.archive(FOLDER)` can always read.
    """
    from toolkit.connection import connect

    log_to_stderr("toolkit.recording", "warning")
    used_keys = {thing: key for thing, key in keys.items() if thing in things}
    with end_signal_event() as ended, connect(gateway_url(url)) as tk:
        recording = tk.dweets.record(things, folder, key=used_keys, seconds=seconds, rows=rows)
        click.echo(f"recording {', '.join(things)} of {tk.base_url} to {folder}")
        wait_for(ended)
        click.echo(f"{counted(recording.close(), 'dweet')} recorded")
