"""The first three operations of the flow, from an address to a code, and the check of a code."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolkit.errors import ServiceError
from toolkit.identity import envelope, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.flow import Event, Fact, State, transition
from toolkit.identity.service import one_time
from toolkit.identity.service.body_checks import normal_address
from toolkit.identity.service.callers import LONGEST_LIFE, Caller, IdentitySettings, is_registered
from toolkit.identity.service.carrier import Arrival, Carrier, Subscriber
from toolkit.identity.service.one_time import Authentication, Proof, Snapshot, Transaction
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Store

_SPACE, _ALIASES = "identity", "identity.aliases"
#: A record is kept this long after its secret expires, so that "expired" and "used" differ from "unknown".
_KEPT_AFTER_EXPIRY_MS = 900_000
#: Stands for the hash of a code that was the live one.
_REVOKED = b"revoked"


class Redirect(NamedTuple):
    """The final fingerprint, and the final target URL that contains it."""

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
            state=transition(State.NEW, Event.START).next,
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

    async def open_target(self, fingerprint: str, arrival: Arrival) -> Redirect:
        """Use the first fingerprint; only `finish` reports a phone that the network did not identify."""
        key = one_time.key_of(Transaction, fingerprint)
        snapshot = await self._find(key)
        transaction = Transaction.parse(snapshot[key])
        if transaction is None:
            raise refusal(2001)
        if transaction.state is not State.STARTED:
            raise refusal(transition(transaction.state, Event.OPEN).status)
        if self._world.clock.now() >= transaction.expires:
            raise refusal(transition(transaction.state, Event.TIME, Fact.LIFE_OVER).status)
        return await self._prove(snapshot, key, transaction, arrival)

    async def _prove(self, snapshot: Snapshot, key: str, transaction: Transaction, arrival: Arrival) -> Redirect:
        subscriber = await self._carrier.identify(arrival)
        if transaction.device_ip is None:
            is_this_phone = subscriber is not None and subscriber.carrier == transaction.carrier
        else:
            is_this_phone = arrival.address == transaction.device_ip
        subscriber = subscriber if is_this_phone else None
        is_identified = subscriber is not None and subscriber.state == "ACTIVE"
        step = transition(State.STARTED, Event.OPEN, Fact.IDENTIFIED if is_identified else Fact.NOT_IDENTIFIED)
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
        if not await self._change(snapshot, changes, proof.expires):
            raise refusal(transition(step.next, Event.OPEN).status)
        url = transaction.final_target
        return Redirect(final, f"{url}{'&' if '?' in url else '?'}vfp={final}")

    async def finish(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """Exchange the final fingerprint for alias and code.

        A second use is refused and revokes the first code (RFC 6749, 4.1.2), because one caller may be an attacker.
        """
        fingerprint = request["VerificationFingerprint"]
        key = one_time.key_of(Proof, fingerprint)
        while True:
            snapshot = await self._find(key)
            proof = Proof.parse(snapshot[key])
            if proof is None or proof.caller != caller.name:
                raise await self._no_proof(caller, fingerprint)
            _check_verifier(proof.code_challenge, request.get("CodeVerifier"))
            if proof.state not in (State.PROVEN, State.FAILED):
                raise await self._reused(proof)
            if self._world.clock.now() >= proof.expires:
                raise refusal(transition(proof.state, Event.TIME, Fact.LIFE_OVER).status)
            answer = await self._use(snapshot, key, proof)
            if answer is not None:
                return answer

    async def _no_proof(self, caller: Caller, fingerprint: str) -> ServiceError:
        """Return the error for a fingerprint without a proof: the first one, sent too early, or an unknown one."""
        key = one_time.key_of(Transaction, fingerprint)
        transaction = Transaction.parse((await self._find(key))[key])
        if transaction is None or transaction.caller != caller.name:
            return refusal(2001)
        if transaction.state is not State.STARTED:
            return refusal(1039, envelope.FIRST_FINGERPRINT)
        if self._world.clock.now() >= transaction.expires:
            return refusal(transition(State.STARTED, Event.TIME, Fact.LIFE_OVER).status)
        return refusal(transition(State.STARTED, Event.FINISH).status, envelope.NOT_OPENED)

    async def _reused(self, proof: Proof) -> ServiceError:
        step = transition(proof.state, Event.FINISH, Fact.REUSED)
        if proof.issued is not None:
            alias, code_hash = proof.issued
            live = one_time.live_code_key(alias)
            # Revokes only the code of this proof: a newer one may belong to the legitimate user.
            await self._change({live: code_hash.encode("ascii")}, {live: _REVOKED}, proof.expires)
        return refusal(step.status, envelope.REVOKED_BY_REUSE if step.next is State.REVOKED else None)

    async def _use(self, snapshot: Snapshot, key: str, proof: Proof) -> dict[str, Any] | None:
        """Use a proof once; return None if the record has changed since it was read."""
        subscriber = await self._carrier.subscriber(proof.subscriber) if proof.subscriber is not None else None
        step = transition(proof.state, Event.FINISH, _fact_at_finish(proof, subscriber))
        if step.status or subscriber is None:
            if not await self._change(snapshot, {key: replace(proof, state=step.next).bytes()}, proof.expires):
                return None
            raise refusal(step.status, envelope.NOT_BY_NETWORK if step.status == 1001 else None)
        return await self._issue(snapshot, key, replace(proof, state=step.next), subscriber)

    async def _issue(self, snapshot: Snapshot, key: str, proof: Proof, subscriber: Subscriber) -> dict[str, Any] | None:
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
            # The new code replaces the live code of the alias and so revokes it.
            live: code_hash.encode("ascii"),
        }
        if not await self._change(snapshot, changes, expires):
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
        """Return the persistent alias of a user for one client; random, so that two clients cannot link their users."""
        key = one_time.hashed(f"{len(caller)}:{caller}:{subscriber_id}")
        stored = await self._durable.get(_ALIASES, key)
        if stored is not None:
            return stored.decode("ascii")
        fresh = self._world.fresh_id()
        if await self._durable.compare_and_set(_ALIASES, {key: None}, {key: fresh.encode("ascii")}):
            return fresh
        # A concurrent request has stored an alias first: return that one.
        return await self._alias_of(caller, subscriber_id)

    async def authenticated(
        self, caller: Caller, request: dict[str, Any], call: Event
    ) -> tuple[Snapshot, Authentication]:
        """Return the record of an alias and its code; raise 2010 unless they are a pair of this client."""
        code = request.get("AuthenticationCode") or ""
        key = one_time.key_of(Authentication, code)
        alias = request.get("ServiceAlias") or ""
        live = one_time.live_code_key(alias)
        snapshot = await self._find(key, live)
        authentication = Authentication.parse(snapshot[key])
        if authentication is None or authentication.caller != caller.name:
            raise refusal(2010)
        if not hmac.compare_digest(authentication.alias.encode("ascii"), alias.encode("utf-8", "surrogatepass")):
            raise refusal(2010)
        if snapshot[live] != one_time.hashed(code).encode("ascii"):
            raise refusal(transition(State.REVOKED, call).status)
        if self._world.clock.now() >= authentication.expires:
            raise refusal(transition(State.EXPIRED, call).status, envelope.START_AGAIN)
        return {key: snapshot[key]}, authentication

    async def revoke(self, alias: str) -> bool:
        live = one_time.live_code_key(alias)
        snapshot = await self._find(live)
        if snapshot[live] in (None, _REVOKED):
            return False
        return await self._change(snapshot, {live: _REVOKED}, self._world.clock.now() + LONGEST_LIFE * 1000)

    async def advance(self, snapshot: Snapshot, authentication: Authentication) -> bool:
        """Store an authentication if its record has not changed since it was read."""
        return await self._change(snapshot, dict.fromkeys(snapshot, authentication.bytes()), authentication.expires)

    async def _find(self, *keys: str) -> Snapshot:
        return {key: await self._records.get(_SPACE, key) for key in keys}

    async def _change(self, snapshot: Snapshot, changes: dict[str, bytes], expires: int) -> bool:
        """Write all changes if the records are unchanged; of concurrent callers, one succeeds."""
        return await self._records.compare_and_set(_SPACE, snapshot, changes, expires + _KEPT_AFTER_EXPIRY_MS)


def _fact_at_finish(proof: Proof, subscriber: Subscriber | None) -> Fact:
    if subscriber is None:
        return Fact.ANY
    fact = Fact[subscriber.state]
    return Fact.CARRIER_CHANGED if fact is Fact.ACTIVE and subscriber.carrier != proof.carrier else fact


def _check_verifier(challenge: str | None, verifier: str | None) -> None:
    """Check PKCE (RFC 7636, S256 only); a verifier without a challenge is refused too, to prevent a downgrade."""
    if challenge is None or verifier is None:
        if challenge is verifier:
            return
        raise refusal(1000, envelope.VERIFIER_UNASKED if challenge is None else envelope.VERIFIER_NEEDED)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest())
    if not hmac.compare_digest(digest.rstrip(b"="), challenge.encode("ascii")):
        raise refusal(1000, envelope.VERIFIER_MISMATCH)
