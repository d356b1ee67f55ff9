"""Check responses against the contract, wrap their secrets and convert them to DataFrames."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
import pandas as pd

from toolkit.errors import UnexpectedReply
from toolkit.frames import declared_frame
from toolkit.identity import responses, wire
from toolkit.identity.client.session import AuthenticatedUser, Flow, StartedTransaction
from toolkit.secret import Secret

Response = Mapping[str, Any]
StructT = TypeVar("StructT", bound=msgspec.Struct)

_DTYPES = {str: "str", bool: "bool", int: "Int64", datetime: "datetime64[us, UTC]"}


def _columns(kind: type[msgspec.Struct], prefix: str = "") -> dict[str, str]:
    """Return the columns and dtypes of a record, without the records in it."""
    types = {prefix + name: (*get_args(hint), hint)[0] for name, hint in get_type_hints(kind).items()}
    return {name: _DTYPES[one] for name, one in types.items() if one in _DTYPES}


ECHO_COLUMNS = _columns(responses.Echo)
ELIGIBILITY_COLUMNS = _columns(responses.Eligibility) | _columns(responses.Challenge)
PAYMENT_COLUMNS = _columns(responses.Payment)
DETAIL_COLUMNS = _columns(responses.PaymentDetail) | _columns(responses.Address, "billing_")


def expect(condition: bool, problem: str) -> None:
    """Raise UnexpectedReply unless the condition holds; `problem` must not contain values of the response."""
    if not condition:
        raise UnexpectedReply(f"the response breaks the contract: {problem}")


def checked(response: Response, kind: type[StructT]) -> StructT:
    """Convert a response to a record; raise UnexpectedReply if a field is missing or wrong."""
    try:
        return msgspec.convert(response, kind)
    except msgspec.ValidationError as error:
        # Only the name of the field: other parts of the message may quote the response.
        field = re.findall(r"`\$?\.?([^`]*)`", str(error))[-1]
    raise UnexpectedReply(f"the response breaks the contract: {field} is missing or has another form")


def started_transaction(
    flow: Flow, verifier: Secret, base_url: str, final_target_url: str, response: Response
) -> StartedTransaction:
    """Return the new transaction; UnexpectedReply if TargetUrl is not a URL of the gateway."""
    started = checked(response, responses.Started)
    fingerprint = Secret(started.verification_fingerprint)
    # Otherwise a response could send the phone to another server.
    own = f"{base_url}{wire.OPEN_TARGET.path_for()}?vfp={started.verification_fingerprint}"
    expect(Secret(started.target_url) == Secret(own), "TargetUrl is not a URL of this gateway")
    made = (flow, started.authenticate_transaction_id, final_target_url, started.expires_in)
    return StartedTransaction(*made, fingerprint=fingerprint, verifier=verifier)


def authenticated_user(flow: Flow, now: Callable[[], int], response: Response) -> AuthenticatedUser:
    """Return the user from a Finish response; `now` returns milliseconds since the epoch."""
    finished = checked(response, responses.Finished)
    expires_at = finished.authentication_expiration.astimezone(UTC)
    expect(expires_at.timestamp() > now() / 1000, "AuthenticationExpiration is not in the future")
    phone = (finished.mobile_number, finished.mobile_country_code, finished.mobile_operator_name)
    code = Secret(finished.authentication_code)
    return AuthenticatedUser(flow, finished.service_alias, code, expires_at, phone)


def echo_frame(response: Response) -> pd.DataFrame:
    """Return the echo as one row."""
    return declared_frame([_row(checked(response, responses.Echo))], ECHO_COLUMNS)


def eligibility_frame(eligibility: responses.Eligibility) -> pd.DataFrame:
    """Return eligibility and challenge as one row."""
    return declared_frame([_row(eligibility) | _row(eligibility.challenge)], ELIGIBILITY_COLUMNS)


def payment_frame(response: Response) -> pd.DataFrame:
    """Return one row per payment, in the order of the response."""
    listed = checked(response, responses.PaymentList)
    expect(listed.count == len(listed.payments), "Count is not the number of payments")
    return declared_frame(map(_row, listed.payments), PAYMENT_COLUMNS)


def detail_frame(response: Response) -> pd.DataFrame:
    """Return one row per payment, with the address in columns ``billing_...``."""
    payments = checked(response, responses.PaymentDetails).payments
    rows = [_row(payment) | _row(payment.billing_address, "billing_") for payment in payments]
    return declared_frame(rows, DETAIL_COLUMNS)


def _row(record: msgspec.Struct | msgspec.UnsetType | None, prefix: str = "") -> dict[str, Any]:
    if not isinstance(record, msgspec.Struct):
        return {}
    fields = msgspec.structs.asdict(record).items()
    return {prefix + name: value for name, value in fields if value is not msgspec.UNSET}
