"""Mobile identity without HTTP. Checks, in order: client, fields, rate limit, authentication, eligibility, challenge.

No response reveals anything about an alias before authentication has succeeded.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from toolkit.errors import ServiceError, counted
from toolkit.identity import envelope, responses, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.flow import Event, Fact, State, transition
from toolkit_gateway.identity import challenge
from toolkit_gateway.identity.callers import Caller, IdentitySettings, check_fields, find_caller
from toolkit_gateway.identity.carrier import Carrier, Payment, PhoneRequest, SimulatedCarrier, Subscriber
from toolkit_gateway.identity.challenge import WrongAnswerRepository, WrongAnswers
from toolkit_gateway.identity.mobile_authentication import Authentication, MobileAuthentication, Redirect
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Records, Store, Values

Body = dict[str, Any]
_Handler = Callable[[Caller, Body], Awaitable[Struct]]
_RATES_SPACE = "identity.rates"
_MINUTE_MS = 60_000


class IdentityService:
    def __init__(self, store: Store, runtime: Runtime, settings: IdentitySettings) -> None:
        self._runtime = runtime
        self.carrier: Carrier = settings.carrier or SimulatedCarrier(settings.carriers, settings.subscribers)
        self._limits = RateLimits(store.ephemeral, runtime.clock.now, settings)
        self._authentication = MobileAuthentication(store, runtime, settings, self.carrier)
        self._challenges = WrongAnswerRepository(store.records)
        self.settings = settings
        self._handlers: dict[str, _Handler] = {
            wire.ECHO.name: _echo,
            wire.FINISH_AUTH.name: self._authentication.finish,
            wire.GET_ELIGIBILITY.name: self._eligibility,
            wire.GET_PAYMENT_LIST.name: self._payment_list,
            wire.GET_PAYMENT_DETAILS.name: self._payment_details,
        }

    async def execute(self, operation: wire.Operation, body: Body, origin: str) -> Struct:
        """Execute a POST operation and return the ``Response`` for the envelope.

        This method checks the fields of `body`; `origin` is the gateway's scheme and host as the caller used them.
        """
        caller = find_caller(body.get("ApiClientId"), self.settings.clients)
        check_fields(operation, body)
        await self._limits.count_request(caller.name)
        try:
            if operation is wire.START_AUTH:
                return await self._authentication.start(caller, body, origin)
            return await self._handlers[operation.name](caller, body)
        except ServiceError as error:
            if error.code in envelope.WRONG_FINGERPRINT_STATUSES:
                await self._limits.count_wrong_fingerprint(f"client {caller.name}")
            elif error.code in envelope.GUESS_STATUSES:
                await self._limits.count_guess(caller.name)
            raise

    async def open_target(self, fingerprint: str, request: PhoneRequest) -> Redirect:
        try:
            return await self._authentication.open_target(fingerprint, request)
        except ServiceError as error:
            if error.code in envelope.WRONG_FINGERPRINT_STATUSES:
                await self._limits.count_wrong_fingerprint(f"address {request.peer}")
            raise

    async def reset(self, alias: str) -> list[str]:
        """Revoke the valid code of an alias and forget the wrong answers; return a text for each change."""
        changes = ["the code is revoked"] if await self._authentication.revoke(alias) else []
        if await self._challenges.forget(alias, self._runtime.clock.now()):
            changes.append("the wrong answers are forgotten")
        return changes

    async def _eligibility(self, caller: Caller, request: Body) -> responses.Eligibility:
        while True:
            snapshot, authentication = await self._authentication.authenticate(caller, request, Event.ELIGIBILITY)
            subscriber = await self._subscriber_of(authentication)
            now = self._runtime.clock.now()
            _, wrong = await self._challenges.read(authentication.alias, subscriber, now)
            locked = wrong.seconds_locked(now) > 0
            step = transition(authentication.state, Event.ELIGIBILITY, _eligibility_fact(subscriber, locked))
            is_challenged = step.next in (State.ELIGIBLE, State.LOCKED)
            challenge_id = authentication.challenge_id or (self._runtime.fresh_id() if is_challenged else None)
            after = replace(authentication, state=step.next, challenge_id=challenge_id)
            if await self._authentication.store_if_unchanged(snapshot, after):
                return _eligibility_response(after, subscriber, wrong)

    async def _payment_list(self, caller: Caller, request: Body) -> responses.PaymentList:
        payments, _ = await self._authorized_payments(caller, request)
        listed = [_payment_summary(payment_id, payment) for payment_id, payment in payments.items()]
        return responses.PaymentList(len(listed), listed)

    async def _payment_details(self, caller: Caller, request: Body) -> responses.PaymentDetails:
        payments, subscriber = await self._authorized_payments(caller, request)
        requested = [payment_id.lower() for payment_id in request["PaymentIds"]]
        if not payments.keys() >= set(requested):
            # The same error for unknown ids and for ids of other users, without naming the id.
            raise refusal(2030, envelope.PAYMENT_NOT_ON_FILE)
        return responses.PaymentDetails([_payment_detail(name, payments[name], subscriber) for name in requested])

    async def _authorized_payments(self, caller: Caller, request: Body) -> tuple[dict[str, Payment], Subscriber]:
        """Check authentication, eligibility, challenge and customer record; return the payments by id, and the user."""
        while True:
            snapshot, authentication = await self._authentication.authenticate(caller, request, Event.PAYMENTS)
            subscriber = await self._subscriber_of(authentication)
            if authentication.state in (State.ELIGIBLE, State.LOCKED):
                if not await self._answer_challenge(snapshot, authentication, subscriber, request):
                    continue
            elif refused_status := transition(authentication.state, Event.PAYMENTS).status:
                raise refusal(refused_status)
            if subscriber.record != "PRESENT":
                raise refusal(1012)
            # The ids are derived from the alias, so that two clients get different ids for the same payment.
            scope = UUID(authentication.alias)
            payments = {str(uuid5(scope, f"payment {n}")): payment for n, payment in enumerate(subscriber.payments)}
            return payments, subscriber

    async def _answer_challenge(
        self, snapshot: Values, authentication: Authentication, subscriber: Subscriber, request: Body
    ) -> bool:
        """Accept a right answer, refuse any other; return False if the record has changed since `snapshot` was read."""
        now = self._runtime.clock.now()
        _, wrong = await self._challenges.read(authentication.alias, subscriber, now)
        state = authentication.state
        if state is State.LOCKED and not wrong.seconds_locked(now):
            state = transition(state, Event.TIME, Fact.LOCK_OVER).next
        if wrong.seconds_locked(now):
            fact = Fact.STILL_LOCKED
        elif request.get("ChallengeAnswer") is None or request["ChallengeId"].lower() != authentication.challenge_id:
            fact = Fact.NO_ANSWER
        else:
            answer = request["ChallengeAnswer"]
            fact, wrong = await self._challenges.evaluate(authentication.alias, subscriber, answer, now)
        step = transition(state, Event.PAYMENTS, fact)
        is_up_to_date = step.next is authentication.state or await self._authentication.store_if_unchanged(
            snapshot, replace(authentication, state=step.next)
        )
        if step.status == 2023:
            raise refusal(2023, retry_after=max(1, wrong.seconds_locked(now)))
        if step.status:
            attempts = f"{counted(wrong.attempts_left(), 'attempt')} left." if step.status == 2022 else None
            raise refusal(step.status, attempts)
        return is_up_to_date

    async def _subscriber_of(self, authentication: Authentication) -> Subscriber:
        subscriber = await self.carrier.subscriber(authentication.subscriber)
        if subscriber is None:
            raise refusal(1001)
        return subscriber


async def _echo(caller: Caller, request: Body) -> responses.Echo:
    return responses.Echo(request["EchoMessage"], wire.API_VERSION)


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


def _eligibility_response(
    authentication: Authentication, subscriber: Subscriber, wrong: WrongAnswers
) -> responses.Eligibility:
    if authentication.state is State.NOT_ELIGIBLE:
        return responses.Eligibility(False, ineligible_reason=_ineligible_reason(subscriber) or UNSET)
    if authentication.state is State.UNLOCKED:
        return responses.Eligibility(True, challenge=None)
    question = responses.Challenge(
        challenge_id=authentication.challenge_id or "",
        question_type=challenge.QUESTION_TYPE,
        question=challenge.QUESTION,
        answer_format=challenge.ANSWER_FORMAT,
        attempts_left=wrong.attempts_left(),
        expires_at=datetime.fromtimestamp(authentication.expires // 1000, UTC),
    )
    return responses.Eligibility(True, question)


def _payment_summary(payment_id: str, payment: Payment) -> responses.Payment:
    expiration = (payment.expiration_month, payment.expiration_year)
    payment_type, brand, is_default = payment.payment_type, payment.brand, payment.is_default
    return responses.Payment(payment_id, payment_type, brand, payment.last_four, *expiration, is_default)


def _payment_detail(payment_id: str, payment: Payment, subscriber: Subscriber) -> responses.PaymentDetail:
    expiration = (payment.expiration_month, payment.expiration_year)
    payment_type, brand, number = payment.payment_type, payment.brand, payment.masked_number
    address = responses.Address(**asdict(subscriber.address))
    return responses.PaymentDetail(payment_id, payment_type, brand, number, *expiration, subscriber.name, address)


class RateLimits:
    """Limits per minute for all gateways of a store: on requests, wrong guesses and wrong fingerprints."""

    def __init__(self, ephemeral: Records, now: Callable[[], int], settings: IdentitySettings) -> None:
        self._records, self._now, self._settings = ephemeral, now, settings

    async def count_request(self, caller: str) -> None:
        """Count a request of a known client; refuse it after too many requests or wrong guesses."""
        guesses = await self._records.get(_RATES_SPACE, f"guesses of {caller}")
        if int(guesses or 0) >= self._settings.failures_a_minute:
            raise self._rate_limited_error()
        limit = self._settings.calls_a_minute
        if not await self._records.increment(_RATES_SPACE, f"calls of {caller}", limit, self._end_of_minute()):
            raise self._rate_limited_error()

    async def count_guess(self, caller: str) -> None:
        await self._records.increment(_RATES_SPACE, f"guesses of {caller}", expires=self._end_of_minute())

    async def count_wrong_fingerprint(self, sender: str) -> None:
        """Count a wrong fingerprint; valid fingerprints are not limited, because anyone could use up their limit."""
        count = await self._records.increment(_RATES_SPACE, f"fingerprints of {sender}", expires=self._end_of_minute())
        if count > self._settings.failures_a_minute:
            raise self._rate_limited_error()

    def _rate_limited_error(self) -> ServiceError:
        return refusal(2040, retry_after=max(1, -(-(self._end_of_minute() - self._now()) // 1000)))

    def _end_of_minute(self) -> int:
        return (self._now() // _MINUTE_MS + 1) * _MINUTE_MS
