"""The first three operations of the flow, from a phone's IP address to a code, and the check of a code."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from toolkit.errors import ServiceError
from toolkit.identity import envelope, responses, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.flow import Event, Fact, State, transition
from toolkit_gateway.identity.callers import MAX_LIFE_SECONDS, Caller, IdentitySettings, is_registered
from toolkit_gateway.identity.carrier import Carrier, PhoneRequest, Subscriber, normal_ip_address
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Store, Values

_SECRETS_SPACE, _ALIASES_SPACE = "identity", "identity.aliases"
#: After a secret expires, the record stays for 15 minutes, so that the service can answer "expired" and not "unknown".
_KEPT_AFTER_EXPIRY_MS = 900_000
#: Replaces the hash of an alias's valid code when the code is revoked.
_REVOKED_MARK = b"revoked"

#: What a secret is: the first fingerprint, the final fingerprint, or the code.
_SecretKind = Literal["transaction", "proof", "authentication"]


class Authentication(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a flow. Each of the first fingerprint, the final fingerprint and the code has a record."""

    state: State
    #: When the secret expires, in milliseconds since the epoch.
    expires: int
    caller: str
    carrier: str
    device_ip: str | None
    final_target: str
    code_challenge: str | None
    #: The owner of the phone, if the network identified it.
    subscriber: str = ""
    #: The user's alias and the hash of the code, set when the final fingerprint is exchanged for them.
    alias: str = ""
    code_hash: str = ""
    challenge_id: str | None = None


class Redirect(NamedTuple):
    """The final fingerprint, and the final target URL that contains it."""

    fingerprint: str
    location: str


