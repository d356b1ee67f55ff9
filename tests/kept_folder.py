"""Read what a stopped or killed gateway has stored in its folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from toolkit_gateway.dweets.thing_cache import journal_of
from toolkit_gateway.stores import Entry
from toolkit_gateway.stores.embedded import EmbeddedStore


def kept_entries(folder: Path, thing: str) -> list[Entry]:
    async def read() -> list[Entry]:
        store = EmbeddedStore(folder, lambda: 0)
        await store.open()
        try:
            return await store.journals.after(journal_of(thing), 0)
        finally:
            await store.close()

    return asyncio.run(read())


def kept_contents(folder: Path, thing: str) -> list[Any]:
    return [json.loads(entry.data)["content"] for entry in kept_entries(folder, thing)]
