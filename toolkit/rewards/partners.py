"""Who may call: partners with their keys, company token and apps; and what whoever runs the gateway may set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import InvalidArgument
from toolkit.rewards.checked_table import CheckedTable
from toolkit.rewards.configuration import Configuration
from toolkit.secret import Secret


@dataclass(frozen=True, slots=True)
class Partner:
    """One caller: its partner key, the token assigned to its company, and its apps' keys."""

    gatewaykey: Secret
    company_token: str
    apps: frozenset[Secret]

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> Partner:
        """Check a partner that is at hand as a table: ``gatewaykey``, ``company_token``, ``apps``.

        Raises
        ------
        InvalidArgument
            An unknown key, or a value that cannot be.
        """
        checked = CheckedTable(table, "partner", ("gatewaykey", "company_token", "apps"))
        apps = checked.raw("apps", [])
        if not isinstance(apps, list) or not all(isinstance(app, str) for app in apps):
            raise InvalidArgument("partner.apps must be a list of app keys")
        return cls(
            Secret(checked.text("gatewaykey")), checked.text("company_token"), frozenset(Secret(app) for app in apps)
        )


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """What whoever runs the gateway may set for mobile rewards.

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
    >>> RewardSettings([Partner.parse({"gatewaykey": "k", "company_token": "acme", "apps": ["a"]})]).strict
    False
    """

    partners: Iterable[Partner] = ()
    configuration: Configuration = field(default_factory=Configuration)
    calls_a_minute: int | None = None
    strict: bool = False
    public_url: str | None = None

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> RewardSettings:
        """Check the ``rewards`` section of a world: ``partners``, ``configuration`` and the settings above.

        Raises
        ------
        InvalidArgument
            An unknown key, or a value that cannot be.
        """
        names = ("partners", "configuration", "calls_a_minute", "strict", "public_url")
        checked = CheckedTable(table, "rewards", names)
        partners = checked.raw("partners", [])
        if not isinstance(partners, list):
            raise InvalidArgument("rewards.partners must be a list of tables")
        configuration = checked.raw("configuration", {})
        if not isinstance(configuration, Mapping):
            raise InvalidArgument("rewards.configuration must be a table of names and values")
        return cls(
            tuple(Partner.parse(partner) for partner in partners),
            Configuration.parse(configuration),
            checked.integer("calls_a_minute", 0, 1, 1_000_000) if "calls_a_minute" in checked else None,
            checked.flag("strict", False),
            checked.text("public_url") if "public_url" in checked else None,
        )
