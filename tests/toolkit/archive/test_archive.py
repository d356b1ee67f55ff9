"""The archive: exact, ordered and without duplicates, for any content and wherever a writer is killed."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import toolkit
from tests.conftest import ROOT, raw_call
from tests.toolkit.archive.archive_rows import START, archived, contents, numbers, rows
from toolkit.archive.archive import Archive
from toolkit.archive.file_names import folder_name, thing_files
from toolkit.archive.parquet_files import LONGEST_TEXT, Row
from toolkit.archive.writer import SMALL_FILES, ArchiveWriter
from toolkit.dweets.content_leaves import MOST_COLUMNS
from toolkit.errors import ArchiveUnusable, DataWarning, InvalidArgument
from toolkit_gateway import DEMO_START, Gateway
from toolkit_gateway.runtime import SteppedClock

VALUES = [
    {"celsius": 21.5, "air": {"humidity": 48, "name": "naß"}},
    {"celsius": 21, "air": {"humidity": None}, "thing": "mine", "on": True},
    {"celsius": "broken", "list": [1, {"a": 2}], "": 1, "empty": {}},
    {"Celsius": 7, "created": "text", "deep": {"a.b": {"c": 1.25}}},
    {"big": 2**70, "small": -(2**63), "text": "x" * 1000},
    [1, 2],
    "a text",
    17,
    None,
    True,
    {},
]


def asked(archive: Archive, columns: str, where: str = "true") -> list[tuple[object, ...]]:
    frame = archive.sql(f"SELECT {columns} FROM dweets WHERE {where} ORDER BY thing, sequence")
    return [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)]


# -- exactness --------------------------------------------------------------------------------------------


def test_history_equals_the_frame_of_the_gateway(tmp_path: Path) -> None:
    with Gateway(archive=tmp_path) as gateway, toolkit.connect(gateway) as tk:
        for value in VALUES:
            body = json.dumps(value).encode()
            raw_call(tk.base_url, "POST", "/dweet/for/mixed", body, "Content-Type: application/json\r\n")
        tk.dweets.post_frame("even", pd.DataFrame({"n": range(20), "x": np.arange(20) / 4}))
        asked_things = ("mixed", "even", ["mixed", "even"])
        kept = [tk.dweets.history(things) for things in asked_things]
    archive = Archive(tmp_path)
    for things, frame in zip(asked_things, kept, strict=True):
        pd.testing.assert_frame_equal(archive.history(things), frame)


def test_content_is_stored_byte_for_byte(tmp_path: Path) -> None:
    odd = [b'{"a":1.50,"a":2}', b' {"b" : 1e3} '.strip(), '{"ü":"\\u00fc\U0001f600"}'.encode(), b"-0.0", b'"\\u0000"']
    archive = archived(tmp_path, "t", [[Row(n, START, None, content) for n, content in enumerate(odd, 1)]])
    assert [row[0] for row in asked(archive, "content")] == [content.decode() for content in odd]


@pytest.mark.parametrize("joined", [False, True])
def test_sql_has_typed_columns(joined: bool, tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [contents(value, first=n) for n, value in enumerate(VALUES, 1)])
    if joined:
        assert archive.compact()["files"].tolist() == [1]
    expected = [21.5, 21.0, None, 7.0, *[None] * 7]  # numbers win over a text, and capitals are not told apart
    assert [row[0] for row in asked(archive, "celsius")] == expected
    assert asked(archive, '"air.humidity", "air.name"', "sequence = 1") == [(48, "naß")]
    assert asked(archive, 'thing, "content.thing", "on"', "sequence = 2") == [("t", "mine", True)]
    assert asked(archive, '"content.created", "deep.a.b.c"', "sequence = 4") == [("text", 1.25)]
    assert asked(archive, '"big", small, text', "sequence = 5") == [(2.0**70, -(2**63), None)]
    assert [row[0] for row in asked(archive, '"content.content"', "sequence > 5")] == [None, None, 17, None, None, None]
    assert asked(archive, "created, day, sequence", "sequence = 1") == [
        (pd.Timestamp("2026-01-01T00:00:01Z"), pd.Timestamp("2026-01-01"), 1)
    ]
    assert [json.loads(row[0]) for row in asked(archive, "content")] == VALUES


def test_columns_are_bounded_in_number_and_length(tmp_path: Path) -> None:
    many = [{f"c{piece}-{n}": n for n in range(MOST_COLUMNS)} for piece in range(3)]
    archive = archived(tmp_path, "t", [contents(value, first=n) for n, value in enumerate(many, 1)])
    archive.compact()
    (file,) = thing_files(tmp_path, "t")
    assert len(pq.read_schema(file.path).names) == 6 + MOST_COLUMNS
    with pytest.warns(UserWarning, match="400 of the 600 names"):
        assert archive.history("t").shape == (3, MOST_COLUMNS)
    assert archive.history("t", columns=["c2-7"])["c2-7"].tolist()[2] == 7
    long = contents({"t": "x" * LONGEST_TEXT}, {"t": "x" * (LONGEST_TEXT + 1)}, first=4)
    archived(tmp_path, "t", [long])
    assert [row[0] is not None for row in asked(archive, "t", "sequence > 3")] == [True, False]


def test_changing_types_do_not_break_queries(tmp_path: Path) -> None:
    archived(tmp_path, "a", [contents({"v": 1, "w": "x"}), contents({"v": 2.5, "w": "y"}, first=2)])
    archived(tmp_path, "a", [contents({"v": "n/a", "w": 3}, first=3)])
    archive = archived(tmp_path, "b", [contents({"v": True}), contents({"other": 1}, first=2)])
    assert asked(archive, "thing, v, w") == [
        ("a", 1, None),
        ("a", 2.5, None),
        ("a", None, 3),
        ("b", None, None),
        ("b", None, None),
    ]
    dask = archive.dask().compute()
    assert dask["v"].isna().tolist() == [False, False, True, True, True]
    assert dask["w"].isna().tolist() == [True, True, False, True, True]
    assert archive.history("a")["v"].tolist() == [1, 2.5, "n/a"]


def test_dask_and_duckdb_read_the_same_rows(tmp_path: Path) -> None:
    archived(tmp_path, "a", [rows(1, 500), rows(501, 900)])
    archive = archived(tmp_path, "b", [rows(1, 50), contents({"n": 51, "text": "ü", "on": True}, first=51)])
    frame = archive.sql("SELECT * FROM dweets ORDER BY thing, sequence")
    whole = archive.dask().compute()
    assert sorted(whole.columns) == sorted(frame.columns)
    for name in frame.columns:
        assert whole[name].astype(object).where(whole[name].notna(), None).tolist() == (
            frame[name].astype(object).where(frame[name].notna(), None).tolist()
        ), name
    assert int(archive.dask()["n"].sum().compute()) == int(frame["n"].sum())


NAMES = ["Kitchen", "kitchen", "küche/../x", "a b%20", "con", "~", "thing=x", ".", "\U0001f600" * 60, "K" * 256, "'\""]


def test_unusual_thing_names_are_stored(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES, 1):
        archived(tmp_path, name, [rows(1, number)])
    archive = Archive(tmp_path)
    assert archive.things().set_index("thing")["dweets"].to_dict() == {name: n for n, name in enumerate(NAMES, 1)}
    assert archive.sql("SELECT thing, count(*) AS n FROM dweets GROUP BY thing").set_index("thing")["n"].to_dict() == {
        name: n for n, name in enumerate(NAMES, 1)
    }
    paths = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]
    assert len({path.casefold() for path in paths}) == len(paths), "nor in capitals only"
    assert all(len(part) < 230 and not set(part) & set('<>:"|?*\\') for path in paths for part in path.split("/"))
    assert folder_name("a") == "thing=a"


# -- ranges -----------------------------------------------------------------------------------------------


def test_since_is_included_and_until_is_not(tmp_path: Path) -> None:
    hour = 3_600_000_000
    archive = archived(tmp_path, "t", [rows(1, 30, every=hour), rows(31, 60, every=hour)])
    first = datetime(2026, 1, 1, 1, tzinfo=UTC)
    for since, until, expected in [
        (None, None, list(range(1, 61))),
        ("2026-01-02", "2026-01-03", list(range(24, 48))),
        (date(2026, 1, 2), date(2026, 1, 3), list(range(24, 48))),
        (first, first.replace(hour=2), [1]),
        ("2026-01-01T02:00+01:00", "2026-01-01 01:00:00.000001", [1]),
        (pd.Timestamp("2026-01-01T01:00:00.000001", tz="UTC"), "2026-01-01 02:00", []),
        ("2026-01-03T12:00", None, [60]),
        ("2027", None, []),
        (None, "2025", []),
    ]:
        history = archive.history("t", since=since, until=until)
        assert (history["n"].tolist() if len(history) else []) == expected, (since, until)
        assert history.index.name == "created"
        assert str(history.index.dtype) == "datetime64[us, UTC]"
    with pytest.raises(InvalidArgument, match=r"since \(2026-01-02 .* is later than until \(2026-01-01 "):
        archive.history("t", since="2026-01-02", until="2026-01-01")


def test_invalid_time_is_refused(tmp_path: Path) -> None:
    for moment in ["yesterday-ish", "2026-13-01", object(), float("nan"), pd.NaT, "99999-01-01"]:
        with pytest.raises(InvalidArgument, match="since (must be a time|is a str or a date)"):
            Archive(tmp_path).history("t", since=moment)


def test_empty_archive_and_unknown_thing_give_empty_frames(tk: toolkit.Connection, tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    assert repr(archive) == f"<Archive in {tmp_path}, empty>"
    pd.testing.assert_frame_equal(archive.history([]), tk.dweets.history([]))
    for things in ("nobody", ["nobody", "else"]):
        with pytest.warns(DataWarning, match="the archive has no dweet of"):
            archived = archive.history(things)
        with pytest.warns(DataWarning, match="the gateway has no dweet of"):
            pd.testing.assert_frame_equal(archived, tk.dweets.history(things))
    assert archive.things().dtypes.astype(str).to_dict()["first"] == "datetime64[us, UTC]"
    assert len(archive.things()) == len(archive.deleted()) == len(archive.dask()) == len(archive.compact()) == 0
    assert archive.sql("SELECT thing, sequence, created, day, transaction, content FROM dweets").empty
    with pytest.raises(InvalidArgument, match="there is no folder"):
        Archive(tmp_path / "nowhere")
    with pytest.raises(InvalidArgument, match="1 to 256 bytes"):
        archive.history("")


@pytest.mark.parametrize(
    "query",
    ["SELEC 1", "SELECT nothing FROM dweets", "SELECT * FROM nowhere", "SELECT archive FROM archive", "", ";;"]
    + ["SELECT avg(thing) FROM dweets"],  # of which DuckDB lists all candidates
)
def test_invalid_query_is_an_error(query: str, tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 3)])
    with pytest.raises(InvalidArgument, match="cannot be answered") as caught:
        archive.sql(query)
    assert caught.value.__cause__ is None
    assert str(caught.value).count("\n") <= 2
    assert archive.sql("SELECT 1 AS a, 2 AS a, 3 AS a_2").columns.is_unique


# -- what is there ----------------------------------------------------------------------------------------


def test_gaps_and_epochs_are_reported(tmp_path: Path) -> None:
    with ArchiveWriter(tmp_path) as writer:
        writer.append("t", [*rows(3, 5), *rows(8, 9)])
        writer.restart("t")
        writer.append("t", rows(1, 2))
        writer.append("t", rows(1, 9))  # the present epoch: the first two are there
        writer.append("whole", rows(1, 4))
        assert writer.position("t") == (2, 9)
    archive = Archive(tmp_path)
    for _ in range(2):
        deleted = archive.deleted()[["thing", "epoch", "first", "last", "missing"]]
        assert deleted.values.tolist() == [["t", 1, 1, 2, 2], ["t", 1, 6, 7, 2]]
        assert numbers(archive, "t") == sorted([3, 4, 5, 8, 9, *range(1, 10)])  # by time
        archive.compact()
    things = archive.things().set_index("thing")
    assert things["dweets"].to_dict() == {"t": 14, "whole": 4}
    assert things["missing"].to_dict() == {"t": 4, "whole": 0}
    assert things["files"].to_dict() == {"t": 3, "whole": 1}
    assert "18 dweets of 2 things, 2026-01-01 to 2026-01-01" in repr(archive)


def test_frame_rows_become_dweets(tmp_path: Path) -> None:
    times = pd.date_range("2026-01-01", periods=4, freq="6h")
    archive = Archive(tmp_path)
    plain = pd.DataFrame({"c": [1.0, 1e22, -0.0, 0.1], "n": [1, 2, 3, 2**60], 'say "ü"': [1, 2, 3, 4]}, index=times)
    assert archive.add_frame("plain", plain) == 4
    assert archive.add_frame("plain", plain.shift(freq="1D")) == 4
    back = archive.history("plain")
    pd.testing.assert_frame_equal(back.head(4), plain.tz_localize("UTC").rename_axis("created"), check_freq=False)
    assert asked(archive, "content", "sequence = 1") == [('{"c":1.0,"n":1,"say \\"ü\\"":1}',)]
    odd = pd.DataFrame({"a.b": [1, None], "t": ["x", None], "when": times[:2], "on": [True, False]}, index=times[:2])
    archive.add_frame("odd", odd.tz_localize("Europe/Berlin"))
    assert archive.history("odd").index[0] == pd.Timestamp("2025-12-31T23:00Z")
    assert [json.loads(row[0]) for row in asked(archive, "content", "thing = 'odd'")] == [
        {"a": {"b": 1}, "t": "x", "when": "2026-01-01T00:00:00", "on": True},
        {"when": "2026-01-01T06:00:00", "on": False},
    ]
    assert archive.add_frame("none", plain.head(0)) == 0
    for wrong, said in [
        (plain.reset_index(drop=True), "DatetimeIndex"),
        (plain[::-1], "ascending"),
        (plain[["c", "c"]], "two columns have the same name"),
        (plain.set_axis(np.array(["10000-01-01"] * 4, dtype="datetime64[s]")), "years 1 to 9999"),
        (plain.set_axis(np.array(["0000-12-31"] * 4, dtype="datetime64[s]")), "years 1 to 9999"),
    ]:
        with pytest.raises(InvalidArgument, match=said):
            archive.add_frame("wrong", wrong)
    assert archive.things()["thing"].tolist() == ["odd", "plain"]


def test_archive_can_be_pickled_to_another_process(tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 5)])
    assert len(archive.sql("SELECT * FROM dweets")) == 5
    for copied in pickle.loads(pickle.dumps(archive)), copy.deepcopy(archive):
        assert numbers(copied, "t") == [1, 2, 3, 4, 5]


# The alarm ends a child that hangs.
_FORK = """
import os, signal, sys, toolkit
archive = toolkit.Archive(sys.argv[1])
archive.sql("SELECT * FROM dweets")
if os.fork() == 0:
    signal.alarm(60)
    os._exit(len(archive.sql("SELECT * FROM dweets")))
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_an_archive_answers_queries_in_a_forked_process(tmp_path: Path) -> None:
    archived(tmp_path, "t", [rows(1, 5)])
    called = subprocess.run([sys.executable, "-c", _FORK, tmp_path], cwd=ROOT, capture_output=True, check=True)
    assert called.stdout == b"5\n"


