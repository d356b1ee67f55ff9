"""The wire format of mobile rewards: endpoints, fields, limits, headers and errors.

The body of every error is ``{"error":{"code":...,"field":...,"message":...}}``.
"""

import json
from typing import NamedTuple

from toolkit.endpoint import Endpoint
from toolkit.errors import ServiceError, class_of_status

GATEWAYKEY = "gatewaykey"
#: A changing value prevents browser caching; the service only checks that the value is a number.
CACHE_BUSTER = "r"
VIEW_TOKEN = "k"

POST_MOMENT = Endpoint("POST", "/2.0/web/moment/", (CACHE_BUSTER, GATEWAYKEY))
GET_REWARD_PAGE = Endpoint("GET", "/reward/{view}", (VIEW_TOKEN,))
POST_EVENT = Endpoint("POST", "/reward/{view}/{event}", (VIEW_TOKEN,))

REQUIRED_FIELDS = ("app_key", "device_id", "protocol", "sdk_version")
KNOWN_FIELDS = frozenset({*REQUIRED_FIELDS, "events", "moment_id", "test", "app_version", "value"})
#: Objects of the provider's nested server form; the service refuses them with a hint to the flat web form.
SERVER_FORM_FIELDS = ("app", "device", "connection", "user", "location")

SESSION_START = "session_start"
PROTOCOL = "http"
SDK_VERSION = "1.0"
MAX_BODY_BYTES = 16 * 1024
MAX_MOMENT_CHARACTERS = 128
MAX_START_AGE_SECONDS = 24 * 3600
MAX_START_AHEAD_SECONDS = 5 * 60
VIEW_LIFETIME_SECONDS = 24 * 3600

DECISION_HEADER = "X-Reward-Decision"
#: In this header, before the percent-encoded name of a moment with rules: the moment of the call, which has no rules of
#: its own, is probably that one, misspelt.
NEAREST_MOMENT = "; nearest="

#: A company token, in front of the device ids of users who opted out of advertiser tracking.
COMPANY_TOKEN_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

SHOWN, CLAIMED, DISMISSED = READER_EVENTS = ("shown", "claimed", "dismissed")


class Refusal(NamedTuple):
    message: str
    field: str | None = None
    status: int = 400


#: Errors by code; `refusal` replaces the placeholders in a message and a field.
REFUSALS: dict[str, Refusal] = {
    "malformed_json": Refusal("The body is not valid JSON: line {line} column {column}."),
    "not_an_object": Refusal("The body must be a JSON object."),
    "missing_field": Refusal("{name} is required.", "{name}"),
    "unknown_field": Refusal("{name} is not a field of this endpoint.", "{name}"),
    "ambiguous_form": Refusal("Send either events (session) or moment_id (moment), not both.", "events"),
    "unknown_form": Refusal("Send events with a session_start element, or a moment_id."),
    "server_form": Refusal("This endpoint takes the flat web form: app_key and device_id at the top level.", "{name}"),
    "bad_app_key": Refusal("app_key must be a string.", "app_key"),
    "bad_events": Refusal("A session has exactly one event, with id session_start.", "events"),
    "bad_start": Refusal("start must be ISO 8601 with a zone, within the last 24 hours.", "events[0].start"),
    "bad_moment_id": Refusal("moment_id must have 1 to 128 characters, and no control characters.", "moment_id"),
    "bad_protocol": Refusal("protocol must be http.", "protocol"),
    "bad_sdk_version": Refusal("sdk_version must be the string 1.0.", "sdk_version"),
    "bad_test": Refusal("test must be true or false.", "test"),
    "bad_device_id": Refusal("device_id must be 8-4-4-4-12 hexadecimal groups.", "device_id"),
    "empty_advertiser_id": Refusal(
        "The advertiser identifier is empty: the user opted out. Generate <company_token>-<uuid>.", "device_id"
    ),
    "wrong_company_token": Refusal("This company token is not assigned to your key.", "device_id"),
    "bad_r": Refusal("r must be an integer number of seconds since the epoch.", "r"),
    "no_gatewaykey": Refusal("The partner key is missing or not valid.", "gatewaykey", 401),
    "bad_gatewaykey": Refusal("The partner key is missing or not valid.", "gatewaykey", 401),
    "unknown_app": Refusal("This app_key is not registered for your key.", "app_key", 403),
    "not_found": Refusal("There is nothing here. Sessions and moments go to /2.0/web/moment/.", None, 404),
    "unknown_reward": Refusal("This reward does not exist.", None, 404),
    "method_not_allowed": Refusal("Use a method that the header Allow names.", None, 405),
    "not_acceptable": Refusal("Accept must allow application/json.", "Accept", 406),
    "too_slow": Refusal("The body did not arrive in time.", None, 408),
    "reward_expired": Refusal("This reward has expired.", None, 410),
    "too_large": Refusal(f"The body is larger than {MAX_BODY_BYTES} bytes.", None, 413),
    "wrong_host": Refusal("This gateway does not answer to that host name.", "Host", 421),
    "unsupported_media_type": Refusal("Send application/json.", "Content-Type", 415),
    "too_many_requests": Refusal("Too many calls for this device. Try again in {seconds} seconds.", None, 429),
    "too_many_wrong_keys": Refusal("Too many wrong keys. Try again in {seconds} seconds.", None, 429),
    "failed": Refusal("The gateway failed at this request.", None, 500),
    "too_busy": Refusal("Other gateways were always faster to decide. Try again in {seconds} seconds.", None, 503),
    "unavailable": Refusal("The gateway cannot keep anything right now. Try again.", None, 503),
}
#: Codes for errors of the HTTP layer, which have only a status.
_HTTP_LAYER_CODES = ("not_found", "method_not_allowed", "too_slow", "too_large", "wrong_host", "failed", "unavailable")
_CODE_OF_STATUS = {REFUSALS[code].status: code for code in _HTTP_LAYER_CODES}


def refusal(code: str, **values: str | int) -> ServiceError:
    row, seconds = REFUSALS[code], values.get("seconds")
    field = row.field and row.field.format(**values)
    return _error(row.status, code, row.message.format(**values), field, None if seconds is None else float(seconds))


def _error(status: int, code: str, message: str, field: str | None, retry_after: float | None) -> ServiceError:
    error = class_of_status(status)(message, code=code, status=status, retry_after=retry_after)
    error.field = field
    return error


def in_dialect(error: ServiceError) -> ServiceError:
    """Convert an error of the HTTP layer, such as 404 or 413, to an error with a code of this service."""
    if isinstance(error.code, str):
        return error
    return refusal(_CODE_OF_STATUS.get(error.status, "failed"))


def error_body(error: ServiceError) -> bytes:
    fields = {"code": error.code, "field": error.field, "message": error.message}
    return json.dumps({"error": fields}, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def error_of(status: int, body: bytes, *, request: str, retry_after: str | None = None) -> ServiceError:
    """Return the error that a response describes, as an exception of the same class as in the service."""
    try:
        fields = dict(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        fields = {}
    code, message = str(fields.get("code", status)), str(fields.get("message", f"the service answered {status}"))
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    error = _error(status, code, message, fields.get("field"), seconds)
    error.service, error.request = "rewards", request
    return error
