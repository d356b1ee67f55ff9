"""What one types in a notebook for section D: ``tk.identity``."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from toolkit.identity import answers, wire
from toolkit.identity.authentication_calls import AuthenticationCalls
from toolkit.identity.final_target import FinalTargetListener
from toolkit.identity.flow import Call, State
from toolkit.identity.held_secrets import AuthenticatedUser
from toolkit.identity.session import IdentitySession
from toolkit.identity.trace import Step
from toolkit.secret import Secret


class IdentityClient(AuthenticationCalls):
    """Mobile identity and checkout data. Use it as ``tk.identity``.

    The order of calls: `start_authentication`, `authenticate_device`, `finish_authentication`, `eligibility`,
    `payment_list`, `payment_details`. Fingerprints and codes stay inside the objects that these calls return.
    """

    def echo(self, message: str) -> pd.DataFrame:
        """Ask whether the service is there: ``POST /account/2014/07/25/accountEcho``.

        Parameters
        ----------
        message
            At most 1,024 characters; comes back unchanged.

        Returns
        -------
        pandas.DataFrame
            One row: ``echo_message``, ``api_version``.

        Raises
        ------
        KeyRejected
            The ApiClientId is not known.

        Examples
        --------
        >>> import toolkit
        >>> from toolkit.gateway import Gateway
        >>> with Gateway.demo() as gateway:
        ...     toolkit.connect(gateway).identity.echo("hello").loc[0, "api_version"]
        '2014/07/25'
        """
        return self._call(wire.ECHO, {"EchoMessage": message}, answers.echo_frame)

    def eligibility(self, user: AuthenticatedUser) -> pd.DataFrame:
        """Ask whether payments may be fetched: ``POST /account/2014/07/25/getEligibility``.

        Not being eligible is an answer and no error; only the payment calls are refused then.

        Returns
        -------
        pandas.DataFrame
            One row: ``eligible``, ``ineligible_reason``, and the challenge: ``challenge_id``, ``question_type``,
            ``question``, ``answer_format``, ``attempts_left``, ``expires_at`` (UTC), all missing where there is none.

        Raises
        ------
        CodeExpired
            The code's life is over; nothing was sent.
        NotAuthenticated
            2012: the code was revoked.
        """
        frame = self._call(
            wire.ELIGIBILITY,
            self._proof_of(user),
            answers.eligibility_frame,
            holder=user,
            call=Call.ELIGIBILITY,
            told=_state_told,
        )
        row = frame.iloc[0]
        user.challenge_id = None if pd.isna(row["challenge_id"]) else row["challenge_id"]
        return frame

    def payment_list(self, user: AuthenticatedUser, *, answer: str | Secret | None = None) -> pd.DataFrame:
        """List the payments on file, masked: ``POST /account/2014/07/25/getPaymentList``.

        Parameters
        ----------
        user
            From `finish_authentication`; call `eligibility` first.
        answer
            To the challenge's question. Needed until one was right.

        Returns
        -------
        pandas.DataFrame
            One row a payment: ``payment_id``, ``payment_type``, ``brand``, ``last_four``, ``expiration_month``,
            ``expiration_year``, ``is_default``.

        Raises
        ------
        CodeExpired
            The code's life is over; nothing was sent.
        NotEligible
            1010: the user is not eligible.
        Conflict
            2020: `eligibility` was not called yet.
        KeyRejected
            2021 an answer is needed, 2022 it is wrong.
        RateLimited
            2023: three wrong answers, the challenge is locked; ``retry_after`` seconds.
        NotFound
            1012: there is no customer data.
        """
        answer = _hidden(answer)
        fields = self._proof_of(user) | _answer_fields(user, answer)
        return self._call(wire.PAYMENT_LIST, fields, answers.payment_frame, holder=user, call=Call.PAYMENTS)

    def payment_details(
        self, user: AuthenticatedUser, payment_ids: Iterable[str], *, answer: str | Secret | None = None
    ) -> pd.DataFrame:
        """Fetch payments in detail, still masked: ``POST /account/2014/07/25/getPaymentDetails``.

        Parameters
        ----------
        user
            From `finish_authentication`.
        payment_ids
            1 to 20 distinct ids of `payment_list`.
        answer
            To the challenge's question, where none was right yet.

        Returns
        -------
        pandas.DataFrame
            One row a payment, in the order asked: ``payment_id``, ``payment_type``, ``brand``,
            ``masked_account_number``, ``expiration_month``, ``expiration_year``, ``name_on_account`` and the address
            as ``billing_line1`` to ``billing_country_code``.

        Raises
        ------
        NotFound
            2030: one of them is not on file for this user; nothing of the others is told.
        ServiceError
            As for `payment_list`.
        """
        answer = _hidden(answer)
        fields = self._proof_of(user) | _answer_fields(user, answer) | {"PaymentIds": [str(one) for one in payment_ids]}
        return self._call(wire.PAYMENT_DETAILS, fields, answers.detail_frame, holder=user, call=Call.PAYMENTS)

    def session(self) -> IdentitySession:
        """Return a session for one phone, to be used in a ``with`` statement: at its end all secrets are forgotten."""
        return IdentitySession(self)

    def listen(self) -> FinalTargetListener:
        """Listen on a free port of this machine for one browser that comes back with a final fingerprint."""
        return FinalTargetListener()

    def called_by(self, api_client_id: Secret) -> IdentityClient:
        """Return a client that calls as somebody else, over the same connection and with a trace of its own."""
        return IdentityClient(self._http, api_client_id, self._now)

    def trace(self) -> pd.DataFrame:
        """Return one row for each call so far, oldest first (the last 1,000).

        Returns
        -------
        pandas.DataFrame
            ``n``, ``operation``, ``http``, ``status``, ``description``, ``transition``, ``ms``, ``seconds_left`` (of
            the code, where there is one). No secret is in it.
        """
        return self._trace.frame()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The calls so far with their redacted requests and responses."""
        return tuple(self._trace.steps)

    def _proof_of(self, user: AuthenticatedUser) -> dict[str, object]:
        code = user.secret("code")
        user.check_life(self._now())
        return {"ServiceAlias": user.service_alias, "AuthenticationCode": code}


def _hidden(answer: str | Secret | None) -> Secret | None:
    return None if answer is None else Secret(answer, guessable=True)


def _answer_fields(user: AuthenticatedUser, answer: Secret | None) -> dict[str, object]:
    if answer is None or user.challenge_id is None:
        return {}
    return {"ChallengeId": user.challenge_id, "ChallengeAnswer": answer}


def _state_told(frame: pd.DataFrame) -> State:
    row = frame.iloc[0]
    if not row["eligible"]:
        return State.NOT_ELIGIBLE
    if pd.isna(row["challenge_id"]):
        return State.UNLOCKED
    return State.LOCKED if row["attempts_left"] == 0 else State.ELIGIBLE
