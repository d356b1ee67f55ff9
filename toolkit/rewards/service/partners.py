"""Partners with their keys, company token and apps, and the other settings of mobile rewards."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from toolkit.rewards.configuration import Configuration
from toolkit.secret import Secret
from toolkit.settings import Table, Text, refuse_duplicates


class Partner(Table, frozen=True):
    """One caller: its partner key, the token assigned to its company, and the keys of its apps."""

    gatewaykey: Secret
    company_token: Text
    apps: frozenset[Secret] = frozenset()


class RewardSettings(Table, frozen=True):
    """Who may call mobile rewards, and by which rules."""

    #: Without partners every key is refused.
    partners: tuple[Partner, ...] = ()
    rules: Configuration = Configuration()
    #: Calls that one device may make at one gateway in a minute, None for any number.
    calls_a_minute: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    #: Refuse unknown fields of a body instead of ignoring them.
    strict: bool = False

    def __post_init__(self) -> None:
        refuse_duplicates("partners", self.partners, "gatewaykey")
        refuse_duplicates("partners", self.partners, "company_token")
