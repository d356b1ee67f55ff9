"""Endpoints of mobile identity, and the fields of requests and responses.

The specification names the operations and a few fields; the other names are defined here.
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


def _text(name: str, most: int, **about: bool) -> Field:
    return _matching(name, f"must be a string of at most {most} characters.", rf"(?s:.{{0,{most}}})", **about)


def _matching(name: str, rule: str, pattern: str, *, required: bool = True, secret: bool = False) -> Field:
    return Field(name, f"{name} {rule}", re.compile(pattern), required, secret)


REQUEST_ID = _matching("RequestId", "must be 1 to 64 of A-Z a-z 0-9 . _ : -", r"[A-Za-z0-9._:-]{1,64}")
_ENVELOPE = (REQUEST_ID, Field("ApiClientId", "ApiClientId must be a string.", secret=True))
# Optional here, so that missing, unknown and mismatched values all get status 2010.
_AUTHENTICATED = (
    *_ENVELOPE,
    _text("ServiceAlias", 256, required=False),
    _text("AuthenticationCode", 256, required=False, secret=True),
)
_ANSWER = (
    _matching("ChallengeId", "must be a GUID.", GUID.pattern, required=False),
    _text("ChallengeAnswer", 64, required=False, secret=True),
)


@dataclass(frozen=True, slots=True)
class Operation:
    endpoint: Endpoint
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        return self.endpoint.template.rsplit("/", 1)[1]


ECHO = Operation(Endpoint("POST", "/account/2014/07/25/accountEcho"), (*_ENVELOPE, _text("EchoMessage", 1024)))
START = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirect"),
    (
        *_ENVELOPE,
        Field("DeviceIp", "DeviceIp must be an IPv4 or IPv6 address.", required=False),
        _matching("CarrierShortCode", "must be 2 to 8 of A-Z 0-9.", r"[A-Z0-9]{2,8}", required=False),
        Field("FinalTargetUrl", "FinalTargetUrl must be https, or http to 127.0.0.1 or [::1], in printable ASCII."),
        _matching("CodeChallenge", "must be 43 characters of base64url.", r"[A-Za-z0-9_-]{43}", required=False),
    ),
)
_VERIFIER = _matching(
    "CodeVerifier", "must be 43 to 128 of A-Z a-z 0-9 . _ ~ -", r"[A-Za-z0-9._~-]{43,128}", required=False, secret=True
)
FINISH = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirectFinish"),
    (*_ENVELOPE, _text("VerificationFingerprint", 256, secret=True), _VERIFIER),
)
ELIGIBILITY = Operation(Endpoint("POST", "/account/2014/07/25/getEligibility"), _AUTHENTICATED)
PAYMENT_LIST = Operation(Endpoint("POST", "/account/2014/07/25/getPaymentList"), (*_AUTHENTICATED, *_ANSWER))
PAYMENT_DETAILS = Operation(
    Endpoint("POST", "/account/2014/07/25/getPaymentDetails"),
    (*_AUTHENTICATED, *_ANSWER, Field("PaymentIds", "PaymentIds must hold 1 to 20 distinct GUIDs.", GUID)),
)
OPERATIONS = (ECHO, START, FINISH, ELIGIBILITY, PAYMENT_LIST, PAYMENT_DETAILS)

OPEN_TARGET = Endpoint(
    "GET",
    "/mobileauth/2014/07/01/deviceAuthenticate",
    (Parameter("vfp", required=True, secret=True), Parameter("r", pattern="f")),
)
#: Header with the mobile address of a simulated handset; accepted only from this machine.
SIMULATED_ADDRESS = "X-Simulated-Device-Ip"

# -- fields of responses: wire name to dtype -----------------------------------------------------------------

ECHO_FIELDS = {"EchoMessage": "str", "ApiVersion": "str"}
ELIGIBILITY_FIELDS = {"Eligible": "bool", "IneligibleReason": "str"}
_QUESTION = {"ChallengeId": "str", "QuestionType": "str", "Question": "str", "AnswerFormat": "str"}
CHALLENGE_FIELDS = _QUESTION | {"AttemptsLeft": "Int64", "ExpiresAt": "datetime64[us, UTC]"}
_PAYMENT = {"PaymentId": "str", "PaymentType": "str", "Brand": "str"}
_EXPIRATION = {"ExpirationMonth": "Int64", "ExpirationYear": "Int64"}
PAYMENT_FIELDS = _PAYMENT | {"LastFour": "str"} | _EXPIRATION | {"IsDefault": "bool"}
DETAIL_FIELDS = _PAYMENT | {"MaskedAccountNumber": "str"} | _EXPIRATION | {"NameOnAccount": "str"}
ADDRESS_FIELDS = dict.fromkeys(("Line1", "Line2", "City", "Region", "PostalCode", "CountryCode"), "str")
#: Fields of requests and responses that no log, trace or table may show.
SECRET_FIELDS = frozenset(
    {field.name for operation in OPERATIONS for field in operation.fields if field.secret} | {"TargetUrl"}
)
#: Secrets with few possible values: even a hash would reveal them.
GUESSABLE_FIELDS = frozenset({"ChallengeAnswer"})
