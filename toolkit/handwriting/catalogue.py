"""The handwritings of the service, from the folder ``hands``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import msgspec

HANDS_DIR = Path(__file__).parent / "hands"


@dataclass(frozen=True, slots=True)
class Handwriting:
    """One handwriting: a script in the hand of one writer. Ratings have the average 1400, standard deviation 100."""

    id: str  # 12 characters of Crockford base 32
    title: str  # unique, ignoring case
    date_created: str  # ISO 8601 with fractional seconds and Z
    date_modified: str
    rating_neatness: int
    rating_cursivity: int
    rating_embellishment: int
    rating_character_width: int
    script: str  # name of the hand pack
    writer: int

    def record(self) -> dict[str, str | int]:
        return {k: v for k, v in asdict(self).items() if k not in ("script", "writer")}


@cache
def catalogue() -> Mapping[str, Handwriting]:
    """Return all handwritings by id, in the order of their ids."""
    rows = msgspec.json.decode((HANDS_DIR / "catalogue.json").read_bytes(), type=list[Handwriting])
    return {row.id: row for row in sorted(rows, key=lambda row: row.id)}
