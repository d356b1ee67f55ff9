"""A folder that has lost data is not opened until somebody accepts the loss."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from tests.commands import called
from tests.gateway.stores.conftest import Hook, fail_once
from tests.gateway.stores.opened_stores import line, with_store
from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit.system.files import write_whole
from toolkit_gateway.dweets.stored_records import LOCKS
from toolkit_gateway.stores import embedded_checkpoint
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.embedded_checkpoint import Checkpoint, read_checkpoint


def live(folder: Path, work: Callable[[EmbeddedStore], Any]) -> None:
    with_store(folder, work, locks=LOCKS)


async def nothing(_: EmbeddedStore) -> None: ...


async def fill(store: EmbeddedStore) -> None:
    """Make ten changes: eight dweets and two locks."""
    for number in range(8):
        await store.journals.append("a", [line(str(number))])
    for name in ("lock:garage", "lock:attic"):
        await store.records.put(LOCKS[0], name, b"{}")


async def fill_and_kill(store: EmbeddedStore, folder: Path, killed: Path) -> None:
    """Fill a store, and make a copy of its folder as a killed process leaves it."""
    await fill(store)
    while read_checkpoint(folder) != Checkpoint(10, 2):
        await asyncio.sleep(0.01)
    shutil.copytree(folder, killed)


def log_of(folder: Path) -> Path:
    return max((folder / "database").glob("*.log"), key=lambda path: path.stat().st_size)


def cut_log(folder: Path) -> None:
    log = log_of(folder)
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


LOSSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "log cut": (cut_log, r"holds \d changes and \d locks? now"),
    "log gone": (lambda folder: log_of(folder).unlink(), "holds 0 changes and 0 locks now"),
    "database gone": (lambda folder: shutil.rmtree(folder / "database"), "holds 0 changes and 0 locks now"),
}


@pytest.mark.parametrize(("lose", "left"), LOSSES.values(), ids=LOSSES)
def test_folder_that_lost_data_is_refused_until_that_is_accepted(
    tmp_path: Path, lose: Callable[[Path], object], left: str
) -> None:
    folder = tmp_path / "killed"
    live(tmp_path / "open", lambda store: fill_and_kill(store, tmp_path / "open", folder))
    shutil.copytree(folder, tmp_path / "whole")
    live(tmp_path / "whole", nothing)
    lose(folder)
    (folder / "gateway.pid").unlink()
    files = sorted(path.name for path in folder.iterdir())
    loss = f"it held 10 changes and 2 locks while its gateway ran, and {left}"
    with pytest.raises(StoreUnavailable, match=f"has lost data: {loss}; .*toolkit accept-loss"):
        live(folder, nothing)
    assert files == sorted(path.name for path in folder.iterdir()), "no empty database is made"
    assert re.fullmatch(f"The loss is accepted: {loss}.\n", called("accept-loss", str(folder)).stdout)
    live(folder, nothing)
    assert called("accept-loss", str(folder)).stdout == f"Nothing is missing from {folder}.\n"


def test_folder_that_lost_data_after_a_clean_stop_is_refused(tmp_path: Path) -> None:
    live(tmp_path, fill)
    shutil.rmtree(tmp_path / "database")
    with pytest.raises(StoreUnavailable, match="held 10 changes and 2 locks when it was stopped, and holds 0 changes"):
        live(tmp_path, nothing)


def test_changes_do_not_wait_for_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_released = threading.Event()

    def write_late(*arguments: Any) -> None:
        is_released.wait(60)
        write_whole(*arguments)

    async def work(store: EmbeddedStore) -> None:
        monkeypatch.setattr(embedded_checkpoint, "write_whole", write_late)
        await fill(store)
        assert read_checkpoint(tmp_path) == Checkpoint(0, 0)
        is_released.set()

    live(tmp_path, work)
    assert read_checkpoint(tmp_path) == Checkpoint(10, 2, is_clean=True)


def test_failed_batch_is_in_no_checkpoint(tmp_path: Path, hook: Hook) -> None:
    async def work(store: EmbeddedStore) -> None:
        fail_once(hook, "on_sync")
        with pytest.raises(OutcomeUnknown):
            await store.journals.append("a", [line("1")])

    live(tmp_path, work)
    assert read_checkpoint(tmp_path) == Checkpoint(0, 0)
    live(tmp_path, nothing)


def test_checkpoint_that_cannot_be_written_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "checkpoint.json")

    with monkeypatch.context() as patched:
        patched.setattr(embedded_checkpoint, "write_whole", fail)
        live(tmp_path, fill)
    assert [text.partition(":")[0] for text in caplog.messages] == ["a loss of the last changes would not be noticed"]
    live(tmp_path, nothing)


def test_unreadable_checkpoint_is_refused(tmp_path: Path) -> None:
    live(tmp_path, fill)
    (tmp_path / "checkpoint.json").write_bytes(b'{"last_ch')
    with pytest.raises(StoreUnavailable, match=r"checkpoint\.json cannot be read.* remove this file if"):
        live(tmp_path, nothing)


def test_short_rows_are_refused_with_a_sentence(tmp_path: Path) -> None:
    def put(key: bytes, value: bytes) -> None:
        database = Rdict(str(tmp_path / "database"), Options(raw_mode=True))
        database[key] = value
        database.close()

    live(tmp_path, fill)
    for value in (b"", b"short", bytes(8) + b"\0\x09cut"):
        put(b"J\0\1a" + (9).to_bytes(8, "big"), value)
        with pytest.raises(StoreUnavailable, match="is too short: restore the folder from a backup"):
            with_store(tmp_path, lambda store: store.journals.last("a", 5))
    put(b"R\0\1sk", b"short")
    with pytest.raises(StoreUnavailable, match=r"the row b'R.*sk' of the store is too short: restore the folder"):
        live(tmp_path, nothing)
