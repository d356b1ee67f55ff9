"""The payments that a caller names: by the frame of ``payment_list``, by a Series or list of ids, or by one id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import pandas as pd

from toolkit.argument_checks import described
from toolkit.errors import InvalidArgument

Payments: TypeAlias = pd.DataFrame | pd.Series | str | Iterable[str]


def payment_ids(payments: Payments) -> list[str]:
    """Return the ids, or raise InvalidArgument."""
    if isinstance(payments, pd.DataFrame):
        if "payment_id" not in payments.columns:
            raise InvalidArgument("the frame has no column payment_id: give rows of payment_list")
        payments = payments["payment_id"]
    elif isinstance(payments, pd.Series) and isinstance(payments.get("payment_id"), str):
        payments = payments["payment_id"]  # one row of payment_list
    ids = [payments] if isinstance(payments, str) else list(payments) if isinstance(payments, Iterable) else [payments]
    if wrong := [one for one in ids if not isinstance(one, str)]:
        raise InvalidArgument(f"payments are ids or rows of payment_list, not {described(wrong[0])}")
    return ids
