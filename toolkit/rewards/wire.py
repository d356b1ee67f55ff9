"""The wire format of mobile rewards: endpoints, fields, limits, headers, names and errors.

The body of every error is ``{"error":{"code":...,"field":...,"message":...}}``.
"""

import hashlib
import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, ServiceError, class_of_status

GATEWAYKEY = "gatewaykey"
#: A changing value prevents browser caching; the service only checks that the value is a number.
CACHE_BUSTER = "r"
VIEW_TOKEN = "k"

POST_MOMENT = Endpoint("POST", "/2.0/web/moment/", (CACHE_BUSTER, GATEWAYKEY))
GET_REWARD_PAGE = Endpoint("GET", "/reward/{view}", (VIEW_TOKEN,))
POST_EVENT = Endpoint("POST", "/reward/{view}/{event}", (VIEW_TOKEN,))

SESSION_START = "session_start"
PROTOCOL = "http"
SDK_VERSION = "1.0"
MAX_BODY_BYTES = 16 * 1024
MAX_MOMENT_CHARACTERS = 128
DECISION_HEADER = "X-Reward-Decision"
#: Parts of this header, each with a percent-encoded name behind it. The arm of the decision, empty for a moment without
#: arms, where the operator shows arms to the partner. A moment with rules, of which the moment of the call, which has
#: none, is probably the misspelt name.
ARM, NEAREST_MOMENT = "; arm=", "; nearest="

#: A company token, in front of the device ids of users who opted out of advertiser tracking.
COMPANY_TOKEN_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

SHOWN, CLAIMED, DISMISSED = READER_EVENTS = ("shown", "claimed", "dismissed")

#: Texts of errors that the client raises too.
BAD_MOMENT_ID = "moment_id must have 1 to 128 characters, and no control characters."
#: Code and text by the status of a reward page.
NO_REWARD = {
    404: ("unknown_reward", "This reward does not exist."),
    410: ("reward_expired", "This reward has expired."),
}

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def checked_moment_id(moment_id: object) -> str:
    """Return a moment_id in NFC; InvalidArgument unless it has 1 to 128 characters, and no control characters."""
    name = unicodedata.normalize("NFC", moment_id) if isinstance(moment_id, str) else ""
    if not 1 <= len(name) <= MAX_MOMENT_CHARACTERS or _CONTROL_CHARACTERS.search(name):
        raise InvalidArgument(BAD_MOMENT_ID)
    return name


def device_label(device_id: str) -> str:
    """Return the label of a device in decisions, a hash of the device id; its UUID may be in any case."""
    normal = device_id[:-36] + device_id[-36:].lower()
    return f"dev-{hashlib.sha256(normal.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def start_text(start: datetime) -> str:
    """Format a time in UTC with ``Z``, and with decimals of the second only if they are not zero."""
    return start.astimezone(UTC).isoformat().replace("+00:00", "Z")


def error_of(status: int, body: bytes, *, request: str, retry_after: str | None = None) -> ServiceError:
    """Return the error that a response describes, as an exception of the same class as in the service."""
    try:
        fields = dict(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        fields = {}
    code, message = str(fields.get("code", status)), str(fields.get("message", f"the service answered {status}"))
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    details: dict[str, Any] = {"service": "rewards", "request": request, "field": fields.get("field")}
    return class_of_status(status)(message, code=code, status=status, retry_after=seconds, **details)
