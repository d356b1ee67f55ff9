"""The first three operations of the flow, from a phone's IP address to a code, and the check of a code."""

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
from toolkit.identity.service.body_checks import normal_ip_address
from toolkit.identity.service.callers import MAX_LIFE_SECONDS, Caller, IdentitySettings, is_registered
from toolkit.identity.service.carrier import Carrier, PhoneRequest, Subscriber
from toolkit.identity.service.one_time import AuthenticationRecord, Proof, Snapshot, Transaction
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Store

_SECRETS_SPACE, _ALIASES_SPACE = "identity", "identity.aliases"
#: After a secret expires, the record stays for 15 minutes, so that the service can answer "expired" and not "unknown".
_KEPT_AFTER_EXPIRY_MS = 900_000
#: Replaces the hash of an alias's valid code when the code is revoked.
_REVOKED_MARK = b"revoked"


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
        device_ip = normal_ip_address(request.get("DeviceIp"))
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
        await self._write({key: None}, {key: transaction.bytes()}, transaction.expires)
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
        owner = await self._carrier.carrier_of(device_ip)
        if owner is None:
            raise refusal(1003, envelope.NO_CARRIER_HERE)
        if short_code not in (None, owner):
            raise refusal(1038, envelope.CARRIERS_DIFFER)
        return owner

    async def open_target(self, fingerprint: str, request: PhoneRequest) -> Redirect:
        """Use the first fingerprint. If the network does not identify the phone, only `finish` reports this."""
        key = one_time.key_of(Transaction, fingerprint)
        snapshot = await self._read_snapshot(key)
        transaction = Transaction.parse(snapshot[key])
        if transaction is None:
            raise refusal(2001)
        if transaction.state is not State.STARTED:
            raise refusal(transition(transaction.state, Event.OPEN).status)
        if self._world.clock.now() >= transaction.expires:
            raise refusal(transition(transaction.state, Event.TIME, Fact.LIFE_OVER).status)
        return await self._prove(snapshot, key, transaction, request)

    async def _prove(self, snapshot: Snapshot, key: str, transaction: Transaction, request: PhoneRequest) -> Redirect:
        subscriber = await self._carrier.identify(request)
        if transaction.device_ip is None:
            is_this_phone = subscriber is not None and subscriber.carrier == transaction.carrier
        else:
            is_this_phone = request.address == transaction.device_ip
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
        if not await self._write(snapshot, changes, proof.expires):
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
            snapshot = await self._read_snapshot(key)
            proof = Proof.parse(snapshot[key])
            if proof is None or proof.caller != caller.name:
                raise await self._missing_proof_error(caller, fingerprint)
            _check_verifier(proof.code_challenge, request.get("CodeVerifier"))
            if proof.state not in (State.PROVEN, State.FAILED):
                raise await self._revoke_reused(proof)
            if self._world.clock.now() >= proof.expires:
                raise refusal(transition(proof.state, Event.TIME, Fact.LIFE_OVER).status)
            answer = await self._use_proof(snapshot, key, proof)
            if answer is not None:
                return answer

    async def _missing_proof_error(self, caller: Caller, fingerprint: str) -> ServiceError:
        """Return the error for a fingerprint without a proof: a first fingerprint, or an unknown one."""
        key = one_time.key_of(Transaction, fingerprint)
        transaction = Transaction.parse((await self._read_snapshot(key))[key])
        if transaction is None or transaction.caller != caller.name:
            return refusal(2001)
        if transaction.state is not State.STARTED:
            return refusal(1039, envelope.FIRST_FINGERPRINT)
        if self._world.clock.now() >= transaction.expires:
            return refusal(transition(State.STARTED, Event.TIME, Fact.LIFE_OVER).status)
        return refusal(transition(State.STARTED, Event.FINISH).status, envelope.NOT_OPENED)

    async def _revoke_reused(self, proof: Proof) -> ServiceError:
        step = transition(proof.state, Event.FINISH, Fact.REUSED)
        if proof.issued is not None:
            alias, code_hash = proof.issued
            live = one_time.live_code_key(alias)
            # Revokes only the code of this proof: a newer code may belong to the legitimate user.
            await self._write({live: code_hash.encode("ascii")}, {live: _REVOKED_MARK}, proof.expires)
        return refusal(step.status, envelope.REVOKED_BY_REUSE if step.next is State.REVOKED else None)

    async def _use_proof(self, snapshot: Snapshot, key: str, proof: Proof) -> dict[str, Any] | None:
        """Use a proof; return None if another request has changed the record since `snapshot` was read."""
        subscriber = await self._carrier.subscriber(proof.subscriber) if proof.subscriber is not None else None
        step = transition(proof.state, Event.FINISH, _fact_at_finish(proof, subscriber))
        if step.status or subscriber is None:
            if not await self._write(snapshot, {key: replace(proof, state=step.next).bytes()}, proof.expires):
                return None
            raise refusal(step.status, envelope.NOT_BY_NETWORK if step.status == 1001 else None)
        return await self._issue_code(snapshot, key, replace(proof, state=step.next), subscriber)

    async def _issue_code(
        self, snapshot: Snapshot, key: str, proof: Proof, subscriber: Subscriber
    ) -> dict[str, Any] | None:
        alias = await self._alias_of(proof.caller, subscriber.id)
        code = one_time.fresh_token()
        code_hash, live = one_time.hashed(code), one_time.live_code_key(alias)
        expires = self._world.clock.tick() + self._settings.code_life * 1000
        authentication = AuthenticationRecord(
            state=proof.state, expires=expires, caller=proof.caller, alias=alias, subscriber=subscriber.id
        )
        changes = {
            key: replace(proof, issued=(alias, code_hash)).bytes(),
            one_time.key_of(AuthenticationRecord, code): authentication.bytes(),
            # The new code replaces the valid code of the alias, which revokes the old code.
            live: code_hash.encode("ascii"),
        }
        if not await self._write(snapshot, changes, expires):
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
        """Return the user's stored alias for one client; it is random, so that two clients cannot link their users."""
        key = one_time.hashed(f"{len(caller)}:{caller}:{subscriber_id}")
        stored = await self._durable.get(_ALIASES_SPACE, key)
        if stored is not None:
            return stored.decode("ascii")
        fresh = self._world.fresh_id()
        if await self._durable.compare_and_set(_ALIASES_SPACE, {key: None}, {key: fresh.encode("ascii")}):
            return fresh
        # A concurrent request has stored an alias first: return that alias.
        return await self._alias_of(caller, subscriber_id)

    async def authenticate(
        self, caller: Caller, request: dict[str, Any], event: Event
    ) -> tuple[Snapshot, AuthenticationRecord]:
        """Return the record of the request's code; raise 2010 unless alias, code and client belong together."""
        code = request.get("AuthenticationCode") or ""
        key = one_time.key_of(AuthenticationRecord, code)
        alias = request.get("ServiceAlias") or ""
        live = one_time.live_code_key(alias)
        snapshot = await self._read_snapshot(key, live)
        authentication = AuthenticationRecord.parse(snapshot[key])
        if authentication is None or authentication.caller != caller.name:
            raise refusal(2010)
        if not hmac.compare_digest(authentication.alias.encode("ascii"), alias.encode("utf-8", "surrogatepass")):
            raise refusal(2010)
        if snapshot[live] != one_time.hashed(code).encode("ascii"):
            raise refusal(transition(State.REVOKED, event).status)
        if self._world.clock.now() >= authentication.expires:
            raise refusal(transition(State.EXPIRED, event).status, envelope.START_AGAIN)
        return {key: snapshot[key]}, authentication

    async def revoke(self, alias: str) -> bool:
        live = one_time.live_code_key(alias)
        snapshot = await self._read_snapshot(live)
        if snapshot[live] in (None, _REVOKED_MARK):
            return False
        return await self._write(snapshot, {live: _REVOKED_MARK}, self._world.clock.now() + MAX_LIFE_SECONDS * 1000)

    async def store_if_unchanged(self, snapshot: Snapshot, authentication: AuthenticationRecord) -> bool:
        """Store an authentication unless another request has changed the record since `snapshot` was read."""
        return await self._write(snapshot, dict.fromkeys(snapshot, authentication.bytes()), authentication.expires)

    async def _read_snapshot(self, *keys: str) -> Snapshot:
        return {key: await self._records.get(_SECRETS_SPACE, key) for key in keys}

    async def _write(self, snapshot: Snapshot, changes: dict[str, bytes], expires: int) -> bool:
        """Write all changes if the records still equal `snapshot`; of concurrent callers, one succeeds."""
        return await self._records.compare_and_set(_SECRETS_SPACE, snapshot, changes, expires + _KEPT_AFTER_EXPIRY_MS)


def _fact_at_finish(proof: Proof, subscriber: Subscriber | None) -> Fact:
    if subscriber is None:
        return Fact.ANY
    fact = Fact[subscriber.state]
    return Fact.CARRIER_CHANGED if fact is Fact.ACTIVE and subscriber.carrier != proof.carrier else fact


def _check_verifier(challenge: str | None, verifier: str | None) -> None:
    """Check PKCE (RFC 7636, S256 only). A verifier without a challenge is refused too, to prevent a downgrade."""
    if challenge is None or verifier is None:
        if challenge is verifier:
            return
        raise refusal(1000, envelope.VERIFIER_UNASKED if challenge is None else envelope.VERIFIER_NEEDED)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest())
    if not hmac.compare_digest(digest.rstrip(b"="), challenge.encode("ascii")):
        raise refusal(1000, envelope.VERIFIER_MISMATCH)
