"""The client of mobile identity: ``tk.identity``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args, get_type_hints

import msgspec
import pandas as pd

from toolkit.argument_checks import checked_arguments, described
from toolkit.errors import CodeExpired, InvalidArgument
from toolkit.frames import declared_frame
from toolkit.http_client import HttpSession
from toolkit.identity import responses, wire
from toolkit.identity.client.request_recorder import TRACE_COLUMNS, RequestRecorder, Response, Step, checked, expect
from toolkit.identity.client.session import (
    AuthenticatedUser,
    Flow,
    Handset,
    IdentitySession,
    Payments,
    PhoneProof,
    StartedTransaction,
    fresh_verifier,
    hide_answer,
)
from toolkit.identity.flow import State
from toolkit.public_api import PublicNames
from toolkit.secret import Secret

#: The default final target URL, on this machine; no program needs to listen there.
_DEFAULT_FINAL_TARGET = "http://127.0.0.1/done"
_DTYPES = {str: "str", bool: "bool", int: "Int64", datetime: "datetime64[us, UTC]"}


def _columns(record: type[msgspec.Struct], prefix: str = "") -> dict[str, str]:
    """Return the columns and dtypes of a record, without fields that hold records."""
    types = {prefix + name: (*get_args(hint), hint)[0] for name, hint in get_type_hints(record).items()}
    return {name: _DTYPES[value] for name, value in types.items() if value in _DTYPES}


ECHO_COLUMNS = _columns(responses.Echo)
ELIGIBILITY_COLUMNS = _columns(responses.Eligibility) | _columns(responses.Challenge)
PAYMENT_COLUMNS = _columns(responses.Payment)
DETAIL_COLUMNS = _columns(responses.PaymentDetail) | _columns(responses.Address, "billing_")


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
        self._recorder = RequestRecorder(http, api_client_id, now)

    def __repr__(self) -> str:
        return f"<Mobile identity at {self._http.base_url}>"

    def echo(self, message: str) -> pd.DataFrame:
        """Check that the service is available: ``POST /account/2014/07/25/accountEcho``.

        Returns
        -------
        pandas.DataFrame
            One row: ``echo_message`` (unchanged; at most 1,024 characters), ``api_version``.

        Raises
        ------
        KeyRejected
            The ApiClientId is unknown or disabled.

        Examples
        --------
        >>> import toolkit
        >>> from toolkit_gateway import Gateway
        >>> with Gateway.demo() as gateway:
        ...     toolkit.connect(gateway).identity.echo("hello").loc[0, "api_version"]
        '2014/07/25'
        """
        return self._recorder.post(wire.ECHO, {"EchoMessage": message}, _echo_frame, Flow())

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
        handset
            A simulated phone, instead of `device_ip` and `carrier_short_code`.
        device_ip, carrier_short_code
            The phone's address, the short code of its carrier, or both.
        final_target_url
            The URL, registered for this client, to which the gateway redirects the phone.

        Raises
        ------
        MalformedRequest
            1000: `final_target_url` is not registered for this client; 1003: the carrier is not supported.
        NotAuthenticated
            1038: `device_ip` belongs to another carrier.
        """
        if handset is not None:
            if device_ip is not None or carrier_short_code is not None:
                raise InvalidArgument("give either a handset, or device_ip and carrier_short_code")
            device_ip, carrier_short_code = handset.device_ip, handset.carrier_short_code
        if device_ip is None and carrier_short_code is None:
            raise InvalidArgument("give a handset, a device_ip or a carrier_short_code")
        verifier, challenge = fresh_verifier()
        target = {"FinalTargetUrl": final_target_url, "CodeChallenge": challenge}
        fields = {"DeviceIp": device_ip, "CarrierShortCode": carrier_short_code, **target}
        flow, base_url = Flow(), self._http.base_url
        read = partial(_started_transaction, flow, verifier, base_url)
        return self._recorder.post(wire.START_AUTH, fields, read, flow)

    def authenticate_device(self, transaction: StartedTransaction, handset: Handset | None = None) -> PhoneProof:
        """Open TargetUrl as the phone: ``GET /mobileauth/2014/07/01/deviceAuthenticate?vfp=...&r=f``.

        A TargetUrl can be opened once. If the network does not identify the phone, only `finish_authentication`
        reports this. Without a `handset`, this machine opens TargetUrl over its own network.

        Raises
        ------
        Conflict
            TargetUrl was opened before, or it has expired (by default after 120 seconds).
        """
        headers = handset.network_headers if handset is not None else {}
        final = self._recorder.open_target(transaction.secret("fingerprint"), headers, transaction.flow)
        return PhoneProof(transaction, final)

    def preview(self, transaction: StartedTransaction) -> int:
        """Request TargetUrl with ``HEAD``, as a link preview does, and return the HTTP status: 405."""
        return self._recorder.preview(transaction.secret("fingerprint"), transaction.flow)

    def finish_authentication(self, proof: PhoneProof) -> AuthenticatedUser:
        """Exchange a proof for alias and code: ``POST /mobileauth/2014/07/01/authenticateByRedirectFinish``.

        A proof can be used once: a second call with the same proof is refused and revokes the code of the first call.

        Raises
        ------
        NotAuthenticated
            1001: the network did not identify the phone; 1006: the subscriber is suspended; 1007: deactivated;
            1038: now with another carrier.
        Conflict
            2002: the proof has expired (by default after 60 seconds); 2003: the proof was used before.
        """
        fields = {"VerificationFingerprint": proof.secret("fingerprint"), "CodeVerifier": proof.secret("verifier")}
        read = partial(_authenticated_user, proof.flow, self._recorder.now)
        return self._recorder.post(wire.FINISH_AUTH, fields, read, proof.flow)

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
        CodeExpired
            The code has expired; nothing was sent.
        NotAuthenticated
            2012: the code was revoked.
        """
        fields = self._authentication_fields(user)
        read = partial(checked, record=responses.Eligibility)
        eligibility = self._recorder.post(wire.GET_ELIGIBILITY, fields, read, user.flow)
        user.challenge_id = eligibility.challenge.challenge_id if eligibility.challenge else None
        return declared_frame([_row(eligibility) | _row(eligibility.challenge)], ELIGIBILITY_COLUMNS)

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
        NotEligible, Conflict
            1010: the user is not eligible; 2020: `eligibility` was not called yet.
        KeyRejected, RateLimited
            2021: an answer is needed; 2022: the answer is wrong; 2023: too many answers were wrong, so the service
            accepts no answer for ``retry_after`` seconds.
        NotFound
            1012: the user has no customer data.
        """
        answer = hide_answer(answer)
        fields = self._authentication_fields(user, answer)
        return self._recorder.post(wire.GET_PAYMENT_LIST, fields, _payment_frame, user.flow)

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
            as ``billing_line1`` to ``billing_country_code``.

        Raises
        ------
        NotFound
            2030: at least one of the payment methods is not on file for this user.
        ServiceError
            As for `payment_list`.
        """
        answer = hide_answer(answer)
        fields = self._authentication_fields(user, answer) | {"PaymentIds": payment_ids(payments)}
        return self._recorder.post(wire.GET_PAYMENT_DETAILS, fields, _detail_frame, user.flow)

    def session(self) -> IdentitySession:
        """Return a session for one phone. Use it as a context manager, which forgets all secrets at the end."""
        return IdentitySession(self)

    def called_by(self, api_client_id: Secret) -> IdentityClient:
        """Return a client with another ApiClientId and a separate trace, over the same connection."""
        return IdentityClient(self._http, lambda: api_client_id, self._recorder.now)

    def trace(self) -> pd.DataFrame:
        """Return one row for each of the last 1,000 requests, oldest first, without secrets.

        Returns
        -------
        pandas.DataFrame
            ``n``, ``operation``, ``http``, ``status``, ``description``, ``transition``, ``ms``, ``seconds_left``
            (until the code expires; missing without a code).
        """
        rows = [{name: getattr(step, name) for name in TRACE_COLUMNS} for step in self._recorder.steps]
        return declared_frame(rows, TRACE_COLUMNS)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the trace with their requests and responses, secrets redacted."""
        return tuple(self._recorder.steps)

    def _authentication_fields(self, user: AuthenticatedUser, answer: Secret | None = None) -> dict[str, object]:
        fields: dict[str, object] = {"ServiceAlias": user.service_alias, "AuthenticationCode": user.secret("code")}
        if not user.seconds_left(self._recorder.now()):
            user.flow.states = frozenset({State.EXPIRED})
            expiry = f"{user.expires_at:%H:%M:%S} UTC"
            raise CodeExpired(f"the code expired at {expiry}; begin again with start_authentication")
        if answer is not None and user.challenge_id is not None:
            fields |= {"ChallengeId": user.challenge_id, "ChallengeAnswer": answer}
        return fields


