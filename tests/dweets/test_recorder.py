"""Recorders and gateways that archive: each dweet once, in order, however and how often they are ended."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import math
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pandas as pd
import psutil
import pytest

import toolkit
from tests.conftest import ROOT, operator_of, raw_call
from tests.gateway.stores_under_test import SetClock
from tests.gateway_process import GatewayProcess
from tests.ports import free_port
from tests.redis_servers import fresh_url
from tests.test_cli import called
from toolkit.dweets.archive.archive import Archive
from toolkit.dweets.archive.file_names import thing_files
from toolkit.dweets.service.archiving import Archiving
from toolkit.dweets.service.things import journal_of
from toolkit.errors import ArchiveUnusable, InvalidArgument, KeyRejected, UnexpectedReply, Unreachable
from toolkit.gateway import DEMO_START, Gateway
from toolkit.outside_world import SteppedClock
from toolkit.stores import NewEntry
from toolkit.stores.embedded import EmbeddedStore

DWEETS = 20_000
KEY = "Zx9-read-key-of-the-garage"


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a state, not for a time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to this"
        time.sleep(0.01)


def archived_so_far(folder: Path, thing: str) -> int:
    return sum(file.rows for file in thing_files(folder, thing))


def numbers(folder: Path, thing: str) -> list[int]:
    history = Archive(folder).history(thing)
    return history["n"].tolist() if len(history) else []


@contextmanager
def recorder(
    folder: Path, url: str, *things: str, seconds: float = 0.05, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """`toolkit record` in a process of its own, once it listens; killed at the end of the block."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "toolkit", "record", *things, "--to", str(folder), "--url", url]
    process = subprocess.Popen(
        [*command, f"--seconds={seconds}", "--rows=700"],
        cwd=ROOT,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=os.environ | environment,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"recording {', '.join(things)} of {url} to "), line + process.communicate()[1]
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=60)


