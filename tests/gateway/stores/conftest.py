"""A RocksDB whose calls a test can make fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rocksdict import Rdict

from toolkit_gateway.stores import embedded_database


def _do_nothing(*_: Any) -> None: ...


class HookedRdict:
    """A RocksDB that calls a function before it is opened, written, synced or closed; the function may raise."""

    on_open: Callable[[Any], object] = staticmethod(_do_nothing)  # with the options
    on_write: Callable[[], object] = staticmethod(_do_nothing)
    on_sync: Callable[[], object] = staticmethod(_do_nothing)
    on_close: Callable[[], object] = staticmethod(_do_nothing)

    def __init__(self, path: str, options: Any) -> None:
        HookedRdict.on_open(options)
        self._rocks = Rdict(path, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rocks, name)

    def write(self, batch: Any) -> None:
        HookedRdict.on_write()
        self._rocks.write(batch)

    def flush_wal(self, sync: bool) -> None:
        assert sync
        HookedRdict.on_sync()
        self._rocks.flush_wal(sync)

    def close(self) -> None:
        HookedRdict.on_close()
        self._rocks.close()


Hook = Callable[[str, Callable[..., object]], None]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    monkeypatch.setattr(embedded_database, "Rdict", HookedRdict)
    return lambda name, call: monkeypatch.setattr(HookedRdict, name, staticmethod(call))


def fail_once(hook: Hook, name: str) -> None:
    def fail() -> None:
        hook(name, _do_nothing)
        raise OSError("IO error: sync failed")

    hook(name, fail)
