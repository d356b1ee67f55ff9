"""How section D says yes and no: the envelope, the status table and all its texts.

Every one of the six POST calls answers ``RequestId, Status, Description`` with a ``Response`` on success and
``AdditionalInfo`` on some failures. HTTP status and ``Status`` both tell the truth.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolkit.errors import (
    Conflict,
    KeyRejected,
    MalformedRequest,
    NotAuthenticated,
    NotEligible,
    NotFound,
    RateLimited,
    ServiceError,
    ServiceFailure,
)
from toolkit.identity.wire import MAX_BODY_BYTES, OPERATIONS

# -- statuses ----------------------------------------------------------------------------------------------


class StatusRow(NamedTuple):
    """One row of the status table: HTTP status, the text that never changes, the error it is raised as."""

    http: int
    description: str
    error: type[ServiceError]


#: 1000 to 1039 are those of the service of 2014, the others are ours.
STATUSES: dict[int, StatusRow] = {
    1: StatusRow(500, "The request cannot be processed.", ServiceFailure),
    2: StatusRow(400, "The request cannot be parsed.", MalformedRequest),
    1000: StatusRow(400, "A parameter is invalid.", MalformedRequest),
    1001: StatusRow(403, "The subscriber cannot be identified.", NotAuthenticated),
    1003: StatusRow(422, "The carrier is not supported.", MalformedRequest),
    1005: StatusRow(401, "The client is not enabled.", KeyRejected),
    1006: StatusRow(403, "The subscriber is suspended.", NotAuthenticated),
    1007: StatusRow(403, "The subscriber is deactivated.", NotAuthenticated),
    1010: StatusRow(403, "The subscriber is not eligible.", NotEligible),
    1012: StatusRow(404, "No customer data is available.", NotFound),
    1038: StatusRow(403, "The carrier does not match.", NotAuthenticated),
    1039: StatusRow(409, "The transaction is not completed.", Conflict),
    2001: StatusRow(404, "The verification fingerprint is not known.", NotFound),
    2002: StatusRow(410, "The verification fingerprint has expired.", Conflict),
    2003: StatusRow(409, "The verification fingerprint was already used.", Conflict),
    2010: StatusRow(401, "Authentication is required.", NotAuthenticated),
    2011: StatusRow(401, "The authentication has expired.", NotAuthenticated),
    2012: StatusRow(401, "The authentication was revoked.", NotAuthenticated),
    2020: StatusRow(409, "Call getEligibility first.", Conflict),
    2021: StatusRow(403, "The challenge must be answered.", KeyRejected),
    2022: StatusRow(403, "The challenge answer is wrong.", KeyRejected),
    2023: StatusRow(429, "The challenge is locked.", RateLimited),
    2030: StatusRow(404, "A payment is not available.", NotFound),
    2040: StatusRow(429, "Too many requests.", RateLimited),
}
SUCCESS = "Success."
#: Failures that the rate limits count: those by which a client could guess at a user's data, and fingerprints that
#: are unknown or used.
GUESSES = frozenset({2010, 2022, 2030})
WRONG_FINGERPRINT = frozenset({2001, 2003})

# -- texts of AdditionalInfo: constants, so that nothing a caller sent can come back in one ------------------

NOT_AN_OBJECT = "The body is not a JSON object."
NOT_JSON_TYPE = "Content-Type must be application/json."
BODY_TOO_LARGE = f"The body is larger than {MAX_BODY_BYTES} bytes."
BODY_BROKEN = "The body did not arrive whole."
DUPLICATE_NAMES = "A name occurs twice."
NOT_UNICODE = "A text is not valid Unicode."
USE_POST, USE_GET = "Use POST.", "Use GET."
NO_SUCH_OPERATION = "There is no such operation."
FINGERPRINT_NEEDED, R_MUST_BE_F = "vfp is required.", "r must be f."
WRONG_HOST = "This host is not served here."
NOT_AVAILABLE = "The gateway cannot keep or read anything right now, try again."
UNKNOWN_FIELD = "A field is not known."
ADDRESS_OR_CARRIER = "Send DeviceIp or CarrierShortCode."
NOT_REGISTERED = "FinalTargetUrl is not registered for this client."
VERIFIER_MISMATCH = "CodeVerifier does not match."
VERIFIER_NEEDED = "CodeVerifier is required: a CodeChallenge was sent."
VERIFIER_UNASKED = "CodeVerifier was sent without a CodeChallenge."
ANSWER_INCOMPLETE = "ChallengeId and ChallengeAnswer belong together."
NO_SUCH_CARRIER = "No carrier has this CarrierShortCode."
NO_CARRIER_HERE = "No carrier serves this address."
CARRIERS_DIFFER = "DeviceIp and CarrierShortCode belong to different carriers."
NOT_BY_NETWORK = "The phone was not authenticated by its network."
NOT_OPENED = "The device has not opened TargetUrl yet."
FIRST_FINGERPRINT = "Send the fingerprint that deviceAuthenticate returned."
REVOKED_BY_REUSE = "The authentication that came from it has been revoked."
START_AGAIN = "Start again at authenticateByRedirect."
PAYMENT_NOT_ON_FILE = "At least one PaymentId is not on file for this alias."

# The gateway's own refusals, by HTTP status.
_GATEWAY_REFUSALS = {
    404: NO_SUCH_OPERATION,
    405: USE_POST,
    408: BODY_BROKEN,
    413: BODY_TOO_LARGE,
    421: WRONG_HOST,
    503: NOT_AVAILABLE,
}


def retry_after_text(seconds: int) -> str:
    return f"Retry after {seconds} seconds."


def attempts_left_text(count: int) -> str:
    return f"{count} attempt{'' if count == 1 else 's'} left."


# -- the envelope --------------------------------------------------------------------------------------------

_DIGITS = re.compile(r"[0-9]+")


def refusal(
    code: int, info: str | None = None, *, http: int | None = None, retry_after: int | None = None
) -> ServiceError:
    """Return the error of a status: the service raises it, `failed` writes it.

    `info` is AdditionalInfo, one of the constant texts of this file; `http` is given where it differs from the row's;
    `retry_after` are seconds, told in AdditionalInfo and in the header alike.
    """
    row = STATUSES[code]
    if retry_after is not None:
        info = retry_after_text(retry_after)
    message = row.description if info is None else f"{row.description} {info}"
    status = row.http if http is None else http
    if issubclass(row.error, RateLimited):
        return row.error(message, code=code, status=status, retry_after=float(retry_after or 1))
    return row.error(message, code=code, status=status)


def succeeded(request_id: str, response: dict[str, Any]) -> bytes:
    return _json({"RequestId": request_id, "Status": 0, "Description": SUCCESS, "Response": response})


def failed(request_id: str | None, error: ServiceError) -> bytes:
    """Write a failure: its status, the status's own text, and what more there is to say."""
    code, description, info = _parts_of(error)
    envelope = {"RequestId": request_id, "Status": code, "Description": description}
    return _json(envelope | ({"AdditionalInfo": info} if info else {}))


