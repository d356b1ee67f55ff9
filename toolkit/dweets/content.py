"""The content of a dweet: JSON is checked but never rewritten; texts become numbers and words of JSON."""

import re
from decimal import Decimal
from math import isfinite

import orjson

from toolkit.dweets.wire import MAX_DWEET_BYTES, NOT_JSON, too_large
from toolkit.errors import MalformedRequest

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# Characters of the longest float, -2.2250738585072014e-308.
_MAX_NUMBER_CHARACTERS = 24
_MAX_EXACT_INTEGER = 2**53
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