def test_threads_add_frames_one_after_the_other(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": range(4)}, index=pd.date_range("2026-01-01", periods=4, freq="6h"))
    archive = Archive(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        added = list(threads.map(archive.add_frame, map("roof-{}".format, range(8)), [frame] * 8))
    assert added == archive.things()["dweets"].tolist() == [4] * 8


def test_a_frame_added_twice_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": range(4)}, index=pd.date_range("2026-01-01", periods=4, freq="6h"))
    archive = Archive(tmp_path)
    assert archive.add_frame("roof", frame) == 4
    with pytest.raises(
        InvalidArgument, match=r"4 of 4 rows are not later than the last dweet of 'roof' \(2026-01-01 18:"
    ):
        archive.add_frame("roof", frame)
    with pytest.raises(
        InvalidArgument, match="1 of 4 rows .* if_exists='skip', or all of them with if_exists='append'"
    ):
        archive.add_frames([("roof", frame.shift(freq="18h"))])
    with pytest.raises(InvalidArgument, match="if_exists is 'error' or 'skip' or 'append', not 'replace'"):
        archive.add_frame("roof", frame, if_exists="replace")  # type: ignore[arg-type]
    assert archive.history("roof")["n"].tolist() == [0, 1, 2, 3]
    assert archive.add_frame("roof", frame.shift(freq="1D")) == 4


def test_history_copied_twice_is_stored_once(tmp_path: Path) -> None:
    """Also if the thing has grown in between, and if dweets share a millisecond."""
    archive = Archive(tmp_path)
    with Gateway(clock=SteppedClock(DEMO_START, timedelta(0))) as gateway, toolkit.connect(gateway) as tk:
        with pytest.warns(DataWarning, match="the gateway has no dweet of"):
            assert archive.add_frame("roof", tk.dweets.history("roof"), if_exists="skip") == 0
        for count in (3, 0, 2, 700):
            tk.dweets.post_frame("roof", pd.DataFrame({"air.celsius": [1.5] * count, "on": [True] * count}))
            tk.dweets.post_frame("yard", pd.DataFrame({"n": range(count)}))
            for thing in ("roof", "yard"):
                assert archive.add_frame(thing, tk.dweets.history(thing), if_exists="skip") == count
        assert archive.add_frame("yard", tk.dweets.history("yard"), if_exists="skip") == 0
        for thing in ("roof", "yard"):
            pd.testing.assert_frame_equal(archive.history(thing), tk.dweets.history(thing))


def test_a_folder_of_an_earlier_version_opens(tmp_path: Path) -> None:
    """Files that the version before this one wrote: a gap, a second epoch, and a frame with a missing value."""
    folder = tmp_path / "years"
    shutil.copytree(Path(__file__).parent / "earlier_archive", folder)
    archive = Archive(folder)
    assert archive.things()["dweets"].tolist() == [6, 3]
    assert archive.deleted()[["thing", "epoch", "first", "last"]].values.tolist() == [["kitchen", 1, 1, 2]]
    assert numbers(archive, "kitchen") == [1, 2, 3, 4, 5, 6]
    assert asked(archive, '"air.on", celsius, content', "thing = 'roof'") == [
        (True, 1.5, '{"celsius":1.5,"air":{"on":true}}'),
        (False, None, '{"air":{"on":false}}'),
        (True, 2.5, '{"celsius":2.5,"air":{"on":true}}'),
    ]
    with ArchiveWriter(folder) as writer:
        writer.append("kitchen", rows(1, 5))
        assert writer.position("kitchen") == (2, 5)
    later = pd.DataFrame({"celsius": [3.0]}, index=pd.date_range("2026-02-01", periods=1))
    assert archive.add_frame("roof", later) == 1
    assert archive.compact()["dweets"].tolist() == [9, 4]
    assert archive.history("roof")["celsius"].tolist()[2:] == [2.5, 3.0]


def test_rows_appended_late_are_read_in_order_of_time(tmp_path: Path) -> None:
    times = pd.date_range("2026-01-01", periods=6, freq="6h")
    frame = pd.DataFrame({"n": range(6)}, index=times)
    archive = Archive(tmp_path)
    for part in (frame.tail(2), frame.head(4), frame.head(1)):
        archive.add_frame("roof", part, if_exists="append")
    for _ in range(2):
        assert archive.history("roof")["n"].tolist() == [0, 0, 1, 2, 3, 4, 5]
        assert archive.history("roof", n=2)["n"].tolist() == [4, 5]
        assert archive.add_frame("roof", frame, if_exists="skip") == 0  # the last row is not the newest one
        archive.compact()


# -- joining ----------------------------------------------------------------------------------------------


def test_a_writer_joins_small_files_while_it_goes_on(tmp_path: Path) -> None:
    written: dict[Path, int] = {}
    with ArchiveWriter(tmp_path) as writer:
        for first in range(1, 1_001, 10):
            writer.append("t", rows(max(first - 3, 1), first + 9))  # the first three are there
            writer.merge("t")
            files = thing_files(tmp_path, "t")
            assert len(files) <= SMALL_FILES + 1
            written |= {file.path: file.rows for file in files}
    assert sum(written.values()) < 1_000 * 6, "no row is rewritten again and again"
    archive = Archive(tmp_path)
    assert numbers(archive, "t") == list(range(1, 1_001))
    assert len(list(tmp_path.rglob("*.parquet"))) == len(thing_files(tmp_path, "t")), "what was joined is removed"
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(ArchiveUnusable, match="there is no folder"):
        archive.history("t")


def test_joined_files_stay_below_the_row_limit(tmp_path: Path) -> None:
    archive, count = Archive(tmp_path), 300_000
    for part in range(4):
        times = pd.date_range("2026-01-01", periods=count, freq="s") + pd.Timedelta(seconds=part * count)
        archive.add_frame("t", pd.DataFrame({"n": np.arange(part * count, (part + 1) * count)}, index=times))
    archive.compact()
    files = thing_files(tmp_path, "t")
    assert [file.rows for file in files] == [3 * count, count]
    before = [file.path.stat().st_mtime_ns for file in files]
    archive.compact()
    assert [file.path.stat().st_mtime_ns for file in thing_files(tmp_path, "t")] == before, "nothing is left to do"
    summed = archive.sql("SELECT count(*) AS count, sum(n) AS sum FROM dweets").iloc[0]
    assert summed.to_list() == [4 * count, 4 * count * (4 * count - 1) / 2]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no signal that is sent in this way")
def test_ctrl_c_ends_a_query(tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 5)])
    assert len(archive.sql("SELECT * FROM dweets")) == 5
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        archive.sql("SELECT count(*) FROM range(1000000000000) AS numbers(n) WHERE n * n % 7 = 3")
    assert len(archive.sql("SELECT * FROM dweets")) == 5


