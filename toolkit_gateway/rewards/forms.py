"""The two forms of a request body (session and moment), device ids, and the hashes that replace ids in stored data.

A device id is the advertiser identifier; if the user has opted out, the caller generates an id.
"""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from toolkit.errors import InvalidArgument
from toolkit.rewards import wire
from toolkit.rewards.wire import checked_moment_id, start_text
from toolkit_gateway.rewards.refusals import refusal

_REQUIRED_FIELDS = ("app_key", "device_id", "protocol", "sdk_version")
_KNOWN_FIELDS = frozenset({*_REQUIRED_FIELDS, "events", "moment_id", "test", "app_version", "value"})
# Objects of the provider's nested server form; the service refuses them with a hint to the flat web form.
_SERVER_FORM_FIELDS = ("app", "device", "connection", "user", "location")

_MAX_START_AGE_SECONDS = 24 * 3600
_MAX_START_AHEAD_SECONDS = 5 * 60

# The pattern is checked too, because `fromisoformat` accepts week numbers and dates without a time.
_INSTANT_PATTERN = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:?\d\d)")

_DEVICE_ID_PATTERN = re.compile(
    rf"((?P<token>{wire.COMPANY_TOKEN_PATTERN})-)?(?P<uuid>[0-9A-Fa-f]{{8}}(-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}})"
)
# The advertiser identifier that operating systems return when the user has opted out of tracking.
_OPTED_OUT_ID = "00000000-0000-0000-0000-000000000000"


class Form(NamedTuple):
    """A body. A session has a `start` and an empty `moment_id`; a moment has a `moment_id`, and `start` is None."""

    app_key: str
    device_id: object
    test: bool
    start: str | None
    moment_id: str


def read_form(body: bytes, now: int, *, strict: bool = False) -> Form:
    """Parse a body, or raise the error for the first broken rule; the caller checks app_key and device_id.

    The start of a session must be near `now` (milliseconds since the epoch); `strict` refuses unknown fields.
    """
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise refusal("malformed_json", line=error.lineno, column=error.colno) from None
    if not isinstance(fields, dict):
        raise refusal("not_an_object")
    _check_field_names(fields, strict)
    test, app_key = fields.get("test", False), fields["app_key"]
    rules = {
        "bad_protocol": fields["protocol"] == wire.PROTOCOL,
        "bad_sdk_version": fields["sdk_version"] == wire.SDK_VERSION,
        "bad_test": isinstance(test, bool),
        "bad_app_key": isinstance(app_key, str),
    }
    for code, holds in rules.items():
        if not holds:
            raise refusal(code)
    start = _checked_start(fields["events"], now) if "events" in fields else None
    try:
        moment_id = checked_moment_id(fields["moment_id"]) if start is None else ""
    except InvalidArgument:
        raise refusal("bad_moment_id") from None
    return Form(app_key, fields["device_id"], test, start, moment_id)


def _check_field_names(fields: dict[str, Any], strict: bool) -> None:
    for name in _SERVER_FORM_FIELDS:
        if isinstance(fields.get(name), dict):
            raise refusal("server_form", name=name)
    for name in _REQUIRED_FIELDS:
        if name not in fields:
            raise refusal("missing_field", name=name)
    if strict and (unknown := sorted(fields.keys() - _KNOWN_FIELDS)):
        raise refusal("unknown_field", name=unknown[0])
    if ("events" in fields) == ("moment_id" in fields):
        raise refusal("ambiguous_form" if "events" in fields else "unknown_form")


def _checked_start(events: object, now: int) -> str:
    event = events[0] if isinstance(events, list) and len(events) == 1 else None
    if not isinstance(event, dict) or event.get("id") != wire.SESSION_START:
        raise refusal("bad_events")
    text = event.get("start")
    if not isinstance(text, str) or _INSTANT_PATTERN.fullmatch(text) is None:
        raise refusal("bad_start")
    try:
        start = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise refusal("bad_start") from None
    if not -_MAX_START_AHEAD_SECONDS <= now / 1000 - start.timestamp() <= _MAX_START_AGE_SECONDS:
        raise refusal("bad_start")
    return start_text(start)


def checked_device_id(device_id: object, company_token: str) -> str:
    """Return the device id with the UUID in lower case, or raise the error for the broken rule."""
    if device_id is None or device_id == "":
        raise refusal("empty_advertiser_id")
    parts = _DEVICE_ID_PATTERN.fullmatch(device_id) if isinstance(device_id, str) else None
    if parts is None:
        raise refusal("bad_device_id")
    if parts["uuid"] == _OPTED_OUT_ID:
        raise refusal("empty_advertiser_id")
    if parts["token"] is None:
        return parts["uuid"].lower()
    if parts["token"] != company_token:
        raise refusal("wrong_company_token")
    return f"{company_token}-{parts['uuid'].lower()}"


def app_label(app_key: str) -> str:
    return hashlib.sha256(app_key.encode("utf-8")).hexdigest()[:8]
