"""Partners with their keys, company token and apps, and the other settings of mobile rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from toolkit.rewards.configuration import Configuration, Table, Text, checked
from toolkit.secret import Secret


class Partner(Table, frozen=True):
    """One caller: its partner key, the token assigned to its company, and the keys of its apps."""

    gatewaykey: Secret
    company_token: Text
    apps: frozenset[Secret] = frozenset()


class RewardSettings(Table, frozen=True):
    """Who may call mobile rewards, and by which rules."""

    #: Without partners every key is refused.
    partners: tuple[Partner, ...] = ()
    configuration: Configuration = Configuration()
    #: Calls that one device may make at one gateway in a minute, None for any number.
    calls_a_minute: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    #: Refuse unknown fields of a body instead of ignoring them.
    strict: bool = False
    #: Where browsers reach the gateway, where that is not the host that a caller names.
    public_url: Text | None = None

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> RewardSettings:
        """Check the ``rewards`` section of a world; an unknown key or a wrong value raises InvalidArgument."""
        given = checked(table, dict[str, Any], "rewards")
        return checked({**given, "configuration": Configuration.parse(given.get("configuration", {}))}, cls, "rewards")
