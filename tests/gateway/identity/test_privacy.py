"""Data that is never shown, never stored, and never the same for two clients."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.identity_lab import ACCOUNT, MOBILE, PHONE, SHOP, Lab, Wire, log_requests, people
from tests.test_scans import CARD, is_card_number
from toolkit.identity import responses
from toolkit.identity import wire as identity_wire

CANARY = "kanarienvogel-7Jm3"


def whole_flow(lab: Lab) -> Wire:
    """Make every call with every preset, and many that fail; the wire remembers all that came back."""
    from tests.gateway.identity.test_checks_and_limits import last_status

    for preset in lab.gateway.presets:
        last_status(lab.wire, lab.gateway.handset(preset))
    pair, ids = lab.wire.unlocked()
    lab.wire.payment_details(pair, ids)
    lab.wire.echo()
    return lab.wire


def test_aliases_are_pairwise_and_survive_a_restart(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    of_shop, of_books = lab.wire.pair()["ServiceAlias"], lab.books.pair()["ServiceAlias"]
    assert of_shop != of_books
    assert identity_wire.GUID.fullmatch(of_shop)
    assert lab.wire.pair()["ServiceAlias"] == of_shop
    lab.gateway.close()
    restarted = make_lab(tmp_path, seed=2)
    assert restarted.wire.pair()["ServiceAlias"] == of_shop
    assert restarted.books.pair()["ServiceAlias"] == of_books


def test_responses_have_no_phone_number_and_no_security_code(lab: Lab) -> None:
    finished = lab.wire.finish(lab.wire.final()).response
    assert finished["MobileNumber"] == "*********00"
    for raw in whole_flow(lab).seen:
        without_ids = re.sub(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"", raw)
        without_tokens = re.sub(rb"[A-Za-z0-9_-]{43}", b"", without_ids)
        assert not re.search(rb"\+?1?[0-9]{10}", without_tokens)
    declared = [field.name for operation in identity_wire.OPERATIONS for field in operation.fields]
    records = [
        record
        for record in vars(responses).values()
        if isinstance(record, type) and record.__module__ == responses.__name__
    ]
    declared += [name for record in records for name in record.__struct_encode_fields__]
    sent = b"".join(lab.wire.seen)
    answered = re.findall(r'"(\w+)":', sent.decode())
    assert {"MaskedAccountNumber", "PostalCode"} <= set(answered)
    for name in (*declared, *answered):
        assert not re.search(r"cvv|cvc|\bcid\b|security_?code|pin\b", name, re.IGNORECASE)


def card_numbers(text: str) -> list[str]:
    return [match.group() for match in CARD.finditer(text) if is_card_number(match.group())]


def test_no_response_log_or_state_has_a_full_card_number(
    make_lab: Callable[..., Lab], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lab = make_lab(tmp_path)
    seen = b"".join(whole_flow(lab).seen).decode()
    lab.gateway.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()).decode("latin-1")
    assert "411111******1111" in seen
    assert len(kept) > 1000
    assert card_numbers(seen + kept + caplog.text) == []


def test_cards_on_file_are_first_six_and_last_four() -> None:
    cards = [payment for person in people() for payment in person.payments if payment.payment_type != "CARRIER_BILL"]
    assert all(len(f"{card.first_six}{card.last_four}") == 10 < card.digits for card in cards)
    assert len(cards) > 100
    assert card_numbers(repr(people())) == []


def test_the_access_log_has_no_query(lab: Lab, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture) -> None:
    log_requests(lab, caplog)
    lab.wire.open(CANARY)
    lab.wire.send("GET", f"{MOBILE}deviceAuthenticate?vfp={CANARY}&r=f&key={CANARY}")
    for operation in identity_wire.OPERATIONS:
        lab.wire.send("POST", f"{operation.endpoint.template}?key={CANARY}", b"{}")
    whole_flow(lab)
    assert "GET /mobileauth/2014/07/01/deviceAuthenticate 404" in caplog.text
    printed = capfd.readouterr()
    assert CANARY not in caplog.text + printed.out + printed.err


SECRET_BODIES: list[tuple[str, dict[str, Any]]] = [
    (ACCOUNT + "accountEcho", {"EchoMessage": ["x"], "ApiClientId": CANARY}),
    (ACCOUNT + "accountEcho", {"EchoMessage": "x", CANARY: CANARY}),
    (MOBILE + "authenticateByRedirect", {"DeviceIp": CANARY, "FinalTargetUrl": CANARY, "CodeChallenge": CANARY}),
    (MOBILE + "authenticateByRedirect", {"DeviceIp": PHONE, "FinalTargetUrl": f"http://127.0.0.1/{CANARY}"}),
    (MOBILE + "authenticateByRedirectFinish", {"VerificationFingerprint": CANARY, "CodeVerifier": CANARY * 3}),
    (MOBILE + "authenticateByRedirectFinish", {"VerificationFingerprint": CANARY}),
    (ACCOUNT + "getEligibility", {"ServiceAlias": CANARY, "AuthenticationCode": CANARY}),
    (
        ACCOUNT + "getPaymentList",
        {"ServiceAlias": CANARY, "AuthenticationCode": CANARY, "ChallengeId": CANARY, "ChallengeAnswer": CANARY},
    ),
    (ACCOUNT + "getPaymentDetails", {"ServiceAlias": CANARY, "AuthenticationCode": CANARY, "PaymentIds": [CANARY]}),
]


def test_errors_repeat_nothing_that_was_sent(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    for path, fields in SECRET_BODIES:
        answer = lab.wire.post(path, **fields)
        assert answer.status > 0
        assert CANARY not in answer.raw.decode() + repr(answer.headers) + caplog.text
    pair, challenge_id = lab.wire.challenged()

    async def broken(*_: object) -> None:
        raise RuntimeError("the fault that the test injected")

    monkeypatch.setattr(lab.carrier, "subscriber", broken)
    answer = lab.wire.payment_list(pair, ChallengeId=challenge_id, ChallengeAnswer="97024")
    told = {"RequestId": "req-1", "Status": 1, "Description": "The request cannot be processed."}
    assert (answer.http, answer.json) == (500, told)
    said = answer.raw.decode() + caplog.text
    assert "RuntimeError" in caplog.text
    for secret in (SHOP, pair["AuthenticationCode"], pair["ServiceAlias"], "97024"):
        assert secret not in said


def test_codes_end_with_the_gateway_and_are_not_stored(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    first = lab.wire.first()
    final = lab.wire.open(first).json["vfp"]
    response = lab.wire.finish(final).response
    pair = {name: response[name] for name in ("ServiceAlias", "AuthenticationCode")}
    challenge = lab.wire.eligibility(pair).response["Challenge"]["ChallengeId"]
    assert lab.wire.payment_list(pair, ChallengeId=challenge, ChallengeAnswer="11111").status == 2022
    unused = lab.wire.final()
    lab.gateway.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert pair["ServiceAlias"].encode() in kept, "the alias is what lasts"
    for secret in (first, final, unused, pair["AuthenticationCode"], SHOP):
        raw = secret.encode()
        assert not any(form in kept for form in (raw, base64.b64encode(raw)[:-4], raw.hex().encode()))
    restarted = make_lab(tmp_path)
    assert restarted.wire.eligibility(pair).status == 2010
    assert restarted.wire.finish(unused).status == 2001


def test_every_route_declares_its_response(lab: Lab) -> None:
    wire = lab.wire
    pair, ids = wire.unlocked()
    answers = [
        wire.echo(),
        wire.start(),
        wire.open(wire.first()),
        wire.open("unknown"),
        wire.open("x", method="POST"),
        wire.finish(wire.final()),
        wire.finish("x"),
        wire.eligibility(pair),
        wire.payment_list(pair),
        wire.payment_details(pair, ids),
        wire.post(ACCOUNT + "nothing"),
        wire.send("GET", ACCOUNT + "accountEcho"),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert "RequestId" in answer.json or answer.headers["referrer-policy"] == "no-referrer"
        assert not any(name.startswith("access-control") or name == "location" for name in answer.headers)


def test_seed_affects_data_but_no_secret(make_lab: Callable[..., Lab]) -> None:
    told = []
    for lab in (make_lab(seed=7), make_lab(seed=7)):
        final = lab.wire.final()
        told.append((final, lab.wire.finish(final).response))
    (first_final, first), (second_final, second) = told
    assert first_final != second_final
    assert first.pop("AuthenticationCode") != second.pop("AuthenticationCode")
    assert first == second
