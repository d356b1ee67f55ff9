"""What a caller holds between two calls: a transaction, a proof, an authenticated user.

Their secrets can be forgotten. They cannot be pickled or copied, and show at most a short hash.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import UTC, datetime
from typing import NoReturn

from toolkit.errors import SessionClosed
from toolkit.identity.flow import State
from toolkit.secret import Secret


class Holder:
    """Holds secrets until `forget`; `states` is where the flow may stand for all the caller knows."""

    def __init__(self, states: frozenset[State], **held: Secret) -> None:
        self._held: dict[str, Secret] | None = held
        self.states = states

    @property
    def state(self) -> str:
        """Where the flow stands, as far as the caller can know: ``started``, ``failed or proven``, ``eligible``."""
        return " or ".join(sorted(self.states))

    @property
    def is_forgotten(self) -> bool:
        """Whether its secrets are gone."""
        return self._held is None

    def secret(self, name: str) -> Secret:
        """Return one of its secrets; SessionClosed if they are forgotten."""
        if self._held is None:
            raise SessionClosed("this session is over and its secrets are forgotten; begin a new one")
        return self._held[name]

    def forget(self) -> None:
        """Forget all secrets; every later use raises `SessionClosed`."""
        self._held = None

    def _refuse(self, *_: object) -> NoReturn:
        # A copy would outlive the forgetting.
        raise TypeError("what holds secrets is neither copied nor stored; authenticate the phone again")

    __copy__ = __deepcopy__ = __reduce_ex__ = __reduce__ = __getstate__ = _refuse


class StartedTransaction(Holder):
    """A transaction that a phone has yet to open: made by ``start_authentication``."""

    def __init__(
        self, transaction_id: str, fingerprint: Secret, verifier: Secret, final_target_url: str, seconds: int
    ) -> None:
        super().__init__(frozenset({State.STARTED}), fingerprint=fingerprint, verifier=verifier)
        self.transaction_id = transaction_id
        self.final_target_url = final_target_url
        self.expires_in = seconds

    def __repr__(self) -> str:
        return f"<transaction {self.transaction_id[:8]}: {self.state}, {self.expires_in} s to open it>"


class PhoneProof(Holder):
    """What the phone brought back from its network: made by ``authenticate_device``."""

    def __init__(self, transaction: StartedTransaction, fingerprint: Secret) -> None:
        states = frozenset({State.PROVEN, State.FAILED})
        super().__init__(states, fingerprint=fingerprint, verifier=transaction.secret("verifier"))
        self.transaction = transaction

    def __repr__(self) -> str:
        return f"<proof of transaction {self.transaction.transaction_id[:8]}: {self.state}, told at the next step>"


class AuthenticatedUser(Holder):
    """A user whose phone was proven; ``service_alias`` may be stored. Made by ``finish_authentication``."""

    def __init__(self, service_alias: str, code: Secret, expires: int, phone: tuple[str, str, str]) -> None:
        super().__init__(frozenset({State.FINISHED}), code=code)
        self.service_alias = service_alias
        self.mobile_number, self.mobile_country_code, self.mobile_operator_name = phone
        self.challenge_id: str | None = None
        self._expires = expires

    @property
    def expires_at(self) -> datetime:
        """When the code ends (UTC)."""
        return datetime.fromtimestamp(self._expires / 1000, UTC)

    def seconds_left(self, now: int) -> float:
        """Return how long the code still lives, 0 once it is over; `now` in milliseconds since the epoch."""
        return max(0.0, (self._expires - now) / 1000)

    def __repr__(self) -> str:
        who = f"{self.service_alias[:8]} at {self.mobile_operator_name}"
        return f"<user {who}: {self.state}, until {self.expires_at:%H:%M:%S} UTC>"


def fresh_verifier() -> tuple[Secret, Secret]:
    """Return a PKCE verifier and its S256 challenge."""
    verifier = secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return Secret(verifier), Secret(base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"))


def hidden(answer: str | Secret | None) -> Secret | None:
    """Return an answer to the challenge as a secret that shows not even a hash."""
    return None if answer is None else Secret(answer, guessable=True)
