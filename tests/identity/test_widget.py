"""IdentityWalkthrough: steps open one after another, attacks are refused by their rules, no secret is saved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import toolkit
from tests.identity.conftest import CARRIERS, CLIENTS, PEOPLE, SHOP
from toolkit.errors import InvalidArgument
from toolkit.gateway import Gateway
from toolkit.identity.client.attacks import ATTACKS
from toolkit.identity.flow import TRANSITIONS, Event, State
from toolkit.identity.widgets.flow_diagrams import _edges, states_svg
from toolkit.identity.widgets.identity_walkthrough import STEPS, IdentityWalkthrough

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def walkthrough(demo: Gateway) -> Iterator[IdentityWalkthrough]:
    with toolkit.connect(demo) as tk:
        yield IdentityWalkthrough(tk)


def test_it_needs_the_phones_of_the_demo_world() -> None:
    identity = {"clients": CLIENTS, "carriers": CARRIERS, "subscribers": PEOPLE[20:22]}
    credentials = {"ApiClientId": SHOP}
    with Gateway(config={"identity": identity}) as gateway, toolkit.connect(gateway, credentials=credentials) as tk:
        with pytest.raises(InvalidArgument, match="demo"):
            IdentityWalkthrough(tk)


def test_only_the_next_step_can_be_clicked(walkthrough: IdentityWalkthrough) -> None:
    for place, name in enumerate(STEPS):
        buttons = [getattr(walkthrough, step) for step in STEPS]
        open_now = [step for step, button in zip(STEPS, buttons, strict=True) if not button.disabled]
        assert name in open_now
        assert not set(open_now) & set(list(STEPS)[place + 1 :])
        getattr(walkthrough, name).click()
        assert walkthrough.error is None
    assert walkthrough.state == "unlocked"
    assert repr(walkthrough) == "<IdentityWalkthrough: happy, unlocked after 6 calls, 0 attacks refused>"


def test_a_step_that_is_refused_opens_nothing(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.preset.value = "wifi"
    walkthrough.run_all()
    assert "not authenticated by its network" in walkthrough.status.value
    assert walkthrough.eligibility.disabled
    assert walkthrough.state == "refused"
    assert "✗ 1001" in walkthrough.sequence.value, "the refusal is in words, not only in red"
    walkthrough.again.click()
    assert walkthrough.state == "new"
    assert not walkthrough.start.disabled


def test_a_wrong_answer_is_told_and_forgotten(walkthrough: IdentityWalkthrough) -> None:
    for step in ("start", "open", "finish", "eligibility"):
        walkthrough.take(step)
    walkthrough.answer.value = "00000"
    walkthrough.payment_list.click()
    assert "2 attempts left" in walkthrough.status.value
    assert walkthrough.answer.value == "", "a widget's values are saved with the notebook"
    assert not walkthrough.payment_list.disabled
    walkthrough.payment_list.click()
    assert walkthrough.state == "unlocked"


@pytest.mark.parametrize("name", ATTACKS)
def test_each_attack_is_refused_by_its_rule(walkthrough: IdentityWalkthrough, name: str) -> None:
    walkthrough.attack.value = name
    walkthrough.attack_button.click()
    outcome = walkthrough.outcome
    assert outcome is not None, walkthrough.error
    assert outcome.refused
    assert (outcome.rule, outcome.status) == (ATTACKS[name].rule, ATTACKS[name].status)
    assert f"Refused by rule {outcome.rule}" in walkthrough.result.value


def test_attacks_leave_the_flow_in_the_middle_alone(walkthrough: IdentityWalkthrough) -> None:
    for step in ("start", "open", "finish", "eligibility"):
        walkthrough.take(step)
    for name in set(ATTACKS) - {"let the clock run"}:
        walkthrough.try_attack(name)
    assert len(walkthrough.trace) == 4
    walkthrough.take("payment_list")
    assert walkthrough.error is None


def test_the_attacks_are_refused_a_second_time_as_well(walkthrough: IdentityWalkthrough) -> None:
    for _ in range(2):
        assert all(walkthrough.try_attack(name).refused for name in walkthrough.attacks)


def test_it_shows_a_picture_and_a_line_where_widgets_cannot_run(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.run_all()
    bundle = walkthrough._repr_mimebundle_()
    assert bundle["text/plain"] == repr(walkthrough)
    assert walkthrough.picture().startswith(PNG)
    assert walkthrough.picture() == walkthrough.picture(), "the same state is the same bytes"


def test_nothing_secret_is_in_what_is_saved(walkthrough: IdentityWalkthrough) -> None:
    walkthrough.run_all()
    keys = walkthrough._gateway.credentials
    shown = [walkthrough.states, walkthrough.sequence, walkthrough.exchange, walkthrough.result, walkthrough.answer]
    saved = repr([widget.get_state() for widget in (*shown, walkthrough)])
    code = walkthrough._session.user.secret("code").reveal()
    for secret in (code, *(key.reveal() for key in keys.values())):
        assert secret not in saved
    assert not re.search(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])", saved)
    assert "Secret(sha256:" in saved


def test_the_time_left_follows_the_clock(walkthrough: IdentityWalkthrough) -> None:
    for step in ("start", "open", "finish"):
        walkthrough.take(step)
    assert "300 s left" in walkthrough.life.value
    walkthrough._gateway.clock.advance(seconds=300)
    walkthrough.take("eligibility")
    assert "the code expired at" in walkthrough.life.value
    assert "begin again" in walkthrough.status.value


def test_diagrams_are_drawn_from_the_table() -> None:
    moves = {(row.state, row.next) for row in TRANSITIONS}
    assert set(_edges()) <= moves
    left_out = moves - set(_edges())
    again = {(row.state, row.next) for row in TRANSITIONS if row.event is Event.ELIGIBILITY}
    assert all(a is b or b in (State.EXPIRED, State.REVOKED) or (a, b) in again for a, b in left_out)
    svg = states_svg({State.PROVEN, State.FAILED})
    assert 'aria-label="State diagram, the flow is failed or proven"' in svg
    assert svg.count("● ") == 2


def test_every_control_has_a_word_for_those_who_cannot_see_it(walkthrough: IdentityWalkthrough) -> None:
    controls = [*(getattr(walkthrough, step) for step in STEPS), walkthrough.again, walkthrough.attack_button]
    assert all(control.description for control in controls)
    assert all(control.description for control in (walkthrough.preset, walkthrough.answer, walkthrough.attack))
    assert 'role="img"' in walkthrough.states.value
    assert 'aria-label="Sequence of calls: no requests yet"' in walkthrough.sequence.value
