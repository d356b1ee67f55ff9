"""The state machine of an authentication as one table, for the service, the client and the widget.

The service stores the state in the record of the transaction, then of the proof, then of the authentication.
"""

from collections.abc import Iterable
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
    NOT_ELIGIBLE = "not eligible"
    UNLOCKED = "unlocked"
    LOCKED = "locked"
    EXPIRED = "expired"
    REVOKED = "revoked"


def in_words(states: Iterable[State]) -> str:
    """Return the states in which a flow can be, such as ``failed or proven``."""
    return " or ".join(sorted(states))


class Event(StrEnum):
    START = "authenticateByRedirect"
    OPEN = "deviceAuthenticate"
    FINISH = "authenticateByRedirectFinish"
    ELIGIBILITY = "getEligibility"
    PAYMENTS = "getPaymentList / getPaymentDetails"
    #: Time passes, a newer code is issued, or an operator resets the user.
    TIME = "time passes"


class Fact(StrEnum):
    """What the service found out about a request; the next state depends on it."""

    ANY = ""
    IDENTIFIED = "the network identified the phone"
    NOT_IDENTIFIED = "the network did not identify the phone"
    ACTIVE = "the subscriber is active"
    SUSPENDED = "the subscriber is suspended"
    DEACTIVATED = "the subscriber is deactivated"
    CARRIER_CHANGED = "the subscriber is with another carrier"
    UNKNOWN_SUBSCRIBER = "the carrier does not know the subscriber"
    REUSED = "the final fingerprint was used before"
    CHALLENGED = "eligible, with a question"
    UNCHALLENGED = "eligible, without a question"
    ALREADY_LOCKED = "eligible, the question is locked"
    NOT_ELIGIBLE = "not eligible"
    NO_ANSWER = "no answer"
    WRONG_ANSWER = "wrong answer"
    LAST_WRONG_ANSWER = "wrong answer, the last one allowed"
    RIGHT_ANSWER = "right answer"
    STILL_LOCKED = "the question is still locked"
    LOCK_OVER = "the lock has expired"
    LIFE_OVER = "the fingerprint or code has expired"
    NEWER_CODE = "a newer code was issued, or an operator reset the user"


class Transition(NamedTuple):
    """In `state`, an `event` with this `fact` leads to the state `next` and the response `status` (0: success)."""

    state: State
    event: Event
    fact: Fact
    next: State
    status: int


_S, _E, _F = State, Event, Fact

