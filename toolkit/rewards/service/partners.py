"""Partners with their keys, company token and apps, and the other settings of mobile rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from toolkit.rewards.checked import Table, checked
from toolkit.rewards.configuration import Configuration, Text
from toolkit.secret import Secret


class Partner(Table, frozen=True):
    """One caller: its partner key, the token assigned to its company, and the keys of its apps."""

    gatewaykey: Secret
    company_token: Text
    apps: frozenset[Secret] = frozenset()


class RewardSettings(Table, frozen=True):
    """Who may call mobile rewards, and by which rules.

    Parameters
    ----------
    partners
        Who may call; without any, every key is refused.
    configuration
        The engine's rules.
    calls_a_minute
        Calls one device may make at one gateway in a minute, None for any number.
    strict
        Refuse unknown fields of a body instead of ignoring them.
    public_url
        Where browsers reach the gateway, where that is not the host that a caller names.

    Examples
    --------
    >>> RewardSettings.parse({"partners": [{"gatewaykey": "k", "company_token": "acme", "apps": ["a"]}]}).strict
    False
    """

    partners: tuple[Partner, ...] = ()
    configuration: Configuration = Configuration()
    calls_a_minute: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    strict: bool = False
    public_url: Text | None = None

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> RewardSettings:
        """Check the ``rewards`` section of a world; an unknown key or a wrong value raises InvalidArgument."""
        given = checked(table, dict[str, Any], "rewards")
        return checked({**given, "configuration": Configuration.parse(given.get("configuration", {}))}, cls, "rewards")
