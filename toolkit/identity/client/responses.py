"""Check responses against the contract, wrap their secrets and convert them to DataFrames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import pandas as pd

from toolkit.errors import UnexpectedReply
from toolkit.frames import declared_frame
from toolkit.identity import wire
from toolkit.identity.client.held_secrets import AuthenticatedUser
from toolkit.identity.flow import State
from toolkit.identity.wire import GUID
from toolkit.secret import Secret

Response = Mapping[str, Any]

_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~-]{16,256}")
_TIME_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_LAST_FOUR_PATTERN = re.compile(r"[0-9]{4}")
_MASKED_CARD_PATTERN = re.compile(r"[0-9]{0,6}\*{4,}[0-9]{4}")
_MASKED_PHONE_PATTERN = re.compile(r"\*{4,}[0-9]{0,4}")


def column_name(name: str) -> str:
    """Convert a wire name to a column name: ``PaymentId`` to ``payment_id``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _columns(fields: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    return {prefix + column_name(name): dtype for name, dtype in fields.items()}


ECHO_COLUMNS = _columns(wire.ECHO_FIELDS)
ELIGIBILITY_COLUMNS = _columns(wire.ELIGIBILITY_FIELDS) | _columns(wire.CHALLENGE_FIELDS)
PAYMENT_COLUMNS = _columns(wire.PAYMENT_FIELDS)
DETAIL_COLUMNS = _columns(wire.DETAIL_FIELDS) | _columns(wire.ADDRESS_FIELDS, "billing_")


def expect(condition: bool, problem: str) -> None:
    """Raise UnexpectedReply unless the condition holds; `problem` must not contain values of the response."""
    if not condition:
        raise UnexpectedReply(f"the response breaks the contract: {problem}")


def matching_text(response: Response, name: str, pattern: re.Pattern[str]) -> str:
    """Return a text field that matches the pattern; raise UnexpectedReply otherwise."""
    value = response.get(name)
    expect(type(value) is str and pattern.fullmatch(value) is not None, f"{name} has another form")
    return str(value)


def secret_in(response: Response, name: str) -> Secret:
    """Return a token of a response as a secret."""
    return Secret(matching_text(response, name, _TOKEN_PATTERN))


def transaction_parts(response: Response, base_url: str) -> tuple[str, Secret, int]:
    """Return the id of a new transaction, the first fingerprint and its lifetime in seconds."""
    fingerprint = secret_in(response, "VerificationFingerprint")
    # Otherwise a response could send the phone to another server.
    own = Secret(f"{base_url}{wire.OPEN_TARGET.path_for()}?vfp={response['VerificationFingerprint']}")
    given = response.get("TargetUrl")
    expect(isinstance(given, str) and Secret(given) == own, "TargetUrl is not a URL of this gateway")
    seconds = response.get("ExpiresIn")
    expect(type(seconds) is int and 0 < seconds <= 600, "ExpiresIn is not 1 to 600 seconds")
    return matching_text(response, "AuthenticateTransactionId", GUID), fingerprint, int(seconds or 0)


def authenticated_user(response: Response, now: int) -> AuthenticatedUser:
    """Return the user from a Finish response; `now` is in milliseconds since the epoch."""
    expires, given = 0, matching_text(response, "AuthenticationExpiration", _TIME_PATTERN)
    with suppress(ValueError):  # such as the 31st of February
        expires = round(datetime.fromisoformat(given).timestamp() * 1000)
    expect(expires > now, "AuthenticationExpiration is not in the future")
    phone = (
        matching_text(response, "MobileNumber", _MASKED_PHONE_PATTERN),
        matching_text(response, "MobileCountryCode", re.compile(r"[A-Z]{2}")),
        matching_text(response, "MobileOperatorName", re.compile(r"[^\x00-\x1f\x7f]{1,100}")),
    )
    alias = matching_text(response, "ServiceAlias", GUID)
    return AuthenticatedUser(alias, secret_in(response, "AuthenticationCode"), expires, phone)


def echo_frame(response: Response) -> pd.DataFrame:
    """Return the echo as one row."""
    return _frame([response], ECHO_COLUMNS)


def eligibility_frame(response: Response) -> pd.DataFrame:
    """Return eligibility and challenge as one row."""
    expect(type(response.get("Eligible")) is bool, "Eligible is not a boolean")
    challenge = response.get("Challenge")
    expect(challenge is None or isinstance(challenge, dict), "Challenge is not an object")
    if challenge:
        matching_text(challenge, "ChallengeId", GUID)
        matching_text(challenge, "ExpiresAt", _TIME_PATTERN)
    return _frame([{**response, **(challenge or {})}], ELIGIBILITY_COLUMNS)


def state_after_eligibility(eligibility: pd.DataFrame) -> State:
    """Return the state of the flow after an eligibility response."""
    row = eligibility.iloc[0]
    if not row["eligible"]:
        return State.NOT_ELIGIBLE
    if pd.isna(row["challenge_id"]):
        return State.UNLOCKED
    return State.LOCKED if row["attempts_left"] == 0 else State.ELIGIBLE


def payment_frame(response: Response) -> pd.DataFrame:
    """Return one row per payment, in the order of the response."""
    payments = _payments(response)
    for payment in payments:
        if payment.get("LastFour") is not None:
            matching_text(payment, "LastFour", _LAST_FOUR_PATTERN)
        expect(type(payment.get("IsDefault")) is bool, "IsDefault is not a boolean")
    expect(response.get("Count") == len(payments), "Count is not the number of payments")
    return _frame(payments, PAYMENT_COLUMNS)


def detail_frame(response: Response) -> pd.DataFrame:
    """Return one row per payment, with the address in columns ``billing_...``."""
    rows = []
    for payment in _payments(response):
        if payment.get("MaskedAccountNumber") is not None:
            matching_text(payment, "MaskedAccountNumber", _MASKED_CARD_PATTERN)
        address = payment.get("BillingAddress") or {}
        expect(isinstance(address, dict), "BillingAddress is not an object")
        rows.append({**payment, **{f"Billing{name}": value for name, value in address.items()}})
    return _frame(rows, DETAIL_COLUMNS)


def _payments(response: Response) -> list[dict[str, Any]]:
    payments = response.get("Payments")
    if not isinstance(payments, list) or not all(isinstance(payment, dict) for payment in payments):
        raise UnexpectedReply("the response breaks the contract: Payments is not a list of objects")
    for payment in payments:
        matching_text(payment, "PaymentId", GUID)
    return payments


def _frame(rows: Iterable[Response], columns: Mapping[str, str]) -> pd.DataFrame:
    named = [{column_name(name): value for name, value in row.items()} for row in rows]
    try:
        return declared_frame(named, columns)
    except (ValueError, TypeError, OverflowError):
        # The message of pandas would quote values of the response.
        raise UnexpectedReply("the response breaks the contract: a field has another type") from None