def ended(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[str, str]:
    process.send_signal(number)
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    return said, complained


# -- the recorder -----------------------------------------------------------------------------------------


def test_a_recorder_killed_again_and_again(tmp_path: Path) -> None:
    luck = random.Random(20_260_101)
    # For each life of the recorder some is posted, so that however late it is killed it has not recorded all.
    lives, batches = 4, 5
    may_post = threading.Semaphore(0)
    with Gateway(keep=DWEETS) as gateway:

        def post() -> None:
            for start in range(0, DWEETS // 2, 500):
                assert may_post.acquire(timeout=60)
                body = "\n".join(f'{{"n":{n}}}' for n in range(start, start + 500)).encode()
                for thing in ("one", "two"):
                    assert (
                        b'"this":"succeeded"' in raw_call(gateway.base_url, "POST", f"/dweets/for/{thing}", body).body
                    )

        poster = threading.Thread(target=post)
        poster.start()
        for life in range(1, lives + 1):
            with recorder(tmp_path, gateway.base_url, "one", "two") as process:
                may_post.release(batches)
                enough = life * batches * 500 - luck.randrange(500, 2_000)
                until(lambda: archived_so_far(tmp_path, "one") >= enough)  # noqa: B023
                process.kill()
                process.communicate(timeout=60)
        poster.join()
        with recorder(tmp_path, gateway.base_url, "one", "two") as process:
            for thing in ("one", "two"):
                until(lambda: archived_so_far(tmp_path, thing) == DWEETS // 2)  # noqa: B023
            said, complained = ended(process)
    assert re.fullmatch(r"[\d,]+ dweets recorded\n", said)
    assert complained == ""
    assert numbers(tmp_path, "one") == numbers(tmp_path, "two") == list(range(DWEETS // 2))
    assert Archive(tmp_path).gaps().empty


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_properly(number: int, gateway: Gateway, tmp_path: Path) -> None:
    with toolkit.connect(gateway) as tk:
        tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(701)}))
    with recorder(tmp_path, gateway.base_url, "kitchen", seconds=600) as process:
        until(lambda: archived_so_far(tmp_path, "kitchen") >= 700)
        said, complained = ended(process, number)
    assert complained == ""
    kept = int(said.split()[0])  # the last one may have been on its way, and is the next recorder's
    assert kept >= 700
    assert numbers(tmp_path, "kitchen") == list(range(kept))


def test_its_end_writes_what_has_come(tk: toolkit.Connection, tmp_path: Path) -> None:
    recording = tk.dweets.record("kitchen", tmp_path, seconds=600)
    for n in range(3):
        tk.dweets.post("kitchen", {"n": n})
    until(lambda: recording.received == 3)
    assert archived_so_far(tmp_path, "kitchen") == 0
    assert recording.close() == 3
    assert numbers(tmp_path, "kitchen") == [0, 1, 2]


def test_a_recorder_may_write_by_number_only(tk: toolkit.Connection, tmp_path: Path) -> None:
    with tk.dweets.record("kitchen", tmp_path, seconds=math.inf, rows=2):
        for n in range(2):
            tk.dweets.post("kitchen", {"n": n})
        until(lambda: archived_so_far(tmp_path, "kitchen") == 2)


def test_it_survives_the_restart_of_its_gateway(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "archive"
    recording, port = None, free_port()
    elsewhere = toolkit.connect(f"http://127.0.0.1:{port}")
    for turn in range(3):
        with Gateway(data, port=port) as gateway, toolkit.connect(gateway) as tk:
            for n in range(turn * 10, turn * 10 + 10):
                tk.dweets.post("kitchen", {"n": n})
            if recording is None:
                recording = elsewhere.dweets.record("kitchen", folder)
            recording.wait(dweets=turn * 10 + 10)
    assert recording is not None
    assert recording.close() == recording.close() == 30
    elsewhere.close()
    assert numbers(folder, "kitchen") == list(range(30))
    assert "30 dweets, stopped" in repr(recording)


def test_a_server_that_counts_anew_begins_an_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # With fewer dweets than are archived, with as many, with more; and while it records.
    posted = [range(5), range(10, 12), range(20, 22), range(30, 39)]
    for numbers_ in posted:
        with Gateway() as fresh, toolkit.connect(fresh) as tk:
            for n in numbers_:
                tk.dweets.post("kitchen", {"n": n})
            with tk.dweets.record("kitchen", tmp_path) as recording:
                recording.wait(dweets=len(numbers_))
    assert numbers(tmp_path, "kitchen") == [n for numbers_ in posted for n in numbers_]
    told = [record.message for record in caplog.records if "starting epoch" in record.message]
    assert [int(message.split()[-1]) for message in told] == [2, 3, 4]
    assert Archive(tmp_path).gaps().empty


def test_what_the_server_no_longer_keeps_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Gateway(keep=500) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(100)}))
        with tk.dweets.record("kitchen", tmp_path) as recording:
            recording.wait(dweets=100)
        with pytest.warns(UserWarning, match="2,900 dweets were sent to 'kitchen', but the gateway keeps little more"):
            tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(100, 3_000)}), progress=False)
        with tk.dweets.record("kitchen", tmp_path) as recording:
            recording.wait(dweets=500)
    archive = Archive(tmp_path)
    (gap,) = archive.gaps().to_dict("records")
    assert (gap["thing"], gap["first"]) == ("kitchen", 101)
    assert numbers(tmp_path, "kitchen") == [*range(100), *range(gap["last"], 3_000)]
    assert f"the server has deleted the dweets 101 to {gap['last']}" in caplog.text
    assert archive.things()["missing"].tolist() == [gap["missing"]]


