"""The tables of the embedded journals: neighbours, bounds, and folders of before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_embedded_store import with_store
from toolkit.gateway.stores import Draft, StoreUnavailable, journal_tables
from toolkit.gateway.stores.embedded import EmbeddedStore

OLD_TABLE = """
CREATE TABLE journal (
    name TEXT NOT NULL, sequence INTEGER NOT NULL, at INTEGER NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (name, sequence)
) WITHOUT ROWID
"""


def line(text: str) -> Draft:
    return Draft(len(text), text, text.encode())


@pytest.mark.parametrize("number", [-1, -5_000, 1 << 38, 1 << 62, 1 << 90])
def test_no_number_reaches_into_another_journal(number: int) -> None:
    async def work(store: EmbeddedStore) -> None:
        for name in ("a", "b", "c"):
            await store.journals.append(name, [line(f"{name}{n}") for n in range(3)])
        found = await store.journals.after("b", number)
        assert [entry.id for entry in found] == (["b0", "b1", "b2"] if number < 0 else [])

    with_store(None, work)


def test_a_full_journal_refuses_and_the_next_one_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_tables, "_LINES", 8)

    async def work(store: EmbeddedStore) -> None:
        await store.journals.append("a", [line("a")])
        await store.journals.append("b", [line("b")])
        with pytest.raises(StoreUnavailable, match="no room for another line of this name"):
            await store.journals.append("a", [line("more")] * 7)
        await store.journals.append("b", [line("beside")])
        last = await store.journals.append("a", [line("last")] * 6)
        assert [entry.sequence for entry in last] == list(range(2, 8))
        assert [entry.id for entry in await store.journals.last("b", 9)] == ["b", "beside"]

    with_store(None, work)


def test_more_journals_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_tables, "_JOURNALS", 3)

    async def work(store: EmbeddedStore) -> None:
        await store.journals.append("a", [line("a")])
        await store.journals.append("b", [line("b")])
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="no room for another name"):
                await store.journals.append("c", [line("c")])
        assert await store.journals.names("", 9) == ["a", "b"]
        assert [entry.sequence for entry in await store.journals.append("a", [line("on")])] == [2]

    with_store(None, work)


def test_the_last_journal_there_is_room_for_is_read_like_any_other(tmp_path: Path) -> None:
    async def fill(store: EmbeddedStore) -> None:
        await store.journals.append("first", [line("first")])
        sql = "INSERT INTO journals VALUES (?, 'last but one')"
        await store._commits.run(lambda connection: connection.execute(sql, (journal_tables._JOURNALS - 2,)).rowcount)
        await store.journals.append("last", [line("x")])
        with pytest.raises(StoreUnavailable, match="no room for another name"):
            await store.journals.append("one more", [line("x")])

    async def read(store: EmbeddedStore) -> None:
        assert [entry.id for entry in await store.journals.after("last", 0)] == ["x"]
        assert await store.journals.after("last", 1 << 62) == []
        assert [entry.sequence for entry in await store.journals.append("last", [line("y")])] == [2]
        assert "last" in await store.journals.names("", 9)

    with_store(tmp_path, fill)
    with_store(tmp_path, read)


def test_a_folder_of_an_older_gateway_keeps_its_lines_and_their_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(name, n, 1_000 + n, f"{name}{n}", f"{name} {n}".encode()) for name in "cab" for n in range(40, 60)]
    rows.append(("dweets:späte Küche", 7, 5, "umlaut", b"x"))
    with closing(sqlite3.connect(tmp_path / "gateway.sqlite")) as old, old:
        old.execute(OLD_TABLE)
        old.executemany("INSERT INTO journal VALUES (?,?,?,?,?)", rows)

    async def work(store: EmbeddedStore) -> dict[str, Any]:
        assert sorted(await store.journals.names("", 9)) == ["a", "b", "c", "dweets:späte Küche"]
        found = {name: await store.journals.after(name, 0) for name in ("a", "b", "c", "dweets:späte Küche")}
        return {name: [(name, *entry) for entry in entries] for name, entries in found.items()}

    expected = {name: [row for row in rows if row[0] == name] for name in ("a", "b", "c", "dweets:späte Küche")}
    assert with_store(tmp_path, work) == expected
    assert "moved to new tables" in caplog.text
    caplog.clear()
    (entry,) = with_store(tmp_path, lambda store: store.journals.append("a", [line("new")]))
    assert entry.sequence == 60
    assert not caplog.text, "moved once"


def test_what_an_older_gateway_wrote_to_a_folder_of_now_comes_behind_the_lines_there(tmp_path: Path) -> None:
    with_store(tmp_path, lambda store: store.journals.append("a", [line("now 1"), line("now 2")]))
    with closing(sqlite3.connect(tmp_path / "gateway.sqlite")) as old, old:
        old.execute(OLD_TABLE)  # it saw an empty folder, and began again at one
        rows = [("a", 1, 5, "old 1", b"x"), ("a", 2, 5, "old 2", b"x"), ("b", 1, 5, "old", b"x")]
        old.executemany("INSERT INTO journal VALUES (?,?,?,?,?)", rows)

    async def work(store: EmbeddedStore) -> None:
        found = await store.journals.after("a", 0)
        assert [entry[::2] for entry in found] == [(1, "now 1"), (2, "now 2"), (3, "old 1"), (4, "old 2")]
        assert [entry[::2] for entry in await store.journals.after("b", 0)] == [(1, "old")]
        assert [entry.sequence for entry in await store.journals.append("a", [line("on")])] == [5]

    with_store(tmp_path, work)


def test_a_folder_whose_lines_could_not_be_moved_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(tmp_path / "gateway.sqlite")) as old, old:
        old.execute(OLD_TABLE)
        old.execute("INSERT INTO journal VALUES ('a', 1, 2, 'x', x'00')")
    monkeypatch.setattr(journal_tables, "_CONVERSION", (*journal_tables._CONVERSION, "SELECT * FROM nowhere"))
    with pytest.raises(StoreUnavailable, match="nowhere"):
        with_store(tmp_path, lambda store: store.journals.names("", 9))
    monkeypatch.undo()
    assert with_store(tmp_path, lambda store: store.journals.last("a", 9)) == [(1, 2, "x", b"\0")]
