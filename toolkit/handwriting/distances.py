"""Distances as texts: ``4 in``, ``12cm``, ``20.5px``."""

from __future__ import annotations

import re

_DISTANCE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(px|pt|in|cm|mm)\s*", re.IGNORECASE)
_POINTS = {"px": 1.0, "pt": 1.0, "in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4}


def points_of(text: str) -> float | None:
    """Return a distance in points, or None if it cannot be read."""
    hit = _DISTANCE.fullmatch(text)
    return float(hit[1]) * _POINTS[hit[2].lower()] if hit else None