def final_fingerprint(fingerprint: str) -> bytes:
    return _json({"vfp": fingerprint})


def in_dialect(error: ServiceError, *, is_phone: bool) -> ServiceError:
    """Return an error of the gateway, such as 404 or 413, in the words of this service."""
    if error.code in STATUSES:
        return error
    if error.status not in _GATEWAY_REFUSALS:
        return refusal(1)
    text = USE_GET if is_phone and error.status == 405 else _GATEWAY_REFUSALS[error.status]
    return refusal(1 if error.status == 503 else 2, text, http=error.status)


def device_failed(error: ServiceError) -> tuple[int, bytes]:
    """Write a failure for a phone: HTTP status and body. An expired and a used fingerprint are one answer."""
    if error.code in (2002, 2003):
        return 410, _json({"error": STATUSES[2002].description})
    code, description, info = _parts_of(error)
    # 2 and 1000 are about this very call: the phone is told which rule it broke.
    return error.status, _json({"error": (info if code in (2, 1000) else "") or description})


def _parts_of(error: ServiceError) -> tuple[int, str, str]:
    """Return the status of an error, the status's own text, and what more the error says."""
    code = error.code if isinstance(error.code, int) and error.code in STATUSES else 1
    description = STATUSES[code].description
    return code, description, error.message.removeprefix(description).strip()


def _json(value: dict[str, Any]) -> bytes:
    # ASCII only: whatever was accepted can be written, and nothing in it ends a script or a line.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")


# -- failures, read by the client ----------------------------------------------------------------------------

_TEXTS = (
    *(value for value in globals().values() if type(value) is str),
    *(field.rule for operation in OPERATIONS for field in operation.fields),
    *(retry_after_text(1), attempts_left_text(1), attempts_left_text(2)),
)
_KNOWN_INFOS = frozenset(_DIGITS.sub("#", text) for text in _TEXTS)


def error_of(envelope: Mapping[str, Any], http: int, *, request: str) -> ServiceError | None:
    """Return the error that a failure stands for, the class that the service raised; None for an unknown status.

    A text is taken over only where it is one of ours: a foreign server must not put into a traceback what was
    sent to it.
    """
    code = envelope.get("Status")
    if type(code) is not int or code not in STATUSES:
        return None
    given = envelope.get("AdditionalInfo")
    info = given if type(given) is str and _DIGITS.sub("#", given) in _KNOWN_INFOS else None
    seconds = re.fullmatch(r"Retry after ([0-9]{1,6}) seconds\.", info or "")
    error = refusal(code, info, http=http, retry_after=int(seconds[1]) if seconds else None)
    error.service, error.request = "identity", request
    return error


def time_text(at: int) -> str:
    """Write milliseconds since the epoch as ``YYYY-MM-DDTHH:MM:SSZ``, rounded down to what certainly still holds.

    Examples
    --------
    >>> time_text(1_412_359_930_999)
    '2014-10-03T18:12:10Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 1000))
