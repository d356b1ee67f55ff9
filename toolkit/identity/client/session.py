"""A session sends the requests for one phone and forgets the secrets at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, SessionClosed
from toolkit.identity.client.handset import Handset
from toolkit.identity.client.held_secrets import AuthenticatedUser, Holder, PhoneProof, StartedTransaction, hide_answer
from toolkit.public_names import Closable
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.identity.client.identity import IdentityClient

T = TypeVar("T")
#: Frame or rows of ``payment_list``, a Series or list of ids, or one id.
Payments: TypeAlias = pd.DataFrame | pd.Series | str | Iterable[str]
HeldT = TypeVar("HeldT", bound=Holder)


@checked_arguments
class IdentitySession(Closable):
    """Authenticates one phone and holds its secrets. Made by ``tk.identity.session()``.

    Examples
    --------
    >>> import toolkit
    >>> from toolkit.gateway import Gateway
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
        self._holders: list[Holder] = []
        self._transaction: StartedTransaction | None = None
        self._proof: PhoneProof | None = None
        self._user: AuthenticatedUser | None = None
        self._is_closed = False

    def start_authentication(
        self, handset: Handset | None = None, *, device_ip: str | None = None, carrier_short_code: str | None = None
    ) -> StartedTransaction:
        """Start to authenticate a phone; see `IdentityClient.start_authentication`."""
        self._check_open()
        self._transaction = self._client.start_authentication(
            handset, device_ip=device_ip, carrier_short_code=carrier_short_code
        )
        return self._keep_until_close(self._transaction)

    def authenticate_device(self, handset: Handset | None = None) -> PhoneProof:
        """Open TargetUrl as the phone; see `IdentityClient.authenticate_device`."""
        self._check_open()
        transaction = _require(self._transaction, "start_authentication")
        self._proof = self._client.authenticate_device(transaction, handset)
        return self._keep_until_close(self._proof)

    def finish_authentication(self, proof: PhoneProof | None = None) -> AuthenticatedUser:
        """Exchange the proof for alias and code; see `IdentityClient.finish_authentication`.

        A `proof` must belong to the transaction of this session, because an attacker could plant another one.
        """
        self._check_open()
        proof = proof or _require(self._proof, "authenticate_device")
        if proof.transaction is not self._transaction:
            raise InvalidArgument("this proof belongs to another transaction: call authenticate_device of this session")
        self._user = self._client.finish_authentication(proof)
        return self._keep_until_close(self._user)

    def authenticate(self, handset: Handset) -> AuthenticatedUser:
        """Call `start_authentication`, `authenticate_device` and `finish_authentication`."""
        self.start_authentication(handset)
        self.authenticate_device(handset)
        return self.finish_authentication()

    def eligibility(self) -> pd.DataFrame:
        """Ask whether the user is eligible; see `IdentityClient.eligibility`."""
        return self._client.eligibility(self.user)

    def payment_list(self, *, answer: str | Secret | None = None) -> pd.DataFrame:
        """List the payments on file, masked; see `IdentityClient.payment_list`."""
        answer = hide_answer(answer)
        return self._client.payment_list(self.user, answer=answer)

    def payment_details(self, payments: Payments, *, answer: str | Secret | None = None) -> pd.DataFrame:
        """Fetch payments in detail, still masked; see `IdentityClient.payment_details`."""
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
        newest = self._user or self._proof or self._transaction
        return newest.state if newest is not None else "new"

    def close(self) -> None:
        """Forget every secret; every later call raises `SessionClosed`."""
        self._is_closed = True
        for holder in self._holders:
            holder.forget()
        self._holders.clear()

    def __repr__(self) -> str:
        return f"<identity session: {'closed' if self._is_closed else self.state}>"

    def _keep_until_close(self, holder: HeldT) -> HeldT:
        self._holders.append(holder)
        return holder

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionClosed("this session is over and its secrets are forgotten; begin a new one")


def _require(value: T | None, method: str) -> T:
    if value is None:
        raise InvalidArgument(f"call {method} first")
    return value
