"""All refusals of mobile rewards, and the body of an error."""

import json
from typing import NamedTuple

from toolkit.errors import ServiceError, class_of_status
from toolkit.rewards import wire


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
    "bad_moment_id": Refusal(wire.BAD_MOMENT_ID, "moment_id"),
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
    "unknown_reward": Refusal(wire.NO_REWARD[404][1], None, 404),
    "method_not_allowed": Refusal("Use a method that the header Allow names.", None, 405),
    "not_acceptable": Refusal("Accept must allow application/json.", "Accept", 406),
    "too_slow": Refusal("The body did not arrive in time.", None, 408),
    "reward_expired": Refusal(wire.NO_REWARD[410][1], None, 410),
    "too_large": Refusal(f"The body is larger than {wire.MAX_BODY_BYTES} bytes.", None, 413),
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
    retry_after = None if seconds is None else float(seconds)
    message = row.message.format(**values)
    return class_of_status(row.status)(message, code=code, status=row.status, field=field, retry_after=retry_after)


def in_dialect(error: ServiceError) -> ServiceError:
    """Convert an error of the HTTP layer, such as 404 or 413, to an error with a code of this service."""
    if isinstance(error.code, str):
        return error
    return refusal(_CODE_OF_STATUS.get(error.status, "failed"))


def error_body(error: ServiceError) -> bytes:
    fields = {"code": error.code, "field": error.field, "message": error.message}
    return json.dumps({"error": fields}, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
