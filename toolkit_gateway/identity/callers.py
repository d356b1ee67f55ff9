"""The clients of mobile identity, the settings of the service, and the checks of each request."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn
from urllib.parse import parse_qsl, urlsplit

from msgspec import Meta

from toolkit.errors import InvalidArgument, ServiceError
from toolkit.identity import envelope
from toolkit.identity.envelope import refusal
from toolkit.identity.wire import GUID, REQUEST_ID, Field, Operation
from toolkit.secret import Secret
from toolkit.settings import Table, Text, check_unique
from toolkit_gateway.identity.carrier import Carrier, Network, Subscriber, normal_ip_address

#: RFC 6749 (4.1.2) and NIST 800-63B recommend at most ten minutes for a code.
MAX_LIFE_SECONDS = 600

Seconds = Annotated[int, Meta(ge=1, le=MAX_LIFE_SECONDS)]
PerMinute = Annotated[int, Meta(ge=1, le=10**9)]

_MAX_URL_CHARACTERS = 2048
_MAX_PAYMENT_IDS = 20
# Checked before parsing, because URL parsers drop tabs and line ends and read a backslash as a slash.
_PRINTABLE_PATTERN = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
# Only these two addresses: programs differ in how they resolve `localhost`, 127.1 or 0x7f000001.
_LOOPBACK_HOST_PATTERN = re.compile(r"(?:127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?")
_LOOPBACK_PORT_PATTERN = re.compile(r"\A(http://(?:127\.0\.0\.1|\[::1\])):[0-9]{1,5}(?=[/?]|\Z)")
_HOST_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::(?P<port>[0-9]{1,5}))?")


class Caller(Table, frozen=True):
    """A client of the service; the service redirects phones only to the client's `final_targets`."""

    name: Text
    api_client_id: Secret
    final_targets: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        for number, url in enumerate(self.final_targets):
            if not is_allowed_final_target(url):
                raise InvalidArgument(f"final_targets[{number}]: expected https, or http to 127.0.0.1 or [::1]")


class IdentitySettings(Table, frozen=True):
    """The section ``identity`` of a gateway's configuration."""

    #: Without clients, the service refuses every request.
    clients: tuple[Caller, ...] = ()
    #: The simulated carriers and their subscribers.
    carriers: tuple[Network, ...] = ()
    subscribers: tuple[Subscriber, ...] = ()
    #: An object that asks real mobile networks, instead of `carriers` and `subscribers`; only Python code can pass it.
    carrier: Carrier | None = None
    #: Lifetimes of the first fingerprint, the final fingerprint and the code, in seconds.
    first_life: Seconds = 120
    final_life: Seconds = 60
    code_life: Seconds = 300
    #: The limit of requests per minute and client.
    calls_a_minute: PerMinute = 600
    #: The limit of wrong guesses per minute and client, and of wrong fingerprints per minute and client or IP address.
    failures_a_minute: PerMinute = 60
    #: Send errors with HTTP status 200, as the service of 2014 did; ``Status`` still has the code.
    legacy_http_200: bool = False

    def __post_init__(self) -> None:
        if self.carrier is not None and (self.carriers or self.subscribers):
            raise InvalidArgument("carrier: give either a carrier object, or simulated carriers and subscribers")
        unique = {"clients": ("name", "api_client_id"), "carriers": ("short_code",), "subscribers": ("id", "device_ip")}
        for key, fields in unique.items():
            for field in fields:
                check_unique(key, getattr(self, key), field)
        short_codes = {network.short_code for network in self.carriers}
        for number, subscriber in enumerate(self.subscribers):
            if subscriber.carrier not in short_codes:
                raise InvalidArgument(f"subscribers[{number}].carrier: expected the short_code of one of the carriers")


def find_caller(api_client_id: object, callers: Sequence[Caller]) -> Caller:
    """Return the enabled caller with this ApiClientId; an unknown id and a disabled caller raise the same error."""
    # Compares the id with every caller's id in constant time, so that response times do not help to guess an id.
    sent_id = Secret(api_client_id if type(api_client_id) is str else "")
    matches = [caller for caller in callers if caller.api_client_id == sent_id and sent_id]
    if not matches or not matches[0].enabled:
        raise refusal(1005)
    return matches[0]


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; raise status 2 for any other body, a repeated name, NaN or a lone surrogate."""
    try:
        # Catches ValueError rather than JSONDecodeError, because int() raises it for a number of 5,000 digits.
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


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise refusal(2, envelope.DUPLICATE_NAMES)
    return fields


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
    are_guids = all(type(item) is str and GUID.fullmatch(item) for item in value)
    return are_guids and len({guid.lower() for guid in value}) == len(value)


def is_allowed_final_target(url: str) -> bool:
    """Return whether a URL may be a final target: https, or http to 127.0.0.1 or [::1]."""
    if len(url) > _MAX_URL_CHARACTERS or not _PRINTABLE_PATTERN.fullmatch(url):
        return False
    scheme, _, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    loopback = _LOOPBACK_HOST_PATTERN.fullmatch(authority)
    match = {"http": loopback, "https": loopback or _HOST_PATTERN.fullmatch(authority)}.get(scheme)
    if match is None or not 0 < int(match["port"] or 443) < 65536:
        return False
    # Refuse a URL that the parser and the patterns above read differently.
    parts = urlsplit(url)
    if parts.netloc != authority or "#" in url:
        return False
    # The service adds vfp, the final fingerprint.
    return all(name != "vfp" for name, _ in parse_qsl(parts.query, keep_blank_values=True))


def is_registered(url: str, registered: tuple[str, ...]) -> bool:
    """Return whether a URL is registered; for http to 127.0.0.1 or [::1], the port may differ."""
    return _without_loopback_port(url) in map(_without_loopback_port, registered)


def _without_loopback_port(url: str) -> str:
    return _LOOPBACK_PORT_PATTERN.sub(r"\1", url)
