"""The wire protocol of dweets (section A of the specification): endpoints, fields, limits, envelope, error texts.

Most successes are ``{"this":"succeeded","by":...,"the":...,"with":...}``. A failed operation is
``{"this":"failed","with":<code>,"because":<text>}`` with HTTP status 200, because old clients read only the body.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from toolkit.endpoint import Endpoint
from toolkit.errors import MalformedRequest, ServiceError, ThingAlreadyLocked, ThingNotLocked, class_of_status
from toolkit.secret import Secret

KEY, CALLBACK = "key", "callback"

POST_DWEET = Endpoint("POST", "/dweet/for/{thing}", (KEY,))
POST_DWEETS = Endpoint("POST", "/dweets/for/{thing}", (KEY,))
POST_UNNAMED = Endpoint("POST", "/dweet")
POST_QUIETLY = Endpoint("POST", "/dweet/quietly/for/{thing}", (KEY,))
POST_DWEET_BY_GET = Endpoint("GET", "/dweet/for/{thing}", (KEY, CALLBACK))
POST_UNNAMED_BY_GET = Endpoint("GET", "/dweet", (CALLBACK,))
POST_QUIETLY_BY_GET = Endpoint("GET", "/dweet/quietly/for/{thing}", (KEY,))
GET_LATEST = Endpoint("GET", "/get/latest/dweet/for/{thing}", (KEY, CALLBACK))
GET_HISTORY = Endpoint("GET", "/get/dweets/for/{thing}", (KEY, CALLBACK))
GET_STORED = Endpoint("GET", "/get/stored/dweets/for/{thing}", (KEY, "date", "hour", "responseType", CALLBACK))
GET_STATS = Endpoint("GET", "/get/stats", (CALLBACK,))
LISTEN = Endpoint("GET", "/listen/for/dweets/from/{thing}", (KEY, "since"))
SET_LOCK = Endpoint("GET", "/lock/{thing}", ("lock", KEY, CALLBACK))
UNLOCK = Endpoint("GET", "/unlock/{thing}", (KEY, CALLBACK))
REMOVE_LOCK = Endpoint("GET", "/remove/lock/{lock}", (KEY, CALLBACK))
SET_ALERT = Endpoint("GET", "/alert/{who}/when/{thing}/{condition...}", (KEY, CALLBACK))
GET_ALERT = Endpoint("GET", "/get/alert/for/{thing}", (KEY, CALLBACK))
REMOVE_ALERT = Endpoint("GET", "/remove/alert/for/{thing}", (KEY, CALLBACK))

ENDPOINTS: tuple[Endpoint, ...] = tuple(value for value in globals().values() if isinstance(value, Endpoint))


HISTORY_LENGTH = 500
MAX_DWEET_BYTES = 64 * 1024
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_BATCH_DWEETS = 10_000
MAX_THING_BYTES = 256
MAX_CONDITION_CHARACTERS = 2_000
MAX_RECIPIENTS = 20
ALERTS_PER_DAY = 100

#: Our own header on every response: how many dweets of a thing the gateway keeps.
RETENTION_HEADER = "X-Dweet-Retention"
#: Our own header if a range begins before the oldest dweet that is kept: ``<number deleted>; before=<oldest kept>``.
GONE_HEADER = "X-Dweet-Gone"
#: Our own header on the responses about an alert if the gateway has no mail server: mails stay in its outbox.
MAIL_HEADER, MAIL_KEPT = "X-Dweet-Mail", "kept"


class DeletedDweets(NamedTuple):
    """How many dweets of a thing the gateway has deleted, and the time of the oldest one it keeps."""

    number: int
    before: str

    def header_value(self) -> str:
        return f"{self.number}; before={self.before}"

    @classmethod
    def parse(cls, header_value: str | None) -> DeletedDweets | None:
        number, _, before = (header_value or "").partition("; before=")
        return cls(int(number), before) if number.isascii() and number.isdigit() and before else None


class IssuedLock(NamedTuple):
    """A new lock and its keys, which cannot be shown again."""

    lock: str
    master_key: Secret
    read_key: Secret


# The texts of failures. Clients compare with them, so they must not change.
KEY_NEEDED = "this thing is locked and requires a key"
THING_LOCKED = "this thing is already locked"
THING_NOT_LOCKED = "this thing is not locked"
ALERT_NEEDS_LOCK = "a thing must be locked before an alert can be set"
NOT_JSON = "the body is not valid JSON"
WHO_UNREADABLE = "who must be a comma-separated list of e-mail addresses"
INVALID_THING_NAME = "a thing's name must have 1 to 256 bytes of UTF-8 and no control characters"

_CLASS_OF_TEXT: dict[str, type[ServiceError]] = {
    THING_LOCKED: ThingAlreadyLocked,
    THING_NOT_LOCKED: ThingNotLocked,
    ALERT_NEEDS_LOCK: ThingNotLocked,
}


def too_large() -> MalformedRequest:
    return MalformedRequest(f"a dweet holds at most {MAX_DWEET_BYTES} bytes", status=413)


def error_of(reply: dict[str, Any], *, request: str) -> ServiceError:
    code, text = reply.get("with"), str(reply.get("because", ""))
    status = code if isinstance(code, int) else 400
    error_class = _CLASS_OF_TEXT.get(text) or class_of_status(status)
    return error_class(text, status=status, service="dweets", request=request)


_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# An e-mail address that every mail server parses alike: ASCII, no quotes, comments or groups, dots only between other
# characters, and no "=?", which starts an encoded word.
_EMAIL_ADDRESS = re.compile(
    r"(?!.*=\?)(?=[^@]{1,64}@.{1,253}\Z)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)


def is_name(text: str) -> bool:
    """Whether a thing or a lock may have this name."""
    return bool(text) and not _CONTROL_CHARACTER.search(text) and len(text.encode("utf-8")) <= MAX_THING_BYTES


def checked_thing(thing: str) -> str:
    if 0 < len(thing) <= MAX_THING_BYTES and thing.isascii() and thing.isprintable():  # most names
        return thing
    if not is_name(thing):
        raise MalformedRequest(INVALID_THING_NAME)
    return thing


def is_email_address(text: str) -> bool:
    return _EMAIL_ADDRESS.fullmatch(text) is not None


def checked_recipients(who: str) -> list[str]:
    """Split a comma-separated list of 1 to 20 e-mail addresses, or raise MalformedRequest."""
    addresses = [address.strip(" ") for address in who.split(",")]
    if len(addresses) > MAX_RECIPIENTS or not all(map(is_email_address, addresses)):
        raise MalformedRequest(WHO_UNREADABLE)
    return addresses
