"""The first three calls of the flow, from an address to a code, and the check of a code for all others."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolkit.errors import ServiceError
from toolkit.identity import envelope, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.flow import Call, Fact, State, move
from toolkit.identity.service import one_time
from toolkit.identity.service.body_checks import normal_address
from toolkit.identity.service.callers import Caller, IdentitySettings, is_registered
from toolkit.identity.service.carrier import Arrival, Carrier, Subscriber
from toolkit.identity.service.one_time import Authentication, Found, Proof, Transaction
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Store

_SPACE, _ALIASES = "identity", "identity.aliases"
#: A record outlives its secret by this, so that "expired" and "used" differ from "unknown".
_MILLISECONDS_REMEMBERED = 900_000


class Opened(NamedTuple):
    """The final fingerprint, and the URL to which a browser is redirected with it."""

    fingerprint: str
    location: str


class MobileAuthentication:
    def __init__(self, store: Store, world: OutsideWorld, settings: IdentitySettings, carrier: Carrier) -> None:
        self._records = store.ephemeral
        self._durable = store.records
        self._world = world
        self._carrier = carrier
        self._settings = settings

    async def start(self, caller: Caller, request: dict[str, Any], origin: str) -> dict[str, Any]:
        device_ip = normal_address(request.get("DeviceIp"))
        carrier = await self._carrier_for(device_ip, request.get("CarrierShortCode"))
        if not is_registered(request["FinalTargetUrl"], caller.final_targets):
            raise refusal(1000, envelope.NOT_REGISTERED)
        fingerprint, seconds = one_time.fresh_token(), self._settings.first_life
        transaction = Transaction(
            state=move(State.NEW, Call.START).next,
            expires=self._world.clock.tick() + seconds * 1000,
            caller=caller.name,
            carrier=carrier,
            device_ip=device_ip,
            final_target=request["FinalTargetUrl"],
            code_challenge=request.get("CodeChallenge"),
        )
        key = one_time.key_of(Transaction, fingerprint)
        await self._change({key: None}, {key: transaction.bytes()}, transaction.expires)
        return {
            "AuthenticateTransactionId": self._world.fresh_id(),
            "TargetUrl": f"{origin}{wire.OPEN_TARGET.path_for()}?vfp={fingerprint}",
            "VerificationFingerprint": fingerprint,
            "ExpiresIn": seconds,
        }

    async def _carrier_for(self, device_ip: str | None, short_code: str | None) -> str:
        if device_ip is None and short_code is None:
            raise refusal(1000, envelope.ADDRESS_OR_CARRIER)
        if short_code is not None and not await self._carrier.supports(short_code):
            raise refusal(1003, envelope.NO_SUCH_CARRIER)
        if device_ip is None:
            return short_code or ""
        serving = await self._carrier.serving(device_ip)
        if serving is None:
            raise refusal(1003, envelope.NO_CARRIER_HERE)
        if short_code not in (None, serving):
            raise refusal(1038, envelope.CARRIERS_DIFFER)
        return serving

    async def open_target(self, fingerprint: str, arrival: Arrival) -> Opened:
        """Use the first fingerprint; if the network does not identify the phone, only `finish` says so."""
        key = one_time.key_of(Transaction, fingerprint)
        found = await self._find(key)
        transaction = Transaction.parse(found[key])
        if transaction is None:
            raise refusal(2001)
        if transaction.state is not State.STARTED:
            raise refusal(move(transaction.state, Call.OPEN).status)
        if self._world.clock.now() >= transaction.expires:
            raise refusal(move(transaction.state, Call.TIME, Fact.LIFE_OVER).status)
        return await self._prove(found, key, transaction, arrival)

    async def _prove(self, found: Found, key: str, transaction: Transaction, arrival: Arrival) -> Opened:
        subscriber = await self._carrier.identify(arrival)
        if subscriber is not None and not _is_this_phone(transaction, subscriber, arrival):
            subscriber = None
        is_identified = subscriber is not None and subscriber.state == "ACTIVE"
        step = move(State.STARTED, Call.OPEN, Fact.IDENTIFIED if is_identified else Fact.NOT_IDENTIFIED)
        proof = Proof(
            state=step.next,
            expires=self._world.clock.tick() + self._settings.final_life * 1000,
            caller=transaction.caller,
            carrier=transaction.carrier,
            code_challenge=transaction.code_challenge,
            subscriber=subscriber.id if subscriber is not None else None,
        )
        final = one_time.fresh_token()
        changes = {key: replace(transaction, state=step.next).bytes(), one_time.key_of(Proof, final): proof.bytes()}
        if not await self._change(found, changes, proof.expires):
            raise refusal(move(step.next, Call.OPEN).status)
        url = transaction.final_target
        return Opened(final, f"{url}{'&' if '?' in url else '?'}vfp={final}")

    async def finish(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """Exchange the final fingerprint for alias and code.

        A second use is refused and revokes the code of the first (RFC 6749, 4.1.2), as one of the two was a thief.
        """
        fingerprint = request["VerificationFingerprint"]
        key = one_time.key_of(Proof, fingerprint)
        while True:
            found = await self._find(key)
            proof = Proof.parse(found[key])
            if proof is None or proof.caller != caller.name:
                raise await self._no_proof(caller, fingerprint)
            _check_verifier(proof.code_challenge, request.get("CodeVerifier"))
            if proof.state not in (State.PROVEN, State.FAILED):
                raise await self._reused(proof)
            if self._world.clock.now() >= proof.expires:
                raise refusal(move(proof.state, Call.TIME, Fact.LIFE_OVER).status)
            answer = await self._use(found, key, proof)
            if answer is not None:
                return answer

    async def _no_proof(self, caller: Caller, fingerprint: str) -> ServiceError:
        """Return why there is no such proof: a first fingerprint sent too early, or an unknown one."""
        key = one_time.key_of(Transaction, fingerprint)
        transaction = Transaction.parse((await self._find(key))[key])
        if transaction is None or transaction.caller != caller.name:
            return refusal(2001)
        if transaction.state is not State.STARTED:
            return refusal(1039, envelope.FIRST_FINGERPRINT)
        if self._world.clock.now() >= transaction.expires:
            return refusal(move(State.STARTED, Call.TIME, Fact.LIFE_OVER).status)
        return refusal(move(State.STARTED, Call.FINISH).status, envelope.NOT_OPENED)

    async def _reused(self, proof: Proof) -> ServiceError:
        step = move(proof.state, Call.FINISH, Fact.REUSED)
        if proof.issued is not None:
            alias, code_hash = proof.issued
            live = one_time.live_code_key(alias)
            # Only this proof's own code: a newer one may belong to the rightful user.
            await self._change({live: code_hash.encode("ascii")}, {live: b"revoked"}, proof.expires)
        return refusal(step.status, envelope.REVOKED_BY_REUSE if step.next is State.REVOKED else None)

    async def _use(self, found: Found, key: str, proof: Proof) -> dict[str, Any] | None:
        """Use a proof once; None if another caller changed a record in between."""
        subscriber = await self._carrier.subscriber(proof.subscriber) if proof.subscriber is not None else None
        step = move(proof.state, Call.FINISH, _fact_at_finish(proof, subscriber))
        if step.status or subscriber is None:
            if not await self._change(found, {key: replace(proof, state=step.next).bytes()}, proof.expires):
                return None
            raise refusal(step.status, envelope.NOT_BY_NETWORK if step.status == 1001 else None)
        return await self._issue(found, key, replace(proof, state=step.next), subscriber)

    async def _issue(self, found: Found, key: str, proof: Proof, subscriber: Subscriber) -> dict[str, Any] | None:
        alias = await self._alias_of(proof.caller, subscriber.id)
        code = one_time.fresh_token()
        code_hash, live = one_time.hashed(code), one_time.live_code_key(alias)
        expires = self._world.clock.tick() + self._settings.code_life * 1000
        authentication = Authentication(
            state=proof.state, expires=expires, caller=proof.caller, alias=alias, subscriber=subscriber.id
        )
        changes = {
            key: replace(proof, issued=(alias, code_hash)).bytes(),
            one_time.key_of(Authentication, code): authentication.bytes(),
            # Replaces the alias's live code, which revokes an older one.
            live: code_hash.encode("ascii"),
        }
        if not await self._change(found, changes, expires):
            return None
        return {
            "AuthenticateFinishTransactionId": self._world.fresh_id(),
            "ServiceAlias": alias,
            "AuthenticationCode": code,
            "AuthenticationExpiration": envelope.time_text(expires),
            "MobileNumber": subscriber.masked_number,
            "MobileCountryCode": subscriber.address.country_code,
            "MobileOperatorName": await self._carrier.name_of(subscriber.carrier),
        }

    async def _alias_of(self, caller: str, subscriber_id: str) -> str:
        """Return the alias of this pair: it never changes, and it is random, so two clients cannot compare theirs."""
        key = one_time.hashed(f"{len(caller)}:{caller}:{subscriber_id}")
        stored = await self._durable.get(_ALIASES, key)
        if stored is not None:
            return stored.decode("ascii")
        fresh = self._world.fresh_id()
        if await self._durable.compare_and_set(_ALIASES, {key: None}, {key: fresh.encode("ascii")}):
            return fresh
        # Two calls made the first alias at once: one was stored, and both return it.
        return await self._alias_of(caller, subscriber_id)

    async def authenticated(self, caller: Caller, request: dict[str, Any], call: Call) -> tuple[Found, Authentication]:
        """Return the record of an alias and its code; missing, unknown, foreign and mismatched ones all get 2010."""
        code = request.get("AuthenticationCode") or ""
        key = one_time.key_of(Authentication, code)
        live = one_time.live_code_key(request.get("ServiceAlias") or "")
        found = await self._find(key, live)
        authentication = Authentication.parse(found[key])
        if authentication is None or not _is_pair(authentication, caller, request):
            raise refusal(2010)
        if found[live] != one_time.hashed(code).encode("ascii"):
            raise refusal(move(State.REVOKED, call).status)
        if self._world.clock.now() >= authentication.expires:
            raise refusal(move(State.EXPIRED, call).status, envelope.START_AGAIN)
        return {key: found[key]}, authentication

    async def advance(self, found: Found, authentication: Authentication) -> bool:
        """Store an authentication if its record is still as it was found."""
        return await self._change(found, dict.fromkeys(found, authentication.bytes()), authentication.expires)

    async def _find(self, *keys: str) -> Found:
        return {key: await self._records.get(_SPACE, key) for key in keys}

    async def _change(self, found: Found, changes: dict[str, bytes], expires: int) -> bool:
        """Make all changes if the records are still as they were found: of many callers at once, one succeeds."""
        return await self._records.compare_and_set(_SPACE, found, changes, expires + _MILLISECONDS_REMEMBERED)


def _is_this_phone(transaction: Transaction, subscriber: Subscriber, arrival: Arrival) -> bool:
    if transaction.device_ip is not None:
        return arrival.address == transaction.device_ip
    return subscriber.carrier == transaction.carrier


def _fact_at_finish(proof: Proof, subscriber: Subscriber | None) -> Fact:
    if subscriber is None:
        return Fact.ANY
    fact = Fact[subscriber.state]
    return Fact.CARRIER_CHANGED if fact is Fact.ACTIVE and subscriber.carrier != proof.carrier else fact


def _is_pair(authentication: Authentication, caller: Caller, request: dict[str, Any]) -> bool:
    given = (request.get("ServiceAlias") or "").encode("utf-8", "surrogatepass")
    fits = hmac.compare_digest(authentication.alias.encode("ascii"), given)
    return fits and authentication.caller == caller.name


def _check_verifier(challenge: str | None, verifier: str | None) -> None:
    """Check PKCE (RFC 7636, S256 only); a verifier without a challenge is refused too, or a downgrade would pass."""
    if challenge is None or verifier is None:
        if challenge is verifier:
            return
        raise refusal(1000, envelope.VERIFIER_UNASKED if challenge is None else envelope.VERIFIER_NEEDED)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest())
    if not hmac.compare_digest(digest.rstrip(b"="), challenge.encode("ascii")):
        raise refusal(1000, envelope.VERIFIER_MISMATCH)