# Ends at the n-th step that reaches the disk, as a power cut would.
_CRASH = """
import os, sys
from pathlib import Path
from tests.toolkit.archive.archive_rows import rows
from toolkit.archive.writer import ArchiveWriter
folder = Path(sys.argv[1])
for turn in range(int(sys.argv[2]), int(sys.argv[3])):
    child = os.fork()
    if not child:
        steps = 0
        def ending(work):
            def step(*given, **named):
                global steps
                steps += 1
                if steps > turn:
                    os._exit(7)
                return work(*given, **named)
            return step
        for name in ("replace", "unlink", "fsync", "mkdir"):
            setattr(os, name, ending(getattr(os, name)))
        with ArchiveWriter(folder / str(turn)) as writer:
            writer.clean()
            for first in range(1, 61, 20):
                writer.append("t", rows(first, first + 19))
            writer.merge("t", fully=True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, flush=True)
    if code == 0:  # it came to its end
        break
"""


@pytest.mark.filterwarnings("ignore:the archive has no dweet")  # it ended before its first dweet
def test_kill_at_any_step_duplicates_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CRASH, str(tmp_path), "0", "24"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    codes = [int(code) for code in ended.stdout.split()]
    assert codes.index(0) > 12, "each step was one of the ends"
    assert set(codes) == {0, 7}
    seen = []
    for turn, code in enumerate(codes):
        folder = tmp_path / str(turn)
        if not folder.is_dir():
            continue
        found = numbers(Archive(folder), "t")
        assert found == list(range(1, len(found) + 1))
        assert len(found) % 20 == 0
        seen.append(len(found))
        if code == 0:
            assert len(found) == 60
        with ArchiveWriter(folder) as writer:  # the next writer goes on, and leaves nothing behind
            writer.clean()
            writer.append("t", rows(1, 80))
            writer.merge("t", fully=True)
        assert numbers(Archive(folder), "t") == list(range(1, 81))
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 2, "one file, and the lock"
    assert seen == sorted(seen)


