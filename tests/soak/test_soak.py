"""All four services under mixed load for minutes, through kills and stops: nothing is lost, and nothing grows."""

from __future__ import annotations

import email
import email.policy
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
import pytest

from tests.commands import end, started, url_of
from tests.conftest import operator_of, raw_call
from tests.mail_server import MailServer, eventually
from tests.ports import free_port
from tests.soak.callers import MASTER_KEY, Alarm, Caller, Hearer, Phone, Player, Poster, visitors
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings

THINGS = [f"soak-{number}" for number in range(4)]
ALARMS = [f"garage-{number}" for number in range(4)]
#: Alerts mail a hundred times a day.
MAILS_PER_ALARM = 80
KEEP = 1_000


class Held(NamedTuple):
    """What a gateway holds, its children's memory included."""

    megabytes: float
    threads: int
    descriptors: int


def held(process: psutil.Process) -> Held:
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:  # ended just now
            continue
    try:
        # The files of the store grow in number with what is kept.
        descriptors = process.num_fds() - len(process.open_files())
    except psutil.AccessDenied:  # a gateway shows them to the superuser only
        descriptors = 0
    return Held(total / 2**20, process.num_threads(), descriptors)


class Life(NamedTuple):
    """What one process held in the middle of its life, and at its end."""

    middle: Held
    late: Held


def watch(process: psutil.Process, seconds: float) -> Life:
    """Look at a gateway for so many seconds, and return the medians of the fourth fifth of them and of the last."""
    samples: list[Held] = []
    began = time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        samples.append(held(process))
        time.sleep(min(0.5, max(0.0, seconds - spent)))
    fifth = len(samples) // 5
    parts = samples[-2 * fifth : -fifth], samples[-fifth:]
    return Life(*(Held(*(median(each) for each in zip(*part, strict=True))) for part in parts))