def test_a_locked_thing_needs_its_key_which_is_never_shown(tmp_path: Path) -> None:
    with Gateway() as gateway, toolkit.connect(gateway) as tk:
        issued = operator_of(gateway).issue_lock()
        tk.dweets.lock("garage", lock=issued.lock, key=issued.master_key)
        tk.dweets.post("garage", {"n": 1}, key=issued.master_key)
        for key in (None, KEY):
            with pytest.raises(KeyRejected) as caught:
                tk.dweets.record(["kitchen", "garage"], tmp_path, key=key)
            assert KEY not in repr(caught.value)
        read_key = issued.read_key.reveal()
        with recorder(tmp_path, gateway.base_url, "kitchen", "garage", TOOLKIT_KEYS=f"garage={read_key}") as process:
            until(lambda: archived_so_far(tmp_path, "garage") == 1)
            assert read_key not in " ".join(psutil.Process(process.pid).cmdline())
            assert read_key not in "".join(ended(process))
        with tk.dweets.record("garage", tmp_path, key={"garage": issued.read_key}) as recording:
            assert read_key not in repr(vars(recording))
    assert numbers(tmp_path, "garage") == [1], "and whoever has the folder reads it without a key"
    assert all(read_key.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_the_command_line_refuses_in_one_line(gateway: Gateway, tmp_path: Path) -> None:
    def refused(*arguments: str, code: int = 1, **environment: str) -> str:
        return called("record", *arguments, code=code, **environment).stderr.strip().splitlines()[-1]

    to = f"--to={tmp_path}"
    assert "Missing argument" in refused(to, code=2)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert "no answer" in refused("t", to, f"--url=http://127.0.0.1:{nobody.getsockname()[1]}")
    shown = refused("t", to, f"--url={gateway.base_url}", code=2, TOOLKIT_KEYS=KEY)
    assert "TOOLKIT_KEYS must be THING=KEY" in shown
    assert KEY not in shown
    with toolkit.connect(gateway) as tk, tk.dweets.record("t", tmp_path):
        assert "another process or thread is writing" in refused("t", to, f"--url={gateway.base_url}")


def test_what_cannot_be_recorded_is_refused(tk: toolkit.Connection, tmp_path: Path) -> None:
    for things, options in [([], {}), ("", {}), ("t", {"seconds": 0}), ("t", {"rows": 0}), ("t", {"key": {"u": KEY}})]:
        with pytest.raises(InvalidArgument) as caught:
            tk.dweets.record(things, tmp_path, **options)
        assert KEY not in str(caught.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(Unreachable), toolkit.connect("http://127.0.0.1:9") as nobody:
        nobody.dweets.record("t", tmp_path)
    with tk.dweets.record("t", tmp_path), pytest.raises(ArchiveUnusable, match="another process or thread is writing"):
        tk.dweets.record("u", tmp_path)


def test_a_server_without_numbers_is_refused(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
                connection.recv(65536)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with toolkit.connect(f"http://127.0.0.1:{server.getsockname()[1]}") as tk:
            with pytest.raises(UnexpectedReply, match="does not number its dweets"):
                tk.dweets.record("t", tmp_path)
        thread.join(60)


def test_a_full_disk_stops_nothing_for_good(gateway: Gateway, tmp_path: Path) -> None:
    with toolkit.connect(gateway) as tk, recorder(tmp_path, gateway.base_url, "kitchen") as process:
        tk.dweets.post("kitchen", {"n": 0})
        until(lambda: archived_so_far(tmp_path, "kitchen") == 1)
        limited = psutil.Process(process.pid)
        before = limited.rlimit(resource.RLIMIT_FSIZE)
        limited.rlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(1, 5_000)}), progress=False)
        assert process.stderr is not None
        assert "cannot be written: File too large" in process.stderr.readline()
        limited.rlimit(resource.RLIMIT_FSIZE, before)
        until(lambda: archived_so_far(tmp_path, "kitchen") == 5_000)
        ended(process)
    assert numbers(tmp_path, "kitchen") == list(range(5_000))


# -- the gateway's own archive ----------------------------------------------------------------------------


class Batches(threading.Thread):
    """Posts batches of numbers over one connection until it breaks, and remembers which ones were acknowledged."""

    def __init__(self, port: int, worker: int, acknowledged: list[tuple[int, int]], count: int = DWEETS) -> None:
        super().__init__(daemon=True)
        self.worker, self.acknowledged, self.count = worker, acknowledged, count
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        try:
            for start in range(0, self.count, 50):
                batch = [(self.worker, number) for number in range(start, start + 50)]
                self.connection.request("POST", "/dweets/for/all", "\n".join(map(json.dumps, batch)))
                if b'"this":"succeeded"' in self.connection.getresponse().read():
                    self.acknowledged += batch
        except (OSError, http.client.HTTPException):
            return  # the gateway was killed: what it acknowledged is what counts
        finally:
            self.connection.close()