class MobileAuthentication:
    def __init__(self, store: Store, runtime: Runtime, settings: IdentitySettings, carrier: Carrier) -> None:
        self._records = store.ephemeral
        self._durable = store.records
        self._runtime = runtime
        self._carrier = carrier
        self._settings = settings

    async def start(self, caller: Caller, request: dict[str, Any], origin: str) -> responses.Started:
        device_ip = normal_ip_address(request.get("DeviceIp"))
        carrier = await self._carrier_for(device_ip, request.get("CarrierShortCode"))
        if not is_registered(request["FinalTargetUrl"], caller.final_targets):
            raise refusal(1000, envelope.NOT_REGISTERED)
        fingerprint, seconds = fresh_token(), self._settings.first_life
        transaction = Authentication(
            state=transition(State.NEW, Event.START).next,
            expires=self._runtime.clock.tick() + seconds * 1000,
            caller=caller.name,
            carrier=carrier,
            device_ip=device_ip,
            final_target=request["FinalTargetUrl"],
            code_challenge=request.get("CodeChallenge"),
        )
        key = _key("transaction", fingerprint)
        await self._write({key: None}, {key: transaction}, transaction.expires)
        target_url = f"{origin}{wire.OPEN_TARGET.path_for()}?vfp={fingerprint}"
        return responses.Started(self._runtime.fresh_id(), target_url, fingerprint, seconds)

    async def _carrier_for(self, device_ip: str | None, short_code: str | None) -> str:
        if device_ip is None and short_code is None:
            raise refusal(1000, envelope.ADDRESS_OR_CARRIER)
        if short_code is not None and not await self._carrier.supports(short_code):
            raise refusal(1003, envelope.NO_SUCH_CARRIER)
        if device_ip is None:
            return short_code or ""
        carrier = await self._carrier.carrier_of(device_ip)
        if carrier is None:
            raise refusal(1003, envelope.NO_CARRIER_HERE)
        if short_code not in (None, carrier):
            raise refusal(1038, envelope.CARRIERS_DIFFER)
        return carrier

    async def open_target(self, fingerprint: str, request: PhoneRequest) -> Redirect:
        """Exchange the first fingerprint for the final one; only `finish` reports that the phone was not identified."""
        snapshot, transaction = await self._read("transaction", fingerprint)
        if transaction is None:
            raise refusal(2001)
        if transaction.state is not State.STARTED:
            raise refusal(transition(transaction.state, Event.OPEN).status)
        self._check_life(transaction)
        subscriber = await self._carrier.identify(request)
        if transaction.device_ip is None:
            is_this_phone = subscriber is not None and subscriber.carrier == transaction.carrier
        else:
            is_this_phone = request.address == transaction.device_ip
        owner = subscriber if is_this_phone else None
        is_identified = owner is not None and owner.state == "ACTIVE"
        step = transition(State.STARTED, Event.OPEN, Fact.IDENTIFIED if is_identified else Fact.NOT_IDENTIFIED)
        used, final = replace(transaction, state=step.next), fresh_token()
        expires = self._runtime.clock.tick() + self._settings.final_life * 1000
        proof = replace(used, expires=expires, subscriber=owner.id if owner is not None else "")
        if not await self._write(snapshot, dict.fromkeys(snapshot, used) | {_key("proof", final): proof}, expires):
            raise refusal(transition(step.next, Event.OPEN).status)
        url = transaction.final_target
        return Redirect(final, f"{url}{'&' if '?' in url else '?'}vfp={final}")

    async def finish(self, caller: Caller, request: dict[str, Any]) -> responses.Finished:
        """Exchange the final fingerprint for alias and code.

        A second use is refused and revokes the first code (RFC 6749, 4.1.2), because one caller may be an attacker.
        """
        fingerprint = request["VerificationFingerprint"]
        while True:
            snapshot, proof = await self._read("proof", fingerprint)
            if proof is None or proof.caller != caller.name:
                raise await self._missing_proof_error(caller, fingerprint)
            _check_verifier(proof.code_challenge, request.get("CodeVerifier"))
            if proof.state not in (State.PROVEN, State.FAILED):
                raise await self._revoke_and_refuse(proof)
            self._check_life(proof)
            if finished := await self._use_proof(snapshot, proof):
                return finished

    async def _missing_proof_error(self, caller: Caller, fingerprint: str) -> ServiceError:
        """Return the error for a fingerprint without a proof: a first fingerprint, or an unknown one."""
        _, transaction = await self._read("transaction", fingerprint)
        if transaction is None or transaction.caller != caller.name:
            return refusal(2001)
        if transaction.state is not State.STARTED:
            return refusal(1039, envelope.FINAL_FINGERPRINT_NEEDED)
        self._check_life(transaction)
        return refusal(transition(State.STARTED, Event.FINISH).status, envelope.NOT_OPENED)

    async def _revoke_and_refuse(self, proof: Authentication) -> ServiceError:
        """Revoke the code of a proof that is used again, and return the error."""
        step = transition(proof.state, Event.FINISH, Fact.REUSED)
        if proof.code_hash:
            key = _live_code_key(proof.alias)
            # Revokes only the code of this proof: a newer code may belong to the legitimate user.
            await self._write({key: proof.code_hash.encode("ascii")}, {key: _REVOKED_MARK}, proof.expires)
        return refusal(step.status, envelope.REVOKED_BY_REUSE if step.next is State.REVOKED else None)

    async def _use_proof(self, snapshot: Values, proof: Authentication) -> responses.Finished | None:
        """Exchange a proof for a code, or raise a refusal; None if the record has changed since `snapshot` was read."""
        subscriber = await self._carrier.subscriber(proof.subscriber) if proof.subscriber else None
        step = transition(proof.state, Event.FINISH, _fact_at_finish(proof, subscriber))
        used = replace(proof, state=step.next)
        if step.status or subscriber is None:
            if not await self.store_if_unchanged(snapshot, used):
                return None
            raise refusal(step.status, envelope.NOT_BY_NETWORK if step.status == 1001 else None)
        return await self._issue_code(snapshot, used, subscriber)

    async def _issue_code(
        self, snapshot: Values, proof: Authentication, subscriber: Subscriber
    ) -> responses.Finished | None:
        alias, code = await self._alias_of(proof.caller, subscriber.id), fresh_token()
        issued = replace(proof, alias=alias, code_hash=_hash_of(code))
        expires = self._runtime.clock.tick() + self._settings.code_life * 1000
        changes: dict[str, bytes | Authentication] = {
            **dict.fromkeys(snapshot, issued),
            _key("authentication", code): replace(issued, expires=expires),
            # The new code replaces the valid code of the alias, which revokes the old code.
            _live_code_key(alias): issued.code_hash.encode("ascii"),
        }
        if not await self._write(snapshot, changes, expires):
            return None
        return responses.Finished(
            authenticate_finish_transaction_id=self._runtime.fresh_id(),
            service_alias=alias,
            authentication_code=code,
            authentication_expiration=datetime.fromtimestamp(expires // 1000, UTC),
            mobile_number=subscriber.masked_number,
            mobile_country_code=subscriber.address.country_code,
            mobile_operator_name=await self._carrier.name_of(subscriber.carrier),
        )

    async def _alias_of(self, caller: str, subscriber_id: str) -> str:
        """Return the user's stored alias for one client; it is random, so that two clients cannot link their users."""
        key = _hash_of(f"{len(caller)}:{caller}:{subscriber_id}")
        stored = await self._durable.get(_ALIASES_SPACE, key)
        if stored is not None:
            return stored.decode("ascii")
        new_alias = self._runtime.fresh_id()
        if await self._durable.compare_and_set(_ALIASES_SPACE, {key: None}, {key: new_alias.encode("ascii")}):
            return new_alias
        # A concurrent request has stored an alias first: return that alias.
        return await self._alias_of(caller, subscriber_id)

    async def authenticate(
        self, caller: Caller, request: dict[str, Any], event: Event
    ) -> tuple[Values, Authentication]:
        """Return the record of the request's code; raise 2010 unless alias, code and client belong together."""
        code, alias = request.get("AuthenticationCode") or "", request.get("ServiceAlias") or ""
        snapshot, authentication = await self._read("authentication", code)
        live_hash = await self._records.get(_SECRETS_SPACE, _live_code_key(alias))
        if authentication is None or authentication.caller != caller.name:
            raise refusal(2010)
        if not hmac.compare_digest(authentication.alias.encode("ascii"), alias.encode("utf-8", "surrogatepass")):
            raise refusal(2010)
        if live_hash != authentication.code_hash.encode("ascii"):
            raise refusal(transition(State.REVOKED, event).status)
        self._check_life(authentication, envelope.START_AGAIN)
        return snapshot, authentication

    async def revoke(self, alias: str) -> bool:
        key = _live_code_key(alias)
        stored = await self._records.get(_SECRETS_SPACE, key)
        if stored in (None, _REVOKED_MARK):
            return False
        expires = self._runtime.clock.now() + MAX_LIFE_SECONDS * 1000
        return await self._write({key: stored}, {key: _REVOKED_MARK}, expires)

    async def store_if_unchanged(self, snapshot: Values, authentication: Authentication) -> bool:
        """Store an authentication unless another request has changed the record since `snapshot` was read."""
        return await self._write(snapshot, dict.fromkeys(snapshot, authentication), authentication.expires)

    def _check_life(self, authentication: Authentication, info: str | None = None) -> None:
        if self._runtime.clock.now() >= authentication.expires:
            raise refusal(transition(authentication.state, Event.TIME, Fact.LIFE_OVER).status, info)

    async def _read(self, kind: _SecretKind, secret: str) -> tuple[Values, Authentication | None]:
        key = _key(kind, secret)
        data = await self._records.get(_SECRETS_SPACE, key)
        return {key: data}, None if data is None else msgspec.json.decode(data, type=Authentication)

    async def _write(self, snapshot: Values, changes: Mapping[str, bytes | Authentication], expires: int) -> bool:
        """Write all changes if the records still equal `snapshot`; of concurrent callers, one succeeds."""
        data = {
            key: msgspec.json.encode(new) if isinstance(new, Authentication) else new for key, new in changes.items()
        }
        return await self._records.compare_and_set(_SECRETS_SPACE, snapshot, data, expires + _KEPT_AFTER_EXPIRY_MS)


def fresh_token() -> str:
    """Return 256 random bits as 43 base64url characters; they come from the operating system, never from a seed."""
    return secrets.token_urlsafe(32)


def _hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _key(kind: _SecretKind, secret: str) -> str:
    return f"{kind}:{_hash_of(secret)}"


def _live_code_key(alias: str) -> str:
    """Return the key under which the hash of the only valid code of an alias is stored."""
    return f"live:{alias}"


def _fact_at_finish(proof: Authentication, subscriber: Subscriber | None) -> Fact:
    if subscriber is None:
        return Fact.UNKNOWN_SUBSCRIBER
    fact = Fact[subscriber.state]
    return Fact.CARRIER_CHANGED if fact is Fact.ACTIVE and subscriber.carrier != proof.carrier else fact


def _check_verifier(challenge: str | None, verifier: str | None) -> None:
    """Check PKCE (RFC 7636, S256 only). A verifier without a challenge is refused too, to prevent a downgrade."""
    if challenge is None and verifier is None:
        return
    if challenge is None or verifier is None:
        raise refusal(1000, envelope.VERIFIER_UNEXPECTED if challenge is None else envelope.VERIFIER_NEEDED)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest())
    if not hmac.compare_digest(digest.rstrip(b"="), challenge.encode("ascii")):
        raise refusal(1000, envelope.VERIFIER_MISMATCH)
