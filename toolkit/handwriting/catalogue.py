"""The available handwritings: every script in the hand of every writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import msgspec

TABLE = Path(__file__).parent / "hands" / "catalogue.json"


@dataclass(frozen=True, slots=True)
class Handwriting:
    """One handwriting; in its ratings, 1400 is the average of the catalogue, and 100 one standard deviation."""

    id: str  # 12 characters of Crockford base 32
    title: str  # unique in any case
    date_created: str  # ISO 8601 with fractional seconds and Z
    date_modified: str
    rating_neatness: int
    rating_cursivity: int
    rating_embellishment: int
    rating_character_width: int
    script: str  # name of the hand pack
    writer: int

    def record(self) -> dict[str, str | int]:
        """Return what the listing tells of the handwriting."""
        return {k: v for k, v in asdict(self).items() if k not in ("script", "writer")}


class Catalogue:
    """All handwritings, in the order of their ids.

    Examples
    --------
    >>> catalogue().by_id("2D5QW0F80001").title
    'Molly'
    """

    def __init__(self, handwritings: list[Handwriting]) -> None:
        self._all = sorted(handwritings, key=lambda h: h.id)
        self._by_id = {h.id: h for h in self._all}
        self._by_title = {h.title.casefold(): h for h in self._all}

    def __iter__(self) -> Iterator[Handwriting]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def by_id(self, handwriting_id: str) -> Handwriting | None:
        return self._by_id.get(handwriting_id)

    def by_title(self, title: str) -> Handwriting | None:
        """Return the handwriting with this title, in any case."""
        return self._by_title.get(title.casefold())


@cache
def catalogue() -> Catalogue:
    return Catalogue(msgspec.json.decode(TABLE.read_bytes(), type=list[Handwriting]))
