"""Where a phone may be sent to at the end: only where the client said it would, letter by letter."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

MAX_CHARACTERS = 2048
# Checked before any parsing: parsers drop tabs and line ends and read a backslash as a slash.
_PRINTABLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
# Only literals. `localhost`, 127.1 or 0x7f000001 may be another machine, or another program's idea of this one.
_LOOPBACK = re.compile(r"(?P<host>127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::(?P<port>[0-9]{1,5}))?")


def is_allowed_form(url: str) -> bool:
    """Whether a URL could be a final target at all, of whichever client.

    Examples
    --------
    >>> is_allowed_form("http://127.0.0.1:8890/done"), is_allowed_form("http://localhost:8890/done")
    (True, False)
    """
    if len(url) > MAX_CHARACTERS or not _PRINTABLE.fullmatch(url):
        return False
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    literal = _LOOPBACK.fullmatch(host)
    named = {"http": literal, "https": literal or _HOST.fullmatch(host)}.get(scheme)
    if named is None or not 0 < int(named["port"] or 443) < 65536:
        return False
    # The parser must see what was just read, or one of the two is wrong.
    parts = urlsplit(url)
    if parts.netloc != host or "#" in url:
        return False
    return all(name != "vfp" for name, _ in parse_qsl(parts.query, keep_blank_values=True))


def is_registered(url: str, registered: tuple[str, ...]) -> bool:
    """Whether a URL of allowed form is one of the client's: exactly, or but for the port of a loopback literal."""
    return url in registered or any(_without_loopback_port(url) == _without_loopback_port(own) for own in registered)


def with_fingerprint(url: str, fingerprint: str) -> str:
    """Return the URL with the final fingerprint added to its query."""
    return f"{url}{'&' if '?' in url else '?'}vfp={fingerprint}"


def _without_loopback_port(url: str) -> tuple[str, str] | str:
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?]", rest, maxsplit=1)[0]
    literal = _LOOPBACK.fullmatch(host)
    return url if scheme != "http" or literal is None else (literal["host"], rest.removeprefix(host))
