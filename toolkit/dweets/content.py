"""The content of a dweet: JSON is checked but never rewritten; query pairs and forms become JSON."""

import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from urllib.parse import parse_qsl

import orjson

from toolkit.dweets.wire import MAX_BATCH_DWEETS, MAX_DWEET_BYTES, NOT_CONTENT, NOT_JSON, too_large
from toolkit.errors import MalformedRequest

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# Characters of the longest float, -2.2250738585072014e-308.
_MAX_NUMBER_CHARACTERS = 24
_MAX_EXACT_INTEGER = 2**53
_MAX_BATCH_LINES = 2 * MAX_BATCH_DWEETS
_JSON_WORDS = {"true": True, "false": False, "null": None}


def checked_content(body: bytes) -> bytes:
    """Strip a body; MalformedRequest if it is too large, has NaN or over 1,024 levels, or is no JSON at all."""
    content = body.strip(b" \t\r\n")
    if len(content) > MAX_DWEET_BYTES:
        raise too_large()
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError:
        raise MalformedRequest(NOT_JSON) from None
    return content


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
    content = {name: coerced(value) for name, value in pairs if name not in NOT_CONTENT}
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


def coerced(text: str) -> object:
    """Return a number, boolean or null if the text is one; a number with more digits than a float keeps stays text."""
    if text in _JSON_WORDS:
        return _JSON_WORDS[text]
    if len(text) > _MAX_NUMBER_CHARACTERS or _JSON_NUMBER.fullmatch(text) is None:
        return text
    if text.lstrip("-").isdigit():
        return int(text) if abs(int(text)) <= _MAX_EXACT_INTEGER else text
    number = float(text)
    return number if isfinite(number) and Decimal(repr(number)) == Decimal(text) else text


def content_of(record: bytes) -> bytes:
    # Find the time first, because "content" may be part of the thing's name.
    start = record.index(b'","content":', record.index(b'","created":"')) + len(b'","content":')
    return record[start:-1]


@lru_cache(128)  # the list of active things is polled
def content_names(record: bytes) -> list[str]:
    """Return the names at the top of the content of a dweet record; none if the content is no object."""
    content = orjson.loads(content_of(record))
    return list(content) if isinstance(content, dict) else []