def test_a_gateway_with_an_archive_killed_again_and_again(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "archive"
    options = {"archive": str(folder), "keep": 500, "archive_seconds": 0.05}
    acknowledged: list[tuple[int, int]] = []
    for turn in range(3):
        with GatewayProcess(data, **options) as process:
            before, archived_before = len(acknowledged), archived_so_far(folder, "all")
            posters = [Batches(process.port, 4 * turn + n, acknowledged) for n in range(4)]
            for poster in posters:
                poster.start()
            until(lambda: len(acknowledged) > before + 7_000)  # noqa: B023
            until(lambda: archived_so_far(folder, "all") > archived_before + 100)  # noqa: B023
            process.kill()
            for poster in posters:
                poster.join(60)
    with GatewayProcess(data, **options) as process, toolkit.connect(process.base_url) as tk:
        # A gateway that stops gives its archive some seconds: who was killed may have left more behind than that.
        until(lambda: archived_so_far(folder, "all") >= len(acknowledged))
        tk.dweets.post_frame("rest", pd.DataFrame({"n": range(200)}), progress=False)
        assert process.stop() == 0, "what was posted at the end is archived at the end"
    archive = Archive(folder)
    pairs = [tuple(pair) for pair in archive.history("all")["content"]]
    print(f"\n{len(acknowledged)} acknowledged, {len(pairs)} archived")
    assert len(acknowledged) > DWEETS
    assert len(set(pairs)) == len(pairs), "none is there twice"
    assert set(acknowledged) <= set(pairs), "every acknowledged one is there"
    for worker in range(12):
        of_worker = [number for who, number in pairs if who == worker]
        assert of_worker == list(range(len(of_worker))), "in the order of the caller"
    assert archive.gaps().empty
    assert numbers(folder, "rest") == list(range(200))


@pytest.mark.filterwarnings("ignore:the gateway has deleted [0-9,]+ dweet")
def test_the_journal_is_cut_to_what_is_kept_and_never_above_what_is_archived(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "thing=blocked").write_text("in the way", "utf-8")
    config = {"dweets": {"keep": 500, "archive_seconds": 0.02}}
    clock = SteppedClock(DEMO_START, timedelta(0))  # no midnight comes between
    with Gateway(archive=folder, config=config, clock=clock) as gateway, toolkit.connect(gateway) as tk:
        day = tk.dweets.post("blocked", {"n": 0}).index[0].strftime("%Y-%m-%d")

        def is_cut(thing: str) -> bool:
            """Post more, since a journal is cut when something is added, and say whether it was."""
            tk.dweets.post_frame(thing, pd.DataFrame({"n": [-1] * 50}))
            return len(tk.dweets.stored(thing, day)) < 1_500

        for start in range(0, 3_000, 300):
            for thing in ("free", "blocked"):
                tk.dweets.post_frame(thing, pd.DataFrame({"n": range(start, start + 300)}))
            until(lambda: archived_so_far(folder, "free") == start + 300)  # noqa: B023
        until(lambda: is_cut("free"))
        assert len(tk.dweets.stored("blocked", day)) == 3_001, "acknowledged, kept, and waiting for its archive"
        (folder / "thing=blocked").unlink()
        until(lambda: archived_so_far(folder, "blocked") == 3_001)
        until(lambda: is_cut("blocked"))
    assert numbers(folder, "blocked")[:3_001] == [0, *range(3_000)]


def test_a_thing_that_cannot_be_archived_keeps_no_other_from_it(tmp_path: Path) -> None:
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


def test_a_store_that_was_emptied_begins_an_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for turn in range(3):
        with Gateway(archive=tmp_path) as gateway, toolkit.connect(gateway) as tk:
            for n in range(turn + 1):
                tk.dweets.post("kitchen", {"n": turn * 10 + n})
    assert numbers(tmp_path, "kitchen") == [0, 10, 11, 20, 21, 22]
    assert [record.message.split()[-1] for record in caplog.records if "starting epoch" in record.message] == ["2", "3"]


def test_an_archive_that_was_moved_away_is_filled_with_what_is_kept(tmp_path: Path) -> None:
    for archive in ("one", "two"):
        with Gateway(tmp_path / "data", archive=tmp_path / archive) as gateway, toolkit.connect(gateway) as tk:
            tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(700)}))
    assert numbers(tmp_path / "one", "kitchen") == list(range(700))
    assert numbers(tmp_path / "two", "kitchen") == [*range(700), *range(700)]


