"""Endpoints of mobile identity, and the fields of requests; those of responses are in `responses`.

The specification names the operations and a few fields; the other names are ours.
"""

import re
from dataclasses import dataclass

from toolkit.endpoint import Endpoint

API_VERSION = "2014/07/25"
MAX_BODY_BYTES = 16 * 1024
GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a request. Its value is a text that matches `pattern`; `callers` has more checks for some names."""

    name: str
    #: What the value must be, for the error text.
    rule: str
    pattern: str = r"(?s:.*)"
    required: bool = True
    secret: bool = False

    @property
    def error(self) -> str:
        return f"{self.name} {self.rule}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A POST operation of the service, with the fields of the request."""

    endpoint: Endpoint
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        return self.endpoint.template.rsplit("/", 1)[1]


_SHORT_TEXT = ("must be a string of at most 256 characters.", r"(?s:.{0,256})")
REQUEST_ID = Field("RequestId", "must be 1 to 64 of A-Z a-z 0-9 . _ : -", r"[A-Za-z0-9._:-]{1,64}")
_ENVELOPE_FIELDS = (REQUEST_ID, Field("ApiClientId", "must be a string.", secret=True))
# Alias and code are optional, so that missing, unknown and mismatched values all get status 2010.
_USER_FIELDS = (
    *_ENVELOPE_FIELDS,
    Field("ServiceAlias", *_SHORT_TEXT, required=False),
    Field("AuthenticationCode", *_SHORT_TEXT, required=False, secret=True),
)
_PAYMENT_FIELDS = (
    *_USER_FIELDS,
    Field("ChallengeId", "must be a GUID.", GUID.pattern, required=False),
    Field(
        "ChallengeAnswer", "must be a string of at most 64 characters.", r"(?s:.{0,64})", required=False, secret=True
    ),
)

ECHO = Operation(
    Endpoint("POST", "/account/2014/07/25/accountEcho"),
    (*_ENVELOPE_FIELDS, Field("EchoMessage", "must be a string of at most 1024 characters.", r"(?s:.{0,1024})")),
)
START_AUTH = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirect"),
    (
        *_ENVELOPE_FIELDS,
        Field("DeviceIp", "must be an IPv4 or IPv6 address.", required=False),
        Field("CarrierShortCode", "must be 2 to 8 of A-Z 0-9.", r"[A-Z0-9]{2,8}", required=False),
        Field("FinalTargetUrl", "must be https, or http to 127.0.0.1 or [::1], in printable ASCII."),
        Field("CodeChallenge", "must be 43 characters of base64url.", r"[A-Za-z0-9_-]{43}", required=False),
    ),
)
_VERIFIER_RULE = "must be 43 to 128 of A-Z a-z 0-9 . _ ~ -"
FINISH_AUTH = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirectFinish"),
    (
        *_ENVELOPE_FIELDS,
        Field("VerificationFingerprint", *_SHORT_TEXT, secret=True),
        Field("CodeVerifier", _VERIFIER_RULE, r"[A-Za-z0-9._~-]{43,128}", required=False, secret=True),
    ),
)
GET_ELIGIBILITY = Operation(Endpoint("POST", "/account/2014/07/25/getEligibility"), _USER_FIELDS)
GET_PAYMENT_LIST = Operation(Endpoint("POST", "/account/2014/07/25/getPaymentList"), _PAYMENT_FIELDS)
GET_PAYMENT_DETAILS = Operation(
    Endpoint("POST", "/account/2014/07/25/getPaymentDetails"),
    (*_PAYMENT_FIELDS, Field("PaymentIds", "must hold 1 to 20 distinct GUIDs.")),
)
OPERATIONS = (ECHO, START_AUTH, FINISH_AUTH, GET_ELIGIBILITY, GET_PAYMENT_LIST, GET_PAYMENT_DETAILS)

OPEN_TARGET = Endpoint("GET", "/mobileauth/2014/07/01/deviceAuthenticate", ("vfp", "r"))
#: The header with the IP address of a simulated handset; the gateway accepts it only from this machine.
SIMULATED_ADDRESS_HEADER = "X-Simulated-Device-Ip"

#: Fields of requests and responses that no log, trace or table may show.
SECRET_FIELDS = frozenset(
    {field.name for operation in OPERATIONS for field in operation.fields if field.secret} | {"TargetUrl"}
)
#: Secrets with few possible values: even a hash would reveal them.
GUESSABLE_FIELDS = frozenset({"ChallengeAnswer"})
