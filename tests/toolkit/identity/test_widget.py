"""IdentityWalkthrough: steps, every state, drawn requests, and attacks refused by their rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import toolkit
from tests.identity_lab import CARRIERS, CLIENTS, PEOPLE, SHOP
from toolkit.errors import InvalidArgument
from toolkit.identity.client.attacks import ATTACKS
from toolkit.identity.flow import TRANSITIONS, Event, State
from toolkit.identity.widgets.flow_diagrams import state_arrows, states_drawing
from toolkit.identity.widgets.identity_walkthrough import STEPS, IdentityWalkthrough
from toolkit_gateway import Gateway


@pytest.fixture
def walkthrough(demo: Gateway) -> Iterator[IdentityWalkthrough]:
    with toolkit.connect(demo) as tk:
        yield IdentityWalkthrough(tk)


def test_walkthrough_needs_the_demo_phones() -> None:
    identity = {"clients": CLIENTS, "carriers": CARRIERS, "subscribers": PEOPLE[20:22]}
    credentials = {"ApiClientId": SHOP}
    with Gateway(config={"identity": identity}) as gateway, toolkit.connect(gateway, credentials=credentials) as tk:
        with pytest.raises(InvalidArgument, match="demo"):
            IdentityWalkthrough(tk)
        with pytest.raises(InvalidArgument, match="demo"):
            gateway.handset("happy")


def test_it_walks_through_a_gateway_at_a_url(gateway: Gateway, walkthrough: IdentityWalkthrough) -> None:
    with toolkit.connect(gateway.base_url, operator_key=gateway.operator_key) as tk:
        elsewhere = IdentityWalkthrough(tk)
        for preset in gateway.presets:
            ends = []
            for each in (walkthrough, elsewhere):
                each.preset.value = preset
                each.run_all()
                ends.append((each.summary(), repr(each.error)))
            assert ends[0] == ends[1]
        for name in ATTACKS:
            outcome = elsewhere.try_attack(name)
            assert outcome.refused if outcome else "real clock" in elsewhere.status.value, name
        elsewhere.advance.click()
        assert "only the clock of Gateway.demo() can be advanced" in elsewhere.status.value
        elsewhere.preset.value = "happy"
        elsewhere.run_all()
        elsewhere.reset_phone()
        assert elsewhere.state == "revoked"


def walk(walkthrough: IdentityWalkthrough, *steps: str) -> None:
    for step in steps:
        getattr(walkthrough, step).click()


def test_early_step_names_the_missing_step(walkthrough: IdentityWalkthrough) -> None:
    for place, (name, (label, _)) in enumerate(STEPS.items()):
        for later in list(STEPS)[place + 1 :]:
            walk(walkthrough, later)
            assert f"Take step {label} first." in walkthrough.status.value
            assert len(walkthrough.trace) == place, "nothing is sent"
        assert getattr(walkthrough, name).button_style == "primary"
        walk(walkthrough, name)
        assert walkthrough.error is None
    assert walkthrough.state == "unlocked"
    assert repr(walkthrough) == "<IdentityWalkthrough: happy, unlocked after 6 calls, 0 attacks refused>"


def test_a_step_that_is_refused_opens_nothing(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.preset.value = "wifi"
    walkthrough.run_all()
    assert "not authenticated by its network" in walkthrough.status.value
    walk(walkthrough, "eligibility")
    assert "Take step 3 Finish first." in walkthrough.status.value
    assert walkthrough.state == "refused"
    assert "✗ 1001" in words(walkthrough), "the refusal is in words, not only in red"
    walkthrough.again.click()
    assert walkthrough.state == "new"
    assert words(walkthrough) == "your program gateway carrier phone"


def test_wrong_answer_is_reported_and_cleared(walkthrough: IdentityWalkthrough) -> None:
    for step in ("start", "open", "finish", "eligibility"):
        walkthrough.take(step)
    walkthrough.answer.value = "00000"
    walkthrough.payment_list.click()
    assert "2 attempts left" in walkthrough.status.value
    assert walkthrough.answer.value == "", "a widget's values are saved with the notebook"
    walkthrough.payment_list.click()
    assert walkthrough.state == "unlocked"


def test_each_attack_is_refused_by_its_rule(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.view.value = "Attack"
    assert "No attack was tried yet" in walkthrough.status.value
    for name, attack in ATTACKS.items():
        walkthrough.attack.value = name
        walkthrough.attack_button.click()
        outcome = walkthrough.outcome
        assert outcome is not None, walkthrough.error
        assert outcome.refused
        assert (outcome.rule, outcome.status) == (attack.rule, attack.status)
        assert f"Refused by rule {outcome.rule}" in walkthrough.result.value
        drawing = walkthrough.sequence.drawing
        assert words(walkthrough).startswith("attacker your program")
        assert drawing["pace"] > 0, "one message appears after the other"
        assert f"✗ {outcome.status}" in words(walkthrough)
        walkthrough.view.value = "Flow"
        assert "attacker" not in words(walkthrough)
        walkthrough.view.value = "Attack"
        assert walkthrough.sequence.drawing == drawing


def test_attacks_do_not_change_the_current_flow(walkthrough: IdentityWalkthrough) -> None:
    for step in ("start", "open", "finish", "eligibility"):
        walkthrough.take(step)
    for name in 2 * sorted(set(ATTACKS) - {"let the clock run"}):  # a second time as well
        outcome = walkthrough.try_attack(name)
        assert outcome is not None
        assert outcome.refused
    assert len(walkthrough.trace) == 4
    walkthrough.take("payment_list")
    assert walkthrough.error is None


def test_walkthrough_without_a_kernel_shows_a_picture(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.run_all()
    bundle = walkthrough._repr_mimebundle_()
    assert bundle["text/plain"] == repr(walkthrough)
    shown = walkthrough.picture()
    assert shown.startswith(b"\x89PNG\r\n\x1a\n")
    assert walkthrough.picture() == shown, "the same state is the same bytes"
    walkthrough.try_attack("let the clock run")
    assert walkthrough.picture() != shown


REACHED = {
    "new": lambda w: None,
    "started": lambda w: walk(w, "start"),
    "failed or proven": lambda w: walk(w, "start", "open"),
    "refused": lambda w: (setattr(w.preset, "value", "wifi"), walk(w, "start", "open", "finish")),
    "finished": lambda w: walk(w, "start", "open", "finish"),
    "eligible": lambda w: walk(w, "start", "open", "finish", "eligibility"),
    "not eligible": lambda w: (setattr(w.preset, "value", "prepaid"), w.run_all()),
    "unlocked": lambda w: w.run_all(),
    "locked": lambda w: (setattr(w.preset, "value", "locked_challenge"), w.run_all()),
    "expired": lambda w: (w.run_all(), pass_time(w, 301)),
    "revoked": lambda w: (w.run_all(), w.reset.click()),
}


def pass_time(walkthrough: IdentityWalkthrough, seconds: int) -> None:
    walkthrough.seconds.value = seconds
    walkthrough.advance.click()


def test_every_state_can_be_reached_by_clicks(walkthrough: IdentityWalkthrough) -> None:
    for state, clicks in REACHED.items():
        walkthrough.preset.value = "happy"
        walkthrough.again.click()
        clicks(walkthrough)
        assert walkthrough.state == state
        current = {shape["text"] for shape in walkthrough.states.drawing["shapes"] if shape.get("bold")}
        assert current == {f"● {one}" for one in state.split(" or ")}


def test_the_time_left_follows_the_clock(walkthrough: IdentityWalkthrough) -> None:
    walk(walkthrough, "start", "open", "finish")
    assert "valid for 300 s" in walkthrough.life.value
    pass_time(walkthrough, 301)
    assert "301 seconds pass" in words(walkthrough)
    walkthrough.take("eligibility")
    assert "the code expired at" in walkthrough.life.value
    assert "begin again" in walkthrough.status.value


def test_expired_fingerprint_ends_the_flow(walkthrough: IdentityWalkthrough) -> None:
    walk(walkthrough, "start")
    pass_time(walkthrough, 121)
    assert walkthrough.state == "expired"
    walk(walkthrough, "open")
    assert walkthrough.state == "expired"
    assert "already used. Or it has expired" in walkthrough.status.value
    walk(walkthrough, "start", "open")
    pass_time(walkthrough, 61)
    walk(walkthrough, "finish")
    assert "has expired" in walkthrough.status.value
    assert walkthrough.state == "expired"


def test_repeated_step_shows_the_service_error(walkthrough: IdentityWalkthrough) -> None:
    walk(walkthrough, "start", "open", "open")
    assert "✗ 2003" in words(walkthrough)
    walk(walkthrough, "finish", "finish")
    assert walkthrough.state == "revoked"
    assert "the code is revoked" in walkthrough.life.value
    walk(walkthrough, "eligibility")
    assert "revoked" in walkthrough.status.value
    walk(walkthrough, "start")
    assert walkthrough.state == "started"
    assert len(walkthrough.trace) == 1, "a new start is a new flow"


def test_a_reset_phone_answers_its_question_again(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.reset.click()
    assert "There is nothing to reset yet" in walkthrough.status.value
    walkthrough.preset.value = "locked_challenge"
    walkthrough.run_all()
    assert "locked" in walkthrough.status.value
    walkthrough.reset.click()
    assert "the code is revoked and the wrong answers are forgotten" in walkthrough.status.value
    walkthrough.run_all()
    assert walkthrough.state == "unlocked"


def test_an_arrow_shows_its_request_and_response(walkthrough: IdentityWalkthrough) -> None:
    assert "Click an arrow" in walkthrough.exchange.value
    walkthrough.run_all()
    parts = [part["description"] for part in walkthrough.sequence.drawing["parts"]]
    assert len(parts) == 15
    assert walkthrough.sequence.chosen == 14, "the newest"
    walkthrough.sequence.chosen = parts.index("3 alias, code")
    assert "3 authenticateByRedirectFinish" in walkthrough.exchange.value
    assert "failed or proven → finished" in walkthrough.exchange.value
    assert "&quot;VerificationFingerprint&quot;: &quot;Secret(sha256:" in walkthrough.exchange.value
    assert "&quot;MobileNumber&quot;: &quot;*********00&quot;" in walkthrough.exchange.value


def test_diagrams_are_drawn_from_the_table() -> None:
    moves = {(row.state, row.next) for row in TRANSITIONS}
    assert set(state_arrows()) <= moves
    left_out = moves - set(state_arrows())
    again = {(row.state, row.next) for row in TRANSITIONS if row.event is Event.ELIGIBILITY}
    assert all(a is b or b in (State.EXPIRED, State.REVOKED) or (a, b) in again for a, b in left_out)
    drawing = states_drawing({State.PROVEN, State.FAILED})
    assert drawing.description == "State diagram, the flow is failed or proven"
    assert sum(shape["text"].startswith("● ") for shape in drawing.shapes if shape["kind"] == "text") == 2


def words(walkthrough: IdentityWalkthrough) -> str:
    return " ".join(shape["text"] for shape in walkthrough.sequence.drawing["shapes"] if shape["kind"] == "text")
