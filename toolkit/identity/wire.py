"""Endpoints of mobile identity, and the fields of requests and responses.

The specification names the operations and a few fields; this module defines the other names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.endpoint import Endpoint, Parameter

API_VERSION = "2014/07/25"
MAX_BODY_BYTES = 16 * 1024
GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ANY_TEXT = re.compile(r".*", re.DOTALL)

# -- fields of requests --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    #: The error text if the value does not match `form`.
    rule: str
    form: re.Pattern[str] = _ANY_TEXT
    required: bool = True
    secret: bool = False


def _text_field(name: str, limit: int, **flags: bool) -> Field:
    return _pattern_field(name, f"must be a string of at most {limit} characters.", rf"(?s:.{{0,{limit}}})", **flags)


def _pattern_field(name: str, rule: str, pattern: str, *, required: bool = True, secret: bool = False) -> Field:
    return Field(name, f"{name} {rule}", re.compile(pattern), required, secret)


REQUEST_ID = _pattern_field("RequestId", "must be 1 to 64 of A-Z a-z 0-9 . _ : -", r"[A-Za-z0-9._:-]{1,64}")
_ENVELOPE_FIELDS = (REQUEST_ID, Field("ApiClientId", "ApiClientId must be a string.", secret=True))
# Alias and code are optional, so that missing, unknown and mismatched values all get status 2010.
_USER_FIELDS = (
    *_ENVELOPE_FIELDS,
    _text_field("ServiceAlias", 256, required=False),
    _text_field("AuthenticationCode", 256, required=False, secret=True),
)
_ANSWER_FIELDS = (
    _pattern_field("ChallengeId", "must be a GUID.", GUID.pattern, required=False),
    _text_field("ChallengeAnswer", 64, required=False, secret=True),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A POST operation of the service, with the fields of the request."""

    endpoint: Endpoint
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        return self.endpoint.template.rsplit("/", 1)[1]


ECHO = Operation(
    Endpoint("POST", "/account/2014/07/25/accountEcho"), (*_ENVELOPE_FIELDS, _text_field("EchoMessage", 1024))
)
START_AUTH = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirect"),
    (
        *_ENVELOPE_FIELDS,
        Field("DeviceIp", "DeviceIp must be an IPv4 or IPv6 address.", required=False),
        _pattern_field("CarrierShortCode", "must be 2 to 8 of A-Z 0-9.", r"[A-Z0-9]{2,8}", required=False),
        Field("FinalTargetUrl", "FinalTargetUrl must be https, or http to 127.0.0.1 or [::1], in printable ASCII."),
        _pattern_field("CodeChallenge", "must be 43 characters of base64url.", r"[A-Za-z0-9_-]{43}", required=False),
    ),
)
_VERIFIER_FIELD = _pattern_field(
    "CodeVerifier", "must be 43 to 128 of A-Z a-z 0-9 . _ ~ -", r"[A-Za-z0-9._~-]{43,128}", required=False, secret=True
)
FINISH_AUTH = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirectFinish"),
    (*_ENVELOPE_FIELDS, _text_field("VerificationFingerprint", 256, secret=True), _VERIFIER_FIELD),
)
GET_ELIGIBILITY = Operation(Endpoint("POST", "/account/2014/07/25/getEligibility"), _USER_FIELDS)
GET_PAYMENT_LIST = Operation(Endpoint("POST", "/account/2014/07/25/getPaymentList"), (*_USER_FIELDS, *_ANSWER_FIELDS))
GET_PAYMENT_DETAILS = Operation(
    Endpoint("POST", "/account/2014/07/25/getPaymentDetails"),
    (*_USER_FIELDS, *_ANSWER_FIELDS, Field("PaymentIds", "PaymentIds must hold 1 to 20 distinct GUIDs.", GUID)),
)
OPERATIONS = (ECHO, START_AUTH, FINISH_AUTH, GET_ELIGIBILITY, GET_PAYMENT_LIST, GET_PAYMENT_DETAILS)

OPEN_TARGET = Endpoint(
    "GET",
    "/mobileauth/2014/07/01/deviceAuthenticate",
    (Parameter("vfp", required=True, secret=True), Parameter("r", pattern="f")),
)
#: The header with the IP address of a simulated handset; the gateway accepts it only from this machine.
SIMULATED_ADDRESS_HEADER = "X-Simulated-Device-Ip"

# -- fields of responses: name on the wire, and dtype in a DataFrame -------------------------------------------

ECHO_FIELDS = {"EchoMessage": "str", "ApiVersion": "str"}
ELIGIBILITY_FIELDS = {"Eligible": "bool", "IneligibleReason": "str"}
_QUESTION_FIELDS = {"ChallengeId": "str", "QuestionType": "str", "Question": "str", "AnswerFormat": "str"}
CHALLENGE_FIELDS = _QUESTION_FIELDS | {"AttemptsLeft": "Int64", "ExpiresAt": "datetime64[us, UTC]"}
_SHARED_PAYMENT_FIELDS = {"PaymentId": "str", "PaymentType": "str", "Brand": "str"}
_EXPIRATION_FIELDS = {"ExpirationMonth": "Int64", "ExpirationYear": "Int64"}
PAYMENT_FIELDS = _SHARED_PAYMENT_FIELDS | {"LastFour": "str"} | _EXPIRATION_FIELDS | {"IsDefault": "bool"}
DETAIL_FIELDS = _SHARED_PAYMENT_FIELDS | {"MaskedAccountNumber": "str"} | _EXPIRATION_FIELDS | {"NameOnAccount": "str"}
ADDRESS_FIELDS = dict.fromkeys(("Line1", "Line2", "City", "Region", "PostalCode", "CountryCode"), "str")
#: Fields of requests and responses that no log, trace or table may show.
SECRET_FIELDS = frozenset(
    {field.name for operation in OPERATIONS for field in operation.fields if field.secret} | {"TargetUrl"}
)
#: Secrets with few possible values: even a hash would reveal them.
GUESSABLE_FIELDS = frozenset({"ChallengeAnswer"})
