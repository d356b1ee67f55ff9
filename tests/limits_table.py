"""Every limit of a gateway with its reason; ``python -m tests.limits_table`` writes the table into SECURITY.md.

The numbers of `limits_table.md` come from the constants and settings that the code uses: a limit is changed there, and
its reason in the table.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from toolkit.dweets import condition_engine, conditions
from toolkit.dweets import wire as dweet
from toolkit.handwriting import wire as writing
from toolkit.identity import wire as identity
from toolkit_gateway import rate_limit
from toolkit_gateway.dweets import stored_days, thing_cache
from toolkit_gateway.dweets.dweets import DweetSettings
from toolkit_gateway.handwriting import handwriting, query, render_worker
from toolkit_gateway.http import key_attempts
from toolkit_gateway.http.limits import LIMITS, Bound
from toolkit_gateway.identity import callers, challenge
from toolkit_gateway.runtime import Timings

PAGE = ROOT / "SECURITY.md"
BEGIN = "<!-- python -m tests.limits_table writes this table -->\n"
TEMPLATE = Path(__file__).with_suffix(".md")
KNOWN = {
    "limits": LIMITS,
    "timings": Timings(),
    "dweets": DweetSettings(),
    "hands": handwriting.HandwritingSettings(),
    "clients": callers.IdentitySettings(),
    "dweet": dweet,
    "writing": writing,
    "identity": identity,
    "condition_engine": condition_engine,
    "conditions": conditions,
    "thing_cache": thing_cache,
    "stored_days": stored_days,
    "rate_limit": rate_limit,
    "key_attempts": key_attempts,
    "handwriting": handwriting,
    "query": query,
    "render_worker": render_worker,
    "challenge": challenge,
}


class _Formatter(string.Formatter):
    """Writes sizes and times with their units, and a bound with both of its numbers."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Bound):
            of_one, in_total = (self.format_field(number, format_spec) for number in (value.of_one, value.in_total))
            return f"{of_one} of an address, {in_total} in total"
        match format_spec:
            case "size":
                return f"{value / 2**20:g} MiB" if value >= 2**20 else f"{value / 2**10:g} KiB"
            case "ms":
                return f"{value * 1000:g} ms"
            case "minutes":
                return f"{value // 60} minutes"
            case "each second":
                return f"{1 / value:g}"
        return format(value, format_spec)


def page_with_table() -> str:
    """Return SECURITY.md with the table as it should be."""
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition("\n\n")
    return before + begin + _Formatter().format(TEMPLATE.read_text("utf-8").rstrip("\n"), **KNOWN) + end + after


if __name__ == "__main__":
    PAGE.write_text(page_with_table(), "utf-8")
