"""The people whom a carrier knows, and the file that the demo world reads them from.

Nobody in that file exists: numbers are of the 555-01xx range, addresses of the networks kept for documentation, mail
is at example.com, and of each published test card only the first six and last four digits are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment on file: a carrier bill, or a card without its middle digits."""

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
    """A billing address."""

    line1: str
    city: str
    region: str
    postal_code: str
    country_code: str = "US"
    line2: str | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A person with a phone, as the carrier knows them.

    ``account`` is POSTPAID, PREPAID or BUSINESS; ``state`` ACTIVE, SUSPENDED or DEACTIVATED; ``record`` PRESENT,
    NONE (there never was one) or LOST (there should be one). ``asks`` is whether the payment calls need the
    challenge answered, ``wrong_answers`` what is on file against the question.
    """

    id: str
    mobile_number: str
    carrier: str
    device_ip: str
    name: str
    email: str
    address: Address
    payments: tuple[Payment, ...]
    account: str = "POSTPAID"
    state: str = "ACTIVE"
    record: str = "PRESENT"
    opted_out: bool = False
    asks: bool = True
    wrong_answers: int = 0

    @property
    def masked_number(self) -> str:
        """All but the last two digits hidden."""
        return "*" * 9 + self.mobile_number[-2:]


class _File(msgspec.Struct):
    subscribers: list[Subscriber]


def load_subscribers(path: Path) -> list[Subscriber]:
    """Read the subscribers of a demo world from its data file."""
    return msgspec.json.decode(path.read_bytes(), type=_File).subscribers
