"""The state table: every row happens as written, and random calls follow it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.identity_lab import Lab, Wire, people, stop_later
from toolkit.identity.flow import TRANSITIONS, Event, Fact, State, Transition, transition
from toolkit_gateway.identity.carrier import Subscriber

RIGHT, WRONG = "97024", "00000"
_NUMBERS = itertools.count(1)


@dataclass
class Walk:
    """One phone on its way through the table."""

    lab: Lab
    owner: Subscriber
    first: str = ""
    final: str = ""
    pair: dict[str, str] = field(default_factory=dict)
    challenge_id: str = ""

    @property
    def wire(self) -> Wire:
        return self.lab.wire

    def change(self, **changes: Any) -> None:
        """Let something happen to the owner of the phone."""
        self.lab.carrier.put(replace(self.owner, **changes))

    def begin(self) -> None:
        self.first = self.wire.first(DeviceIp=self.owner.device_ip)

    def prove(self, address: str | None = None) -> None:
        self.begin()
        self.final = self.wire.open(self.first, address or self.owner.device_ip).json["vfp"]

    def finish(self) -> None:
        self.prove()
        response = self.wire.finish(self.final).response
        self.pair = {name: response[name] for name in ("ServiceAlias", "AuthenticationCode")}

    def ask(self) -> None:
        self.finish()
        self.challenge_id = (self.wire.eligibility(self.pair).response.get("Challenge") or {}).get("ChallengeId", "")

    def pay(self, answer: str | None = None) -> int:
        given = {"ChallengeId": self.challenge_id, "ChallengeAnswer": answer} if answer else {}
        return self.wire.payment_list(self.pair, **given).status

    def reach(self, state: State) -> None:
        ways: dict[State, Callable[[], Any]] = {
            State.NEW: lambda: None,
            State.STARTED: self.begin,
            State.PROVEN: self.prove,
            State.FAILED: lambda: self.prove(self.lab.address_of("prepaid")),
            State.REFUSED: lambda: (self.reach(State.FAILED), self.wire.finish(self.final)),
            State.FINISHED: self.finish,
            State.ELIGIBLE: self.ask,
            State.NOT_ELIGIBLE: lambda: (self.change(opted_out=True), self.ask()),
            State.UNLOCKED: lambda: (self.ask(), self.pay(RIGHT)),
            State.LOCKED: lambda: (self.ask(), [self.pay(WRONG) for _ in range(3)]),
            State.EXPIRED: lambda: (self.finish(), self.lab.clock.advance(seconds=600)),
            State.REVOKED: lambda: (self.finish(), self.wire.finish(self.final)),
        }
        ways[state]()

    def state(self) -> State:
        """Tell the state from the outside, by the answer that only it gives."""
        if not self.pair:
            return self._state_before_the_code()
        told = {2020: State.FINISHED, 2021: State.ELIGIBLE, 2023: State.LOCKED, 1010: State.NOT_ELIGIBLE}
        told |= {0: State.UNLOCKED, 2011: State.EXPIRED, 2012: State.REVOKED}
        return told[self.pay()]

    def _state_before_the_code(self) -> State:
        status = self.wire.finish(self.final or self.first).status
        told = {1039: State.STARTED, 0: State.PROVEN, 2003: State.REFUSED, 2002: State.EXPIRED}
        return told.get(status, State.FAILED)


def arrange(walk: Walk, row: Transition) -> None:
    changes: dict[Fact, dict[str, Any]] = {
        Fact.SUSPENDED: {"state": "SUSPENDED"},
        Fact.DEACTIVATED: {"state": "DEACTIVATED"},
        Fact.CARRIER_CHANGED: {"carrier": "FBK"},
        Fact.NOT_ELIGIBLE: {"opted_out": True},
        Fact.UNCHALLENGED: {"asks": False},
        Fact.CHALLENGED: {},
        Fact.ALREADY_LOCKED: {"wrong_answers": 3},
        Fact.STILL_LOCKED: {"wrong_answers": 3},
    }
    if row.state is State.FAILED and row.fact in (Fact.SUSPENDED, Fact.DEACTIVATED):
        # The network knows the phone, and still it proves nothing.
        walk.change(**changes[row.fact])
        walk.prove()
        return
    walk.reach(row.state)
    if row.state is State.LOCKED and row.event is Event.ELIGIBILITY and row.fact is Fact.CHALLENGED:
        walk.lab.clock.advance(seconds=600)
        walk.ask()
        walk.lab.clock.advance(seconds=299)
        walk.lab.clock.advance(seconds=1)
    if row.fact in changes:
        walk.change(**changes[row.fact])
    if row.fact is Fact.UNKNOWN_SUBSCRIBER:
        walk.lab.carrier.subscriber = AsyncMock(return_value=None)  # type: ignore[method-assign]
    if row.fact is Fact.LAST_WRONG_ANSWER:
        assert [walk.pay(WRONG), walk.pay(WRONG)] == [2022, 2022]


def perform(walk: Walk, row: Transition) -> int:
    if row.event is Event.START:
        answer = walk.wire.start(DeviceIp=walk.owner.device_ip)
        walk.first = answer.response["VerificationFingerprint"]
        return answer.status
    if row.event is Event.OPEN:
        address = walk.lab.address_of("prepaid") if row.fact is Fact.NOT_IDENTIFIED else walk.owner.device_ip
        answer = walk.wire.open(walk.first, address)
        walk.final = answer.json.get("vfp", walk.final)
        return {200: 0, 410: 2003}[answer.http]
    if row.event is Event.FINISH:
        answer = walk.wire.finish(walk.final or walk.first)
        if answer.status == 0:
            walk.pair = {name: answer.response[name] for name in ("ServiceAlias", "AuthenticationCode")}
        return answer.status
    if row.event is Event.ELIGIBILITY:
        return walk.wire.eligibility(walk.pair).status
    return walk.pay({Fact.WRONG_ANSWER: WRONG, Fact.LAST_WRONG_ANSWER: WRONG, Fact.RIGHT_ANSWER: RIGHT}.get(row.fact))


@pytest.fixture(scope="module")
def patient_lab() -> Iterator[Lab]:
    """A gateway whose codes live as long as they may."""
    lab = Lab(code_life=600)
    yield lab
    lab.gateway.close()


@pytest.fixture
def walk(patient_lab: Lab) -> Iterator[Walk]:
    """The phone of a new person."""
    number = next(_NUMBERS)
    new = {"id": f"walker-{number}", "mobile_number": f"+1303555{number:04}", "device_ip": f"2001:db8:1::f:{number:x}"}
    walk = Walk(patient_lab, replace(people()[0], **new))
    walk.change()
    yield walk
    vars(patient_lab.carrier).pop("subscriber", None)


def named(row: Transition) -> str:
    return f"{row.state}-{row.event.name.lower()}-{row.fact.name.lower()}"


@pytest.mark.parametrize("row", [row for row in TRANSITIONS if row.event is not Event.TIME], ids=named)
def test_every_row_gives_its_status_and_next_state(walk: Walk, row: Transition) -> None:
    arrange(walk, row)
    assert perform(walk, row) == row.status
    assert walk.state() is row.next


@pytest.mark.parametrize("row", [row for row in TRANSITIONS if row.event is Event.TIME], ids=named)
def test_every_row_of_time_gives_its_next_state(walk: Walk, row: Transition) -> None:
    walk.reach(row.state)
    if row.fact is Fact.NEWER_CODE:
        walk.wire.pair(walk.owner.device_ip)
    elif row.fact is Fact.LOCK_OVER:
        walk.lab.clock.advance(seconds=600)
        walk.ask()
        assert walk.state() is State.LOCKED
        walk.lab.clock.advance(seconds=300)
    else:
        walk.lab.clock.advance(seconds=600)
    assert walk.state() is row.next


def test_state_table_is_complete_and_unambiguous() -> None:
    with pytest.raises(KeyError):
        transition(State.NEW, Event.FINISH)
    assert len({(row.state, row.event, row.fact) for row in TRANSITIONS}) == len(TRANSITIONS)
    assert {row.state for row in TRANSITIONS} == set(State)
    reached = {row.next for row in TRANSITIONS} | {State.NEW}
    assert reached == set(State), "every state can be reached"


# -- random orders of calls ------------------------------------------------------------------------------------


@dataclass
class Model:
    """What must be true of one phone's flow, kept without looking at the service."""

    caller: str
    preset: str
    first: str
    ends: int
    #: The first fingerprint is remembered from its own end on, not from that of what came out of it.
    first_ends: int
    final: str = ""
    pair: dict[str, str] = field(default_factory=dict)
    is_opened: bool = False
    is_identified: bool = False
    is_used: bool = False