@pytest.mark.filterwarnings("ignore:the archive has no dweet")  # the first reader may be early
def test_readers_see_a_complete_prefix_during_writes(tmp_path: Path) -> None:
    failures: list[object] = []
    done = threading.Event()

    def write() -> None:
        with ArchiveWriter(tmp_path, seconds_to_remove=0.0) as writer:  # as soon as a reader may meet it
            for first in range(1, 801, 10):
                writer.append("t", rows(first, first + 9))
                writer.merge("t")
        done.set()

    def read() -> None:
        archive, most = Archive(tmp_path), 0
        while not done.is_set():
            counted = archive.sql("SELECT count(*) AS c, count(DISTINCT sequence) AS d, max(sequence) AS m FROM dweets")
            count, distinct, last = counted.iloc[0].fillna(0)
            if not (most <= count == distinct == last):
                failures.append(counted)
            most = count
            found = numbers(archive, "t")
            if found != list(range(1, len(found) + 1)) or len(found) < most:
                failures.append(found)

    threads = [threading.Thread(target=work) for work in (read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert numbers(Archive(tmp_path), "t") == list(range(1, 801))


# -- what should not be there -----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "emptied", "another", "fewer"])
def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 50)])
    archived(tmp_path, "u", [rows(1, 40)])
    (file,) = thing_files(tmp_path, "t")
    if damage == "cut":
        file.path.write_bytes(file.path.read_bytes()[:-200])
    elif damage == "emptied":
        file.path.write_bytes(b"")
    elif damage == "another":
        pd.DataFrame({"a": range(50)}).to_parquet(file.path)
    else:
        os.replace(thing_files(tmp_path, "u")[0].path, file.path)
    for question in (archive.things, lambda: archive.sql("SELECT 1"), archive.dask, archive.compact):
        with pytest.raises(ArchiveUnusable, match=f"{file.path.name} is damaged or not a file of this archive"):
            question()
    if damage != "fewer":
        with pytest.raises(ArchiveUnusable, match=file.path.name):
            archive.history("t")


