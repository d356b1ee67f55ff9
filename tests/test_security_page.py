"""SECURITY.md gives the limits of the code, and is found by who looks for it."""

from __future__ import annotations

import tomllib

import pytest

from tests.conftest import ROOT
from toolkit.dweets import wire as dweets
from toolkit.dweets.conditions import FAULTS_TO_STOP, SECONDS
from toolkit.dweets.service import things
from toolkit.dweets.service.dweets import MAX_ACTIVE_THINGS, DweetSettings
from toolkit.gateway import access
from toolkit.gateway.connections import LIMITS
from toolkit.gateway.routes import pages
from toolkit.handwriting import wire as handwriting
from toolkit.handwriting.service.handwriting import MAX_KEY_CHARACTERS, HandwritingSettings
from toolkit.handwriting.service.render_worker import MEMORY_BYTES
from toolkit.identity import wire as identity
from toolkit.identity.service.callers import IdentitySettings
from toolkit.outside_world import Timings
from toolkit.rewards import wire as rewards

PAGE = " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())
KIB = 1024


@pytest.mark.parametrize(
    "text",
    [
        f"| head of a request | {LIMITS.head_bytes // KIB} KiB, {LIMITS.headers} headers |",
        f"| {dweets.MAX_DWEET_BYTES // KIB} KiB of content, {dweets.MAX_BATCH_BYTES // KIB**2} MiB and "
        f"{dweets.MAX_BATCH_DWEETS:,} dweets |",
        f"| body: rewards, identity | {rewards.MAX_BODY_BYTES // KIB} KiB |",
        f"| body: rewards, identity | {identity.MAX_BODY_BYTES // KIB} KiB |",
        f"| {handwriting.MAX_QUERY_BYTES // KIB} KiB, {handwriting.MAX_TEXT_LENGTH:,} characters of text |",
        f"| fields of a query | {LIMITS.query_fields:,} |",
        f"| bodies of all callers in memory | {LIMITS.body_bytes // KIB**2} MiB |",
        f"| cached dweets in memory | {things.CACHE_BYTES // KIB**2} MiB |",
        f"| length of an apikey | {MAX_KEY_CHARACTERS} characters |",
        f"| time for a head, and for a body | {LIMITS.request_seconds:g} s |",
        f"| idle connection | {LIMITS.idle_seconds:g} s |",
        f"| {LIMITS.waiting}, or {LIMITS.waiting_bytes // KIB} KiB of bodies |",
        f"| {LIMITS.write_seconds:g} s, and 1 s for each {LIMITS.write_rate / KIB:g} KiB |",
        f"| a listener who does not read | {LIMITS.stream_bytes // KIB**2} MiB |",
        f"| a stored day on its way | {things.BATCH_BYTES // KIB} KiB for each reader",
        f"| columns of a CSV | {dweets.MAX_CSV_COLUMNS} |",
        f"| dweets kept of a thing | {DweetSettings().keep:,} (`--keep`) |",
        f"| wrong keys | {access.WRONG_KEYS_AT_ONCE}, then {access.WRONG_KEYS_PER_SECOND:g} a second, by address and "
        f"by thing | 429, {Timings().wrong_key:g} s late |",
        f"| {dweets.MAX_CONDITION_CHARACTERS:,} characters, {SECONDS[0] * 1000:g} ms of CPU time "
        f"({SECONDS[1] * 1000:g} ms if it is repeated)",
        f"| mail server | {Timings().mail_limit:g} s for a mail",
        f"it stops after {FAULTS_TO_STOP} in a row",
        f"| addresses of an alert | {dweets.MAX_RECIPIENTS} |",
        f"| mails of a lock | {dweets.ALERTS_PER_DAY} a day |",
        f"| {HandwritingSettings().burst:,} at once, {HandwritingSettings().calls_a_second:g} a second |",
        f"| {HandwritingSettings().render_seconds:g} s of CPU time (`render_seconds`), {MEMORY_BYTES // KIB**2} MiB",
        f"| {IdentitySettings().calls_a_minute} and {IdentitySettings().failures_a_minute} a minute |",
        f"{pages.MAX_VALUES_PER_THING} values of {MAX_ACTIVE_THINGS} public things, each as escaped text of at most "
        f"{pages.MAX_TEXT_CHARACTERS} characters",
        f"| stop | {LIMITS.grace_seconds:g} s for responses and streams |",
    ],
)
def test_the_page_gives_the_limits_of_the_code(text: str) -> None:
    assert text in PAGE


def test_the_page_is_linked_and_in_the_source_distribution() -> None:
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "SECURITY.md" in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
