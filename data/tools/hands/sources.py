"""The fonts from which the hands are made, from ``sources.toml``, which explains the fields."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True)
class FontSource:
    """The font from which a script is made."""

    name: str
    package: str
    version: str
    font: str
    integrity: str
    licence: str
    titles: tuple[str, ...] = ()
    joined: bool = False
    word_space: float = 1.0
    dots_moved: dict[str, float] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)
    redrawn: dict[str, str] = field(default_factory=dict)
    unclear: str = ""
    kept: str = ""
    added: dict[str, str] = field(default_factory=dict)
    stretched: dict[str, float] = field(default_factory=dict)
    quotes_from_comma: bool = False
    left_out: str = ""
    digits: float | None = None


@cache
def sources() -> tuple[FontSource, ...]:
    """Return all fonts; fonts with titles come first."""
    table = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
    return msgspec.convert(table["hand"], tuple[FontSource, ...])
