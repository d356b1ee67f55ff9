"""Simulated phones, a session with one phone, and the objects that hold secrets between two requests.

The holders of secrets can forget them. They cannot be pickled or copied, and print no secret.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.endpoint import parsed_address
from toolkit.errors import InvalidArgument, SessionClosed
from toolkit.identity.flow import State
from toolkit.identity.wire import SIMULATED_ADDRESS_HEADER
from toolkit.public_api import Closable
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.identity.client.identity import IdentityClient

T = TypeVar("T")
#: Frame or rows of ``payment_list``, a Series or list of ids, or one id.
Payments: TypeAlias = pd.DataFrame | pd.Series | str | Iterable[str]
_CLOSED = "this session is over and its secrets are forgotten; begin a new one"


@checked_arguments
@dataclass(frozen=True, slots=True)
class Handset:
    """A simulated phone: ``gateway.handset("happy")`` of the demo world, or the phone of one of your subscribers.

    ``address`` is the phone's IP address on the mobile network; the gateway finds the subscriber by this address.
    ``device_ip`` and ``carrier_short_code`` are the values for `start_authentication`. ``result`` says how a flow with
    this phone ends; ``answer`` is the owner's answer to the challenge.

    Examples
    --------
    >>> from toolkit.identity import Handset
    >>> Handset("mine", address="203.0.113.7", device_ip="203.0.113.7").network_headers
    {'X-Simulated-Device-Ip': '203.0.113.7'}
    """

    name: str
    address: str
    device_ip: str | None = None
    carrier_short_code: str | None = None
    result: str = ""
    answer: Secret | None = None

    def __post_init__(self) -> None:
        if parsed_address(self.address) is None:
            raise InvalidArgument("address is the IP address of a phone, such as 203.0.113.7")

    @property
    def network_headers(self) -> dict[str, str]:
        """The headers that the simulated network adds to requests of this phone."""
        return {SIMULATED_ADDRESS_HEADER: self.address}


class Flow:
    """What the client knows about one flow; the transaction, the proof and the user of the flow share it."""

    def __init__(self) -> None:
        #: The states in which the flow can be.
        self.states = frozenset({State.NEW})
        #: The user, once there is a code.
        self.user: AuthenticatedUser | None = None


class SecretHolder:
    """Holds secrets of a flow until `forget` is called."""

    def __init__(self, flow: Flow, **held: Secret) -> None:
        self._held: dict[str, Secret] | None = held
        self.flow = flow

    @property
    def states(self) -> frozenset[State]:
        """The states in which the flow can be, as the client knows."""
        return self.flow.states

    @property
    def state(self) -> str:
        """The state of the flow as far as the client knows, such as ``started`` or ``failed or proven``."""
        return " or ".join(sorted(self.states))

    def secret(self, name: str) -> Secret:
        """Return a secret by name; raise SessionClosed after `forget`."""
        if self._held is None:
            raise SessionClosed(_CLOSED)
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
        self.transaction = transaction

    def __repr__(self) -> str:
        return f"<proof of transaction {self.transaction.transaction_id[:8]}: {self.state} after finish_authentication>"


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

    def seconds_left(self, now: int) -> float:
        """Return the seconds until the code expires, at least 0; `now` is in milliseconds since the epoch."""
        return max(0.0, (self.expires_at.timestamp() * 1000 - now) / 1000)

    def __repr__(self) -> str:
        who = f"{self.service_alias[:8]} at {self.mobile_operator_name}"
        return f"<user {who}: {self.state}, until {self.expires_at:%H:%M:%S} UTC>"


@checked_arguments
class IdentitySession(Closable):
    """Authenticates one phone and holds its secrets. Made by ``tk.identity.session()``.

    Examples
    --------
    >>> import toolkit
    >>> from toolkit_gateway import Gateway
    >>> with Gateway.demo() as gateway, toolkit.connect(gateway).identity.session() as session:
    ...     session.authenticate(gateway.handset("no_challenge"))
    ...     session.eligibility()["eligible"].tolist()
    ...     len(session.payment_list())
    <user 3bd00683 at Contoso Mobile: finished, until 09:05:03 UTC>
    [True]
    2
    """

    def __init__(self, client: IdentityClient) -> None:
        self._client = client
        self._holders: list[SecretHolder] = []
        self._transaction: StartedTransaction | None = None
        self._proof: PhoneProof | None = None
        self._user: AuthenticatedUser | None = None
        self._is_closed = False

    def start_authentication(
        self, handset: Handset | None = None, *, device_ip: str | None = None, carrier_short_code: str | None = None
    ) -> StartedTransaction:
        """Start to authenticate a phone; see `IdentityClient.start_authentication`."""
        self._check_open()
        self._proof = self._user = None  # these belong to the previous phone
        self._transaction = self._client.start_authentication(
            handset, device_ip=device_ip, carrier_short_code=carrier_short_code
        )
        self._holders.append(self._transaction)
        return self._transaction

    def authenticate_device(self, handset: Handset | None = None) -> PhoneProof:
        """Open TargetUrl as the phone; see `IdentityClient.authenticate_device`."""
        self._check_open()
        transaction = _require(self._transaction, "start_authentication")
        self._proof = self._client.authenticate_device(transaction, handset)
        self._holders.append(self._proof)
        return self._proof

    def finish_authentication(self, proof: PhoneProof | None = None) -> AuthenticatedUser:
        """Exchange the proof for alias and code; see `IdentityClient.finish_authentication`.

        A `proof` must belong to the transaction of this session, because an attacker could plant another one.
        """
        self._check_open()
        proof = proof or _require(self._proof, "authenticate_device")
        if proof.transaction is not self._transaction:
            raise InvalidArgument("this proof belongs to another transaction: call authenticate_device of this session")
        self._user = self._client.finish_authentication(proof)
        self._holders.append(self._user)
        return self._user

    def authenticate(self, handset: Handset) -> AuthenticatedUser:
        """Call `start_authentication`, `authenticate_device` and `finish_authentication`."""
        self.start_authentication(handset)
        self.authenticate_device(handset)
        return self.finish_authentication()

    def eligibility(self) -> pd.DataFrame:
        """Ask whether the user is eligible; see `IdentityClient.eligibility`."""
        return self._client.eligibility(self.user)

    def payment_list(self, *, answer: str | Secret | None = None) -> pd.DataFrame:
        """List the payment methods on file, masked; see `IdentityClient.payment_list`."""
        answer = hide_answer(answer)
        return self._client.payment_list(self.user, answer=answer)

    def payment_details(self, payments: Payments, *, answer: str | Secret | None = None) -> pd.DataFrame:
        """Fetch payment methods in detail, still masked; see `IdentityClient.payment_details`."""
        answer = hide_answer(answer)
        return self._client.payment_details(self.user, payments, answer=answer)

    @property
    def user(self) -> AuthenticatedUser:
        """The authenticated user of this session."""
        self._check_open()
        return _require(self._user, "finish_authentication")

    @property
    def state(self) -> str:
        """The state of the flow as far as the client knows."""
        return self._transaction.state if self._transaction is not None else "new"

    def close(self) -> None:
        """Forget every secret; every later call raises `SessionClosed`."""
        self._is_closed = True
        for holder in self._holders:
            holder.forget()
        self._holders.clear()

    def __repr__(self) -> str:
        return f"<identity session: {'closed' if self._is_closed else self.state}>"

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionClosed(_CLOSED)


def fresh_verifier() -> tuple[Secret, Secret]:
    """Return a PKCE verifier and its S256 challenge."""
    verifier = secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return Secret(verifier), Secret(base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"))


def hide_answer(answer: str | Secret | None) -> Secret | None:
    """Wrap an answer to the challenge in a Secret that prints no hash, because few answers are possible."""
    return None if answer is None else Secret(answer, guessable=True)


def _require(value: T | None, method: str) -> T:
    if value is None:
        raise InvalidArgument(f"call {method} first")
    return value
