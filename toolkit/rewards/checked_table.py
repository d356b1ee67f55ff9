"""One table of a configuration file, read key by key: unknown keys and wrong values are refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from datetime import datetime

from toolkit.errors import InvalidArgument


class CheckedTable:
    """A mapping of a configuration, with its place in the file for messages.

    Parameters
    ----------
    value
        What stands in the file.
    place
        Where, as ``moments.finished_5k_run``; empty for the whole file.
    known
        The keys there may be.

    Raises
    ------
    InvalidArgument
        It is no table, or has an unknown key.

    Examples
    --------
    >>> CheckedTable({"sed": 7}, "", ["seed"])
    Traceback (most recent call last):
    ...
    toolkit.errors.InvalidArgument: unknown key sed: did you mean seed?
    """

    def __init__(self, value: object, place: str, known: Iterable[str] | None) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise InvalidArgument(f"{place or 'a configuration'} must be a table of names and values")
        self._values: Mapping[str, object] = value
        self._place = place
        if known is not None:
            self._refuse_unknown(list(known))

    def _refuse_unknown(self, known: list[str]) -> None:
        for key in self._values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f"did you mean {self.path(near[0])}?" if near else f"known are {', '.join(known)}"
                raise InvalidArgument(f"unknown key {self.path(key)}: {hint}")

    def path(self, key: str) -> str:
        """Return the full name of a key."""
        return f"{self._place}.{key}" if self._place else key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def raw(self, key: str, default: object = None) -> object:
        """Return a value unchecked."""
        return self._values.get(key, default)

    def items(self) -> Iterable[tuple[str, object]]:
        """Return names and values, unchecked."""
        return self._values.items()

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """Return a whole number of ``low`` to ``high``."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidArgument(f"{self.path(key)} must be a whole number of {low} to {high}, not {value!r}")
        return value

    def real(self, key: str, default: float, low: float, high: float) -> float:
        """Return a number of ``low`` to ``high``."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise InvalidArgument(f"{self.path(key)} must be a number of {low:g} to {high:g}, not {value!r}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise InvalidArgument(f"{self.path(key)} must be true or false, not {value!r}")
        return value

    def text(self, key: str, default: str | None = None, longest: int = 500) -> str:
        """Return a text that is not empty; required where there is no default."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or not 1 <= len(value) <= longest:
            raise InvalidArgument(f"{self.path(key)} must be a text of 1 to {longest} characters")
        return value

    def instant(self, key: str) -> int:
        """Return a date and time with a zone, as milliseconds since the epoch."""
        value = self._values.get(key)
        try:
            at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            raise InvalidArgument(f"{self.path(key)} must be a date and time with a zone, as 2026-01-01T00:00:00Z")
        return round(at.timestamp() * 1000)