def payment_ids(payments: Payments) -> list[str]:
    """Return the ids of payments; raise InvalidArgument if one is not a text."""
    if isinstance(payments, pd.DataFrame):
        if "payment_id" not in payments.columns:
            raise InvalidArgument("the frame has no column payment_id: give rows of payment_list")
        payments = payments["payment_id"]
    elif isinstance(payments, pd.Series) and isinstance(payments.get("payment_id"), str):
        payments = payments["payment_id"]  # one row of payment_list
    ids = [payments] if isinstance(payments, str) else list(payments) if isinstance(payments, Iterable) else [payments]
    if wrong := [item for item in ids if not isinstance(item, str)]:
        raise InvalidArgument(f"payments are ids or rows of payment_list, not {described(wrong[0])}")
    return ids


def _started_transaction(flow: Flow, verifier: Secret, base_url: str, response: Response) -> StartedTransaction:
    """Return the new transaction; UnexpectedReply if TargetUrl is not a URL of the gateway."""
    started = checked(response, responses.Started)
    fingerprint = Secret(started.verification_fingerprint)
    # Otherwise a response could send the phone to another server. Case does not matter in the name of a host.
    target, _, vfp = started.target_url.partition("?vfp=")
    is_ours = target.lower() == f"{base_url}{wire.OPEN_TARGET.path_for()}".lower() and Secret(vfp) == fingerprint
    expect(is_ours, "TargetUrl is not a URL of this gateway")
    fields = (flow, started.authenticate_transaction_id, started.expires_in)
    return StartedTransaction(*fields, fingerprint=fingerprint, verifier=verifier)