#: Milliseconds after its end in which an expired or used secret can be told from an unknown one.
REMEMBERED = 900_000
INELIGIBLE = {"prepaid", "opted_out"}
AT_FINISH = {"suspended": 1006, "wifi": 1001, "ported": 1038}
PRESETS = ("happy", "happy", "no_challenge", "prepaid", "opted_out", "suspended", "wifi", "ported")


class AnyOrder(RuleBasedStateMachine):
    """Clients, phones and clock do anything in any order; the model says what must come of it."""

    flows = Bundle("flows")

    def __init__(self) -> None:
        super().__init__()
        self.lab = Lab()
        self.live: dict[tuple[str, str], Model] = {}
        self.all_flows: list[Model] = []

    def teardown(self) -> None:
        stop_later(self.lab.gateway)

    def wire_of(self, caller: str, foreign: bool = False) -> Wire:
        """Return the client of this name, or the other one."""
        return self.lab.books if (caller == "books") is not foreign else self.lab.wire

    @property
    def now(self) -> int:
        return self.lab.clock.now()

    @rule(target=flows, caller=st.sampled_from(["shop", "books"]), preset=st.sampled_from(PRESETS))
    def start(self, caller: str, preset: str) -> Model:
        first = self.wire_of(caller).first(DeviceIp=self.lab.address_of(preset))
        flow = Model(caller, preset, first, self.now + 120_000, self.now + 120_000)
        self.all_flows.append(flow)
        return flow

    def is_forgotten(self, flow: Model) -> bool:
        """Whether its end is so long ago that the service cannot tell it from one that never was."""
        return self.now >= flow.ends + REMEMBERED

    @rule(flow=flows, own_phone=st.booleans())
    def open(self, flow: Model, own_phone: bool) -> None:
        address = self.lab.address_of(flow.preset) if own_phone else "203.0.113.99"
        answer = self.lab.wire.open(flow.first, address)
        if self.now >= flow.first_ends + REMEMBERED:
            assert answer.http == 404
            return
        if flow.is_opened or self.now >= flow.ends:
            assert answer.http == 410
            return
        assert answer.http == 200
        flow.is_opened = True
        flow.final, flow.ends = answer.json["vfp"], self.now + 60_000
        flow.first_ends = flow.ends
        flow.is_identified = own_phone and flow.preset != "wifi"

    @rule(flow=flows, foreign=st.booleans())
    def finish(self, flow: Model, foreign: bool) -> None:
        answer = self.wire_of(flow.caller, foreign).finish(flow.final or flow.first)
        assert answer.status == self.expected_at_finish(flow, foreign)
        if foreign or not flow.is_opened or answer.status in (2001, 2002):
            return
        key = (flow.caller, flow.preset)
        if flow.is_used and self.live.get(key) is flow:
            del self.live[key]
        flow.is_used = True
        if answer.status == 0:
            flow.pair = {name: answer.response[name] for name in ("ServiceAlias", "AuthenticationCode")}
            flow.ends = self.now + 300_000
            self.live[key] = flow

    def expected_at_finish(self, flow: Model, foreign: bool) -> int:
        if foreign or self.is_forgotten(flow):
            return 2001
        if flow.is_used:
            return 2003
        if self.now >= flow.ends:
            return 2002
        if not flow.is_opened:
            return 1039
        return AT_FINISH.get(flow.preset, 0) if flow.is_identified else 1001

    @rule(flow=flows, foreign=st.booleans())
    def eligibility(self, flow: Model, foreign: bool) -> None:
        answer = self.wire_of(flow.caller, foreign).eligibility(flow.pair)
        expected = self.expected_by_code(flow, foreign)
        assert answer.status == expected
        assert expected or answer.response["Eligible"] is (flow.preset not in INELIGIBLE)

    def expected_by_code(self, flow: Model, foreign: bool) -> int:
        if foreign or not flow.pair or self.is_forgotten(flow):
            return 2010
        if self.live.get((flow.caller, flow.preset)) is not flow:
            return 2012
        return 2011 if self.now >= flow.ends else 0

    @rule(seconds=st.sampled_from([1, 30, 59, 60, 119, 299, 900]))
    def time_passes(self, seconds: int) -> None:
        self.lab.clock.advance(seconds=seconds)

    @rule(flow=consumes(flows))
    def forget(self, flow: Model) -> None:
        """Let a caller lose a flow half-way: nothing breaks, and it goes on living at the gateway."""

    @invariant()
    def no_failure_of_ours(self) -> None:
        for raw in self.lab.wire.seen + self.lab.books.seen:
            assert b'"Status":1,' not in raw
        assert all(flow.is_identified for flow in self.all_flows if flow.pair), "a code for an unidentified phone"


@pytest.mark.parametrize(
    ("examples", "steps"), [(20, 30), pytest.param(400, 80, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_random_calls_follow_the_state_table(examples: int, steps: int) -> None:
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=os.environ.get("CI") == "true",
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(AnyOrder, settings=limits)
