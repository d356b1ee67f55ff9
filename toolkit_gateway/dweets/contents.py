"""Contents of dweets, as the gateway reads them: from bodies, queries and forms, and from records."""

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from urllib.parse import parse_qsl

import orjson

from toolkit.dweets.content import checked_content, coerced
from toolkit.dweets.wire import MAX_BATCH_DWEETS, MAX_DWEET_BYTES, too_large
from toolkit.errors import MalformedRequest

#: Query names that are never content when a dweet is sent by GET.
_NOT_CONTENT = frozenset({"key", "callback", "_"})
_MAX_BATCH_LINES = 2 * MAX_BATCH_DWEETS


def checked_batch(body: bytes) -> list[bytes]:
    """Split a body of one JSON value per line. Blank lines are skipped; an error names the line, counted from 1."""
    lines: list[tuple[int, bytes]] = []
    if body.count(b"\n") <= _MAX_BATCH_LINES:  # splitting a body of millions of blank lines would take a second
        lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if not 1 <= len(lines) <= MAX_BATCH_DWEETS:
        raise MalformedRequest(f"send 1 to {MAX_BATCH_DWEETS} dweets, one JSON value per line")
    contents = []
    for number, line in lines:
        try:
            contents.append(checked_content(line))
        except MalformedRequest as error:
            raise MalformedRequest(f"line {number}: {error.message}", status=error.status) from None
    return contents


def content_of_pairs(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return query or form pairs as a JSON object; the last value of a name wins."""
    content = {name: coerced(value) for name, value in pairs if name not in _NOT_CONTENT}
    try:
        encoded = orjson.dumps(content)
    except orjson.JSONEncodeError:
        raise MalformedRequest("names and values must be UTF-8") from None
    if len(encoded) > MAX_DWEET_BYTES:
        raise too_large()
    return encoded


def content_of_form(body: bytes) -> bytes:
    """Return form pairs as a JSON object, or the body if it is a JSON object itself, as of ``curl -d '{...}'``."""
    if body.lstrip(b" \t\r\n").startswith(b"{"):
        with suppress(MalformedRequest):  # then it is a form, whose first name begins with a brace
            return checked_content(body)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="surrogateescape", max_num_fields=10_000)
    except ValueError:
        raise MalformedRequest("the body is not a form") from None
    return content_of_pairs(pairs)


def content_of(record: bytes) -> bytes:
    # Find the time first, because "content" may be part of the thing's name.
    start = record.index(b'","content":', record.index(b'","created":"')) + len(b'","content":')
    return record[start:-1]


@lru_cache(128)  # the list of active things is polled
def content_names(record: bytes) -> list[str]:
    """Return the names at the top of the content of a dweet record; none if the content is no object."""
    content = orjson.loads(content_of(record))
    return list(content) if isinstance(content, dict) else []