@pytest.fixture
def minutes(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--soak-minutes"))


@pytest.mark.long
@pytest.mark.timeout(0)
def test_nothing_is_lost_and_nothing_grows(minutes: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    lives = max(4, round(minutes))
    posters = [Poster(port, thing) for thing in THINGS]
    hearers = [Hearer(port, thing) for thing in THINGS]
    alarms = [Alarm(port, thing, minutes * 60 / MAILS_PER_ALARM) for thing in ALARMS]
    player = Player(port)
    callers = [*posters, *alarms, player, *visitors(port, THINGS[0]), Phone(port)]
    locks = [f"--lock={thing}-lock={MASTER_KEY}" for thing in [*ALARMS, "shed"]]
    observed: list[Life] = []
    with MailServer() as server:
        command = ["gateway", f"--port={port}", f"--data={tmp_path}", "--demo", f"--smtp={server.url}", *locks]
        for number in range(lives):
            with started(*command, f"--keep={KEEP}") as process:
                assert url_of(process) == f"http://127.0.0.1:{port}"
                if number == 0:
                    begin(alarms, [*callers, *hearers])
                observed.append(watch(psutil.Process(process.pid), minutes * 60 / lives))
                check_alive([*callers, *hearers])
                with capsys.disabled():
                    print(f"\nlife {number + 1}: {show(observed[-1])}", end="", flush=True)
                if number == lives - 1:
                    finish(callers, hearers, port)
                end_life(process, is_killed=number % 2 == 0 and number < lives - 1)
        check_dweets(posters, hearers)
        check_kept(tmp_path, posters, player)
        check_mails(tmp_path, server, alarms, kills=lives // 2)
    with capsys.disabled():
        print(f"\n{summary(callers, hearers, server)}")
    check_growth(observed)


def begin(alarms: list[Alarm], threads: list[Caller | Hearer]) -> None:
    for alarm in alarms:
        alarm.arm()
    for thread in threads:
        thread.start()


def end_life(process: subprocess.Popen[str], *, is_killed: bool) -> None:
    if is_killed:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    else:
        end(process)


def show(life: Life) -> str:
    middle, late = life
    return (
        f"{middle.megabytes:.1f} then {late.megabytes:.1f} MB, {late.threads:.0f} threads, "
        f"{late.descriptors:.0f} descriptors"
    )


def summary(callers: list[Caller], hearers: list[Hearer], server: MailServer) -> str:
    counts = Counter[str]()
    for caller in callers:
        counts[caller.name] += caller.answered
    answered = ", ".join(f"{name} {count}" for name, count in counts.items())
    broken = sum(caller.broken for caller in callers)
    heard = sum(len(hearer.heard) for hearer in hearers)
    return f"answered: {answered}; {broken} calls without an answer; {heard} dweets heard; {len(server.mails)} mails"


def check_alive(threads: list[Caller | Hearer]) -> None:
    assert [thread.failure for thread in threads if thread.failure] == []
    assert all(thread.is_alive() for thread in threads)


def finish(callers: list[Caller], hearers: list[Hearer], port: int) -> None:
    """Let everybody finish, while the last gateway lives."""
    for caller in callers:
        caller.is_over.set()
    for caller in callers:
        caller.join(60)
    for thing in THINGS:
        reply = raw_call(f"http://127.0.0.1:{port}", "POST", f"/dweet/for/{thing}", b'"end"')
        assert b'"this":"succeeded"' in reply.body
    for hearer in hearers:
        hearer.join(60)
    threads = [*callers, *hearers]
    assert [thread.failure for thread in threads if thread.failure] == []
    assert not any(thread.is_alive() for thread in threads)


def check_dweets(posters: list[Poster], hearers: list[Hearer]) -> None:
    for poster, hearer in zip(posters, hearers, strict=True):
        heard = set(hearer.heard)
        assert len(heard) == len(hearer.heard), "none is heard twice"
        assert hearer.heard == sorted(hearer.heard), "in the order of the poster"
        assert set(poster.acknowledged) <= heard, "every acknowledged one is heard"
        assert heard <= {*poster.acknowledged, *poster.maybe}
        assert len(poster.acknowledged) > 500


def check_kept(folder: Path, posters: list[Poster], player: Player) -> None:
    """Hold what a gateway finds in the folder against what was acknowledged."""
    with Gateway(folder) as gateway:
        for poster in posters:
            body = raw_call(gateway.base_url, "GET", f"/get/dweets/for/{poster.thing}").body
            kept = [int(part.partition(b",")[0]) for part in body.split(b'"n":')[1:]][::-1]
            assert len(kept) == 499, "a history has 500, and the newest says that it is over"
            since = [number for number in poster.acknowledged if number >= kept[0]]
            assert set(since) <= set(kept)
            assert kept == sorted(set(kept))
        decisions = operator_of(gateway).decisions()["decision_id"].tolist()
    assert len(set(decisions)) == len(decisions)
    assert len(set(player.decided)) == len(player.decided) > 10, "one decision for each moment"
    assert set(player.decided) <= set(decisions)
    assert len(decisions) - len(player.decided) <= player.broken, "only what broke off may be decided without an answer"


def check_mails(folder: Path, server: MailServer, alarms: list[Alarm], kills: int) -> None:
    """Every acknowledged alarm was mailed, with one Message-ID; only a kill makes a copy."""
    wanted = {f"Alert of {alarm.thing}: number {number}" for alarm in alarms for number in alarm.acknowledged}
    possible = wanted | {f"Alert of {alarm.thing}: number {number}" for alarm in alarms for number in alarm.maybe}
    smtp = server.url
    timings = Timings(mail_lease=1.0)
    with Gateway(folder, smtp=smtp, timings=timings) as gateway:  # what was not sent yet
        eventually(lambda: set(operator_of(gateway).outbox()["state"]) == {"sent"})
    mails = [email.message_from_bytes(mail.content, policy=email.policy.default) for mail in server.mails]
    identifiers = {str(mail["Message-ID"]): str(mail["Subject"]) for mail in mails}
    subjects = Counter(identifiers.values())
    assert wanted <= set(subjects) <= possible
    assert set(subjects.values()) == {1}, "each was queued once"
    assert len(mails) - len(identifiers) <= kills


def check_growth(lives: list[Life]) -> None:
    """The first life is the warm-up; from then on all are alike, and each stays as it is."""
    first, *others = [life.late for life in lives[1:]]
    assert [life for life in lives[1:] if life.late.megabytes > life.middle.megabytes * 1.1] == []
    assert [late for late in others if late.megabytes > first.megabytes * 1.1] == []
    assert [late for late in others if late.threads > first.threads + 2] == []
    assert [late for late in others if late.descriptors > first.descriptors + 8] == []