@pytest.mark.parametrize(
    "name", ["stray.parquet", "thing=t/2026.parquet", "thing=T/x.parquet", "thing=t/{}.e1.5-60.parquet"]
)
def test_foreign_file_is_named(name: str, tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 50)])
    (tmp_path / "README.txt").write_text("ours", "utf-8")
    (tmp_path / "thing=t" / ".DS_Store").write_bytes(b"x")
    assert archive.compact()["dweets"].tolist() == [50], "other files do not matter"
    foreign = tmp_path / name.format("2026-01-01_2026-01-01")
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_bytes(b"x")
    for question in (archive.things, archive.deleted, lambda: archive.sql("SELECT 1"), archive.compact):
        with pytest.raises(ArchiveUnusable, match="move (it|one of them) away"):
            question()
    assert "damaged" in repr(archive)
    assert (tmp_path / "README.txt").exists()


# -- disks and other writers ------------------------------------------------------------------------------


def test_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from tests.toolkit.archive.archive_rows import rows
from toolkit.archive.writer import ArchiveWriter
from toolkit.errors import ArchiveUnusable
with ArchiveWriter(Path(sys.argv[1])) as writer:
    writer.append("t", rows(1, 100))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    try:
        writer.append("t", rows(101, 5_000))
    except ArchiveUnusable as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.append("t", rows(101, 5_000))
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "cannot be written: File too large" in said
    archive = Archive(tmp_path)
    assert (
        archive.sql("SELECT count(*) AS c, count(DISTINCT sequence) AS d FROM dweets").iloc[0].tolist() == [5_000] * 2
    )
    assert not list(tmp_path.rglob("*.unfinished"))


