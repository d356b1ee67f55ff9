"""The people of the demo world: made by a keyed hash of seed and index, so the same everywhere and for ever.

Nothing here exists. Numbers are of the 555-01xx range, addresses of the networks kept for documentation, mail is
at example.com, cards are published test numbers of which only the first six and last four digits are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from toolkit.identity.published_cards import first_six_and_last_four


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
        """First six and last four with stars between, as long as the number was."""
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


_FIRST_NAMES = (
    "Donald",
    "Amina",
    "Grace",
    "Mateo",
    "Ingrid",
    "Kwame",
    "Yuki",
    "Priya",
    "Oskar",
    "Lucia",
    "Tariq",
    "Nora",
)
_LAST_NAMES = (
    "Tanaka",
    "Okafor",
    "Lindqvist",
    "Moreau",
    "Haddad",
    "Novak",
    "Silva",
    "Brandt",
    "Iyer",
    "Doyle",
    "Kimura",
)
_STREETS = ("Sample Street", "Example Avenue", "Placeholder Lane", "Fixture Road", "Specimen Way")
_TOWNS = (
    ("Fairview", "OR", "97024"),
    ("Springfield", "IL", "62701"),
    ("Franklin", "TN", "37064"),
    ("Greenville", "SC", "29601"),
    ("Salem", "OR", "97301"),
    ("Madison", "WI", "53703"),
    ("Georgetown", "TX", "78626"),
    ("Clinton", "MS", "39056"),
    ("Bristol", "CT", "06010"),
)
_AREA_CODES = ("202", "303", "404", "505")
_NUMBERS_AN_AREA = 100
_EVERY_IPV6 = 10
# The first ones carry the presets: all with the first carrier and in one town, so one answer fits all questions.
_PRESETS = 20


def generate(seed: str, carriers: Sequence[tuple[str, Sequence[str]]], count: int) -> list[Subscriber]:
    """Make the people of a demo world.

    Parameters
    ----------
    seed
        Names the world: the same seed makes the same people.
    carriers
        Short code and networks (one IPv4 /24, one IPv6 /48) of each carrier that serves.
    count
        How many; 100 for each of the area codes at most.

    Returns
    -------
    list of Subscriber
        In order of their index. Numbers and addresses come from the index, so that no two are the same.
    """
    return [_subscriber(seed, carriers, index) for index in range(count)]


def shaped(subscriber: Subscriber, shape: Mapping[str, Any]) -> Subscriber:
    """Return the subscriber with what a preset says about them; ``payments: NONE`` takes all payments away."""
    given = dict(shape)
    if given.get("payments") == "NONE":
        given["payments"] = ()
    return replace(subscriber, **given)


def fingerprint(subscribers: Sequence[Subscriber]) -> str:
    """Return the SHA-256 of all of them as sorted JSON: it stands for a version of the data."""
    text = json.dumps([asdict(subscriber) for subscriber in subscribers], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


class _Draws:
    """Numbers drawn by a keyed hash: one draw never shifts another, as a shared stream of numbers would."""

    def __init__(self, seed: str, index: int) -> None:
        self._key = seed.encode("utf-8")
        self._index = index

    def below(self, bound: int, what: str) -> int:
        text = f"{self._index}:{what}".encode()
        return int.from_bytes(hashlib.blake2b(text, key=self._key, digest_size=8).digest(), "big") % bound


def _subscriber(seed: str, carriers: Sequence[tuple[str, Sequence[str]]], index: int) -> Subscriber:
    draws = _Draws(seed, index)
    short_code, networks = carriers[0 if index < _PRESETS else index % len(carriers)]
    first, last = (_FIRST_NAMES[0], _LAST_NAMES[0]) if index == 0 else _name(draws)
    return Subscriber(
        id=str(uuid5(NAMESPACE_DNS, f"{seed}:{index}")),
        mobile_number=f"+1{_AREA_CODES[index // _NUMBERS_AN_AREA]}5550{100 + index % _NUMBERS_AN_AREA}",
        carrier=short_code,
        device_ip=_device_ip(networks, index),
        name=f"{first} {last}",
        email=f"{first}.{last}.{index}@example.com".lower(),
        address=_address(draws, index),
        payments=_payments(draws, index),
        asks=index < _PRESETS or draws.below(4, "asks") > 0,
    )


def _name(draws: _Draws) -> tuple[str, str]:
    first = _FIRST_NAMES[draws.below(len(_FIRST_NAMES), "first name")]
    return first, _LAST_NAMES[draws.below(len(_LAST_NAMES), "last name")]


def _device_ip(networks: Sequence[str], index: int) -> str:
    four, six = networks
    if index >= _PRESETS and index % _EVERY_IPV6 == 0:
        return f"{six.removesuffix('::/48')}::{index:x}"
    # 1 to 127, the half of the network that is mobile: at most 100 of a carrier's people are above the presets.
    return f"{four.removesuffix('0/24')}{7 + index if index < _PRESETS else 27 + (index - _PRESETS) // 2}"


def _address(draws: _Draws, index: int) -> Address:
    city, region, postal_code = _TOWNS[0 if index < _PRESETS else draws.below(len(_TOWNS), "town")]
    street = _STREETS[0 if index == 0 else draws.below(len(_STREETS), "street")]
    number = 12 if index == 0 else 1 + draws.below(400, "house")
    return Address(f"{number} {street}", city, region, postal_code)


def _payments(draws: _Draws, index: int) -> tuple[Payment, ...]:
    bill = Payment("CARRIER_BILL")
    if index == 0:
        return (_card(0, "CREDIT_CARD", 11, 2031), bill)
    month, year = 1 + draws.below(12, "month"), 2028 + draws.below(6, "year")
    kind = ("CREDIT_CARD", "DEBIT_CARD")[draws.below(2, "kind")]
    card = _card(draws.below(1000, "card"), kind, month, year)
    return (card, bill) if index < _PRESETS or draws.below(3, "bill") else (card,)


def _card(number: int, kind: str, month: int, year: int) -> Payment:
    brand, first_six, last_four, digits = first_six_and_last_four(number)
    return Payment(kind, brand, first_six, last_four, digits, month, year, is_default=True)
