"""Gateways that archive and are killed: each dweet is archived once and in order."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

import toolkit
from tests.commands import called
from tests.gateway_process import GatewayProcess
from tests.redis_servers import fresh_url
from toolkit.archive.archive import Archive
from toolkit.archive.file_names import all_files, thing_files
from toolkit.archive.writer import ArchiveWriter
from toolkit.errors import ArchiveUnusable
from toolkit_gateway import DEMO_START, Gateway
from toolkit_gateway.runtime import SteppedClock, Timings

DWEETS = 4_000


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to this"
        time.sleep(0.05)


def archived_so_far(folder: Path, thing: str) -> int:
    return sum(file.rows for file in thing_files(folder, thing))


def numbers(folder: Path, thing: str) -> list[int]:
    history = Archive(folder).history(thing)
    return history["n"].tolist() if len(history) else []


Numbered = tuple[object, int]  # a worker or a thing, and a number


class Poster(threading.Thread):
    """Sends posts over one connection until it breaks, and remembers which dweets were acknowledged."""

    def __init__(self, port: int, posts: Iterable[tuple[str, list[Numbered]]], acknowledged: list[Numbered]) -> None:
        super().__init__(daemon=True)
        self.posts, self.acknowledged = posts, acknowledged
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        try:
            for thing, dweets in self.posts:
                self.connection.request("POST", f"/dweets/for/{thing}", "\n".join(map(json.dumps, dweets)))
                if b'"this":"succeeded"' in self.connection.getresponse().read():
                    self.acknowledged += dweets
        except (OSError, http.client.HTTPException):
            return  # the gateway was killed: what it acknowledged is what counts
        finally:
            self.connection.close()


def batches(worker: int, count: int = DWEETS) -> Iterator[tuple[str, list[Numbered]]]:
    for start in range(0, count, 50):
        yield "all", [(worker, number) for number in range(start, start + 50)]


def rounds(things: list[str], numbers: Iterator[int]) -> Iterator[tuple[str, list[Numbered]]]:
    return ((thing, [(thing, next(numbers))]) for thing in itertools.cycle(things))


def check(archived: list[Numbered], acknowledged: list[Numbered], folder: Path, workers: int = 0) -> None:
    print(f"\n{len(acknowledged)} acknowledged, {len(archived)} archived")
    assert len(set(archived)) == len(archived), "none is there twice"
    assert set(acknowledged) <= set(archived), "every acknowledged one is there"
    for worker in range(workers):
        of_worker = [number for who, number in archived if who == worker]
        assert of_worker == list(range(len(of_worker))), "in the order of the caller"
    assert Archive(folder).deleted().empty


def test_repeated_kills_archive_each_dweet_once(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "archive"
    options = {"archive": str(folder), "keep": 500, "archive_seconds": 0.05}
    acknowledged: list[Numbered] = []
    for turn in range(2):
        with GatewayProcess(data, **options) as process:
            before, archived_before = len(acknowledged), archived_so_far(folder, "all")
            posters = [Poster(process.port, batches(4 * turn + n), acknowledged) for n in range(4)]
            for poster in posters:
                poster.start()
            until(lambda: len(acknowledged) > before + 2_100)  # noqa: B023
            until(lambda: archived_so_far(folder, "all") > archived_before + 100)  # noqa: B023
            process.kill()
            for poster in posters:
                poster.join(60)
    with Gateway(data, archive=folder, keep=500) as gateway, toolkit.connect(gateway) as tk:
        # A gateway that stops gives its archive some seconds: who was killed may have left more behind than that.
        until(lambda: archived_so_far(folder, "all") >= len(acknowledged))
        tk.dweets.post_frame("rest", pd.DataFrame({"n": range(200)}), progress=False)
    assert len(acknowledged) > DWEETS
    check([tuple(pair) for pair in Archive(folder).history("all")["content"]], acknowledged, folder, workers=8)
    assert numbers(folder, "rest") == list(range(200))


@pytest.mark.parametrize(
    ("things", "kills"), [(40, 1), pytest.param(2_000, 10, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])]
)
def test_kills_during_posts_to_many_things_lose_nothing(things: int, kills: int, tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "archive"
    options = {"archive": str(folder), "archive_seconds": 0.05}
    acknowledged: list[Numbered] = []
    posted_numbers = itertools.count()
    for turn in range(kills):
        names = [f"thing-{number}" for number in range(things * turn // kills, things)]
        names += [f"late-{turn}-{number}" for number in range(things // 10)]  # first posted in this life
        with GatewayProcess(data, **options) as process:
            before, archived_before = len(acknowledged), sum(map(len, all_files(folder).values()))
            posters = [Poster(process.port, rounds(names[n::4], posted_numbers), acknowledged) for n in range(4)]
            for poster in posters:
                poster.start()
            until(lambda: len(acknowledged) - before > len(names))  # noqa: B023
            until(lambda: sum(map(len, all_files(folder).values())) > archived_before + things // 10)  # noqa: B023
            process.kill()
            for poster in posters:
                poster.join(60)
    with Gateway(data, archive=folder):
        until(lambda: sum(archived_so_far(folder, thing) for thing in all_files(folder)) >= len(acknowledged), 600)
    contents = Archive(folder).sql("SELECT content FROM dweets")["content"]
    check([tuple(json.loads(content)) for content in contents], acknowledged, folder)


@pytest.mark.filterwarnings("ignore:the gateway has deleted [0-9,]+ dweet")
def test_journal_is_trimmed_only_up_to_archived_entries(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "thing=blocked").write_text("in the way", "utf-8")
    config = {"dweets": {"keep": 500, "archive_seconds": 0.02}}
    clock = SteppedClock(DEMO_START, timedelta(0))  # no midnight comes between
    with Gateway(archive=folder, config=config, clock=clock) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post("blocked", {"n": 0})

        def is_cut(thing: str) -> bool:
            """Post more, since a journal is cut when something is added, and say whether it was."""
            tk.dweets.post_frame(thing, pd.DataFrame({"n": [-1] * 50}))
            return len(tk.dweets.history(thing)) < 1_500

        for start in range(0, 3_000, 300):
            for thing in ("free", "blocked"):
                tk.dweets.post_frame(thing, pd.DataFrame({"n": range(start, start + 300)}))
            until(lambda: archived_so_far(folder, "free") == start + 300)  # noqa: B023
        until(lambda: is_cut("free"))
        assert len(tk.dweets.history("blocked")) == 3_001, "acknowledged, kept, and waiting for its archive"
        (folder / "thing=blocked").unlink()
        until(lambda: archived_so_far(folder, "blocked") == 3_001)
        until(lambda: is_cut("blocked"))
    assert numbers(folder, "blocked")[:3_001] == [0, *range(3_000)]


def test_a_thing_that_fails_to_archive_stops_no_other(tmp_path: Path) -> None:
    """Neither one that another gateway on the store has taken: nobody but its own gateway is told when it posts."""
    (tmp_path / "thing=blocked").write_text("in the way", "utf-8")
    store, config = fresh_url(), {"dweets": {"keep": 500, "archive_seconds": 0.02}}
    with Gateway(store=store, archive=tmp_path, config=config) as archiving, Gateway(store=store) as other:
        with toolkit.connect(archiving) as here, toolkit.connect(other) as there:
            here.dweets.post("blocked", {"n": 0})
            for n in range(3):
                there.dweets.post("free", {"n": n})
                until(lambda: archived_so_far(tmp_path, "free") == n + 1)  # noqa: B023
            (tmp_path / "thing=blocked").unlink()
            until(lambda: archived_so_far(tmp_path, "blocked") == 1)
    assert (numbers(tmp_path, "free"), numbers(tmp_path, "blocked")) == ([0, 1, 2], [0])


def test_archiving_goes_on_after_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    def fail(_: ArchiveWriter, thing: str, __: object) -> None:
        calls.append(thing)
        raise RuntimeError("a bug")

    config, timings = {"dweets": {"archive_seconds": 0.02}}, Timings(lease=0.3)
    folder = tmp_path / "archive"
    with Gateway(tmp_path / "data", archive=folder, config=config, timings=timings) as gateway:
        dweets = toolkit.connect(gateway).dweets
        with monkeypatch.context() as broken:
            broken.setattr(ArchiveWriter, "append", fail)
            dweets.post("kitchen", {"n": 0})
            until(lambda: calls)
        dweets.post("kitchen", {"n": 1})
        until(lambda: archived_so_far(folder, "kitchen") == 2)
    assert "archiving begins again after a bug of the gateway" in caplog.messages
    assert numbers(folder, "kitchen") == [0, 1]


def test_an_archive_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(ArchiveUnusable, match="cannot be written"):
        Gateway(tmp_path / "data", archive=tmp_path / "file")
    with Gateway(tmp_path / "data", archive=tmp_path / "archive") as gateway:
        with pytest.raises(ArchiveUnusable, match="another process or thread is writing"):
            Gateway(archive=tmp_path / "archive")
        with toolkit.connect(gateway) as tk:
            tk.dweets.post("kitchen", {"n": 1})
    assert numbers(tmp_path / "archive", "kitchen") == [1], "the start that failed let go of everything"
    refused = called("gateway", "--port=0", f"--archive={tmp_path / 'file' / 'x'}", code=1)
    assert re.fullmatch(r"Error: the archive .* cannot be written: .*\n", refused.stderr)


def test_a_restarted_journal_starts_another_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With fewer dweets than are archived, with as many, and with more."""
    posted = [range(5), range(10, 12), range(20, 22), range(30, 39)]
    for numbers_ in posted:
        with Gateway(archive=tmp_path) as gateway, toolkit.connect(gateway) as tk:
            for n in numbers_:
                tk.dweets.post("kitchen", {"n": n})
    assert numbers(tmp_path, "kitchen") == [n for numbers_ in posted for n in numbers_]
    assert Archive(tmp_path).deleted().empty
    assert len([record for record in caplog.records if "starts another epoch" in record.message]) == 3


