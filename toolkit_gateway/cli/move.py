"""`toolkit move`: from the folder of one machine to a Redis that many gateways share."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.options import FOLDER


@click.command()
@click.argument("folder", type=FOLDER)
@click.argument("store", metavar="REDIS-URL", envvar="TOOLKIT_STORE")
def move(folder: Path, store: str) -> None:
    """Copy all data of the stopped gateway in FOLDER to an empty Redis, and compare both.

    Dweets, locks, alerts, mails and the state of rewards are copied; codes and sessions of mobile identity, which last
    minutes, are not. Run the command again if it was interrupted. REDIS-URL is that of `toolkit gateway --store`; give
    it in $TOOLKIT_STORE if it has a password, because other users of the machine can read arguments.

    The folder is not changed. Do not start a gateway on it afterwards: its dweets would not come to Redis.
    """
    import asyncio

    from tqdm import tqdm

    from toolkit.errors import InvalidArgument
    from toolkit_gateway.dweets.stored_records import LOCKS
    from toolkit_gateway.runtime import SystemClock
    from toolkit_gateway.stores.embedded import EmbeddedStore
    from toolkit_gateway.stores.moving import Moved
    from toolkit_gateway.stores.moving import move as move_store
    from toolkit_gateway.stores.redis.store import RedisStore

    # Opening a missing folder would make it.
    if not (folder / "gateway.lock").is_file():
        raise InvalidArgument(f"the folder {folder} has no data of a gateway: give the folder of a gateway's --data")
    started = SystemClock().now()  # what expires during the move is no difference between the two
    source, target = EmbeddedStore(folder, lambda: started, LOCKS), RedisStore(store, lambda: started)

    async def run() -> Moved:
        await source.open()
        try:
            await target.open(is_move_target=True)
            try:
                with tqdm(unit=" journals", disable=None, leave=False) as bar:

                    def show(stage: str, done: int, total: int) -> None:
                        bar.total, bar.n = total, done
                        bar.set_description(stage, refresh=False)
                        bar.update(0)

                    return await move_store(folder, source, target, show)
            finally:
                await target.close()
        finally:
            await source.close()

    moved = asyncio.run(run())
    click.echo(f"moved and compared: {moved.entries} entries of {moved.journals} journals, {moved.records} records")
    click.echo(f"Start each gateway with --store and this URL; do not start one on {folder} again.")
