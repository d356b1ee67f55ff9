"""Parse the body of a request and check its fields."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from toolkit.endpoint import parsed_address
from toolkit.errors import ServiceError
from toolkit.identity import envelope
from toolkit.identity.envelope import refusal
from toolkit.identity.service.callers import is_allowed_final_target
from toolkit.identity.wire import GUID, REQUEST_ID, Field, Operation

_MAX_PAYMENT_IDS = 20


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; raise status 2 for any other body, a repeated name, NaN or a lone surrogate."""
    try:
        # ValueError rather than JSONDecodeError: int() refuses numbers of 5,000 digits.
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique_object)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails at a lone surrogate, which no response can hold
    except UnicodeError:
        raise refusal(2, envelope.NOT_UNICODE) from None
    except (ValueError, RecursionError):
        raise refusal(2, envelope.NOT_AN_OBJECT) from None
    if not isinstance(value, dict):
        raise refusal(2, envelope.NOT_AN_OBJECT)
    return value


def echoable_request_id(body: bytes) -> str | None:
    """Return the RequestId of a refused body, or None if it is missing or malformed."""
    try:
        value = parse_body(body).get("RequestId")
    except ServiceError:
        return None
    return value if _is_well_formed(REQUEST_ID, value) else None


def check_fields(operation: Operation, body: dict[str, Any]) -> None:
    """Raise status 1000 if a field is wrong; the error names the rule, never the value."""
    for field in operation.fields:
        # null means absent.
        missing = body.get(field.name) is None
        if (missing and field.required) or (not missing and not _is_well_formed(field, body[field.name])):
            raise refusal(1000, field.error)
    if body.keys() - {field.name for field in operation.fields}:
        raise refusal(1000, envelope.UNKNOWN_FIELD)
    if (body.get("ChallengeId") is None) != (body.get("ChallengeAnswer") is None):
        raise refusal(1000, envelope.ANSWER_INCOMPLETE)


def normal_ip_address(text: object) -> str | None:
    """Return an IP address in its normal form, or None if it is not an address."""
    # ip_address also accepts numbers and True; a zone such as %eth0 is valid on one machine only.
    address = parsed_address(text) if type(text) is str and "%" not in text else None
    return None if address is None else str(address)


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise refusal(2, envelope.DUPLICATE_NAMES)
    return found


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


def _is_well_formed(field: Field, value: object) -> bool:
    if field.name == "PaymentIds":
        return _are_distinct_ids(value)
    if type(value) is not str or not re.fullmatch(field.pattern, value):
        return False
    if field.name == "DeviceIp":
        return normal_ip_address(value) is not None
    return field.name != "FinalTargetUrl" or is_allowed_final_target(value)


def _are_distinct_ids(value: object) -> bool:
    if type(value) is not list or not 1 <= len(value) <= _MAX_PAYMENT_IDS:
        return False
    fit = all(type(one) is str and GUID.fullmatch(one) for one in value)
    return fit and len({one.lower() for one in value}) == len(value)
