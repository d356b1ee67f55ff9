"""The order of checks, eligibility, the challenge, and the limits."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

import toolkit
from tests.gateway_parts import at_once
from tests.identity_lab import ACCOUNT, MOBILE, Answer, Lab, Wire

RIGHT, WRONG = "97024", "00000"


def answered(wire: Wire, pair: dict[str, str], challenge_id: str, answer: str = "97024") -> Answer:
    return wire.payment_list(pair, ChallengeId=challenge_id, ChallengeAnswer=answer)


def test_the_order_of_checks_is_fixed(lab: Lab) -> None:
    wire = Wire(lab.gateway.base_url, "nobody")
    assert wire.send("POST", ACCOUNT + "accountEcho", b"{").status == 2, "parse comes before client"
    assert wire.post(ACCOUNT + "accountEcho", EchoMessage=5).status == 1005, "client before shapes"
    assert lab.wire.post(ACCOUNT + "getEligibility", ServiceAlias=5).status == 1000, "shapes before authentication"
    pair = lab.wire.pair(lab.address_of("prepaid"))
    unproven = {**pair, "AuthenticationCode": "x"}
    assert lab.wire.payment_list(unproven).status == 2010, "authentication before eligibility"
    assert lab.wire.payment_details(pair, [str(uuid4())]).status == 2020, "eligibility before payments"
    pair = lab.wire.pair()
    lab.wire.eligibility(pair)
    assert lab.wire.payment_details(pair, [str(uuid4())]).status == 2021, "challenge before payments"


def test_nothing_about_an_alias_leaks_before_authentication(lab: Lab) -> None:
    ours, theirs = lab.wire.pair(), lab.books.pair()
    ineligible = lab.wire.pair(lab.address_of("prepaid"))
    lab.wire.eligibility(ineligible)
    aliases = [str(uuid4()), theirs["ServiceAlias"], ineligible["ServiceAlias"], ours["ServiceAlias"]]
    for path in ("getEligibility", "getPaymentList"):
        raw = {lab.wire.post(ACCOUNT + path, ServiceAlias=alias, AuthenticationCode="wrong").raw for alias in aliases}
        assert len(raw) == 1


def test_ineligible_person_cannot_make_payment_calls(lab: Lab) -> None:
    reasons = {"prepaid": "PREPAID_ACCOUNT", "business": "BUSINESS_ACCOUNT", "no_record": "NO_CUSTOMER_RECORD",
               "opted_out": "OPTED_OUT"}  # fmt: skip
    for preset, reason in reasons.items():
        pair = lab.wire.pair(lab.address_of(preset))
        assert lab.wire.eligibility(pair).response == {"Eligible": False, "IneligibleReason": reason}
        with_answer = lab.wire.payment_list(pair, ChallengeId=str(uuid4()), ChallengeAnswer="97024")
        for blocked in (with_answer, lab.wire.payment_details(pair, [str(uuid4())])):
            assert (blocked.http, blocked.status) == (403, 1010)


def test_three_wrong_answers_lock_out_the_right_one(lab: Lab) -> None:
    pair, challenge_id = lab.wire.challenged()
    told = [answered(lab.wire, pair, challenge_id, answer) for answer in (WRONG, WRONG, WRONG, "97024")]
    assert [(one.http, one.status, one.json["AdditionalInfo"]) for one in told] == [
        (403, 2022, "2 attempts left."),
        (403, 2022, "1 attempt left."),
        (429, 2023, "Retry after 900 seconds."),
        (429, 2023, "Retry after 900 seconds."),
    ]
    assert told[2].headers["retry-after"] == "900"
    assert lab.wire.payment_list(pair).status == 2023
    lab.clock.advance(seconds=10.5)
    later = answered(lab.wire, pair, challenge_id)
    assert (later.headers["retry-after"], later.json["AdditionalInfo"]) == ("890", "Retry after 890 seconds.")


def test_fifty_concurrent_guesses_count_as_three_attempts(wire: Wire) -> None:
    pair, challenge_id = wire.challenged()
    answers = at_once(50, lambda _: answered(wire, pair, challenge_id, WRONG))
    statuses = [answer.status for answer in answers]
    assert (statuses.count(2022), statuses.count(2023)) == (2, 48)


#: What a person with this phone does: asks for the question with the same code or a fresh one and is told how many
#: attempts are left, answers and gets a status, or waits for some seconds.
ATTEMPTS: dict[str, tuple[str, list[tuple[str | int, int]]]] = {
    "a lock ends after fifteen minutes": (
        "happy",
        [("fresh", 3), (WRONG, 2022), (WRONG, 2022), (WRONG, 2023), ("same", 0), (899, 0), ("fresh", 0), (RIGHT, 2023),
         (1, 0), ("fresh", 3), (RIGHT, 0)],
    ),
    "a second question and a fresh code bring no attempts": (
        "happy",
        [("fresh", 3), (WRONG, 2022), ("same", 2), (WRONG, 2022), ("fresh", 1), (WRONG, 2023)],
    ),
    "at most ten wrong answers an hour": (
        "happy",
        [*[("fresh", 3), (WRONG, 2022), (WRONG, 2022), (WRONG, 2023), (900, 0)] * 3, ("fresh", 1), (WRONG, 2023),
         (899, 0), ("fresh", 0), (1, 0), ("fresh", 2)],
    ),
    "a right answer ends the row but not the hour": (
        "happy",
        [*[("fresh", 3), (WRONG, 2022), (WRONG, 2022), (RIGHT, 0)] * 3, ("fresh", 3), (WRONG, 2022), (WRONG, 2022),
         (WRONG, 2023)],
    ),
    "wrong answers on file count once": (
        "locked_challenge",
        [("fresh", 0), (RIGHT, 2023), (901, 0), ("fresh", 3), (RIGHT, 0), (3_601, 0), ("fresh", 3), (RIGHT, 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempts_are_counted_per_person(lab: Lab, name: str) -> None:
    preset, steps = ATTEMPTS[name]
    told: list[tuple[str | int, int]] = []
    for step, _ in steps:
        if isinstance(step, int):
            lab.clock.advance(seconds=step)
            told.append((step, 0))
            continue
        if step == "fresh":
            pair, challenge_id = lab.wire.challenged(lab.address_of(preset))
        if step in ("fresh", "same"):
            challenge = lab.wire.eligibility(pair).response["Challenge"]
            assert challenge["ChallengeId"] == challenge_id
            told.append((step, challenge["AttemptsLeft"]))
        else:
            told.append((step, answered(lab.wire, pair, challenge_id, step).status))
    assert told == steps


def test_reset_of_configured_wrong_answers_lasts(lab: Lab) -> None:
    phone = lab.address_of("locked_challenge")
    pair, challenge_id = lab.wire.challenged(phone)
    with toolkit.connect(lab.gateway) as tk:
        assert "the wrong answers are forgotten" in tk.operator.reset_user(pair["ServiceAlias"])
    for _ in range(2):
        pair, challenge_id = lab.wire.challenged(phone)
        assert answered(lab.wire, pair, challenge_id).status == 0
        with toolkit.connect(lab.gateway) as tk:
            assert tk.operator.reset_user(pair["ServiceAlias"]) == ["the code is revoked"]
        lab.clock.advance(seconds=3_601)


def test_the_counter_survives_a_restart(make_lab: Callable[..., Lab], tmp_path: object) -> None:
    lab = make_lab(tmp_path)
    pair, challenge_id = lab.wire.challenged()
    answered(lab.wire, pair, challenge_id, WRONG)
    lab.gateway.close()
    restarted = make_lab(tmp_path)
    pair, _ = restarted.wire.challenged()
    assert restarted.wire.eligibility(pair).response["Challenge"]["AttemptsLeft"] == 2


def test_right_answer_is_accepted_however_it_is_typed(wire: Wire) -> None:
    for answer in ("97024", " 97024 ", "97024-1234", "970241234", "\t97024\n", "９７０２４", "\u00a097024"):
        assert answered(wire, *wire.challenged(), answer).status == 0, answer


def test_every_other_answer_is_wrong(lab: Lab) -> None:
    near = ["", " ", "9702", "970245", "97024-", "97024-12", "٩٧٠٢٤", "97o24", "97024\x00", "é", "9" * 64, "-97024"]
    for answer in near:
        assert answered(lab.wire, *lab.wire.challenged(), answer).status == 2022, answer
        lab.clock.advance(seconds=3_600)


def test_an_answer_to_another_challenge_costs_nothing(wire: Wire) -> None:
    pair, challenge_id = wire.challenged()
    assert wire.payment_list(pair, ChallengeId=str(uuid4()), ChallengeAnswer="97024").status == 2021
    assert wire.eligibility(pair).response["Challenge"]["AttemptsLeft"] == 3
    assert answered(wire, pair, challenge_id.upper()).status == 0


def test_wrong_fingerprint_61_in_a_minute_is_refused(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(failures_a_minute=60)
    assert {lab.wire.open(f"bad-{n}").http for n in range(60)} == {404}
    over = lab.wire.open("bad-61")
    assert (over.http, over.json, over.headers["retry-after"]) == (429, {"error": "Too many requests."}, "60")
    assert lab.wire.echo().status == 0, "an authenticated client at the same address"
    assert lab.wire.finish(lab.wire.final()).status == 0, "a phone with the right fingerprint, too"
    lab.clock.advance(seconds=48)
    limited = lab.wire.open("bad-62")
    assert (limited.http, limited.headers["retry-after"]) == (429, "12")
    lab.clock.advance(seconds=12)
    assert lab.wire.open("bad-63").http == 404


def test_wrong_fingerprints_at_finish_limit_only_themselves(make_lab: Callable[..., Lab]) -> None:
    wire = make_lab(failures_a_minute=60).wire
    assert {wire.finish(f"bad-{n}").status for n in range(60)} == {2001}
    over = wire.finish("bad-61")
    assert (over.http, over.status, over.json["AdditionalInfo"]) == (429, 2040, "Retry after 60 seconds.")
    assert wire.echo().status == 0
    assert wire.finish(wire.final()).status == 0, "a user who plants wrong ones locks no other user out"


def test_guesses_of_a_client_limit_the_client(make_lab: Callable[..., Lab]) -> None:
    wire = make_lab(failures_a_minute=3).wire
    assert {wire.echo().status for _ in range(10)} == {0}
    wrong = {"ServiceAlias": str(uuid4()), "AuthenticationCode": "x"}
    assert [wire.eligibility(wrong).status for _ in range(4)] == [2010] * 3 + [2040]
    assert wire.echo().status == 2040


def test_calls_of_a_client_are_rate_limited(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(calls_a_minute=5)
    assert [lab.wire.echo().status for _ in range(6)] == [0] * 5 + [2040]
    assert lab.wire.echo(5).status == 1000, "fields are checked before the limit"
    assert lab.books.echo().status == 0, "another client has its own"


def test_payment_ids_belong_to_one_alias(lab: Lab) -> None:
    pair, ids = lab.wire.unlocked()
    _, foreign = lab.books.unlocked()
    assert not set(ids) & set(foreign), "the same cards of the same person, yet other ids"
    refusals = [
        lab.wire.payment_details(pair, [foreign[0]]),
        lab.wire.payment_details(pair, [str(uuid4())]),
        lab.wire.payment_details(pair, [ids[0], foreign[0]]),
    ]
    assert {one.raw for one in refusals} == {refusals[0].raw}
    assert (refusals[0].http, refusals[0].status) == (404, 2030)
    assert refusals[0].json["AdditionalInfo"] == "At least one PaymentId is not on file for this alias."


def test_payment_details_keep_the_requested_order(wire: Wire) -> None:
    pair, ids = wire.unlocked()
    told = wire.payment_details(pair, [ids[1].upper(), ids[0]]).response["Payments"]
    assert [one["PaymentId"] for one in told] == [ids[1], ids[0]]
    assert told[1]["MaskedAccountNumber"] == "411111******1111"


def last_status(wire: Wire, handset: object) -> int:
    begun = wire.start(DeviceIp=handset.device_ip, CarrierShortCode=handset.carrier_short_code)
    if begun.status:
        return begun.status
    opened = wire.open(begun.response["VerificationFingerprint"], handset.address)
    finished = wire.finish(opened.json["vfp"])
    if finished.status:
        return finished.status
    pair = {name: finished.response[name] for name in ("ServiceAlias", "AuthenticationCode")}
    challenge = wire.eligibility(pair).response.get("Challenge")
    if challenge is None:
        return wire.payment_list(pair).status
    return answered(wire, pair, challenge["ChallengeId"]).status


def test_payments_on_file_are_listed(lab: Lab) -> None:
    for preset, answer, count in (("no_cards", "97024", 0), ("no_challenge", None, 2)):
        pair = lab.wire.pair(lab.address_of(preset))
        challenge = lab.wire.eligibility(pair).response["Challenge"]
        assert (challenge is None) is (answer is None)
        given = {"ChallengeId": challenge["ChallengeId"], "ChallengeAnswer": answer} if challenge else {}
        listed = lab.wire.payment_list(pair, **given).response
        assert (listed["Count"], len(listed["Payments"])) == (count, count)


def test_unknown_operations_are_answered_in_the_envelope(wire: Wire) -> None:
    for method, path, http in (
        ("POST", ACCOUNT + "other", 404),
        ("GET", "/account", 404),
        ("GET", ACCOUNT + "getEligibility", 405),
        ("PUT", MOBILE + "authenticateByRedirect", 405),
    ):
        answer = wire.send(method, path, b"{}")
        assert (answer.http, answer.status, answer.json["RequestId"]) == (http, 2, None)
