"""The ``Response`` of each operation: the service writes these records, the client checks a response against them."""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from toolkit.identity.wire import GUID

# msgspec searches for a pattern, so each pattern names both ends of the text.
Guid = Annotated[str, Meta(pattern=rf"^{GUID.pattern}\Z")]
Token = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._~-]{16,256}\Z")]
Time = Annotated[datetime, Meta(tz=True)]
CountryCode = Annotated[str, Meta(pattern=r"^[A-Z]{2}\Z")]
OperatorName = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,100}\Z")]


class Echo(Struct, rename="pascal"):
    echo_message: str
    api_version: str


class Started(Struct, rename="pascal"):
    authenticate_transaction_id: Guid
    target_url: str
    verification_fingerprint: Token
    #: Seconds.
    expires_in: Annotated[int, Meta(ge=1, le=600)]


class Opened(Struct):
    """The response to a phone that asks for JSON."""

    vfp: Token


class Finished(Struct, rename="pascal"):
    authenticate_finish_transaction_id: Guid
    service_alias: Guid
    authentication_code: Token
    authentication_expiration: Time
    mobile_number: Annotated[str, Meta(pattern=r"^\*{4,}[0-9]{0,4}\Z")]
    mobile_country_code: CountryCode
    mobile_operator_name: OperatorName


class Challenge(Struct, rename="pascal"):
    challenge_id: Guid
    question_type: str
    question: str
    answer_format: str
    attempts_left: int
    expires_at: Time


class Eligibility(Struct, rename="pascal"):
    eligible: bool
    #: None if no question is asked; unset if the user is not eligible.
    challenge: Challenge | None | UnsetType = UNSET
    ineligible_reason: str | UnsetType = UNSET


class Payment(Struct, rename="pascal"):
    """A payment method on file; a carrier bill has no brand, last four digits and expiration."""

    payment_id: Guid
    payment_type: str
    brand: str | None
    last_four: Annotated[str, Meta(pattern=r"^[0-9]{4}\Z")] | None
    expiration_month: int | None
    expiration_year: int | None
    is_default: bool


class PaymentList(Struct, rename="pascal"):
    count: int
    payments: list[Payment]


class Address(Struct, rename="pascal"):
    line1: str | None = None
    line2: str | None = None
    city: str | None = None
    region: str | None = None
    postal_code: str | None = None
    country_code: str | None = None


class PaymentDetail(Struct, rename="pascal"):
    payment_id: Guid
    payment_type: str
    brand: str | None = None
    masked_account_number: Annotated[str, Meta(pattern=r"^[0-9]{0,6}\*{4,}[0-9]{4}\Z")] | None = None
    expiration_month: int | None = None
    expiration_year: int | None = None
    name_on_account: str | None = None
    billing_address: Address | None = None


class PaymentDetails(Struct, rename="pascal"):
    payments: list[PaymentDetail]
