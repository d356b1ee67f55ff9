"""The texts of the rewards explorer, in a product manager's words: labels of steps, reasons and rules, and hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolkit.rewards.configuration import Configuration, Limits

STEP_LABELS = {
    "session": "Opened the app",
    "moment": "Did something",
    "rewarded": "Got a reward",
    "shown": "Saw it",
    "claimed": "Claimed it",
}
REASON_LABELS = {
    "TEST": "A test",
    "NO_SESSION": "The app was not open",
    "APP_DISABLED": "The app is switched off",
    "MOMENT_DISABLED": "The moment is switched off",
    "QUIET_PERIOD": "Quiet hours",
    "DEVICE_CAP": "The device had its rewards",
    "MOMENT_CAP": "The moment had its rewards",
    "MIN_GAP": "Too soon after the last one",
    "PACING": "Ahead of the campaign's plan",
    "NO_INVENTORY": "Out of stock",
    "DRAW": "No luck in the draw",
    "REWARDED": "Rewarded",
}

#: The label of each rule of a trace, and a function that writes the numbers of the rule as a text.
_RULE_LABELS: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "test": ("Test", lambda line: "always rewarded"),
    "session": ("App is open", lambda line: ""),
    "enabled": ("Switched on", lambda line: ""),
    "quiet_period": ("No quiet hours", lambda line: f"until {line['until']}" if "until" in line else ""),
    "device_cap": ("Rewards of the device", lambda line: _used(line)),
    "moment_cap": ("... for this moment", lambda line: _used(line)),
    "min_gap": (
        "Pause since the last",
        lambda line: f"{duration(line['gap_s'])} of {duration(line['needed_s'])}" if "gap_s" in line else "the first",
    ),
    "pacing": (
        "Campaign's plan",
        lambda line: f"{line['spent']:,} of {line['allowed']:,.0f}" if "spent" in line else "none",
    ),
    "inventory": ("In stock", lambda line: f"{line['left']:,} left"),
    "draw": ("Luck", lambda line: f"drew {line['u']:.3f}, wins below {line['p']:g}"),
    "reserve": ("Reward", lambda line: str(line["reward"])),
}


def percent(share: float, digits: int = 0) -> str:
    """Return a share as ``12.5 %``."""
    return f"{100 * share:.{digits}f} %"


def duration(seconds: float) -> str:
    """Return seconds as ``40 s`` or ``15 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def rule_in_words(line: Mapping[str, Any]) -> tuple[str, str]:
    """Return the label and the numbers of one line of a trace."""
    name, found = _RULE_LABELS[line["rule"]]
    return name, found(line)


def moments_not_reached(configuration: Configuration, limit: str, show: Callable[[float], str]) -> str:
    """Return a hint that names the moments with their own value for a limit; the slider does not change that value."""
    default = getattr(configuration.default, limit)

    def own(limits: Limits) -> str:
        value = getattr(limits, limit)
        return "" if value == default else show(value)

    parts = []
    for name, rules in configuration.moments.items():
        arms = {arm: own(limits) for arm, limits in rules.arms.items()}
        values = ", ".join(f"{arm} {value}" for arm, value in arms.items() if value) if arms else own(rules)
        if values and rules.enabled:
            parts.append(f"{name} ({values})")
    return f"Not for {' and '.join(parts)}: own value." if parts else ""


def _used(line: Mapping[str, Any]) -> str:
    return f"{line['used']} of {line['limit']} in 24 h"