#: All transitions; any other is a bug in the service, and a KeyError in `transition`.
TRANSITIONS: tuple[Transition, ...] = (
    Transition(_S.NEW, _E.START, _F.ANY, _S.STARTED, 0),
    # The phone uses the first fingerprint, once.
    Transition(_S.STARTED, _E.OPEN, _F.IDENTIFIED, _S.PROVEN, 0),
    Transition(_S.STARTED, _E.OPEN, _F.NOT_IDENTIFIED, _S.FAILED, 0),
    Transition(_S.STARTED, _E.FINISH, _F.ANY, _S.STARTED, 1039),
    Transition(_S.STARTED, _E.TIME, _F.LIFE_OVER, _S.EXPIRED, 2002),
    Transition(_S.PROVEN, _E.OPEN, _F.ANY, _S.PROVEN, 2003),
    Transition(_S.FAILED, _E.OPEN, _F.ANY, _S.FAILED, 2003),
    # The caller uses the final fingerprint, once.
    Transition(_S.PROVEN, _E.FINISH, _F.ACTIVE, _S.FINISHED, 0),
    Transition(_S.PROVEN, _E.FINISH, _F.SUSPENDED, _S.REFUSED, 1006),
    Transition(_S.PROVEN, _E.FINISH, _F.DEACTIVATED, _S.REFUSED, 1007),
    Transition(_S.PROVEN, _E.FINISH, _F.CARRIER_CHANGED, _S.REFUSED, 1038),
    Transition(_S.PROVEN, _E.FINISH, _F.UNKNOWN_SUBSCRIBER, _S.REFUSED, 1001),
    Transition(_S.PROVEN, _E.TIME, _F.LIFE_OVER, _S.EXPIRED, 2002),
    Transition(_S.FAILED, _E.FINISH, _F.ANY, _S.REFUSED, 1001),
    Transition(_S.FAILED, _E.FINISH, _F.SUSPENDED, _S.REFUSED, 1006),
    Transition(_S.FAILED, _E.FINISH, _F.DEACTIVATED, _S.REFUSED, 1007),
    Transition(_S.FAILED, _E.TIME, _F.LIFE_OVER, _S.EXPIRED, 2002),
    Transition(_S.REFUSED, _E.FINISH, _F.REUSED, _S.REFUSED, 2003),
    # The code is valid for one client, one alias and a few minutes.
    *(
        row
        for state in (_S.FINISHED, _S.ELIGIBLE, _S.NOT_ELIGIBLE, _S.UNLOCKED, _S.LOCKED)
        for row in (
            Transition(state, _E.FINISH, _F.REUSED, _S.REVOKED, 2003),
            Transition(state, _E.TIME, _F.NEWER_CODE, _S.REVOKED, 2012),
            Transition(state, _E.TIME, _F.LIFE_OVER, _S.EXPIRED, 2011),
        )
    ),
    Transition(_S.FINISHED, _E.PAYMENTS, _F.ANY, _S.FINISHED, 2020),
    *(
        Transition(state, _E.ELIGIBILITY, fact, after, 0)
        for state in (_S.FINISHED, _S.ELIGIBLE, _S.NOT_ELIGIBLE, _S.LOCKED)
        for fact, after in (
            (_F.CHALLENGED, _S.ELIGIBLE),
            (_F.UNCHALLENGED, _S.UNLOCKED),
            (_F.ALREADY_LOCKED, _S.LOCKED),
            (_F.NOT_ELIGIBLE, _S.NOT_ELIGIBLE),
        )
    ),
    Transition(_S.UNLOCKED, _E.ELIGIBILITY, _F.NOT_ELIGIBLE, _S.NOT_ELIGIBLE, 0),
    Transition(_S.UNLOCKED, _E.ELIGIBILITY, _F.ANY, _S.UNLOCKED, 0),
    Transition(_S.NOT_ELIGIBLE, _E.PAYMENTS, _F.ANY, _S.NOT_ELIGIBLE, 1010),
    # The challenge.
    Transition(_S.ELIGIBLE, _E.PAYMENTS, _F.NO_ANSWER, _S.ELIGIBLE, 2021),
    Transition(_S.ELIGIBLE, _E.PAYMENTS, _F.WRONG_ANSWER, _S.ELIGIBLE, 2022),
    Transition(_S.ELIGIBLE, _E.PAYMENTS, _F.LAST_WRONG_ANSWER, _S.LOCKED, 2023),
    Transition(_S.ELIGIBLE, _E.PAYMENTS, _F.STILL_LOCKED, _S.LOCKED, 2023),
    Transition(_S.ELIGIBLE, _E.PAYMENTS, _F.RIGHT_ANSWER, _S.UNLOCKED, 0),
    Transition(_S.LOCKED, _E.PAYMENTS, _F.STILL_LOCKED, _S.LOCKED, 2023),
    Transition(_S.LOCKED, _E.TIME, _F.LOCK_OVER, _S.ELIGIBLE, 0),
    Transition(_S.UNLOCKED, _E.PAYMENTS, _F.ANY, _S.UNLOCKED, 0),
    # Codes that are no longer valid.
    Transition(_S.EXPIRED, _E.ELIGIBILITY, _F.ANY, _S.EXPIRED, 2011),
    Transition(_S.EXPIRED, _E.PAYMENTS, _F.ANY, _S.EXPIRED, 2011),
    Transition(_S.REVOKED, _E.ELIGIBILITY, _F.ANY, _S.REVOKED, 2012),
    Transition(_S.REVOKED, _E.PAYMENTS, _F.ANY, _S.REVOKED, 2012),
    Transition(_S.REVOKED, _E.FINISH, _F.REUSED, _S.REVOKED, 2003),
)

_TRANSITION_OF_CAUSE = {(row.state, row.event, row.fact): row for row in TRANSITIONS}


def transition(state: State, event: Event, fact: Fact = Fact.ANY) -> Transition:
    # A row with ANY applies to every fact that the table does not name for this state and event.
    return _TRANSITION_OF_CAUSE.get((state, event, fact)) or _TRANSITION_OF_CAUSE[state, event, Fact.ANY]
