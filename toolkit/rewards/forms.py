"""The two forms of a body, session request and moment request; device ids and their stored labels.

A device id is the advertiser identifier, or a generated one if the user opted out.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards import wire

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# `fromisoformat` also accepts weeks and dates without a time.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:?\d\d)")

_COMPANY_TOKEN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_DEVICE_ID = re.compile(
    rf"((?P<token>{_COMPANY_TOKEN})-)?(?P<uuid>[0-9A-Fa-f]{{8}}(-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}})"
)
# The advertiser identifier that operating systems return when the user has opted out of tracking.
_OPTED_OUT = "00000000-0000-0000-0000-000000000000"


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


def checked_device_id(device_id: object, company_token: str) -> str:
    """Return the device id with its UUID in lower case, or raise the refusal of the rule that it breaks."""
    if device_id is None or device_id == "":
        raise wire.refusal("empty_advertiser_id")
    parts = _DEVICE_ID.fullmatch(device_id) if isinstance(device_id, str) else None
    if parts is None:
        raise wire.refusal("bad_device_id")
    if parts["uuid"] == _OPTED_OUT:
        raise wire.refusal("empty_advertiser_id")
    if parts["token"] is None:
        return parts["uuid"].lower()
    if parts["token"] != company_token:
        raise wire.refusal("wrong_company_token")
    return f"{company_token}-{parts['uuid'].lower()}"


@checked_arguments
def new_device_id(company_token: str) -> str:
    """Return a new device id for a user who opted out of advertiser tracking; keep it on the device.

    It has the form ``<company_token>-<8 hex>-<4 hex>-<4 hex>-<4 hex>-<12 hex>``.

    Examples
    --------
    >>> new_device_id("acme").startswith("acme-")
    True
    """
    if re.fullmatch(_COMPANY_TOKEN, company_token) is None:
        raise InvalidArgument("a company token has 1 to 64 letters, digits, dots, dashes or underscores")
    return f"{company_token}-{uuid.uuid4()}"


def device_label(device_id: str) -> str:
    """Return the label of a device in decisions, a hash of its identifier."""
    return f"dev-{hashlib.sha256(device_id.encode('utf-8')).hexdigest()[:10]}"


def app_label(app_key: str) -> str:
    return hashlib.sha256(app_key.encode("utf-8")).hexdigest()[:8]
