"""Fingerprints and codes: they work once, for a limited time, and for one client."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from uuid import uuid4

import pytest

from tests.gateway_parts import at_once
from tests.identity_lab import Lab, Wire, people
from toolkit.errors import InvalidArgument
from toolkit_gateway import Gateway
from toolkit_gateway.identity.mobile_authentication import fresh_token

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_secrets_are_256_bits_of_the_operating_system(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a secret must not come from random")

    for name in ("random", "randint", "getrandbits", "choice", "choices", "randbytes"):
        monkeypatch.setattr(random, name, refuse)
    first = wire.first()
    final = wire.open(first).json["vfp"]
    code = wire.finish(final).response["AuthenticationCode"]
    assert all(TOKEN.fullmatch(token) for token in (first, final, code))
    assert len({fresh_token() for _ in range(10_000)}) == 10_000


def test_only_hashes_are_stored_and_any_text_may_be_sent(lab: Lab) -> None:
    wire = lab.wire
    first = wire.first()
    final = wire.open(first).json["vfp"]
    answer = wire.finish(final).response
    kept = lab.kept()
    for token in (first, final, answer["AuthenticationCode"]):
        assert token.encode() not in kept
        assert hashlib.sha256(token.encode()).hexdigest().encode() in kept
    for code in ("é", "\u2028", "x\x00y", "𝕏" * 50):
        refused = wire.eligibility({"ServiceAlias": answer["ServiceAlias"], "AuthenticationCode": code})
        assert (refused.http, refused.status) == (401, 2010)
        assert wire.finish(code).status == 2001


def test_first_and_final_fingerprint_differ(wire: Wire) -> None:
    first = wire.first()
    early = wire.finish(first)
    assert (early.http, early.status) == (409, 1039)
    assert early.json["AdditionalInfo"] == "The device has not opened TargetUrl yet."
    final = wire.open(first).json["vfp"]
    assert final != first
    late = wire.finish(first)
    assert late.status == 1039
    assert late.json["AdditionalInfo"] == "Send the fingerprint that deviceAuthenticate returned."
    opened = wire.open(final)
    assert (opened.http, opened.json) == (404, {"error": "The verification fingerprint is not known."})
    assert wire.finish(final).status == 0


@pytest.mark.parametrize("late", [False, True], ids=["one millisecond before", "exactly at the end"])
def test_each_lifetime_ends_to_the_millisecond(lab: Lab, late: bool) -> None:
    wire, missing = lab.wire, 0.0 if late else 0.001

    first = wire.first()
    lab.clock.advance(seconds=120 - missing)
    assert wire.open(first).http == (410 if late else 200)

    final = wire.final()
    lab.clock.advance(seconds=60 - missing)
    finished = wire.finish(final)
    assert (finished.http, finished.status) == ((410, 2002) if late else (200, 0))

    pair = wire.pair()
    lab.clock.advance(seconds=300 - missing)
    asked = wire.eligibility(pair)
    assert (asked.http, asked.status) == ((401, 2011) if late else (200, 0))
    if late:
        assert asked.json["AdditionalInfo"] == "Start again at authenticateByRedirect."
        assert wire.finish(wire.final()).status == 0, "an expired flow hinders nobody"


def test_lifetimes_above_ten_minutes_are_refused() -> None:
    for name, seconds in product(("first_life", "final_life", "code_life"), (0, -1, 601)):
        with pytest.raises(InvalidArgument, match=name):
            Gateway(config={"identity": {name: seconds}})


def test_reusing_the_final_fingerprint_revokes_its_code(wire: Wire) -> None:
    final = wire.final()
    response = wire.finish(final).response
    pair = {name: response[name] for name in ("ServiceAlias", "AuthenticationCode")}
    assert wire.eligibility(pair).status == 0
    again = wire.finish(final)
    assert (again.http, again.status) == (409, 2003)
    assert again.json["AdditionalInfo"] == "The authentication that came from it has been revoked."
    assert [wire.eligibility(pair).status, wire.payment_list(pair).status] == [2012, 2012]


def test_newer_code_revokes_the_older_one_only(lab: Lab) -> None:
    stolen, of_books = lab.wire.final(), lab.books.pair()
    response = lab.wire.finish(stolen).response
    older, newer = {name: response[name] for name in of_books}, lab.wire.pair()
    assert older["ServiceAlias"] == newer["ServiceAlias"]
    assert lab.wire.eligibility(older).status == 2012
    assert lab.wire.finish(stolen).status == 2003
    assert lab.wire.eligibility(newer).status == 0, "reuse revokes only the code that came from it"
    assert lab.books.eligibility(of_books).status == 0, "another client's code is not its business"


def test_only_get_uses_a_fingerprint(wire: Wire) -> None:
    first = wire.first()
    for method in ("HEAD", "OPTIONS", "POST", "PUT"):
        looked = wire.open(first, method=method)
        assert (looked.http, looked.headers["allow"]) == (405, "GET")
        assert method == "HEAD" or looked.json == {"error": "Use GET."}
    assert wire.open(first).http == 200


def test_a_proof_is_bound_to_client_and_phone(lab: Lab) -> None:
    final = lab.wire.final()
    foreign = lab.books.finish(final)
    assert (foreign.http, foreign.status) == (404, 2001)
    assert foreign.without_request_id == lab.books.finish("never-issued").without_request_id
    assert lab.wire.finish(final).status == 0, "what another client tried costs nothing"

    other_phone = lab.address_of("prepaid")
    opened = lab.wire.open(lab.wire.first(), other_phone)
    assert opened.http == 200, "the phone itself is told nothing"
    refused = lab.wire.finish(opened.json["vfp"])
    assert (refused.http, refused.status) == (403, 1001)
    assert refused.json["AdditionalInfo"] == "The phone was not authenticated by its network."


def test_start_by_carrier_accepts_only_its_phones(lab: Lab) -> None:
    wire = lab.wire
    ours = next(one for one in people()[20:] if one.carrier == "CMB")
    theirs = next(one for one in people()[20:] if one.carrier == "NWT")
    by_carrier = {"DeviceIp": None, "CarrierShortCode": "CMB"}
    assert wire.finish(wire.open(wire.first(**by_carrier), ours.device_ip).json["vfp"]).status == 0
    assert wire.finish(wire.open(wire.first(**by_carrier), theirs.device_ip).json["vfp"]).status == 1001


def test_pkce_is_required_only_after_a_challenge(wire: Wire) -> None:
    final = wire.final(CodeChallenge=CHALLENGE)
    refusals = {
        "CodeVerifier is required: a CodeChallenge was sent.": wire.finish(final),
        "CodeVerifier does not match.": wire.finish(final, CodeVerifier="x" * 43),
        "CodeVerifier was sent without a CodeChallenge.": wire.finish(wire.final(), CodeVerifier=VERIFIER),
    }
    for text, refused in refusals.items():
        assert (refused.http, refused.status, refused.json["AdditionalInfo"]) == (400, 1000, text)
    assert wire.finish(final, CodeVerifier=VERIFIER).status == 0, "a wrong verifier is not a use"


def test_mismatched_code_client_and_alias_look_the_same(lab: Lab) -> None:
    pair, other = lab.wire.pair(), lab.wire.pair(lab.address_of("prepaid"))
    code, alias = pair["AuthenticationCode"], pair["ServiceAlias"]
    ids = [str(uuid4())]
    for call in (lab.books.payment_list, partial(lab.books.payment_details, ids=ids)):
        assert call(pair).raw == call({"ServiceAlias": str(uuid4()), "AuthenticationCode": "never"}).raw
        assert call(pair).status == 2010
    answers = [
        lab.books.eligibility(pair),
        lab.wire.eligibility({"ServiceAlias": other["ServiceAlias"], "AuthenticationCode": code}),
        lab.wire.eligibility({"ServiceAlias": alias, "AuthenticationCode": other["AuthenticationCode"]}),
        lab.wire.eligibility({"ServiceAlias": alias}),
        lab.wire.eligibility({"AuthenticationCode": code}),
        lab.wire.eligibility({"ServiceAlias": alias, "AuthenticationCode": "wrong"}),
        lab.wire.eligibility({"ServiceAlias": "no-guid", "AuthenticationCode": code}),
    ]
    assert {answer.raw for answer in answers} == {answers[0].raw}
    assert (answers[0].http, answers[0].status) == (401, 2010)
    assert lab.wire.eligibility(pair).status == 0


def test_one_of_50_concurrent_callers_wins_and_is_revoked(make_lab: Callable[..., Lab]) -> None:
    wire = make_lab(failures_a_minute=60, calls_a_minute=600).wire  # as they are without a configuration
    first = wire.first()
    opened = at_once(50, lambda _: wire.open(first))
    assert Counter(answer.http for answer in opened) == {200: 1, 410: 49}
    (final,) = [answer.json["vfp"] for answer in opened if answer.http == 200]
    finished = at_once(50, lambda _: wire.finish(final))
    assert Counter(answer.status for answer in finished) == {0: 1, 2003: 49}
    (winner,) = [answer.response for answer in finished if answer.status == 0]
    pair = {name: winner[name] for name in ("ServiceAlias", "AuthenticationCode")}
    assert wire.eligibility(pair).status == 2012
