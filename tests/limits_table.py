"""Every limit of a gateway with its reason; ``python -m tests.limits_table`` writes the table into SECURITY.md.

The numbers come from the constants and settings that the code uses: a limit is changed there, and its reason here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.conftest import ROOT
from toolkit.dweets import condition_engine, conditions, wire
from toolkit.handwriting.wire import MAX_LETTER_BYTES, MAX_LETTER_LENGTH, MAX_TEXT_LENGTH
from toolkit.identity.wire import MAX_BODY_BYTES
from toolkit_gateway import rate_limit
from toolkit_gateway.dweets import stored_days, things
from toolkit_gateway.dweets.dweets import DweetSettings
from toolkit_gateway.handwriting import handwriting, query, render_worker
from toolkit_gateway.http import key_attempts
from toolkit_gateway.http.limits import LIMITS, Bound
from toolkit_gateway.identity import callers, challenge
from toolkit_gateway.runtime import Timings

PAGE = ROOT / "SECURITY.md"
BEGIN = "<!-- python -m tests.limits_table writes this table -->\n"
HEADER = "| what | limit | then (of dweets, HTTP 200 with this code in `with`) | why |\n|---|---|---|---|\n"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield what is limited, how much of it there may be, what happens above that, and why."""
    yield from _rows_of_http()
    yield from _rows_of_dweets()
    yield from _rows_of_services()


def _rows_of_http() -> Iterator[tuple[str, str, str, str]]:
    limits = LIMITS
    oldest = "the first connection of the address that holds most is closed"
    yield (
        "connections",
        _both(limits.connections, "{:,}".format),
        oldest,
        "each takes 10 KB and a file descriptor: never more than the process has (`LimitNOFILE`), less 128",
    )
    yield (
        "requests in memory",
        _both(limits.request_bytes, _size),
        oldest,
        "heads and bodies that arrive, wait or are answered; a batch has 8 MiB",
    )
    yield "late answers", _both(limits.late_answers, "{:,}".format), oldest, "each holds a request that guesses keys"
    yield (
        "work for an address",
        f"{limits.turn_seconds * 1000:g} ms",
        "it waits while other addresses have their turns",
        "many connections of one address do not delay the others",
    )
    yield (
        "head of a request",
        f"{_size(limits.head_bytes)} (counted in pieces of 4 KiB), {limits.headers} headers",
        "431",
        "browsers and proxies send less; trailers have the same limit, and so have chunk extensions without data",
    )
    yield (
        "head of a rendering, an alert or a post by GET",
        _size(limits.long_head_bytes),
        "431",
        "a text is in the query",
    )
    yield "fields of a query", f"{limits.query_fields:,}", "431", "each takes 180 bytes more than its text"
    yield (
        "body: dweet, batch",
        f"{_size(wire.MAX_DWEET_BYTES)} of content, {_size(wire.MAX_BATCH_BYTES)} and {wire.MAX_BATCH_DWEETS:,} dweets",
        "413; 400 for too many dweets",
        "a history of 500 dweets is one response",
    )
    yield "body: rewards, identity", _size(MAX_BODY_BYTES), "413", "their bodies have a few fields"
    yield (
        "body: letter",
        f"{MAX_LETTER_BYTES:,} bytes, {MAX_LETTER_LENGTH:,} characters of text",
        "413, 400",
        "a letter of many pages, in JSON",
    )
    yield (
        "body where none is expected",
        _size(limits.dropped_bytes),
        "413",
        "it is read and dropped, and takes no memory",
    )
    yield "time for a head, and for a body", f"{limits.request_seconds:g} s", "408, closed", "who drips holds memory"
    yield "idle connection", f"{limits.idle_seconds:g} s", "closed", "longer than the 60 s of nginx"
    yield (
        "requests that wait in a connection",
        f"{limits.waiting}, or {_size(limits.waiting_bytes)}",
        "nothing more is read",
        "responses go out in order",
    )
    yield (
        "reading a response",
        f"{limits.write_seconds:g} s, and 1 s for each {_size(limits.write_rate)}",
        "closed",
        "what is not read stays in memory",
    )
    yield (
        "responses that callers have not read",
        _size(limits.unread_bytes),
        "the slowest are cut off",
        "what several read counts once",
    )
    yield (
        "a listener who does not read",
        _size(limits.stream_bytes),
        "cut off; it resumes with `since`",
        "a minute of a busy thing",
    )
    yield (
        "stop",
        f"{limits.grace_seconds:g} s for responses and streams",
        "closed",
        "systemd and notebooks wait not much longer",
    )


