"""The bodies of responses: envelopes for clients, and a line for phones."""

import json
from typing import Any

from msgspec import Struct, to_builtins

from toolkit.errors import ServiceError
from toolkit.identity.envelope import INFO_OF_HTTP_STATUS, STATUSES, SUCCESS_DESCRIPTION, refusal


def success_body(request_id: str, response: Struct) -> bytes:
    fields = to_builtins(response)
    return _json({"RequestId": request_id, "Status": 0, "Description": SUCCESS_DESCRIPTION, "Response": fields})


def failure_body(request_id: str | None, error: ServiceError) -> bytes:
    description, info = _texts_of(error)
    envelope = {"RequestId": request_id, "Status": error.code, "Description": description}
    return _json(envelope | ({"AdditionalInfo": info} if info else {}))


def in_dialect(error: ServiceError, *, is_phone: bool) -> ServiceError:
    """Convert an error of the HTTP layer, such as 404 or 413, to an error with a status of this service."""
    if error.code in STATUSES:
        return error
    if error.status not in INFO_OF_HTTP_STATUS:
        return refusal(1)
    text = "Use GET." if is_phone and error.status == 405 else INFO_OF_HTTP_STATUS[error.status]
    return refusal(1 if error.status == 503 else 2, text, http=error.status)


def phone_failure(error: ServiceError) -> tuple[int, bytes]:
    # A phone gets the same response for an expired fingerprint as for a used one.
    if error.code in (2002, 2003):
        return 410, _json({"error": STATUSES[2002].description})
    description, info = _texts_of(error)
    # Statuses 2 and 1000 describe the phone's own request, so the phone may see the broken rule.
    return error.status, _json({"error": (info if error.code in (2, 1000) else "") or description})


def _texts_of(error: ServiceError) -> tuple[str, str]:
    """Return the description and the AdditionalInfo of an error of this service."""
    description = STATUSES[error.code].description
    return description, error.message.removeprefix(description).strip()


def _json(value: dict[str, Any]) -> bytes:
    # ASCII escapes keep line separators and script endings out of the response.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")
