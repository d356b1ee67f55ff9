"""The objects that hold secrets between two requests: a transaction, a proof, an authenticated user.

These objects can forget the secrets. They cannot be pickled or copied, and print no secret.
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
    """Holds secrets until `forget` is called; `states` are the states in which the flow can be, as the client knows."""

    def __init__(self, states: frozenset[State], **held: Secret) -> None:
        self._held: dict[str, Secret] | None = held
        self.states = states

    @property
    def state(self) -> str:
        """The state of the flow as far as the client knows, such as ``started`` or ``failed or proven``."""
        return " or ".join(sorted(self.states))

    @property
    def is_forgotten(self) -> bool:
        """Whether the secrets are forgotten."""
        return self._held is None

    def secret(self, name: str) -> Secret:
        """Return a secret by name; raise SessionClosed after `forget`."""
        if self._held is None:
            raise SessionClosed("this session is over and its secrets are forgotten; begin a new one")
        return self._held[name]

    def forget(self) -> None:
        """Forget all secrets; every later use raises `SessionClosed`."""
        self._held = None

    def _refuse(self, *_: object) -> NoReturn:
        # A copy would still hold the secrets after `forget`.
        raise TypeError("objects with secrets cannot be copied or pickled; authenticate the phone again")

    __copy__ = __deepcopy__ = __reduce_ex__ = __reduce__ = __getstate__ = _refuse


class StartedTransaction(Holder):
    """A transaction that waits for the phone. Made by ``start_authentication``."""

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
    """The final fingerprint that the phone received. Made by ``authenticate_device``."""

    def __init__(self, transaction: StartedTransaction, fingerprint: Secret) -> None:
        states = frozenset({State.PROVEN, State.FAILED})
        super().__init__(states, fingerprint=fingerprint, verifier=transaction.secret("verifier"))
        self.transaction = transaction

    def __repr__(self) -> str:
        return f"<proof of transaction {self.transaction.transaction_id[:8]}: {self.state} after finish_authentication>"


class AuthenticatedUser(Holder):
    """A user whose phone is authenticated; ``service_alias`` may be stored. Made by ``finish_authentication``."""

    def __init__(self, service_alias: str, code: Secret, expires: int, phone: tuple[str, str, str]) -> None:
        super().__init__(frozenset({State.FINISHED}), code=code)
        self.service_alias = service_alias
        self.mobile_number, self.mobile_country_code, self.mobile_operator_name = phone
        self.challenge_id: str | None = None
        self._expires = expires

    @property
    def expires_at(self) -> datetime:
        """When the code expires (UTC)."""
        return datetime.fromtimestamp(self._expires / 1000, UTC)

    def seconds_left(self, now: int) -> float:
        """Return the seconds until the code expires, at least 0; `now` is in milliseconds since the epoch."""
        return max(0.0, (self._expires - now) / 1000)

    def __repr__(self) -> str:
        who = f"{self.service_alias[:8]} at {self.mobile_operator_name}"
        return f"<user {who}: {self.state}, until {self.expires_at:%H:%M:%S} UTC>"


def fresh_verifier() -> tuple[Secret, Secret]:
    """Return a PKCE verifier and its S256 challenge."""
    verifier = secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return Secret(verifier), Secret(base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"))


def hide_answer(answer: str | Secret | None) -> Secret | None:
    """Wrap an answer to the challenge in a Secret that prints no hash, because few answers are possible."""
    return None if answer is None else Secret(answer, guessable=True)
