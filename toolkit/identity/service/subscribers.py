"""The subscribers of a carrier. Of a card only the first six and last four digits are known."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal

from msgspec import Meta

from toolkit.errors import InvalidArgument
from toolkit.settings import Table, Text


class Payment(Table, frozen=True):
    """A carrier bill, or a card without its middle digits."""

    payment_type: Literal["CREDIT_CARD", "DEBIT_CARD", "CARRIER_BILL"]
    brand: Text | None = None
    first_six: Annotated[str, Meta(pattern="^[0-9]{6}$")] | None = None
    last_four: Annotated[str, Meta(pattern="^[0-9]{4}$")] | None = None
    digits: Annotated[int, Meta(ge=12, le=19)] | None = None
    expiration_month: Annotated[int, Meta(ge=1, le=12)] | None = None
    expiration_year: Annotated[int, Meta(ge=2000, le=9999)] | None = None
    is_default: bool = False

    def __post_init__(self) -> None:
        for key in ("first_six", "last_four", "digits"):
            if (getattr(self, key) is None) != (self.payment_type == "CARRIER_BILL"):
                raise InvalidArgument(f"{key}: a card has it, a carrier bill has not")

    @property
    def masked_number(self) -> str | None:
        if self.first_six is None or self.last_four is None or self.digits is None:
            return None
        return self.first_six + "*" * (self.digits - 10) + self.last_four


class Address(Table, frozen=True):
    line1: Text
    city: Text
    region: Text
    #: The answer to the challenge.
    postal_code: Annotated[str, Meta(pattern="^[0-9]{5}$")]
    country_code: Text = "US"
    line2: Text | None = None


class Subscriber(Table, frozen=True):
    id: Text
    mobile_number: Annotated[str, Meta(pattern=r"^\+[0-9]{7,15}$")]
    carrier: Text
    device_ip: Text
    name: Text
    email: Text
    address: Address
    payments: tuple[Payment, ...] = ()
    account: Literal["POSTPAID", "PREPAID", "BUSINESS"] = "POSTPAID"
    state: Literal["ACTIVE", "SUSPENDED", "DEACTIVATED"] = "ACTIVE"
    #: NONE: there never was one; LOST: there should be one.
    record: Literal["PRESENT", "NONE", "LOST"] = "PRESENT"
    opted_out: bool = False
    #: Whether the payment calls need the challenge answered.
    asks: bool = True
    wrong_answers: Annotated[int, Meta(ge=0, le=100)] = 0

    def __post_init__(self) -> None:
        try:
            is_normal = str(ip_address(self.device_ip)) == self.device_ip
        except ValueError:
            is_normal = False
        if not is_normal:
            raise InvalidArgument("device_ip: expected an IP address in its normal form, such as 203.0.113.7")

    @property
    def masked_number(self) -> str:
        return "*" * 9 + self.mobile_number[-2:]
