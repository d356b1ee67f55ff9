"""The fields of requests: each refuses invalid values with status 1000 and its rule, before any other check."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.identity_lab import ACCOUNT, DONE, MOBILE, PHONE, Lab, Wire

ECHO, START, FINISH = (
    ACCOUNT + "accountEcho",
    MOBILE + "authenticateByRedirect",
    MOBILE + "authenticateByRedirectFinish",
)
LIST, DETAILS = ACCOUNT + "getPaymentList", ACCOUNT + "getPaymentDetails"
GUID = "a58f2e0a-3f8e-5a43-8c43-2f2f4a0b5d10"
#: The other fields that a call needs.
REST: dict[str, dict[str, Any]] = {
    ECHO: {"EchoMessage": "hello"},
    START: {"DeviceIp": PHONE, "FinalTargetUrl": DONE},
    FINISH: {"VerificationFingerprint": "never-issued"},
    LIST: {"ChallengeId": GUID, "ChallengeAnswer": "97024"},
    DETAILS: {},
}
ADDRESSES = ("", "203.0.113.07", "203.0.113", "203.0.113.7/32", "fe80::1%eth0", " 203.0.113.7", "0x7f.1", "٢")
IDS = (
    *([], None, GUID, ["x"], [1], [None], [GUID.replace("-", "")], [f"urn:uuid:{GUID}"], [GUID + "\n"]),
    *([GUID, GUID.upper()], [str(uuid4()) for _ in range(21)]),
)
#: Operation, field, rule, and values that break it.
FORMS: list[tuple[str, str, str, tuple[object, ...]]] = [
    (ECHO, "RequestId", "must be 1 to 64 of A-Z a-z 0-9 . _ : -", ("", "x" * 65, "é", "a b", "a\n", 5, None, ["a"])),
    (ECHO, "EchoMessage", "must be a string of at most 1024 characters.", ("x" * 1025, None, 5, True, [], {}, 1.0)),
    (START, "DeviceIp", "must be an IPv4 or IPv6 address.", (True, 3405803783, 1.0, *ADDRESSES)),
    (START, "CarrierShortCode", "must be 2 to 8 of A-Z 0-9.", ("cmb", "CMB\n", "C", "C" * 9, 5)),
    (START, "CodeChallenge", "must be 43 characters of base64url.", ("plain", "", "x" * 42, "x" * 42 + "=", 43, True)),
    (FINISH, "CodeVerifier", "must be 43 to 128 of A-Z a-z 0-9 . _ ~ -", ("x" * 42, "x" * 129, "é" * 43, 43, True)),
    (LIST, "ChallengeAnswer", "must be a string of at most 64 characters.", (97024, True, "9" * 65)),
    (LIST, "ChallengeId", "must be a GUID.", ("not-a-guid", f"{{{GUID}}}", GUID.replace("-", ""))),
    (DETAILS, "PaymentIds", "must hold 1 to 20 distinct GUIDs.", IDS),
]


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    return shared_lab


def test_malformed_field_is_refused(wire: Wire) -> None:
    for path, name, rule, values in FORMS:
        for value in values:
            refused = wire.post(path, **REST[path] | {name: value})
            told = refused.http, refused.status, refused.json["AdditionalInfo"]
            assert told == (400, 1000, f"{name} {rule}"), value
            assert refused.json["RequestId"] == (None if name == "RequestId" else "req-1")


def test_unknown_and_incomplete_fields_are_refused(wire: Wire) -> None:
    together = "ChallengeId and ChallengeAnswer belong together."
    for path, fields, info in (
        (ECHO, {"Extra": 1}, "A field is not known."),
        (LIST, {"ChallengeId": None}, together),
        (LIST, {"ChallengeAnswer": None}, together),
    ):
        refused = wire.post(path, **REST[path] | fields)
        assert (refused.status, refused.json["AdditionalInfo"]) == (1000, info)


def test_request_ids_and_texts_are_returned_unchanged(wire: Wire) -> None:
    for request_id in ("a", "x" * 64, "A-Z.0_9:x"):
        assert wire.echo(RequestId=request_id).json["RequestId"] == request_id
        assert wire.echo(5, RequestId=request_id).json["RequestId"] == request_id
    for message in ("", "😀", '"\\/', "</script>", "\n\r\t\u2028", "\x00", "x" * 1024, "𝕏" * 1024, "{}"):
        answer = wire.echo(message)
        assert answer.response == {"EchoMessage": message, "ApiVersion": "2014/07/25"}
        assert answer.raw.isascii()
