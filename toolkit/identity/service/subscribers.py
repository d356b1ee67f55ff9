"""The subscribers of a carrier, and the data file of the demo world's invented ones.

Of each published test card the file holds only the first six and last four digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True)
class Payment:
    """A carrier bill, or a card without its middle digits."""

    payment_type: str
    brand: str | None = None
    first_six: str | None = None
    last_four: str | None = None
    digits: int = 0
    expiration_month: int | None = None
    expiration_year: int | None = None
    is_default: bool = False

    @property
    def masked_number(self) -> str | None:
        if self.first_six is None or self.last_four is None:
            return None
        return self.first_six + "*" * (self.digits - 10) + self.last_four


@dataclass(frozen=True, slots=True)
class Address:
    line1: str
    city: str
    region: str
    postal_code: str
    country_code: str = "US"
    line2: str | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    id: str
    mobile_number: str
    carrier: str
    device_ip: str
    name: str
    email: str
    address: Address
    payments: tuple[Payment, ...]
    account: str = "POSTPAID"  # or PREPAID, BUSINESS
    state: str = "ACTIVE"  # or SUSPENDED, DEACTIVATED
    record: str = "PRESENT"  # or NONE (there never was one), LOST (there should be one)
    opted_out: bool = False
    #: Whether the payment calls need the challenge answered.
    asks: bool = True
    wrong_answers: int = 0

    @property
    def masked_number(self) -> str:
        return "*" * 9 + self.mobile_number[-2:]


class _File(msgspec.Struct):
    subscribers: list[Subscriber]


def load_subscribers(path: Path) -> list[Subscriber]:
    return msgspec.json.decode(path.read_bytes(), type=_File).subscribers
