"""`toolkit gateway`: the gateway as a process, until a signal."""

import gc
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from toolkit.cli.options import DEFAULT_PORT, FOLDER, PORT, environment_option
from toolkit.cli.process import handling_end_signals
from toolkit.secret import Secret
from toolkit_gateway.cli.config import CONFIG, STORE


def _parse_locks(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, Secret]:
    # No message shows the argument: it holds a key.
    locks: dict[str, Secret] = {}
    for text in texts:
        lock, _, key = text.partition("=")
        if not (lock and key):
            raise click.BadParameter("it must be LOCK=MASTERKEY; the value is not shown", context, parameter)
        if lock in locks:
            raise click.BadParameter("the same lock is given twice", context, parameter)
        locks[lock] = Secret(key)
    return locks


@click.command(context_settings={"allow_extra_args": True, "show_default": True})
@CONFIG
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=PORT, help=f"Port to listen on; 0 takes a free one.  [default: {DEFAULT_PORT}]")
@click.option("--data", "folder", type=FOLDER, help="Folder for all data; if not set, data is lost at the end.")
@STORE
@click.option(
    "--demo",
    is_flag=True,
    default=None,
    help="Serve the demo world also when other machines may call; its keys are public (data/demo_world.json).",
)
@environment_option(
    "--lock",
    "locks",
    metavar="LOCK=MASTERKEY",
    multiple=True,
    callback=_parse_locks,
    help="Issue this lock with this master key of at least 16 characters. Better in $TOOLKIT_LOCKS (several with "
    "spaces between): every user of the machine can read the arguments of a command.",
)
@environment_option(
    "--smtp",
    metavar="URL",
    help="Send alert mails through smtp://[user:password@]host[:port]; if not set, they stay in the outbox.",
)
@click.option("--keep", type=click.IntRange(min=500), help="How many dweets of each thing are kept.  [default: 10000]")
@click.option("--rate", type=click.IntRange(min=1), help="Posts per second for each thing; no limit if not set.")
@click.option("--archive", type=FOLDER, help="Archive every dweet permanently in this folder.")
@environment_option(
    "--public-url",
    metavar="URL",
    help="The https origin by which callers and browsers reach the gateway.",
)
@environment_option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="Answer to this host name too, as behind a reverse proxy; may be repeated.",
)
@environment_option(
    "--trusted-proxy",
    "trusted_proxies",
    metavar="ADDRESS",
    multiple=True,
    help="Take the address of a caller from X-Forwarded-For or Forwarded of this proxy (address or network); may be "
    "repeated.",
)
@click.option("--cors/--no-cors", default=None, help="Whether web pages of other origins may read answers.")
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="warning",
    help="Lowest level of messages on stderr; info has a line for each call.",
)
@click.pass_context
def gateway(context: click.Context, /, config: dict[str, Any], log_level: str, **options: object) -> None:
    """Run the gateway alone, until Ctrl-C or SIGTERM.

    The first line on stdout is "gateway at http://HOST:PORT", printed once the gateway accepts calls.
    """
    if context.args:
        # click would print the surplus arguments, and one may be a key.
        raise click.UsageError("too many arguments: write --lock before each LOCK=MASTERKEY; only options are allowed")
    from toolkit_gateway import Gateway
    from toolkit_gateway.configuration import with_changes
    from toolkit_gateway.memory import hide_memory

    _log_to_stderr(log_level)
    tables = {
        "dweets": {key: options.pop(key) for key in ("locks", "smtp", "keep", "rate", "archive")},
        "gateway": options,
    }
    settings = with_changes(with_changes({"gateway": {"port": DEFAULT_PORT}}, config), tables)
    # Handle signals first: after a signal during its start, the gateway stops as soon as it has started.
    with _end_signal_event() as ended, Gateway(config=settings) as running:
        hide_memory()
        # The objects of the start stay in use, so garbage collections need not examine them.
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        click.echo(f"gateway at {running.base_url}")
        _wait_for(ended)


@contextmanager
def _end_signal_event() -> Iterator[threading.Event]:
    """Yield an event; a signal of `END_SIGNALS` sets it."""
    ended = threading.Event()
    with handling_end_signals(lambda _number, _frame: ended.set()):
        yield ended


def _wait_for(ended: threading.Event) -> None:
    # On Windows, Ctrl-C does not interrupt a wait without a timeout.
    while not ended.wait(1.0):
        pass


def _log_to_stderr(level: str) -> None:
    log = logging.getLogger("toolkit_gateway")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
