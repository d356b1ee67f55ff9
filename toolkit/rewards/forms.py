"""The two forms of a body: session request and moment request."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from toolkit.rewards import wire

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# `fromisoformat` also accepts weeks and dates without a time.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:?\d\d)")


class SessionForm(NamedTuple):
    app_key: str
    device_id: object
    test: bool
    start: datetime


class MomentForm(NamedTuple):
    app_key: str
    device_id: object
    test: bool
    moment_id: str


def read_form(body: bytes, now: int, *, strict: bool = False) -> SessionForm | MomentForm:
    """Read a body, or raise the first refusal; keys and device are not checked here.

    A session must start near `now` (milliseconds since the epoch); `strict` refuses unknown fields.
    """
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise wire.refusal("malformed_json", line=error.lineno, column=error.colno) from None
    if not isinstance(fields, dict):
        raise wire.refusal("not_an_object")
    _check_flat(fields, strict)
    is_session, is_moment = "events" in fields, "moment_id" in fields
    if is_session and is_moment:
        raise wire.refusal("ambiguous_form")
    if not is_session and not is_moment:
        raise wire.refusal("unknown_form")
    common = _checked_common(fields)
    if is_session:
        return SessionForm(*common, _checked_start(fields["events"], now))
    return MomentForm(*common, checked_moment_id(fields["moment_id"]))


def checked_moment_id(moment_id: object) -> str:
    """Return the name of a moment in NFC: 1 to 128 characters, no control characters, free otherwise."""
    if not isinstance(moment_id, str):
        raise wire.refusal("bad_moment_id")
    name = unicodedata.normalize("NFC", moment_id)
    if not 1 <= len(name) <= wire.MAX_MOMENT_CHARACTERS or _CONTROL.search(name):
        raise wire.refusal("bad_moment_id")
    return name


def start_text(start: datetime) -> str:
    """Format a time in UTC with ``Z``, with decimals only if it has any."""
    return start.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _check_flat(fields: dict[str, Any], strict: bool) -> None:
    for name in wire.SERVER_FORM_FIELDS:
        if isinstance(fields.get(name), dict):
            raise wire.refusal("server_form", name=name)
    for name in wire.REQUIRED_FIELDS:
        if name not in fields:
            raise wire.refusal("missing_field", name=name)
    if strict and (unknown := sorted(fields.keys() - wire.FIELDS)):
        raise wire.refusal("unknown_field", name=unknown[0])


def _checked_common(fields: dict[str, Any]) -> tuple[str, object, bool]:
    if fields["protocol"] != wire.PROTOCOL:
        raise wire.refusal("bad_protocol")
    if fields["sdk_version"] != wire.SDK_VERSION:
        raise wire.refusal("bad_sdk_version")
    test = fields.get("test", False)
    if not isinstance(test, bool):
        raise wire.refusal("bad_test")
    app_key = fields["app_key"]
    if not isinstance(app_key, str):
        raise wire.refusal("bad_app_key")
    return app_key, fields["device_id"], test


def _checked_start(events: object, now: int) -> datetime:
    event = events[0] if isinstance(events, list) and len(events) == 1 else None
    if not isinstance(event, dict) or event.get("id") != wire.SESSION_START:
        raise wire.refusal("bad_events")
    text = event.get("start")
    if not isinstance(text, str) or _INSTANT.fullmatch(text) is None:
        raise wire.refusal("bad_start")
    try:
        start = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise wire.refusal("bad_start") from None
    if not -wire.START_AHEAD_SECONDS <= now / 1000 - start.timestamp() <= wire.START_OLDEST_SECONDS:
        raise wire.refusal("bad_start")
    return start
