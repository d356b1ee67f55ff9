"""Convert responses to frames and to the objects of a flow."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
import pandas as pd

from toolkit.argument_checks import described
from toolkit.errors import InvalidArgument
from toolkit.frames import declared_frame
from toolkit.identity import responses, wire
from toolkit.identity.client.request_recorder import Response, checked, expect
from toolkit.identity.client.transaction import AuthenticatedUser, Flow, StartedTransaction
from toolkit.secret import Secret

#: Frame or rows of ``payment_list``, a Series or list of ids, or one id.
Payments: TypeAlias = pd.DataFrame | pd.Series | str | Iterable[str]
_DTYPES = {str: "str", bool: "bool", int: "Int64", datetime: "datetime64[us, UTC]"}


def _columns(record: type[msgspec.Struct], prefix: str = "") -> dict[str, str]:
    """Return the columns and dtypes of a record, without fields that hold records."""
    types = {prefix + name: (*get_args(hint), hint)[0] for name, hint in get_type_hints(record).items()}
    return {name: _DTYPES[value] for name, value in types.items() if value in _DTYPES}


ECHO_COLUMNS = _columns(responses.Echo)
ELIGIBILITY_COLUMNS = _columns(responses.Eligibility) | _columns(responses.Challenge)
PAYMENT_COLUMNS = _columns(responses.Payment)
DETAIL_COLUMNS = _columns(responses.PaymentDetail) | _columns(responses.Address, "billing_")


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


def started_transaction(flow: Flow, verifier: Secret, base_url: str, response: Response) -> StartedTransaction:
    started = checked(response, responses.Started)
    fingerprint = Secret(started.verification_fingerprint)
    # Otherwise a response could send the phone to another server. Case does not matter in the name of a host.
    target, _, vfp = started.target_url.partition("?vfp=")
    is_ours = target.lower() == f"{base_url}{wire.OPEN_TARGET.path_for()}".lower() and Secret(vfp) == fingerprint
    expect(is_ours, "TargetUrl is not a URL of this gateway")
    fields = (flow, started.authenticate_transaction_id, started.expires_in)
    return StartedTransaction(*fields, fingerprint=fingerprint, verifier=verifier)


def authenticated_user(flow: Flow, now: Callable[[], int], response: Response) -> AuthenticatedUser:
    finished = checked(response, responses.Finished)
    expires_at = finished.authentication_expiration.astimezone(UTC)
    expect(expires_at.timestamp() > now() / 1000, "AuthenticationExpiration is not in the future")
    phone = (finished.mobile_number, finished.mobile_country_code, finished.mobile_operator_name)
    code = Secret(finished.authentication_code)
    return AuthenticatedUser(flow, finished.service_alias, code, expires_at, phone)


def echo_frame(response: Response) -> pd.DataFrame:
    return declared_frame([_row(checked(response, responses.Echo))], ECHO_COLUMNS)


def eligibility_frame(eligibility: responses.Eligibility) -> pd.DataFrame:
    return declared_frame([_row(eligibility) | _row(eligibility.challenge)], ELIGIBILITY_COLUMNS)


def payment_frame(response: Response) -> pd.DataFrame:
    listed = checked(response, responses.PaymentList)
    expect(listed.count == len(listed.payments), "Count is not the number of payments")
    return declared_frame(map(_row, listed.payments), PAYMENT_COLUMNS)


def detail_frame(response: Response) -> pd.DataFrame:
    payments = checked(response, responses.PaymentDetails).payments
    rows = [_row(payment) | _row(payment.billing_address, "billing_") for payment in payments]
    return declared_frame(rows, DETAIL_COLUMNS)


def _row(record: msgspec.Struct | msgspec.UnsetType | None, prefix: str = "") -> dict[str, Any]:
    if not isinstance(record, msgspec.Struct):
        return {}
    fields = msgspec.structs.asdict(record).items()
    return {prefix + name: value for name, value in fields if value is not msgspec.UNSET}