def _rows_of_dweets() -> Iterator[tuple[str, str, str, str]]:
    settings, timings = DweetSettings(), Timings()
    piece = _size(things.BATCH_BYTES)
    yield (
        "dweets that a listener missed",
        f"{piece} for each listener, {things.READS_AT_ONCE} reads at a time",
        "the listener waits",
        "2,000 listeners may resume at once",
    )
    yield (
        "a stored day on its way",
        f"{piece} for each reader, {things.READS_AT_ONCE} reads of {things.DWEETS_PER_BATCH} dweets at a time",
        f"the reader waits; after {LIMITS.write_seconds:g} s without reading it is cut off",
        "a day may have gigabytes",
    )
    yield (
        "cached dweets in memory",
        _size(things.CACHE_BYTES),
        "the oldest are dropped, and read again",
        "with half of it for responses, the histories of 350 things with 500 dweets of 100 bytes",
    )
    yield "columns of a CSV", f"{stored_days.MAX_CSV_COLUMNS}", "400", "every dweet may have other names"
    yield (
        "dweets kept of a thing",
        f"{settings.keep:,} (`--keep`)",
        "the oldest go",
        "somebody who posts fills the disk",
    )
    yield "posts of a thing", "any number (`--rate`)", "429", "the operator knows the rate"
    yield (
        "wrong keys of an address",
        f"{key_attempts.KEYS_AT_ONCE}, then {1 / timings.key_interval:g} a second, whatever they are tried on",
        f"late, or 429 after {timings.longest_key_wait:g} s",
        "a key of 16 characters is never found",
    )
    yield (
        "token buckets kept in memory",
        f"{rate_limit.MOST_BUCKETS:,} of each limit",
        "the oldest are forgotten",
        "callers choose the names",
    )
    first, again = (f"{seconds * 1000:g} ms" for seconds in timings.condition_seconds)
    yield (
        "condition of an alert",
        f"{wire.MAX_CONDITION_CHARACTERS:,} characters, {first} of CPU time ({again} if it is repeated), "
        f"{_size(condition_engine.MEMORY_BYTES)}; one killable child process",
        f"a fault; it stops after {conditions.FAULTS_TO_STOP} in a row, and at once if the child must be killed twice",
        "whoever has the master key of a lock may write one",
    )
    yield (
        "mail server",
        f"{timings.mail_limit:g} s for a mail, in a child process",
        "the mail is tried again",
        "a server may be silent",
    )
    yield "addresses of an alert", f"{wire.MAX_RECIPIENTS}", "400", "alerts are no mailing lists"
    yield (
        "mails of a lock",
        f"{wire.ALERTS_PER_DAY} a day",
        "not sent",
        "a condition that is always true must not fill a mailbox",
    )


def _rows_of_services() -> Iterator[tuple[str, str, str, str]]:
    hands, clients = handwriting.HandwritingSettings(), callers.IdentitySettings()
    yield (
        "query of a rendering",
        f"{_size(query.MAX_QUERY_BYTES)}, {MAX_TEXT_LENGTH:,} characters of text",
        "400",
        "the text of a page, percent-encoded",
    )
    yield "length of an apikey", f"{handwriting.MAX_KEY_CHARACTERS} characters", "401", "unknown keys count, too"
    yield (
        "calls of an apikey",
        f"{hands.burst:,} at once, {hands.calls_a_second:g} a second",
        "429",
        "notebooks write whole mail merges",
    )
    yield (
        "texts that wait for rendering",
        f"{hands.waiting}",
        "503 with `Retry-After`",
        "a text takes a second, and callers take turns",
    )
    yield (
        "work of a rendering",
        f"{hands.render_seconds:g} s of CPU time (`render_seconds`), {_size(render_worker.MEMORY_BYTES)} (on Linux)",
        "400",
        "the largest page needs 6 s",
    )
    yield (
        "calls, guesses of an identity client",
        f"{clients.calls_a_minute} and {clients.failures_a_minute} a minute",
        "429",
        "fingerprints and codes cannot be guessed",
    )
    yield (
        "answers to an identity challenge",
        f"{challenge.MAX_ATTEMPTS} wrong ones, then locked for {challenge.LOCK_SECONDS // 60} minutes; "
        f"{challenge.MAX_WRONG_ANSWERS_PER_HOUR} in an hour",
        "429",
        "an answer is a few digits",
    )


def _size(count: float) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count / 2**10:g} KiB"


def _both(bound: Bound, show: Callable[[int], str]) -> str:
    return f"{show(bound.of_one)} of an address, {show(bound.in_total)} in total"


def page_with_table() -> str:
    """Return SECURITY.md with the table as it should be."""
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition("\n\n")
    return before + begin + HEADER + "\n".join(f"| {' | '.join(row)} |" for row in rows()) + end + after


if __name__ == "__main__":
    PAGE.write_text(page_with_table(), "utf-8")
