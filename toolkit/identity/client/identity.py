"""The client of mobile identity, ``tk.identity``, and its session with one phone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import CodeExpired, InvalidArgument, SessionClosed
from toolkit.frames import declared_frame
from toolkit.http_client import HttpSession
from toolkit.identity import responses, wire
from toolkit.identity.client import replies
from toolkit.identity.client.replies import Payments
from toolkit.identity.client.request_recorder import TRACE_COLUMNS, RequestRecorder, checked
from toolkit.identity.client.transaction import (
    SESSION_CLOSED,
    AuthenticatedUser,
    Flow,
    PhoneProof,
    StartedTransaction,
    fresh_verifier,
    hide_answer,
)
from toolkit.identity.flow import State, in_words
from toolkit.identity.phones import Handset
from toolkit.public_api import Closable, PublicNames
from toolkit.secret import Secret

T = TypeVar("T")
#: The default final target URL, on this machine; no program needs to listen there.
_DEFAULT_FINAL_TARGET = "http://127.0.0.1/done"


@checked_arguments
class IdentityClient(PublicNames):
    """Mobile identity and checkout data. Use it as ``tk.identity``.

    The order of calls: `start_authentication`, `authenticate_device`, `finish_authentication`, `eligibility`,
    `payment_list`, `payment_details`. The returned objects hold the fingerprints and codes.
    """

    def __init__(
        self, http: HttpSession, api_client_id: Callable[[], Secret], now: Callable[[], int] | None = None
    ) -> None:
        self._http = http
        #: The requests so far, for widgets; `trace` shows them to people.
        self.recorder = RequestRecorder(http, api_client_id, now)

    def __repr__(self) -> str:
        return f"<Mobile identity at {self._http.base_url}>"

    def echo(self, message: str) -> pd.DataFrame:
        """Check that the service is available: ``POST /account/2014/07/25/accountEcho``.

        Return one row: ``echo_message`` (unchanged; at most 1,024 characters), ``api_version``. KeyRejected if the
        ApiClientId is unknown or disabled.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.Gateway.demo() as gateway:
        ...     toolkit.connect(gateway).identity.echo("hello").loc[0, "api_version"]
        '2014/07/25'
        """
        return self.recorder.post(wire.ECHO, {"EchoMessage": message}, replies.echo_frame, Flow())

    def start_authentication(
        self,
        handset: Handset | None = None,
        *,
        device_ip: str | None = None,
        carrier_short_code: str | None = None,
        final_target_url: str = _DEFAULT_FINAL_TARGET,
    ) -> StartedTransaction:
        """Start to authenticate a phone: ``POST /mobileauth/2014/07/01/authenticateByRedirect``.

        The request contains a PKCE challenge: only the holder of its verifier, which is returned, can finish.

        Parameters
        ----------
        handset, device_ip, carrier_short_code
            A simulated phone, or the phone's address, the short code of its carrier, or both.
        final_target_url
            The URL, registered for this client, to which the gateway redirects the phone.

        Raises
        ------
        MalformedRequest, NotAuthenticated
            1000: `final_target_url` is not registered for this client; 1003: the carrier is not supported; 1038:
            `device_ip` belongs to another carrier.
        """
        if handset is not None:
            if device_ip is not None or carrier_short_code is not None:
                raise InvalidArgument("give either a handset, or device_ip and carrier_short_code")
            device_ip, carrier_short_code = handset.device_ip, handset.carrier_short_code
        if device_ip is None and carrier_short_code is None:
            raise InvalidArgument("give a handset, a device_ip or a carrier_short_code")
        flow, (verifier, challenge) = Flow(), fresh_verifier()
        target = {"FinalTargetUrl": final_target_url, "CodeChallenge": challenge}
        fields = {"DeviceIp": device_ip, "CarrierShortCode": carrier_short_code, **target}
        read = partial(replies.started_transaction, flow, verifier, self._http.base_url)
        return self.recorder.post(wire.START_AUTH, fields, read, flow)

    def authenticate_device(self, transaction: StartedTransaction, handset: Handset | None = None) -> PhoneProof:
        """Open TargetUrl as the phone: ``GET /mobileauth/2014/07/01/deviceAuthenticate?vfp=...&r=f``.

        Without a `handset`, this machine opens TargetUrl over its own network. If the network does not identify the
        phone, only `finish_authentication` reports this. Conflict if TargetUrl was opened before, or has expired (by
        default after 120 seconds).
        """
        headers = handset.network_headers if handset is not None else {}
        final = self.recorder.open_target(transaction.secret("fingerprint"), headers, transaction.flow)
        return PhoneProof(transaction, final)

    def preview(self, transaction: StartedTransaction) -> int:
        """Request TargetUrl with ``HEAD``, as a link preview does, and return the HTTP status: 405."""
        return self.recorder.preview(transaction.secret("fingerprint"), transaction.flow)

    def finish_authentication(self, proof: PhoneProof) -> AuthenticatedUser:
        """Exchange a proof for alias and code: ``POST /mobileauth/2014/07/01/authenticateByRedirectFinish``.

        A proof can be used once: a second call with the same proof is refused and revokes the code of the first call.

        Raises
        ------
        NotAuthenticated, Conflict
            1001: the network did not identify the phone; 1006: the subscriber is suspended; 1007: deactivated; 1038:
            now with another carrier. 2002: the proof has expired (by default after 60 seconds); 2003: it was used
            before.
        """
        fields = {"VerificationFingerprint": proof.secret("fingerprint"), "CodeVerifier": proof.secret("verifier")}
        read = partial(replies.authenticated_user, proof.flow, self.recorder.now)
        return self.recorder.post(wire.FINISH_AUTH, fields, read, proof.flow)

    def eligibility(self, user: AuthenticatedUser) -> pd.DataFrame:
        """Ask whether the user is eligible: ``POST /account/2014/07/25/getEligibility``.

        For a user who is not eligible, this returns a row, but `payment_list` and `payment_details` raise NotEligible.

        Returns
        -------
        pandas.DataFrame
            One row: ``eligible``, ``ineligible_reason``, and the challenge: ``challenge_id``, ``question_type``,
            ``question``, ``answer_format``, ``attempts_left``, ``expires_at`` (UTC), all missing without a challenge.

        Raises
        ------
        CodeExpired, NotAuthenticated
            The code has expired, and nothing was sent; 2012: the code was revoked.
        """
        fields = self._authentication_fields(user)
        read = partial(checked, record=responses.Eligibility)
        eligibility = self.recorder.post(wire.GET_ELIGIBILITY, fields, read, user.flow)
        user.challenge_id = eligibility.challenge.challenge_id if eligibility.challenge else None
        return replies.eligibility_frame(eligibility)

    def payment_list(self, user: AuthenticatedUser, *, answer: str | Secret | None = None) -> pd.DataFrame:
        """List the payment methods on file, masked: ``POST /account/2014/07/25/getPaymentList``.

        Call `eligibility` first. A user with a challenge must give an `answer` with each call until one was correct.

        Returns
        -------
        pandas.DataFrame
            One row per payment method on file: ``payment_id``, ``payment_type``, ``brand``, ``last_four``,
            ``expiration_month``, ``expiration_year``, ``is_default``.

        Raises
        ------
        CodeExpired
            The code has expired; nothing was sent.
        NotEligible, Conflict, NotFound
            1010: the user is not eligible; 2020: `eligibility` was not called yet; 1012: there is no customer data.
        KeyRejected, RateLimited
            2021: an answer is needed; 2022: the answer is wrong; 2023: too many answers were wrong, so the service
            accepts no answer for ``retry_after`` seconds.
        """
        answer = hide_answer(answer)
        fields = self._authentication_fields(user, answer)
        return self.recorder.post(wire.GET_PAYMENT_LIST, fields, replies.payment_frame, user.flow)

    def payment_details(
        self, user: AuthenticatedUser, payments: Payments, *, answer: str | Secret | None = None
    ) -> pd.DataFrame:
        """Fetch payment methods in detail, still masked: ``POST /account/2014/07/25/getPaymentDetails``.

        Parameters
        ----------
        payments
            The frame of `payment_list` or some of its rows, a Series or list of ids, or one id; 1 to 20 different ids.
        answer
            As for `payment_list`.

        Returns
        -------
        pandas.DataFrame
            One row per payment method, in the order of `payments`: ``payment_id``, ``payment_type``, ``brand``,
            ``masked_account_number``, ``expiration_month``, ``expiration_year``, ``name_on_account`` and the address
            as ``billing_line1`` to ``billing_country_code``. Errors are those of `payment_list`, and NotFound (2030) if
            at least one of the payment methods is not on file for this user.
        """
        answer = hide_answer(answer)
        fields = self._authentication_fields(user, answer) | {"PaymentIds": replies.payment_ids(payments)}
        return self.recorder.post(wire.GET_PAYMENT_DETAILS, fields, replies.detail_frame, user.flow)

    def session(self) -> IdentitySession:
        """Return a session for one phone. Use it as a context manager, which forgets all secrets at the end."""
        return IdentitySession(self)

    def called_by(self, api_client_id: Secret) -> IdentityClient:
        """Return a client with another ApiClientId and a separate trace, over the same connection."""
        return IdentityClient(self._http, lambda: api_client_id, self.recorder.now)

    def trace(self) -> pd.DataFrame:
        """Return one row for each of the last 1,000 requests, oldest first, secrets masked.

        The columns are ``n``, ``step`` (the method that was called), ``operation``, ``http``, ``status``,
        ``description``, ``state`` (of the flow, after the step), ``request``, ``response`` (JSON texts; the response is
        missing if there was none), ``ms``, ``seconds_left`` (until the code expires; missing without a code).

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        ...     transaction = tk.identity.start_authentication(gateway.handset("happy"))
        ...     tk.identity.trace()[["step", "status", "state"]].values.tolist()
        [['start_authentication', 0, 'started']]
        """
        return declared_frame([step.row() for step in self.recorder.steps], TRACE_COLUMNS)

    def _authentication_fields(self, user: AuthenticatedUser, answer: Secret | None = None) -> dict[str, object]:
        fields: dict[str, object] = {"ServiceAlias": user.service_alias, "AuthenticationCode": user.secret("code")}
        if not user.seconds_left(self.recorder.now()):
            user.flow.states = frozenset({State.EXPIRED})
            expiry = f"{user.expires_at:%H:%M:%S} UTC"
            raise CodeExpired(f"the code expired at {expiry}; begin again with start_authentication")
        if answer is not None and user.challenge_id is not None:
            fields |= {"ChallengeId": user.challenge_id, "ChallengeAnswer": answer}
        return fields


@checked_arguments
class IdentitySession(Closable):
    """Authenticates one phone and holds its secrets. Made by ``tk.identity.session()``.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway).identity.session() as session:
    ...     session.authenticate(gateway.handset("no_challenge"))
    ...     session.eligibility()["eligible"].tolist()
    ...     len(session.payment_list())
    <user 3bd00683 at Contoso Mobile: finished, until 09:05:03 UTC>
    [True]
    2
    """

    def __init__(self, client: IdentityClient) -> None:
        self._client = client
        self._flow = Flow()
        self._earlier_flows: list[Flow] = []
        self._is_closed = False

    def start_authentication(
        self, handset: Handset | None = None, *, device_ip: str | None = None, carrier_short_code: str | None = None
    ) -> StartedTransaction:
        """Start to authenticate a phone; see `IdentityClient.start_authentication`."""
        self._check_open()
        self._earlier_flows.append(self._flow)
        self._flow = Flow()  # not that of the previous phone, even if the request fails
        transaction = self._client.start_authentication(
            handset, device_ip=device_ip, carrier_short_code=carrier_short_code
        )
        self._flow = transaction.flow
        return transaction

    def authenticate_device(self, handset: Handset | None = None) -> PhoneProof:
        """Open TargetUrl as the phone; see `IdentityClient.authenticate_device`."""
        self._check_open()
        return self._client.authenticate_device(_require(self._flow.transaction, "start_authentication"), handset)

    def finish_authentication(self, proof: PhoneProof | None = None) -> AuthenticatedUser:
        """Exchange the proof for alias and code; see `IdentityClient.finish_authentication`.

        A `proof` must belong to the transaction of this session, because an attacker could plant another one.
        """
        self._check_open()
        proof = proof or _require(self._flow.proof, "authenticate_device")
        if proof.flow is not self._flow:
            raise InvalidArgument("this proof belongs to another transaction: call authenticate_device of this session")
        return self._client.finish_authentication(proof)

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
        return _require(self._flow.user, "finish_authentication")

    @property
    def state(self) -> str:
        """The state of the flow as far as the client knows."""
        return in_words(self._flow.states)

    def close(self) -> None:
        """Forget every secret; every later call raises `SessionClosed`."""
        self._is_closed = True
        for flow in (*self._earlier_flows, self._flow):
            flow.forget()

    def __repr__(self) -> str:
        return f"<identity session: {'closed' if self._is_closed else self.state}>"

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionClosed(SESSION_CLOSED)


def _require(value: T | None, method: str) -> T:
    if value is None:
        raise InvalidArgument(f"call {method} first")
    return value
