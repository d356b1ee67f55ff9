"""The command line: reads what was typed, and hands it to the file that does the work.

Nothing heavy is imported before a command runs, so that ``toolkit --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from toolkit.lab import USUAL_PORT

if TYPE_CHECKING:
    from toolkit.secret import Secret

LEAST_KEPT = 500
LOG_LEVELS = ("debug", "info", "warning", "error")

FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
PORT = click.IntRange(0, 65535)


def _locks(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, Secret]:
    # No message shows what was typed: it holds a key.
    from toolkit.secret import Secret

    locks: dict[str, Secret] = {}
    for text in texts:
        lock, _, key = text.partition("=")
        if not (lock and key):
            raise click.BadParameter("it must be LOCK=MASTERKEY; what was typed is not shown", context, parameter)
        if lock in locks:
            raise click.BadParameter("the same lock is given twice", context, parameter)
        locks[lock] = Secret(key)
    return locks


def _keys(context: click.Context, parameter: click.Parameter, ask: bool) -> Mapping[str, Secret]:
    # From the environment or typed unseen, never as an argument, which every user of the machine can read.
    from toolkit.secret import Secret

    keys: dict[str, Secret] = {}
    for text in os.environ.get("TOOLKIT_KEYS", "").split():
        thing, _, key = text.rpartition("=")
        if not (thing and key):
            raise click.UsageError("TOOLKIT_KEYS must be THING=KEY, with spaces between; what is there is not shown")
        keys[thing] = Secret(key)
    for thing in context.params.get("things", ()) if ask else ():
        if typed := click.prompt(f"Key of {thing} (empty for none)", default="", hide_input=True, show_default=False):
            keys[thing] = Secret(typed)
    return keys


def _mail_server(context: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    # Checked here, because the text of the URL may hold a password and must not come back in an error.
    try:
        parts = urlsplit(url or "smtp://none")
        usable = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise click.BadParameter("it must be smtp://[user:password@]host[:port] or smtps://...", context, parameter)
    return url


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
def _refusals_in_one_line() -> Iterator[None]:
    """Turn what the toolkit refuses into one line on stderr and exit code 1."""
    from toolkit.errors import ToolkitError
    from toolkit.stores import StoreUnavailable

    try:
        yield
    except (ToolkitError, StoreUnavailable) as error:
        raise click.ClickException(str(error)) from None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gateway-toolkit", prog_name="toolkit")
def main() -> None:
    """Four services in a notebook, and the gateway behind them.

    Begin with `toolkit lab`: it opens the notebooks in your browser.
    """


@main.command(context_settings={"allow_extra_args": True, "show_default": True})
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", type=PORT, default=USUAL_PORT, help="Port to listen on; 0 takes a free one.")
@click.option("--data", type=FOLDER, help="Keep everything in this folder; without it all is gone at the end.")
@STORE
@click.option(
    "--demo", is_flag=True, help="Load the demo world, on the real clock; its keys stand in data/demo_world.json."
)
@click.option(
    "--lock",
    "locks",
    metavar="LOCK=MASTERKEY",
    multiple=True,
    callback=_locks,
    envvar="TOOLKIT_LOCKS",
    help="Issue this lock with this master key. Better in $TOOLKIT_LOCKS (several with spaces between): every user of "
    "the machine can read the arguments of a command.  [env: TOOLKIT_LOCKS]",
)
@click.option(
    "--smtp",
    metavar="URL",
    callback=_mail_server,
    envvar="TOOLKIT_SMTP",
    help="Send alert mails through smtp://[user:password@]host[:port]; without it they stay in the outbox."
    "  [env: TOOLKIT_SMTP]",
)
@click.option("--keep", type=click.IntRange(min=LEAST_KEPT), default=10_000, help="Dweets kept of each thing.")
@click.option("--rate", type=click.IntRange(min=1), help="Posts a thing may make in one second; any number if not set.")
@click.option("--archive", type=FOLDER, help="Archive every dweet in this folder, for good.")
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    envvar="TOOLKIT_ALLOW_HOSTS",
    help="Answer to this host name too, as behind a reverse proxy; may be repeated.  [env: TOOLKIT_ALLOW_HOSTS]",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    metavar="ADDRESS",
    multiple=True,
    envvar="TOOLKIT_TRUSTED_PROXIES",
    help="Take the address of a caller from X-Forwarded-For or Forwarded of this proxy (address or network); may be "
    "repeated.  [env: TOOLKIT_TRUSTED_PROXIES]",
)
@click.option("--cors/--no-cors", default=True, help="Whether web pages of other origins may read answers.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default="warning",
    help="What goes to stderr; info has a line for each call.",
)
@click.pass_context
def gateway(
    context: click.Context,
    host: str,
    port: int,
    data: Path | None,
    store: str | None,
    demo: bool,
    locks: Mapping[str, Secret],
    smtp: str | None,
    keep: int,
    rate: int | None,
    archive: Path | None,
    allow_hosts: tuple[str, ...],
    trusted_proxies: tuple[str, ...],
    cors: bool,
    log_level: str,
) -> None:
    """Run the gateway alone, until Ctrl-C or SIGTERM.

    The first line it prints is "gateway at http://HOST:PORT", once it accepts calls.
    """
    if context.args:
        # click would print the surplus, and it may well be a key.
        raise click.UsageError("too many arguments: --lock stands before each LOCK=MASTERKEY, and nothing else follows")
    with _refusals_in_one_line():
        from toolkit.dweets.service.dweets import DweetSettings
        from toolkit.gateway import Gateway
        from toolkit.gateway.foreground import log_to_stderr, run_gateway

        def start() -> Gateway:
            return Gateway(
                data,
                store=store,
                host=host,
                port=port,
                locks=locks,
                smtp=smtp,
                settings=DweetSettings(keep=keep, rate=rate),
                archive=archive,
                demo=demo,
                allow_hosts=allow_hosts,
                trusted_proxies=trusted_proxies,
                cors=cors,
                exposed=True,  # an address of other machines on the command line is meant
            )

        log_to_stderr(log_level)
        run_gateway(start, _say_where)


def _say_where(url: str) -> None:
    click.echo(f"gateway at {url}")


@main.group()
def lock() -> None:
    """Locks that make a thing private."""


@lock.command("new")
@click.option("--data", type=FOLDER, help="The folder of the gateway that will know the lock.")
@STORE
def new_lock(data: Path | None, store: str | None) -> None:
    """Issue a lock and print its keys, which are shown this once.

    Stop the gateway of that folder first. Gateways on a Redis know the lock at once.
    """
    if (data is None) == (store is None):
        raise click.UsageError("give --data or --store: where the gateway that will know the lock keeps everything")
    with _refusals_in_one_line():
        from toolkit.gateway.foreground import new_lock_in

        issued = new_lock_in(data, store)
    click.echo(f"lock        {issued.lock}")
    click.echo(f"master key  {issued.master_key.reveal()}")
    click.echo(f"read key    {issued.read_key.reveal()}")


@lock.command("repair")
@click.argument("thing", required=False)
@click.option("--lock", "lock_name", metavar="LOCK", help="Repair a damaged lock that is on no thing.")
@click.option("--data", type=EXISTING_FOLDER, help="The folder of the gateway; stop that gateway first.")
@STORE
def repair(thing: str | None, lock_name: str | None, data: Path | None, store: str | None) -> None:
    """Unlock THING, whose lock is damaged.

    A damaged lock shuts its thing for everybody; the log of the gateway names the thing. The repair removes the
    damaged record and says what else it does. Where a key still works, it changes nothing.
    """
    if (thing is None) == (lock_name is None):
        raise click.UsageError("give a THING, or --lock LOCK")
    if (data is None) == (store is None):
        raise click.UsageError("give --data or --store: where the gateway keeps everything")
    with _refusals_in_one_line():
        from toolkit.gateway.foreground import repair_in

        for sentence in repair_in(data, store, thing, lock_name):
            click.echo(sentence)


@main.command(context_settings={"show_default": True})
@click.argument("things", metavar="THING...", nargs=-1, required=True, is_eager=True)
@click.option("--to", "folder", type=FOLDER, required=True, help="Folder of the archive; made if missing.")
@click.option(
    "--url",
    metavar="URL",
    envvar="TOOLKIT_URL",
    default=f"http://127.0.0.1:{USUAL_PORT}",
    help="The gateway.  [env: TOOLKIT_URL]",
)
@click.option(
    "--ask-key",
    "keys",
    is_flag=True,
    callback=_keys,
    help="Ask for the key of each thing, without showing it.  [env: TOOLKIT_KEYS, THING=KEY with spaces between]",
)
@click.option("--seconds", type=click.FloatRange(min=0.01), default=10.0, help="Write what has come so often.")
@click.option("--rows", type=click.IntRange(min=1), default=10_000, help="Write at once when so many have come.")
def record(
    things: tuple[str, ...], folder: Path, url: str, keys: Mapping[str, Secret], seconds: float, rows: int
) -> None:
    """Write every dweet of some things to an archive, until Ctrl-C or SIGTERM.

    It begins with what the gateway still keeps, and resumes where it ended: no dweet is lost that the gateway has,
    none is there twice. `tk.dweets.archive(FOLDER)` reads it, also meanwhile.
    """
    with _refusals_in_one_line():
        from toolkit.recorder import log_to_stderr, run_recorder

        log_to_stderr()
        named = {thing: key for thing, key in keys.items() if thing in things}
        run_recorder(things, folder, url=url, keys=named, seconds=seconds, rows=rows, announce=click.echo)


@main.command(context_settings={"show_default": True})
@click.option("--data", type=FOLDER, help="Folder of the gateway.  [default: in your own data folder]")
@click.option("--port", type=PORT, help=f"Port of the gateway.  [default: {USUAL_PORT}, or a free one]")
@click.option("--lab-port", type=PORT, help="Port of JupyterLab.  [default: 8888, or a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address of the notebooks.")
@click.option("--folder", type=FOLDER, help="Copy notebooks and data to this folder and work there.")
@click.option(
    "--demo", is_flag=True, help="With the demo world, whose keys the notebooks get; nothing is kept without --data."
)
@click.argument("jupyter_options", nargs=-1, type=click.UNPROCESSED)
def lab(
    data: Path | None,
    port: int | None,
    lab_port: int | None,
    no_browser: bool,
    folder: Path | None,
    demo: bool,
    jupyter_options: tuple[str, ...],
) -> None:
    """Open the notebooks in JupyterLab, with a gateway that keeps what they post.

    Options of JupyterLab itself may follow after "--". Ctrl-C ends both.
    """
    from toolkit.lab import Lab, LabCannotStart

    with _refusals_in_one_line():
        try:
            Lab(data, port, lab_port, folder, not no_browser, jupyter_options, demo).run()
        except LabCannotStart as error:
            raise click.ClickException(str(error)) from None


@main.command()
def doctor() -> None:
    """Say what is missing on this machine, and what that costs."""
    from toolkit.doctor import examine, report

    findings = examine()
    click.echo(report(findings))
    sys.exit(any(finding.stops_us for finding in findings))
