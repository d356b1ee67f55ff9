"""The objects that the steps of a flow return; they hold secrets between two requests.

They can forget their secrets, cannot be pickled or copied, and print no secret.
"""

import base64
import hashlib
import secrets
from datetime import datetime
from typing import NoReturn

from toolkit.argument_checks import checked_arguments
from toolkit.errors import SessionClosed
from toolkit.identity.flow import State, in_words
from toolkit.secret import Secret

SESSION_CLOSED = "this session is over and its secrets are forgotten; begin a new one"


class Flow:
    """What the client knows about one flow, and the objects of the flow that hold secrets."""

    def __init__(self) -> None:
        #: The states in which the flow can be.
        self.states = frozenset({State.NEW})
        self.transaction: StartedTransaction | None = None
        self.proof: PhoneProof | None = None
        self.user: AuthenticatedUser | None = None

    def forget(self) -> None:
        """Forget all secrets of the flow."""
        for holder in (self.transaction, self.proof, self.user):
            if holder is not None:
                holder.forget()


class SecretHolder:
    """Holds secrets of a flow until `forget` is called."""

    def __init__(self, flow: Flow, **held: Secret) -> None:
        self._held: dict[str, Secret] | None = held
        self.flow = flow

    @property
    def state(self) -> str:
        """The state of the flow as far as the client knows, such as ``started`` or ``failed or proven``."""
        return in_words(self.flow.states)

    def secret(self, name: str) -> Secret:
        """Return a secret by name; raise SessionClosed after `forget`."""
        if self._held is None:
            raise SessionClosed(SESSION_CLOSED)
        return self._held[name]

    def forget(self) -> None:
        """Forget all secrets; every later use raises `SessionClosed`."""
        self._held = None

    def _refuse(self, *_: object) -> NoReturn:
        # A copy would still hold the secrets after `forget`.
        raise TypeError("objects with secrets cannot be copied or pickled; authenticate the phone again")

    __copy__ = __deepcopy__ = __reduce_ex__ = __reduce__ = __getstate__ = _refuse


class StartedTransaction(SecretHolder):
    """A transaction that waits for the phone. Made by ``start_authentication``."""

    def __init__(self, flow: Flow, transaction_id: str, seconds: int, **held: Secret) -> None:
        super().__init__(flow, **held)
        flow.transaction = self
        self.transaction_id = transaction_id
        self.expires_in = seconds

    def __repr__(self) -> str:
        return f"<transaction {self.transaction_id[:8]}: {self.state}, {self.expires_in} s to open it>"


class PhoneProof(SecretHolder):
    """The final fingerprint that the phone received. Made by ``authenticate_device``."""

    def __init__(self, transaction: StartedTransaction, fingerprint: Secret) -> None:
        super().__init__(transaction.flow, fingerprint=fingerprint, verifier=transaction.secret("verifier"))
        # Only the next request shows whether the network identified the phone.
        self.flow.states = frozenset({State.PROVEN, State.FAILED})
        self.flow.proof = self
        self._transaction_id = transaction.transaction_id

    def __repr__(self) -> str:
        return f"<proof of transaction {self._transaction_id[:8]}: {self.state} after finish_authentication>"


class AuthenticatedUser(SecretHolder):
    """A user whose phone is authenticated; ``service_alias`` may be stored. Made by ``finish_authentication``."""

    def __init__(
        self, flow: Flow, service_alias: str, code: Secret, expires_at: datetime, phone: tuple[str, str, str]
    ) -> None:
        super().__init__(flow, code=code)
        flow.user = self
        #: When the code expires (UTC).
        self.expires_at = expires_at
        self.service_alias = service_alias
        self.mobile_number, self.mobile_country_code, self.mobile_operator_name = phone
        self.challenge_id: str | None = None

    @checked_arguments
    def seconds_left(self, now: int) -> float:
        """Return the seconds until the code expires, at least 0; `now` is in milliseconds since the epoch."""
        return max(0.0, (self.expires_at.timestamp() * 1000 - now) / 1000)

    def __repr__(self) -> str:
        who = f"{self.service_alias[:8]} at {self.mobile_operator_name}"
        return f"<user {who}: {self.state}, until {self.expires_at:%H:%M:%S} UTC>"


def fresh_verifier() -> tuple[Secret, Secret]:
    verifier = secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return Secret(verifier), Secret(base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"))


def hide_answer(answer: str | Secret | None) -> Secret | None:
    """Wrap an answer to the challenge in a Secret that prints no hash, because few answers are possible."""
    return None if answer is None else Secret(answer, guessable=True)
