"""The state machine of an authentication as one table: the service obeys it, the tests walk it, the widget draws it.

The record that holds the state changes on the way: first a transaction, then a proof, then an authentication.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    NEW = "new"
    STARTED = "started"
    PROVEN = "proven"
    FAILED = "failed"
    REFUSED = "refused"
    FINISHED = "finished"
    ELIGIBLE = "eligible"
    NOT_ELIGIBLE = "not_eligible"
    UNLOCKED = "unlocked"
    LOCKED = "locked"
    EXPIRED = "expired"
    REVOKED = "revoked"


class Call(StrEnum):
    START = "authenticateByRedirect"
    OPEN = "deviceAuthenticate"
    FINISH = "authenticateByRedirectFinish"
    ELIGIBILITY = "getEligibility"
    PAYMENTS = "getPaymentList / getPaymentDetails"
    TIME = "time passes"


class Fact(StrEnum):
    ANY = ""
    IDENTIFIED = "the network identified the phone"
    NOT_IDENTIFIED = "the network did not identify the phone"
    ACTIVE = "the subscriber is active"
    SUSPENDED = "the subscriber is suspended"
    DEACTIVATED = "the subscriber is deactivated"
    CARRIER_CHANGED = "the subscriber is with another carrier"
    REUSED = "the final fingerprint was used before"
    CHALLENGED = "eligible, with a question"
    UNCHALLENGED = "eligible, without a question"
    ALREADY_LOCKED = "eligible, the question is locked"
    NOT_ELIGIBLE = "not eligible"
    NO_ANSWER = "no answer"
    WRONG_ANSWER = "wrong answer"
    LAST_WRONG_ANSWER = "wrong answer, the last one allowed"
    RIGHT_ANSWER = "right answer"
    STILL_LOCKED = "the lock holds"
    LOCK_OVER = "the lock is over"
    LIFE_OVER = "its life is over"
    NEWER_CODE = "a newer code was issued"


class Move(NamedTuple):
    """In `state`, a `call` that finds `fact` leads to `next` and answers `status` (0 is success)."""

    state: State
    call: Call
    fact: Fact
    next: State
    status: int


class ImpossibleMove(LookupError):
    """The table has no such row: a bug in the service."""


_S, _C, _F = State, Call, Fact

#: Every move there is; any other raises ImpossibleMove.
MOVES: tuple[Move, ...] = (
    Move(_S.NEW, _C.START, _F.ANY, _S.STARTED, 0),
    # The phone uses the first fingerprint, once.
    Move(_S.STARTED, _C.OPEN, _F.IDENTIFIED, _S.PROVEN, 0),
    Move(_S.STARTED, _C.OPEN, _F.NOT_IDENTIFIED, _S.FAILED, 0),
    Move(_S.STARTED, _C.FINISH, _F.ANY, _S.STARTED, 1039),
    Move(_S.STARTED, _C.TIME, _F.LIFE_OVER, _S.EXPIRED, 2002),
    Move(_S.PROVEN, _C.OPEN, _F.ANY, _S.PROVEN, 2003),
    Move(_S.FAILED, _C.OPEN, _F.ANY, _S.FAILED, 2003),
    # The caller uses the final fingerprint, once.
    Move(_S.PROVEN, _C.FINISH, _F.ACTIVE, _S.FINISHED, 0),
    Move(_S.PROVEN, _C.FINISH, _F.SUSPENDED, _S.REFUSED, 1006),
    Move(_S.PROVEN, _C.FINISH, _F.DEACTIVATED, _S.REFUSED, 1007),
    Move(_S.PROVEN, _C.FINISH, _F.CARRIER_CHANGED, _S.REFUSED, 1038),
    Move(_S.PROVEN, _C.TIME, _F.LIFE_OVER, _S.EXPIRED, 2002),
    Move(_S.FAILED, _C.FINISH, _F.ANY, _S.REFUSED, 1001),
    Move(_S.FAILED, _C.FINISH, _F.SUSPENDED, _S.REFUSED, 1006),
    Move(_S.FAILED, _C.FINISH, _F.DEACTIVATED, _S.REFUSED, 1007),
    Move(_S.FAILED, _C.TIME, _F.LIFE_OVER, _S.EXPIRED, 2002),
    Move(_S.REFUSED, _C.FINISH, _F.REUSED, _S.REFUSED, 2003),
    # The code: good for one client, one alias and a few minutes.
    *(
        row
        for state in (_S.FINISHED, _S.ELIGIBLE, _S.NOT_ELIGIBLE, _S.UNLOCKED, _S.LOCKED)
        for row in (
            Move(state, _C.FINISH, _F.REUSED, _S.REVOKED, 2003),
            Move(state, _C.TIME, _F.NEWER_CODE, _S.REVOKED, 2012),
            Move(state, _C.TIME, _F.LIFE_OVER, _S.EXPIRED, 2011),
        )
    ),
    Move(_S.FINISHED, _C.PAYMENTS, _F.ANY, _S.FINISHED, 2020),
    *(
        Move(state, _C.ELIGIBILITY, fact, after, 0)
        for state in (_S.FINISHED, _S.ELIGIBLE, _S.NOT_ELIGIBLE, _S.LOCKED)
        for fact, after in (
            (_F.CHALLENGED, _S.ELIGIBLE),
            (_F.UNCHALLENGED, _S.UNLOCKED),
            (_F.ALREADY_LOCKED, _S.LOCKED),
            (_F.NOT_ELIGIBLE, _S.NOT_ELIGIBLE),
        )
    ),
    Move(_S.UNLOCKED, _C.ELIGIBILITY, _F.NOT_ELIGIBLE, _S.NOT_ELIGIBLE, 0),
    Move(_S.UNLOCKED, _C.ELIGIBILITY, _F.ANY, _S.UNLOCKED, 0),
    Move(_S.NOT_ELIGIBLE, _C.PAYMENTS, _F.ANY, _S.NOT_ELIGIBLE, 1010),
    # The challenge.
    Move(_S.ELIGIBLE, _C.PAYMENTS, _F.NO_ANSWER, _S.ELIGIBLE, 2021),
    Move(_S.ELIGIBLE, _C.PAYMENTS, _F.WRONG_ANSWER, _S.ELIGIBLE, 2022),
    Move(_S.ELIGIBLE, _C.PAYMENTS, _F.LAST_WRONG_ANSWER, _S.LOCKED, 2023),
    Move(_S.ELIGIBLE, _C.PAYMENTS, _F.STILL_LOCKED, _S.LOCKED, 2023),
    Move(_S.ELIGIBLE, _C.PAYMENTS, _F.RIGHT_ANSWER, _S.UNLOCKED, 0),
    Move(_S.LOCKED, _C.PAYMENTS, _F.STILL_LOCKED, _S.LOCKED, 2023),
    Move(_S.LOCKED, _C.TIME, _F.LOCK_OVER, _S.ELIGIBLE, 0),
    Move(_S.UNLOCKED, _C.PAYMENTS, _F.ANY, _S.UNLOCKED, 0),
    # The ends.
    Move(_S.EXPIRED, _C.ELIGIBILITY, _F.ANY, _S.EXPIRED, 2011),
    Move(_S.EXPIRED, _C.PAYMENTS, _F.ANY, _S.EXPIRED, 2011),
    Move(_S.REVOKED, _C.ELIGIBILITY, _F.ANY, _S.REVOKED, 2012),
    Move(_S.REVOKED, _C.PAYMENTS, _F.ANY, _S.REVOKED, 2012),
    Move(_S.REVOKED, _C.FINISH, _F.REUSED, _S.REVOKED, 2003),
)

_BY_CAUSE = {(row.state, row.call, row.fact): row for row in MOVES}


def move(state: State, call: Call, fact: Fact = Fact.ANY) -> Move:
    row = _BY_CAUSE.get((state, call, fact)) or _BY_CAUSE.get((state, call, Fact.ANY))
    if row is None:
        raise ImpossibleMove(f"{state}, {call}, {fact}")
    return row
