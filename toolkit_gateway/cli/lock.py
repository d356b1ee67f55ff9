"""`toolkit lock`: locks of a gateway's folder, whether it runs or not, or of gateways on a Redis."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from toolkit.cli.options import FOLDER
from toolkit_gateway.cli.config import STORE

if TYPE_CHECKING:
    from toolkit.operator.client import OperatorClient
    from toolkit_gateway.stores import Records

T = TypeVar("T")
_DATA = click.option("--data", type=FOLDER, help="The folder of the gateway, which may be running.")


@click.group()
def lock() -> None:
    """Locks that make a thing private.

    If a gateway has the folder open, each change applies at once, as it does for gateways on a Redis.
    """


@lock.command("new")
@_DATA
@STORE
def new_lock(data: Path | None, store: str | None) -> None:
    """Issue a lock and print its keys, which are shown this once."""
    from toolkit_gateway.dweets.locks import Locks

    issued = _operate(
        data, store, lambda records: Locks(records).issue(), lambda operator: operator.issue_lock(), creates=True
    )
    click.echo(f"lock        {issued.lock}")
    click.echo(f"master key  {issued.master_key.reveal()}")
    click.echo(f"read key    {issued.read_key.reveal()}")


@lock.command("list")
@_DATA
@STORE
def list_locks(data: Path | None, store: str | None) -> None:
    """Print each lock, its state and the thing that uses it."""
    from toolkit_gateway.dweets.lock_records import lock_rows

    rows: Sequence[Mapping[Any, Any]] = _operate(
        data, store, lock_rows, lambda operator: operator.locks().fillna("").to_dict("records")
    )
    for row in rows:
        thing_text = f"on {row['thing']}" if row["thing"] else ""
        click.echo(f"{row['lock'] or '-':<17}  {row['state']:<7}  {thing_text}".rstrip())


@lock.command("revoke")
@click.argument("lock_name", metavar="LOCK")
@_DATA
@STORE
def revoke_lock(lock_name: str, data: Path | None, store: str | None) -> None:
    """Remove LOCK permanently: its keys no longer work.

    The thing that uses it is unlocked: everybody can read and write it. Its alert is removed.

    A damaged lock shuts its thing for everybody, and is removed like any other. If `toolkit lock list` shows a damaged
    thing without a lock, LOCK is the name of the thing.
    """
    from toolkit_gateway.dweets.lock_records import revoke

    thing = _operate(
        data, store, lambda records: revoke(records, lock_name), lambda operator: operator.revoke_lock(lock_name)
    )
    click.echo(f"The lock {lock_name!a} is removed.")
    if thing is not None:
        click.echo(f"The thing {thing!a} is unlocked: everybody can read and write it until it is locked again.")


def _operate(
    folder: Path | None,
    store_url: str | None,
    on_records: Callable[[Records], Coroutine[Any, Any, T]],
    on_gateway: Callable[[OperatorClient], T],
    *,
    creates: bool = False,
) -> T:
    """Change the records of a store, or call the operator API of the gateway that has the folder open."""
    import asyncio

    from toolkit.connection import connect
    from toolkit.errors import FolderInUse, InvalidArgument, ServiceError
    from toolkit.system.files import running_gateway
    from toolkit_gateway.gateway import store_of
    from toolkit_gateway.runtime import Runtime

    store_url = _store_without_folder(folder, store_url)
    # Opening a missing store would create an empty one, and the command would say that there is no lock.
    if folder is not None and not creates and not (folder / "gateway.lock").is_file():
        raise InvalidArgument(f"the folder {folder} has no data of a gateway: give the folder of a gateway's --data")

    async def run() -> T:
        store = store_of(folder, store_url, Runtime().clock.now)
        await store.open()
        try:
            return await on_records(store.records)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except FolderInUse as error:
        running = running_gateway(folder) if folder is not None else None
        if running is None:  # a gateway that is starting, or `toolkit lock` in another terminal, has the folder
            advice = "run this command again once that gateway accepts calls, or has ended"
            raise FolderInUse(error.problem, advice) from None
    url, key = running
    with connect(url, operator_key=key) as tk:
        try:
            return on_gateway(tk.operator)
        except ServiceError as error:
            error.request = ""  # the same message as without a gateway
            raise


def _store_without_folder(folder: Path | None, store: str | None) -> str | None:
    """Return the URL of the store; None if a folder is given, which has priority over $TOOLKIT_STORE."""
    if folder is None and store is None:
        raise click.UsageError("give --data, --store or $TOOLKIT_STORE: where the gateway stores its data")
    is_from_environment = click.get_current_context().get_parameter_source("store") is ParameterSource.ENVIRONMENT
    if folder is not None and store is not None and not is_from_environment:
        raise click.UsageError("give --data or --store, not both: a gateway stores all of its data in one of them")
    return store if folder is None else None