def test_gateways_on_one_redis_archive_each_dweet_once(tmp_path: Path) -> None:
    options = {"store": fresh_url(), "archive": str(tmp_path), "archive_seconds": 0.05, "keep": 500}
    options["timings"] = {"lease": 1.0}
    acknowledged: list[tuple[int, int]] = []
    with GatewayProcess(None, **options) as archiver, GatewayProcess(None, **options) as other:
        gateways = [archiver, other, other]
        posters = [Batches(process.port, n, acknowledged, DWEETS // 2) for n, process in enumerate(gateways)]
        for poster in posters:
            poster.start()
        until(lambda: archived_so_far(tmp_path, "all") > 1_000)
        archiver.kill()
        for poster in posters:
            poster.join(60)
        until(lambda: archived_so_far(tmp_path, "all") >= len(acknowledged))
        assert other.stop() == 0
    pairs = [tuple(pair) for pair in Archive(tmp_path).history("all")["content"]]
    assert len(acknowledged) >= DWEETS
    assert len(set(pairs)) == len(pairs), "none is there twice"
    assert set(acknowledged) <= set(pairs), "every acknowledged one is there, though only 500 are kept"
    for worker in range(3):
        of_worker = [number for who, number in pairs if who == worker]
        assert of_worker == list(range(len(of_worker))), "in the order of the caller"
    assert Archive(tmp_path).gaps().empty


def test_another_gateway_takes_over_when_a_lease_runs_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def post(store: EmbeddedStore, first: int) -> None:
        drafts = [NewEntry(n, str(n), b'{"thing":"t","created":"2026-01-01T00:00:00.000Z","content":{"n":%d}}' % n)
                  for n in range(first, first + 50)]  # fmt: skip
        await store.journals.append(journal_of("t"), drafts)

    async def become(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)

    async def run() -> None:
        # A lease runs out when the test says so, however busy the machine.
        clock, stopped_clock = SetClock(), SetClock()
        store = EmbeddedStore(None, clock)
        await store.open()
        first, second = (Archiving(store, tmp_path, each, 0.01, lease=0.3) for each in (stopped_clock, clock))
        await first.open()
        await second.open()
        assert first.follower is not None
        assert second.follower is None
        await post(store, 0)
        await become(lambda: second.note_post("t") == 50)  # every gateway learns what is archived
        clock.at += 301  # the first one cannot renew its lease any more: its clock stands still
        await become(lambda: second.follower is not None and first.follower is None)
        await post(store, 50)
        await become(lambda: first.note_post("t") == 100)
        assert archived_so_far(tmp_path, "t") == 100
        await second.close()
        await first.close()
        await store.close()

    asyncio.run(run())
    assert numbers(tmp_path, "t") == list(range(100))


def test_flush_of_an_archive_writes_what_was_posted(tmp_path: Path) -> None:
    with Gateway(config={"dweets": {"archive": str(tmp_path), "archive_seconds": 3_600}}) as gateway:
        with toolkit.connect(gateway) as tk:
            archive = tk.dweets.archive(tmp_path)
            for n in range(30):
                tk.dweets.post("kitchen", {"n": n})
                assert archive.flush() == n + 1
            assert archive.history("kitchen")["n"].tolist() == [*range(30)]
    with pytest.raises(InvalidArgument, match="no recorder or gateway of this process writes to"):
        archive.flush()


def test_flush_of_an_archive_writes_what_was_recorded(tmp_path: Path) -> None:
    with toolkit.connect(Gateway()) as tk, tk.dweets.record("kitchen", tmp_path, seconds=3_600) as recording:
        tk.dweets.post("kitchen", {"n": 1})
        until(lambda: recording.received == 1)
        assert toolkit.Archive(tmp_path).flush() == 1
        assert toolkit.Archive(tmp_path).history("kitchen")["n"].tolist() == [1]
