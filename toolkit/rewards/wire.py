"""What travels in section C: endpoints, fields, limits, headers and the error dialect.

Every refusal is ``{"error":{"code":...,"field":...,"message":...}}``: a stable code, the offending field, and a
message that says how to fix it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from toolkit.endpoint import Endpoint, Parameter
from toolkit.errors import (
    Conflict,
    KeyRejected,
    MalformedRequest,
    NotFound,
    RateLimited,
    ServiceError,
    ServiceFailure,
)

GATEWAYKEY = Parameter("gatewaykey", secret=True)
#: Only there so that no browser answers from its cache; it never changes the answer.
R = Parameter("r", pattern=r"[0-9]{1,13}")
TOKEN = Parameter("k", secret=True)

MOMENT = Endpoint("POST", "/2.0/web/moment/", (R, GATEWAYKEY))
REWARD_PAGE = Endpoint("GET", "/reward/{view}", (TOKEN,))
ENGAGEMENT = Endpoint("POST", "/reward/{view}/{event}", (TOKEN,))

# -- fields and limits -------------------------------------------------------------------------------------

REQUIRED_FIELDS = ("app_key", "device_id", "protocol", "sdk_version")
FIELDS = frozenset({*REQUIRED_FIELDS, "events", "moment_id", "test", "app_version", "value"})
#: Fields of the provider's other, nested form; here they only show that a caller read another document.
SERVER_FORM_FIELDS = ("app", "device", "connection", "user", "location")

SESSION_START = "session_start"
PROTOCOL = "http"
SDK_VERSION = "1.0"
MAX_BODY_BYTES = 16 * 1024
MAX_MOMENT_CHARACTERS = 128
START_OLDEST_SECONDS = 24 * 3600
START_AHEAD_SECONDS = 5 * 60
VIEW_SECONDS = 24 * 3600
ANSWER_SECONDS = 24 * 3600
MAX_IDEMPOTENCY_KEY = 256

DECISION_HEADER = "X-Reward-Decision"
IDEMPOTENCY_HEADER = "Idempotency-Key"

SHOWN, CLAIMED, DISMISSED = ENGAGEMENTS = ("shown", "claimed", "dismissed")

# -- refusals ----------------------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """One row of the error table."""

    status: int
    kind: type[ServiceError]
    field: str | None
    message: str


_MALFORMED = (400, MalformedRequest)

#: By code. A message with braces is filled in by `refusal`.
REFUSALS: dict[str, Refusal] = {
    "malformed_json": Refusal(*_MALFORMED, None, "The body is not valid JSON: line {line} column {column}."),
    "not_an_object": Refusal(*_MALFORMED, None, "The body must be a JSON object."),
    "missing_field": Refusal(*_MALFORMED, "{name}", "{name} is required."),
    "unknown_field": Refusal(*_MALFORMED, "{name}", "{name} is not a field of this endpoint."),
    "ambiguous_form": Refusal(*_MALFORMED, "events", "Send either events (session) or moment_id (moment), not both."),
    "unknown_form": Refusal(*_MALFORMED, None, "Send events with a session_start element, or a moment_id."),
    "server_form": Refusal(
        *_MALFORMED, "{name}", "This endpoint takes the flat web form: app_key and device_id at the top level."
    ),
    "bad_app_key": Refusal(*_MALFORMED, "app_key", "app_key must be a string."),
    "bad_events": Refusal(*_MALFORMED, "events", "A session has exactly one event, with id session_start."),
    "bad_start": Refusal(
        *_MALFORMED, "events[0].start", "start must be ISO 8601 with a zone, within the last 24 hours."
    ),
    "bad_moment_id": Refusal(*_MALFORMED, "moment_id", "moment_id must have 1 to 128 characters."),
    "bad_protocol": Refusal(*_MALFORMED, "protocol", "protocol must be http."),
    "bad_sdk_version": Refusal(*_MALFORMED, "sdk_version", "sdk_version must be the string 1.0."),
    "bad_test": Refusal(*_MALFORMED, "test", "test must be true or false."),
    "bad_device_id": Refusal(*_MALFORMED, "device_id", "device_id must be 8-4-4-4-12 hexadecimal groups."),
    "empty_advertiser_id": Refusal(
        *_MALFORMED,
        "device_id",
        "The advertiser identifier is empty: the user opted out. Generate <company_token>-<uuid>.",
    ),
    "wrong_company_token": Refusal(*_MALFORMED, "device_id", "This company token is not assigned to your key."),
    "bad_r": Refusal(*_MALFORMED, "r", "r must be an integer number of seconds since the epoch."),
    "bad_idempotency_key": Refusal(
        *_MALFORMED, IDEMPOTENCY_HEADER, "Idempotency-Key must have at most 256 printable characters."
    ),
    "no_gatewaykey": Refusal(401, KeyRejected, "gatewaykey", "The partner key is missing or not valid."),
    "bad_gatewaykey": Refusal(401, KeyRejected, "gatewaykey", "The partner key is missing or not valid."),
    "unknown_app": Refusal(403, KeyRejected, "app_key", "This app_key is not registered for your key."),
    "not_found": Refusal(404, NotFound, None, "There is nothing here. Sessions and moments go to /2.0/web/moment/."),
    "unknown_reward": Refusal(404, NotFound, None, "This reward does not exist."),
    "method_not_allowed": Refusal(405, MalformedRequest, None, "Use POST."),
    "not_acceptable": Refusal(406, MalformedRequest, "Accept", "Accept must allow application/json."),
    "too_slow": Refusal(408, MalformedRequest, None, "The body did not arrive in time."),
    "idempotency_key_reused": Refusal(
        409, Conflict, IDEMPOTENCY_HEADER, "This Idempotency-Key was used with another body. Take a new one."
    ),
    "idempotency_key_busy": Refusal(
        409, Conflict, IDEMPOTENCY_HEADER, "A call with this Idempotency-Key is being answered. Try again."
    ),
    "reward_expired": Refusal(410, NotFound, None, "This reward has expired."),
    "too_large": Refusal(413, MalformedRequest, None, f"The body is larger than {MAX_BODY_BYTES} bytes."),
    "wrong_host": Refusal(421, MalformedRequest, "Host", "This gateway does not answer to that host name."),
    "unsupported_media_type": Refusal(415, MalformedRequest, "Content-Type", "Send application/json."),
    "too_many_requests": Refusal(
        429, RateLimited, None, "Too many calls for this device. Try again in {seconds} seconds."
    ),
    "too_many_wrong_keys": Refusal(429, RateLimited, None, "Too many wrong keys. Try again in {seconds} seconds."),
    "failed": Refusal(500, ServiceFailure, None, "The gateway failed at this request."),
    "unavailable": Refusal(503, ServiceFailure, None, "The gateway cannot keep anything right now. Try again."),
}
#: What the HTTP layer refuses before this service is asked carries a status only.
_CODE_OF_STATUS = {
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
    421: "wrong_host",
    500: "failed",
    503: "unavailable",
}


def refusal(code: str, **values: str | int) -> ServiceError:
    """Return the error of one row of the table, its braces filled with `values`.

    Examples
    --------
    >>> error = refusal("missing_field", name="app_key")
    >>> error.status, error.code, str(error)
    (400, 'missing_field', 'app_key is required.')
    """
    row = REFUSALS[code]
    message = row.message.format(**values)
    if row.kind is RateLimited:
        return RateLimited(message, retry_after=float(values["seconds"]), code=code, status=row.status)
    error = row.kind(message, code=code, status=row.status)
    error.field = row.field.format(**values) if row.field else None
    return error


def in_dialect(error: ServiceError) -> ServiceError:
    """Return the error with a code of the table, also where it comes from the HTTP layer."""
    if isinstance(error.code, str):
        return error
    return refusal(_CODE_OF_STATUS.get(error.status, "failed"))


def written(error: ServiceError) -> bytes:
    """Write an error of the table as a body."""
    row = {"code": error.code, "field": error.field, "message": error.message}
    return json.dumps({"error": row}, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def error_of(status: int, body: bytes, *, request: str, retry_after: str | None = None) -> ServiceError:
    """Return the error that a reply stands for: the class that the service raised."""
    try:
        row = dict(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        row = {}
    code, message = str(row.get("code", status)), str(row.get("message", f"the service answered {status}"))
    details: dict[str, str | int | None] = {"code": code, "status": status, "service": "rewards", "request": request}
    known = REFUSALS.get(code)
    kind = known.kind if known else (ServiceFailure if status >= 500 else MalformedRequest)
    if kind is RateLimited:
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else 1.0
        return RateLimited(message, retry_after=seconds, **details)
    error = kind(message, code=code, status=status, service="rewards", request=request)
    error.field = row.get("field")
    return error


def reason_of(header: str | None) -> str | None:
    """Read the reason of a header as ``d-000042; reason=DEVICE_CAP``; None where a server does not send one."""
    _, mark, reason = (header or "").partition("; reason=")
    return reason if mark else None