def test_only_one_writer_per_folder(tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 5)])
    holder = """
import sys
from pathlib import Path
from toolkit.archive.writer import ArchiveWriter
with ArchiveWriter(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", holder, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        times = pd.date_range("2026-01-01", periods=1)
        for write in (archive.compact, lambda: archive.add_frame("t", pd.DataFrame({"a": [1]}, index=times))):
            with pytest.raises(ArchiveUnusable, match="another process or thread is writing to the archive"):
                write()
        assert numbers(archive, "t") == [1, 2, 3, 4, 5], "who reads needs no lock"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert archive.compact()["dweets"].tolist() == [5], "the lock dies with its process"


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(ArchiveUnusable, match="cannot be written"):
            ArchiveWriter(folder)


def test_missing_extra_error_names_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archived(tmp_path, "t", [rows(1, 5)])
    for library in ("duckdb", "dask", "dask.dataframe"):
        monkeypatch.setitem(sys.modules, library, None)
    for question in (lambda: archive.sql("SELECT 1"), archive.dask):
        with pytest.raises(
            toolkit.errors.ExtraMissing, match=r"-m pip install (?=.*'duckdb<)(?=.*'dask\[dataframe\]<)"
        ):
            question()
    assert numbers(archive, "t") == [1, 2, 3, 4, 5], "a history needs neither"


def test_explorer_shows_an_archive(tmp_path: Path) -> None:
    archived(tmp_path, "old", [rows(1, 90)])
    archive = archived(tmp_path, "new", [rows(1, 50, every=86_400_000_000)])
    explorer = toolkit.HistoryExplorer(archive, fields=["n"])
    assert explorer.things.options == ("new", "old")
    explorer.day.value = "2026-01-11"
    assert explorer.frame["n"].tolist() == [10]
    names = {"archive": archive}
    exec(explorer.code(), names)
    assert names["shown"]["n"].tolist() == [10], "the code reads the archive too"


@pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")
def test_new_archive_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Locked things are archived too."""
    tmp_path.chmod(0o755)
    with ArchiveWriter(tmp_path / "new"):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    with ArchiveWriter(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o755, "a folder that is there stays as it is"


def test_a_query_takes_parameters(tmp_path: Path) -> None:
    archive = archived(tmp_path, "t", [rows(1, 30)])
    assert archive.sql("SELECT count(*) AS n FROM dweets WHERE n > ?", [20])["n"].tolist() == [10]
    assert archive.sql("SELECT count(*) AS n FROM dweets WHERE n > $least", {"least": 25})["n"].tolist() == [5]
    assert archive.history("t", n=2)["n"].tolist() == [29, 30]
    bar = archive.sql("SELECT current_setting('enable_progress_bar') AS shown")
    assert bar["shown"].tolist() == [False], "a slow query prints nothing"