@pytest.mark.filterwarnings("ignore:2,900 dweets were sent")
def test_dweets_deleted_before_they_are_archived_are_a_gap(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "archive"
    for start, end, archive in [(0, 100, folder), (100, 3_000, None), (3_000, 3_001, folder)]:
        with Gateway(data, archive=archive, keep=500) as gateway, toolkit.connect(gateway) as tk:
            tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(start, end)}), progress=False)
    (gap,) = Archive(folder).deleted().to_dict("records")
    assert (gap["thing"], gap["epoch"], gap["first"]) == ("kitchen", 1, 101)
    assert numbers(folder, "kitchen") == [*range(100), *range(gap["last"], 3_001)]
    assert Archive(folder).things()["missing"].tolist() == [gap["missing"]]


def test_a_missing_archive_is_refilled_from_the_journal(tmp_path: Path) -> None:
    for archive in ("one", "two"):
        with Gateway(tmp_path / "data", archive=tmp_path / archive) as gateway, toolkit.connect(gateway) as tk:
            tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(700)}))
    assert numbers(tmp_path / "one", "kitchen") == list(range(700))
    assert numbers(tmp_path / "two", "kitchen") == [*range(700), *range(700)]


def test_gateways_on_one_redis_archive_each_dweet_once(tmp_path: Path) -> None:
    options = {"store": fresh_url(), "archive": str(tmp_path), "archive_seconds": 0.05, "keep": 500}
    options["timings"] = {"lease": 1.0}
    acknowledged: list[Numbered] = []
    with GatewayProcess(None, **options) as archiver, GatewayProcess(None, **options) as other:
        gateways = [archiver, other, other]
        posters = [Poster(process.port, batches(n, DWEETS // 2), acknowledged) for n, process in enumerate(gateways)]
        for poster in posters:
            poster.start()
        until(lambda: archived_so_far(tmp_path, "all") > 1_000)
        archiver.kill()
        for poster in posters:
            poster.join(60)
        until(lambda: archived_so_far(tmp_path, "all") >= len(acknowledged))
        assert other.stop() == 0
    assert len(acknowledged) >= DWEETS, "though only 500 are kept"
    check([tuple(pair) for pair in Archive(tmp_path).history("all")["content"]], acknowledged, tmp_path, workers=3)
