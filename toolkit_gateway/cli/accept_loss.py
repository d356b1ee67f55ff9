"""`toolkit accept-loss`: start again with what is left of a folder."""

from pathlib import Path

import click

from toolkit.cli.options import FOLDER


@click.command("accept-loss")
@click.argument("folder", type=FOLDER)
def accept_loss(folder: Path) -> None:
    """Accept that FOLDER has lost data, and print what is missing; without this no gateway starts on it.

    Dweets, locks and other records that were written last are gone. Things whose locks are lost are public. Restore the
    folder from a backup instead, if there is one.
    """
    import asyncio

    from toolkit.errors import InvalidArgument
    from toolkit_gateway.dweets.stored_records import LOCKS
    from toolkit_gateway.runtime import SystemClock
    from toolkit_gateway.stores.embedded import EmbeddedStore

    # Opening a missing folder would make it.
    if not (folder / "gateway.lock").is_file():
        raise InvalidArgument(f"the folder {folder} has no data of a gateway: give the folder of a gateway's --data")

    async def run() -> str:
        store = EmbeddedStore(folder, SystemClock().now, LOCKS)
        await store.open(accepts_loss=True)
        await store.close()
        return store.loss

    loss = asyncio.run(run())
    click.echo(f"The loss is accepted: {loss}." if loss else f"Nothing is missing from {folder}.")
