"""Mobile identity without HTTP. Checks, in order: client, fields, rate limit, authentication, eligibility, challenge.

No response reveals anything about an alias before authentication has succeeded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid5

from msgspec.structs import replace

from toolkit.errors import ServiceError
from toolkit.identity import envelope, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.flow import Event, Fact, State, transition
from toolkit.identity.service import challenge
from toolkit.identity.service.body_checks import check_fields
from toolkit.identity.service.callers import Caller, IdentitySettings, caller_with
from toolkit.identity.service.carrier import Arrival, Carrier, Payment, SimulatedCarrier, Subscriber
from toolkit.identity.service.challenge import AttemptRepository, Attempts
from toolkit.identity.service.mobile_authentication import MobileAuthentication, Redirect
from toolkit.identity.service.one_time import Authentication, Snapshot
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Records, Store

Body = dict[str, Any]
_Handler = Callable[[Caller, Body], Awaitable[Body]]
_RATES = "identity.rates"
_MINUTE = 60_000


class IdentityService:
    def __init__(self, store: Store, world: OutsideWorld, settings: IdentitySettings) -> None:
        self._world = world
        self.carrier: Carrier = settings.carrier or SimulatedCarrier(settings.carriers, settings.subscribers)
        self._limits = RateLimits(store.ephemeral, world.clock.now, settings)
        self._authentication = MobileAuthentication(store, world, settings, self.carrier)
        self._challenges = AttemptRepository(store.records)
        self.settings = settings
        self._handlers: dict[str, _Handler] = {
            wire.ECHO.name: _echo,
            wire.FINISH.name: self._authentication.finish,
            wire.ELIGIBILITY.name: self._eligibility,
            wire.PAYMENT_LIST.name: self._payment_list,
            wire.PAYMENT_DETAILS.name: self._payment_details,
        }

    async def answer(self, operation: wire.Operation, body: Body, origin: str) -> Body:
        """Execute a POST operation and return the ``Response`` of its envelope.

        The fields of `body` are not checked yet; `origin` is the gateway's scheme and host as the caller used them.
        """
        caller = caller_with(body.get("ApiClientId"), self.settings.clients)
        check_fields(operation, body)
        await self._limits.count_request(caller.name)
        try:
            if operation is wire.START:
                return await self._authentication.start(caller, body, origin)
            return await self._handlers[operation.name](caller, body)
        except ServiceError as error:
            if error.code in envelope.WRONG_FINGERPRINT:
                await self._limits.count_wrong_fingerprint(f"client {caller.name}")
            elif error.code in envelope.GUESSES:
                await self._limits.count_guess(caller.name)
            raise

    async def open_target(self, fingerprint: str, arrival: Arrival) -> Redirect:
        try:
            return await self._authentication.open_target(fingerprint, arrival)
        except ServiceError as error:
            if error.code in envelope.WRONG_FINGERPRINT:
                await self._limits.count_wrong_fingerprint(f"address {arrival.peer}")
            raise

    async def reset(self, alias: str) -> list[str]:
        """Revoke the live code of an alias and forget its wrong answers; return what was done."""
        done = ["the code is revoked"] if await self._authentication.revoke(alias) else []
        if await self._challenges.forget(alias, self._world.clock.now()):
            done.append("the wrong answers are forgotten")
        return done

    async def _eligibility(self, caller: Caller, request: Body) -> Body:
        while True:
            snapshot, authentication = await self._authentication.authenticated(caller, request, Event.ELIGIBILITY)
            subscriber = await self._subscriber_of(authentication)
            now = self._world.clock.now()
            attempts = await self._challenges.attempts(authentication.alias, subscriber, now)
            locked = attempts.seconds_locked(now) > 0
            step = transition(authentication.state, Event.ELIGIBILITY, _eligibility_fact(subscriber, locked))
            asked = step.next in (State.ELIGIBLE, State.LOCKED)
            challenge_id = authentication.challenge_id or (self._world.fresh_id() if asked else None)
            after = replace(authentication, state=step.next, challenge_id=challenge_id)
            if await self._authentication.advance(snapshot, after):
                return _eligibility_answer(after, subscriber, attempts)

    async def _payment_list(self, caller: Caller, request: Body) -> Body:
        authentication, subscriber = await self._unlocked(caller, request)
        payments = _payments_of(authentication, subscriber)
        listed = [_summary(payment_id, payment) for payment_id, payment in payments.items()]
        return {"Count": len(listed), "Payments": listed}

    async def _payment_details(self, caller: Caller, request: Body) -> Body:
        authentication, subscriber = await self._unlocked(caller, request)
        payments = _payments_of(authentication, subscriber)
        asked = [payment_id.lower() for payment_id in request["PaymentIds"]]
        if not payments.keys() >= set(asked):
            # The same error for unknown ids and for ids of other users, without naming the id.
            raise refusal(2030, envelope.PAYMENT_NOT_ON_FILE)
        return {"Payments": [_details(one, payments[one], subscriber) for one in asked]}

    async def _unlocked(self, caller: Caller, request: Body) -> tuple[Authentication, Subscriber]:
        """Check authentication, eligibility, challenge and customer record, in this order; raise the first failure."""
        while True:
            snapshot, authentication = await self._authentication.authenticated(caller, request, Event.PAYMENTS)
            subscriber = await self._subscriber_of(authentication)
            if authentication.state in (State.ELIGIBLE, State.LOCKED):
                if not await self._answer_challenge(snapshot, authentication, subscriber, request):
                    continue
            elif step_status := transition(authentication.state, Event.PAYMENTS).status:
                raise refusal(step_status)
            if subscriber.record != "PRESENT":
                raise refusal(1012)
            return authentication, subscriber

    async def _answer_challenge(
        self, snapshot: Snapshot, authentication: Authentication, subscriber: Subscriber, request: Body
    ) -> bool:
        """Evaluate the answer; return False if the record has changed since it was read."""
        now = self._world.clock.now()
        attempts = await self._challenges.attempts(authentication.alias, subscriber, now)
        state = authentication.state
        if state is State.LOCKED and not attempts.seconds_locked(now):
            state = transition(state, Event.TIME, Fact.LOCK_OVER).next
        if attempts.seconds_locked(now):
            fact = Fact.STILL_LOCKED
        elif request.get("ChallengeAnswer") is None or request["ChallengeId"].lower() != authentication.challenge_id:
            fact = Fact.NO_ANSWER
        else:
            answer = request["ChallengeAnswer"]
            fact, attempts = await self._challenges.evaluate(authentication.alias, subscriber, answer, now)
        step = transition(state, Event.PAYMENTS, fact)
        written = step.next is authentication.state or await self._authentication.advance(
            snapshot, replace(authentication, state=step.next)
        )
        if step.status == 2023:
            raise refusal(2023, retry_after=max(1, attempts.seconds_locked(now)))
        if step.status:
            raise refusal(step.status, envelope.attempts_left_text(attempts.left()) if step.status == 2022 else None)
        return written

    async def _subscriber_of(self, authentication: Authentication) -> Subscriber:
        subscriber = await self.carrier.subscriber(authentication.subscriber)
        if subscriber is None:
            raise refusal(1001)
        return subscriber


async def _echo(caller: Caller, request: Body) -> Body:
    return {"EchoMessage": request["EchoMessage"], "ApiVersion": wire.API_VERSION}


def _ineligible_reason(subscriber: Subscriber) -> str | None:
    if subscriber.opted_out:
        return "OPTED_OUT"
    if subscriber.record == "NONE":
        return "NO_CUSTOMER_RECORD"
    accounts = {"PREPAID": "PREPAID_ACCOUNT", "BUSINESS": "BUSINESS_ACCOUNT"}
    return accounts.get(subscriber.account)


def _eligibility_fact(subscriber: Subscriber, locked: bool) -> Fact:
    if _ineligible_reason(subscriber) is not None:
        return Fact.NOT_ELIGIBLE
    if not subscriber.asks:
        return Fact.UNCHALLENGED
    return Fact.ALREADY_LOCKED if locked else Fact.CHALLENGED


def _eligibility_answer(authentication: Authentication, subscriber: Subscriber, attempts: Attempts) -> Body:
    if authentication.state is State.NOT_ELIGIBLE:
        return {"Eligible": False, "IneligibleReason": _ineligible_reason(subscriber)}
    if authentication.state is State.UNLOCKED:
        return {"Eligible": True, "Challenge": None}
    question = {
        "ChallengeId": authentication.challenge_id,
        "QuestionType": challenge.QUESTION_TYPE,
        "Question": challenge.QUESTION,
        "AnswerFormat": challenge.ANSWER_FORMAT,
        "AttemptsLeft": attempts.left(),
        "ExpiresAt": envelope.time_text(authentication.expires),
    }
    return {"Eligible": True, "Challenge": question}


def _payments_of(authentication: Authentication, subscriber: Subscriber) -> dict[str, Payment]:
    # Derived from the alias, so that two clients get different ids for the same payment.
    scope = UUID(authentication.alias)
    return {str(uuid5(scope, f"payment {n}")): payment for n, payment in enumerate(subscriber.payments)}


def _summary(payment_id: str, payment: Payment) -> Body:
    expiration = (payment.expiration_month, payment.expiration_year)
    values = (payment_id, payment.payment_type, payment.brand, payment.last_four, *expiration, payment.is_default)
    return dict(zip(wire.PAYMENT_FIELDS, values, strict=True))


def _details(payment_id: str, payment: Payment, subscriber: Subscriber) -> Body:
    expiration = (payment.expiration_month, payment.expiration_year)
    values = (payment_id, payment.payment_type, payment.brand, payment.masked_number, *expiration, subscriber.name)
    home = subscriber.address
    address = (home.line1, home.line2, home.city, home.region, home.postal_code, home.country_code)
    billing = dict(zip(wire.ADDRESS_FIELDS, address, strict=True))
    return dict(zip(wire.DETAIL_FIELDS, values, strict=True)) | {"BillingAddress": billing}


class RateLimits:
    """Limits per minute on requests, guesses and wrong fingerprints, shared by all gateways of a store."""

    def __init__(self, ephemeral: Records, now: Callable[[], int], settings: IdentitySettings) -> None:
        self._records, self._now, self._settings = ephemeral, now, settings

    async def count_request(self, caller: str) -> None:
        """Count a request of a known client; refuse it after too many requests or guesses."""
        guesses = await self._records.get(_RATES, f"guesses of {caller}")
        if int(guesses or 0) >= self._settings.failures_a_minute:
            raise self._too_many()
        if not await self._records.increment(_RATES, f"calls of {caller}", self._settings.calls_a_minute, self._end()):
            raise self._too_many()

    async def count_guess(self, caller: str) -> None:
        await self._records.increment(_RATES, f"guesses of {caller}", expires=self._end())

    async def count_wrong_fingerprint(self, sender: str) -> None:
        """Count a wrong fingerprint; valid ones are never limited, because anyone can send wrong ones."""
        count = await self._records.increment(_RATES, f"fingerprints of {sender}", expires=self._end())
        if count > self._settings.failures_a_minute:
            raise self._too_many()

    def _too_many(self) -> ServiceError:
        return refusal(2040, retry_after=max(1, -(-(self._end() - self._now()) // 1000)))

    def _end(self) -> int:
        return (self._now() // _MINUTE + 1) * _MINUTE
