"""The wire format of the operator API: endpoints, fields and errors.

Every request has ``Authorization: Bearer KEY``, every response is a JSON object; times are milliseconds since 1970.
A refusal is ``{"error": TEXT}`` with an HTTP status: 401 for a wrong key, 403 or 421 for a caller from elsewhere.
"""

import json

from toolkit.endpoint import Endpoint
from toolkit.errors import ServiceError, class_of_status

GET_LOCKS = Endpoint("GET", "/operator/locks")
ISSUE_LOCK = Endpoint("POST", "/operator/locks")
REVOKE_LOCK = Endpoint("DELETE", "/operator/locks/{lock}")
RESET_USER = Endpoint("POST", "/operator/identity/reset/{alias}")
GET_OUTBOX = Endpoint("GET", "/operator/outbox")  # alert mails in any state, also those that were sent
GET_DECISIONS = Endpoint("GET", "/operator/rewards/decisions")
GET_REWARD_SESSIONS = Endpoint("GET", "/operator/rewards/sessions")
GET_REWARD_CONFIGURATION = Endpoint("GET", "/operator/rewards/configuration")
GET_CLOCK = Endpoint("GET", "/operator/clock")
ADVANCE_CLOCK = Endpoint("POST", "/operator/clock")

ENDPOINTS: tuple[Endpoint, ...] = tuple(value for value in globals().values() if isinstance(value, Endpoint))

#: Limit for the body of a request; only `ADVANCE_CLOCK` needs a body, ``{"seconds": NUMBER}``.
MAX_BODY_BYTES = 1024

# -- fields: the columns of the frames, with their dtypes ----------------------------------------------------

UTC = "datetime64[us, UTC]"
#: ``state`` is free, in use or damaged. ``lock`` is missing for a thing whose record is damaged, if no lock names it.
LOCK_FIELDS = {"lock": "str", "thing": "str", "state": "str"}
MAIL_FIELDS = {"at": UTC, **dict.fromkeys(("thing", "to", "subject", "text", "state", "error"), "str")}

# -- refusals ------------------------------------------------------------------------------------------------

KEY_WRONG = (
    "the operator key is missing or wrong: send the one in operator.key of the gateway's data folder as "
    "Authorization: Bearer KEY"
)
TOO_MANY_WRONG_KEYS = "too many wrong operator keys, try again in 1 second"
NOT_LOCAL = "the operator API answers only over a loopback address, without a proxy in between"
WRONG_HOST = "the operator API answers only to loopback names: localhost, 127.0.0.1, [::1]"
FOREIGN_ORIGIN = "the operator API answers to no web page of another origin"
NO_USER = "no user with this alias had a code or gave a wrong answer lately"
REAL_CLOCK = "this gateway runs on the real clock: only the clock of Gateway.demo() can be advanced"
BAD_SECONDS = 'the body must be {"seconds": NUMBER}'


def failed(error: ServiceError) -> bytes:
    return json.dumps({"error": error.message}).encode("ascii")


def error_of(status: int, text: str, *, request: str) -> ServiceError:
    """Return the error for a refusal: the class that the gateway raised, as far as the status tells."""
    kind = ServiceError if status in (403, 421) else class_of_status(status)  # the caller, not the key, is refused
    return kind(text, status=status, service="operator", request=request)
