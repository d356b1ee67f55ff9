"""The wire format of the operator API: endpoints, fields and errors.

Every request has ``Authorization: Bearer KEY``, every response is a JSON object; times are milliseconds since 1970.
A refusal is ``{"error": TEXT}`` with an HTTP status: 401 for a wrong key, 403 or 421 for a caller from elsewhere.
"""

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

# -- fields: the columns of the frames, with their dtypes ----------------------------------------------------

UTC = "datetime64[us, UTC]"
#: ``state`` is free, in use or damaged. ``lock`` is missing for a thing whose record is damaged, if no lock names it.
LOCK_FIELDS = {"lock": "str", "thing": "str", "state": "str"}
MAIL_FIELDS = {"at": UTC, **dict.fromkeys(("thing", "to", "subject", "text", "state", "error"), "str")}


def error_of(status: int, text: str, *, request: str) -> ServiceError:
    """Return the error for a refusal: the class that the gateway raised, as far as the status tells."""
    kind = ServiceError if status in (403, 421) else class_of_status(status)  # the caller, not the key, is refused
    return kind(text, status=status, service="operator", request=request)
