"""The envelope of the six POST operations, the status table and all error texts.

An envelope has ``RequestId, Status, Description``, a ``Response`` on success and ``AdditionalInfo`` on some failures.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolkit import errors
from toolkit.identity.wire import MAX_BODY_BYTES, OPERATIONS


class StatusRow(NamedTuple):
    http: int
    description: str
    error: type[errors.ServiceError]


#: The service of 2014 defined the statuses 1000 to 1039; this project added the others.
STATUSES: dict[int | str, StatusRow] = {
    1: StatusRow(500, "The request cannot be processed.", errors.ServiceFailure),
    2: StatusRow(400, "The request cannot be parsed.", errors.MalformedRequest),
    1000: StatusRow(400, "A parameter is invalid.", errors.MalformedRequest),
    1001: StatusRow(403, "The subscriber cannot be identified.", errors.NotAuthenticated),
    1003: StatusRow(422, "The carrier is not supported.", errors.MalformedRequest),
    1005: StatusRow(401, "The client is not enabled.", errors.KeyRejected),
    1006: StatusRow(403, "The subscriber is suspended.", errors.NotAuthenticated),
    1007: StatusRow(403, "The subscriber is deactivated.", errors.NotAuthenticated),
    1010: StatusRow(403, "The subscriber is not eligible.", errors.NotEligible),
    1012: StatusRow(404, "No customer data is available.", errors.NotFound),
    1038: StatusRow(403, "The carrier does not match.", errors.NotAuthenticated),
    1039: StatusRow(409, "The transaction is not completed.", errors.Conflict),
    2001: StatusRow(404, "The verification fingerprint is not known.", errors.NotFound),
    2002: StatusRow(410, "The verification fingerprint has expired.", errors.Conflict),
    2003: StatusRow(409, "The verification fingerprint was already used.", errors.Conflict),
    2010: StatusRow(401, "Authentication is required.", errors.NotAuthenticated),
    2011: StatusRow(401, "The authentication has expired.", errors.NotAuthenticated),
    2012: StatusRow(401, "The authentication was revoked.", errors.NotAuthenticated),
    2020: StatusRow(409, "Call getEligibility first.", errors.Conflict),
    2021: StatusRow(403, "The challenge must be answered.", errors.KeyRejected),
    2022: StatusRow(403, "The challenge answer is wrong.", errors.KeyRejected),
    2023: StatusRow(429, "The challenge is locked.", errors.RateLimited),
    2030: StatusRow(404, "A payment is not available.", errors.NotFound),
    2040: StatusRow(429, "Too many requests.", errors.RateLimited),
}
SUCCESS_DESCRIPTION = "Success."
#: Statuses that the rate limits count: wrong codes, answers or payment ids, and fingerprints that are unknown or used.
GUESS_STATUSES = frozenset({2010, 2022, 2030})
WRONG_FINGERPRINT_STATUSES = frozenset({2001, 2003})

# -- texts of AdditionalInfo: constants, so that they never repeat a value of the request -------------------

NOT_AN_OBJECT = "The body is not a JSON object."
NOT_JSON_TYPE = "Content-Type must be application/json."
DUPLICATE_NAMES = "A name occurs twice."
NOT_UNICODE = "A text is not valid Unicode."
FINGERPRINT_NEEDED, R_MUST_BE_F = "vfp is required.", "r must be f."
WRONG_HOST = "This host is not served here."
UNKNOWN_FIELD = "A field is not known."
ADDRESS_OR_CARRIER = "Send DeviceIp or CarrierShortCode."
NOT_REGISTERED = "FinalTargetUrl is not registered for this client."
VERIFIER_MISMATCH = "CodeVerifier does not match."
VERIFIER_NEEDED = "CodeVerifier is required: a CodeChallenge was sent."
VERIFIER_UNEXPECTED = "CodeVerifier was sent without a CodeChallenge."
ANSWER_INCOMPLETE = "ChallengeId and ChallengeAnswer belong together."
NO_SUCH_CARRIER = "No carrier has this CarrierShortCode."
NO_CARRIER_HERE = "No carrier serves this address."
CARRIERS_DIFFER = "DeviceIp and CarrierShortCode belong to different carriers."
NOT_BY_NETWORK = "The phone was not authenticated by its network."
NOT_OPENED = "The device has not opened TargetUrl yet."
FINAL_FINGERPRINT_NEEDED = "Send the fingerprint that deviceAuthenticate returned."
USED_OR_EXPIRED = "Or it has expired: a phone gets the same response for both."
REVOKED_BY_REUSE = "The authentication that came from it has been revoked."
START_AGAIN = "Start again at authenticateByRedirect."
PAYMENT_NOT_ON_FILE = "At least one PaymentId is not on file for this alias."

#: The AdditionalInfo of an error that the HTTP layer raised, by HTTP status.
INFO_OF_HTTP_STATUS = {
    404: "There is no such operation.",
    405: "Use POST.",
    408: "The body did not arrive whole.",
    413: f"The body is larger than {MAX_BODY_BYTES} bytes.",
    421: WRONG_HOST,
    503: "The gateway cannot keep or read anything right now, try again.",
}


_DIGITS_PATTERN = re.compile(r"[0-9]+")


def refusal(
    code: int, info: str | None = None, *, http: int | None = None, retry_after: float | None = None
) -> errors.ServiceError:
    """Return the error of a status. `info` is one of the texts above; `retry_after` (seconds) replaces it."""
    row = STATUSES[code]
    if retry_after is not None:
        info = f"Retry after {retry_after:.0f} seconds."
    message = row.description if info is None else f"{row.description} {info}"
    return row.error(message, code=code, status=http or row.http, retry_after=retry_after)


_INFO_TEXTS = (
    *(value for value in globals().values() if type(value) is str),  # the text constants above
    *INFO_OF_HTTP_STATUS.values(),
    *(field.error for operation in OPERATIONS for field in operation.fields),
    *("Retry after 1 seconds.", "1 attempt left.", "2 attempts left."),
)
_KNOWN_INFOS = frozenset(_DIGITS_PATTERN.sub("#", text) for text in _INFO_TEXTS)


def error_of(envelope: Mapping[str, Any], http: int, *, request: str) -> errors.ServiceError | None:
    """Return the error of a failed response; None for an unknown status."""
    code = envelope.get("Status")
    if type(code) is not int or code not in STATUSES:
        return None
    sent_info = envelope.get("AdditionalInfo")
    # Only known texts: another server could repeat a secret of the request, and a traceback would show the secret.
    info = sent_info if type(sent_info) is str and _DIGITS_PATTERN.sub("#", sent_info) in _KNOWN_INFOS else None
    seconds = re.fullmatch(r"Retry after ([0-9]{1,6}) seconds\.", info or "")
    error = refusal(code, info, http=http, retry_after=float(seconds[1]) if seconds else None)
    error.service, error.request = "identity", request
    return error