def _authenticated_user(flow: Flow, now: Callable[[], int], response: Response) -> AuthenticatedUser:
    """Return the user from a Finish response; `now` returns milliseconds since the epoch."""
    finished = checked(response, responses.Finished)
    expires_at = finished.authentication_expiration.astimezone(UTC)
    expect(expires_at.timestamp() > now() / 1000, "AuthenticationExpiration is not in the future")
    phone = (finished.mobile_number, finished.mobile_country_code, finished.mobile_operator_name)
    code = Secret(finished.authentication_code)
    return AuthenticatedUser(flow, finished.service_alias, code, expires_at, phone)


def _echo_frame(response: Response) -> pd.DataFrame:
    return declared_frame([_row(checked(response, responses.Echo))], ECHO_COLUMNS)


def _payment_frame(response: Response) -> pd.DataFrame:
    listed = checked(response, responses.PaymentList)
    expect(listed.count == len(listed.payments), "Count is not the number of payments")
    return declared_frame(map(_row, listed.payments), PAYMENT_COLUMNS)


def _detail_frame(response: Response) -> pd.DataFrame:
    payments = checked(response, responses.PaymentDetails).payments
    rows = [_row(payment) | _row(payment.billing_address, "billing_") for payment in payments]
    return declared_frame(rows, DETAIL_COLUMNS)


def _row(record: msgspec.Struct | msgspec.UnsetType | None, prefix: str = "") -> dict[str, Any]:
    if not isinstance(record, msgspec.Struct):
        return {}
    fields = msgspec.structs.asdict(record).items()
    return {prefix + name: value for name, value in fields if value is not msgspec.UNSET}
