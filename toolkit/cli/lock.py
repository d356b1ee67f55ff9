"""`toolkit lock`: locks of a gateway that does not run, or of gateways on a Redis."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolkit.cli.options import EXISTING_FOLDER, FOLDER, STORE, errors_in_one_line

if TYPE_CHECKING:
    from toolkit.stores import Records

T = TypeVar("T")


@click.group()
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
    with errors_in_one_line():
        from toolkit.dweets.service.locks import Locks

        issued = _with_records(data, store, lambda records: Locks(records).issue())
    click.echo(f"lock        {issued.lock}")
    click.echo(f"master key  {issued.master_key.reveal()}")
    click.echo(f"read key    {issued.read_key.reveal()}")


@lock.command("repair")
@click.argument("thing", required=False)
@click.option("--lock", "lock_name", metavar="LOCK", help="Repair a damaged lock that is on no thing.")
@click.option("--data", type=EXISTING_FOLDER, help="The folder of the gateway; stop that gateway first.")
@STORE
def repair_lock(thing: str | None, lock_name: str | None, data: Path | None, store: str | None) -> None:
    """Unlock THING, whose lock is damaged.

    A damaged lock shuts its thing for everybody; the log of the gateway names the thing. The repair removes the
    damaged record and says what else it does. Where a key still works, it changes nothing.
    """
    if (thing is None) == (lock_name is None):
        raise click.UsageError("give a THING, or --lock LOCK")
    if (data is None) == (store is None):
        raise click.UsageError("give --data or --store: where the gateway keeps everything")
    with errors_in_one_line():
        from toolkit.dweets.service.lock_records import repair
        from toolkit.errors import InvalidArgument

        # To open the store would create it, and an empty one would say that the thing is not locked.
        if data is not None and not (data / "gateway.lock").is_file():
            raise InvalidArgument(f"the folder {data} holds no data of a gateway: give the one of its --data")
        for sentence in _with_records(data, store, lambda records: repair(records, thing=thing, lock=lock_name)):
            click.echo(sentence)


def _with_records(folder: Path | None, store: str | None, work: Callable[[Records], Coroutine[Any, Any, T]]) -> T:
    """Open the store of a gateway that does not run, or a Redis, and do some work on its records."""
    import asyncio

    from toolkit.errors import FolderInUse
    from toolkit.gateway.gateway import store_of
    from toolkit.outside_world import OutsideWorld

    async def run() -> T:
        kept = store_of(folder, store, OutsideWorld().clock.now)
        try:
            await kept.open()
        except FolderInUse as error:
            advice = "stop that gateway, run this command again, and start the gateway"
            raise FolderInUse(error.problem, advice) from None
        try:
            return await work(kept.records)
        finally:
            await kept.close()

    return asyncio.run(run())
