"""What travels in section D: endpoints, and the fields of requests and responses.

Six calls are POSTs of one JSON object and answer with an envelope (see ``envelope``). The seventh,
``deviceAuthenticate``, is a GET made by a phone and has none.

The specification names the operations and few fields; the other names are ours, kept in this one file so that a
found original can replace them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.contract import Endpoint, Parameter

API_VERSION = "2014/07/25"
MAX_BODY_BYTES = 16 * 1024
GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._:-]{1,64}")

# -- fields of requests --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request: its name, the rule that is told when it is broken, and whether it is a secret."""

    name: str
    rule: str
    required: bool = True
    secret: bool = False


REQUEST_ID = Field("RequestId", "RequestId must be 1 to 64 of A-Z a-z 0-9 . _ : -")
CLIENT_ID = Field("ApiClientId", "ApiClientId must be a string.", secret=True)
_ENVELOPE = (REQUEST_ID, CLIENT_ID)
# Missing is not malformed for these two: missing, unknown and not a pair are one answer, 2010.
_AUTHENTICATED = (
    *_ENVELOPE,
    Field("ServiceAlias", "ServiceAlias must be a string of at most 256 characters.", required=False),
    Field(
        "AuthenticationCode",
        "AuthenticationCode must be a string of at most 256 characters.",
        required=False,
        secret=True,
    ),
)
_ANSWER = (
    Field("ChallengeId", "ChallengeId must be a GUID.", required=False),
    Field("ChallengeAnswer", "ChallengeAnswer must be a string of at most 64 characters.", required=False, secret=True),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One of the six POST calls."""

    endpoint: Endpoint
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Return the last segment of the path, by which the specification calls it."""
        return self.endpoint.template.rsplit("/", 1)[1]


ECHO = Operation(
    Endpoint("POST", "/account/2014/07/25/accountEcho"),
    (*_ENVELOPE, Field("EchoMessage", "EchoMessage must be a string of at most 1024 characters.")),
)
START = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirect"),
    (
        *_ENVELOPE,
        Field("DeviceIp", "DeviceIp must be an IPv4 or IPv6 address.", required=False),
        Field("CarrierShortCode", "CarrierShortCode must be 2 to 8 of A-Z 0-9.", required=False),
        Field("FinalTargetUrl", "FinalTargetUrl must be https, or http to 127.0.0.1 or [::1], in printable ASCII."),
        Field("CodeChallenge", "CodeChallenge must be 43 characters of base64url.", required=False),
    ),
)
FINISH = Operation(
    Endpoint("POST", "/mobileauth/2014/07/01/authenticateByRedirectFinish"),
    (
        *_ENVELOPE,
        Field(
            "VerificationFingerprint",
            "VerificationFingerprint must be a string of at most 256 characters.",
            secret=True,
        ),
        Field(
            "CodeVerifier",
            "CodeVerifier must be 43 to 128 of A-Z a-z 0-9 . _ ~ -",
            required=False,
            secret=True,
        ),
    ),
)
ELIGIBILITY = Operation(Endpoint("POST", "/account/2014/07/25/getEligibility"), _AUTHENTICATED)
PAYMENT_LIST = Operation(Endpoint("POST", "/account/2014/07/25/getPaymentList"), (*_AUTHENTICATED, *_ANSWER))
PAYMENT_DETAILS = Operation(
    Endpoint("POST", "/account/2014/07/25/getPaymentDetails"),
    (*_AUTHENTICATED, *_ANSWER, Field("PaymentIds", "PaymentIds must hold 1 to 20 distinct GUIDs.")),
)
OPERATIONS = (ECHO, START, FINISH, ELIGIBILITY, PAYMENT_LIST, PAYMENT_DETAILS)

OPEN_TARGET = Endpoint(
    "GET",
    "/mobileauth/2014/07/01/deviceAuthenticate",
    (Parameter("vfp", required=True, secret=True), Parameter("r", pattern="f")),
)
#: Told by a simulated handset to a gateway on this machine: the address that its network would have given it.
SIMULATED_ADDRESS = "X-Simulated-Device-Ip"

# -- fields of responses: wire name to dtype -----------------------------------------------------------------

ECHO_FIELDS = {"EchoMessage": "str", "ApiVersion": "str"}
ELIGIBILITY_FIELDS = {"Eligible": "bool", "IneligibleReason": "str"}
CHALLENGE_FIELDS = {
    "ChallengeId": "str",
    "QuestionType": "str",
    "Question": "str",
    "AnswerFormat": "str",
    "AttemptsLeft": "Int64",
    "ExpiresAt": "datetime64[us, UTC]",
}
PAYMENT_FIELDS = {
    "PaymentId": "str",
    "PaymentType": "str",
    "Brand": "str",
    "LastFour": "str",
    "ExpirationMonth": "Int64",
    "ExpirationYear": "Int64",
    "IsDefault": "bool",
}
DETAIL_FIELDS = {
    "PaymentId": "str",
    "PaymentType": "str",
    "Brand": "str",
    "MaskedAccountNumber": "str",
    "ExpirationMonth": "Int64",
    "ExpirationYear": "Int64",
    "NameOnAccount": "str",
}
ADDRESS_FIELDS = {
    "Line1": "str",
    "Line2": "str",
    "City": "str",
    "Region": "str",
    "PostalCode": "str",
    "CountryCode": "str",
}
#: What no log, no trace and no table may show, in requests and in responses.
SECRET_FIELDS = frozenset(
    {field.name for operation in OPERATIONS for field in operation.fields if field.secret} | {"TargetUrl"}
)
#: Secrets of so few possible values that not even their hash may be shown.
GUESSABLE_FIELDS = frozenset({"ChallengeAnswer"})
