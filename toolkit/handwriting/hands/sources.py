"""The table of fonts, ``sources.toml``, as objects."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

TABLE = Path(__file__).with_name("sources.toml")


@dataclass(frozen=True, slots=True)
class Source:
    """One row of ``sources.toml``: the font of a hand, and what we call it."""

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


@cache
def sources() -> tuple[Source, ...]:
    """Return all rows, those with titles first."""
    return msgspec.convert(tomllib.loads(TABLE.read_text())["hand"], tuple[Source, ...])


@cache
def chain(name: str) -> tuple[str, ...]:
    """Return the hands that write for hand `name`: itself, its companions, the shared fallback."""
    row = next(source for source in sources() if source.name == name)
    shared = tomllib.loads(TABLE.read_text())["shared_fallback"]
    return tuple(dict.fromkeys((name, *row.companions, *shared)))
