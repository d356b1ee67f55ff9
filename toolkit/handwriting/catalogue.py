"""The tables in the folder ``hands``: the fonts, and the handwritings made from them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

HANDS_DIR = Path(__file__).parent / "hands"


@dataclass(frozen=True, slots=True)
class FontSource:
    """The font from which a script is made; ``sources.toml`` explains the fields."""

    name: str
    package: str
    version: str
    font: str
    integrity: str
    licence: str
    titles: tuple[str, ...] = ()
    joined: bool = False
    word_space: float = 1.0
    companions: tuple[str, ...] = ()
    dots_moved: dict[str, float] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    stretched: dict[str, float] = field(default_factory=dict)
    quotes_from_comma: bool = False
    digits: float | None = None


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


@cache
def sources() -> tuple[FontSource, ...]:
    """Return all fonts; fonts with titles come first."""
    return msgspec.convert(_sources_table()["hand"], tuple[FontSource, ...])


@cache
def fallback_chain(script: str) -> tuple[str, ...]:
    """Return the scripts (hand packs) to try for each character, in order: `script`, companions, shared fallback."""
    row = next(source for source in sources() if source.name == script)
    return tuple(dict.fromkeys((script, *row.companions, *_sources_table()["shared_fallback"])))


def _sources_table() -> dict[str, Any]:
    return tomllib.loads((HANDS_DIR / "sources.toml").read_text())
