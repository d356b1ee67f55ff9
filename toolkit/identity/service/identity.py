"""The rules in their order: client, fields, rate limit, authentication, eligibility, challenge, payments.

A caller learns nothing about an alias before its authentication has passed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid5

from msgspec.structs import replace

from toolkit.errors import ServiceError
from toolkit.identity import envelope, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.flow import Call, Fact, State, move
from toolkit.identity.service import challenge
from toolkit.identity.service.body_checks import check_fields
from toolkit.identity.service.callers import Caller, IdentitySettings, caller_with
from toolkit.identity.service.carrier import Arrival, Carrier, Payment, SimulatedCarrier, Subscriber
from toolkit.identity.service.challenge import Attempts, ChallengeBook
from toolkit.identity.service.mobile_authentication import MobileAuthentication, Opened
from toolkit.identity.service.one_time import Authentication, Found
from toolkit.identity.service.rate_limits import RateLimits
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Store

Body = dict[str, Any]
_Work = Callable[[Caller, Body], Awaitable[Body]]


class IdentityService:
    def __init__(self, store: Store, world: OutsideWorld, settings: IdentitySettings) -> None:
        self._world = world
        self.carrier: Carrier = settings.carrier or SimulatedCarrier(settings.carriers, settings.subscribers)
        self._limits = RateLimits(store.ephemeral, world.clock.now, settings)
        self._authentication = MobileAuthentication(store, world, settings, self.carrier)
        self._challenges = ChallengeBook(store.records)
        self.settings = settings
        self._work: dict[str, _Work] = {
            wire.ECHO.name: _echo,
            wire.FINISH.name: self._authentication.finish,
            wire.ELIGIBILITY.name: self._eligibility,
            wire.PAYMENT_LIST.name: self._payment_list,
            wire.PAYMENT_DETAILS.name: self._payment_details,
        }

    async def answer(self, operation: wire.Operation, body: Body, origin: str) -> Body:
        """Make a POST call and return the ``Response`` of its envelope; the fields of `body` are not checked yet.

        `origin` is the scheme and host by which the gateway was reached.
        """
        caller = caller_with(body.get("ApiClientId"), self.settings.clients)
        check_fields(operation, body)
        await self._limits.count_call(caller.name)
        try:
            if operation is wire.START:
                return await self._authentication.start(caller, body, origin)
            return await self._work[operation.name](caller, body)
        except ServiceError as error:
            if error.code in envelope.WRONG_FINGERPRINT:
                await self._limits.count_wrong_fingerprint(f"client {caller.name}")
            elif error.code in envelope.GUESSES:
                await self._limits.count_guess(caller.name)
            raise

    async def open_target(self, fingerprint: str, arrival: Arrival) -> Opened:
        try:
            return await self._authentication.open_target(fingerprint, arrival)
        except ServiceError as error:
            if error.code in envelope.WRONG_FINGERPRINT:
                await self._limits.count_wrong_fingerprint(f"address {arrival.peer}")
            raise

    async def _eligibility(self, caller: Caller, request: Body) -> Body:
        while True:
            found, authentication = await self._authentication.authenticated(caller, request, Call.ELIGIBILITY)
            subscriber = await self._subscriber_of(authentication)
            now = self._world.clock.now()
            attempts = await self._challenges.attempts(authentication.alias, subscriber, now)
            locked = attempts.seconds_locked(now) > 0
            step = move(authentication.state, Call.ELIGIBILITY, _eligibility_fact(subscriber, locked))
            asked = step.next in (State.ELIGIBLE, State.LOCKED)
            challenge_id = authentication.challenge_id or (self._world.fresh_id() if asked else None)
            after = replace(authentication, state=step.next, challenge_id=challenge_id)
            if await self._authentication.advance(found, after):
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
            # One answer for unknown ids and for those of others, and it does not say which id it was.
            raise refusal(2030, envelope.PAYMENT_NOT_ON_FILE)
        return {"Payments": [_details(one, payments[one], subscriber) for one in asked]}

    async def _unlocked(self, caller: Caller, request: Body) -> tuple[Authentication, Subscriber]:
        """Pass authentication, eligibility, challenge and record, in this order, or raise at the first that fails."""
        while True:
            found, authentication = await self._authentication.authenticated(caller, request, Call.PAYMENTS)
            subscriber = await self._subscriber_of(authentication)
            if authentication.state in (State.ELIGIBLE, State.LOCKED):
                if not await self._answer_challenge(found, authentication, subscriber, request):
                    continue
            elif step_status := move(authentication.state, Call.PAYMENTS).status:
                raise refusal(step_status)
            if subscriber.record != "PRESENT":
                raise refusal(1012)
            return authentication, subscriber

    async def _answer_challenge(
        self, found: Found, authentication: Authentication, subscriber: Subscriber, request: Body
    ) -> bool:
        """Evaluate the answer; False if the record changed in between and the caller must start over."""
        now = self._world.clock.now()
        attempts = await self._challenges.attempts(authentication.alias, subscriber, now)
        state = authentication.state
        if state is State.LOCKED and not attempts.seconds_locked(now):
            state = move(state, Call.TIME, Fact.LOCK_OVER).next
        if attempts.seconds_locked(now):
            fact = Fact.STILL_LOCKED
        elif request.get("ChallengeAnswer") is None or request["ChallengeId"].lower() != authentication.challenge_id:
            fact = Fact.NO_ANSWER
        else:
            answer = request["ChallengeAnswer"]
            fact, attempts = await self._challenges.evaluate(authentication.alias, subscriber, answer, now)
        step = move(state, Call.PAYMENTS, fact)
        written = step.next is authentication.state or await self._authentication.advance(
            found, replace(authentication, state=step.next)
        )
        if step.status:
            raise _challenge_refusal(step.status, attempts, now)
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


def _challenge_refusal(status: int, attempts: Attempts, now: int) -> ServiceError:
    if status == 2023:
        return refusal(status, retry_after=max(1, attempts.seconds_locked(now)))
    return refusal(status, envelope.attempts_left_text(attempts.left()) if status == 2022 else None)


def _payments_of(authentication: Authentication, subscriber: Subscriber) -> dict[str, Payment]:
    # Derived from the alias, so that an id of one client's user means nothing to another client.
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
