"""The section ``rewards`` of a gateway's configuration: partners and rules."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from toolkit.rewards import wire
from toolkit.rewards.configuration import Configuration
from toolkit.secret import Secret
from toolkit.settings import Table, check_unique


class Partner(Table, frozen=True):
    """A company that may call the service: partner key, company token and app keys."""

    gatewaykey: Secret
    company_token: Annotated[str, Meta(pattern=rf"^{wire.COMPANY_TOKEN_PATTERN}\Z")]
    apps: frozenset[Secret] = frozenset()
    #: Send the arm of each decision to the partner, for experiments whose outcome only the partner knows.
    show_arms: bool = False


class RewardSettings(Table, frozen=True):
    """The section ``rewards`` of a gateway's configuration."""

    #: Without partners, the service refuses every key.
    partners: tuple[Partner, ...] = ()
    rules: Configuration = Configuration()
    #: The limit of requests per minute for one device at one gateway; None for no limit.
    calls_a_minute: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    #: Refuse unknown fields of a body instead of ignoring them.
    strict: bool = False

    def __post_init__(self) -> None:
        check_unique("partners", self.partners, "gatewaykey")
        check_unique("partners", self.partners, "company_token")
