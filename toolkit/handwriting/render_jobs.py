"""What travels between the gateway and its rendering processes."""

from __future__ import annotations

from typing import NamedTuple

from toolkit.handwriting.catalogue import Handwriting
from toolkit.handwriting.parameters import Format, Parameters
from toolkit.handwriting.wire import Problem


class Job(NamedTuple):
    """What to render; ``kind`` None only looks for characters that cannot be written."""

    handwriting: Handwriting
    parameters: Parameters
    kind: Format | None


class Rendered(NamedTuple):
    """A file, and the figures about it: size in points, lines, share of ink, whether some of it was cut off."""

    data: bytes
    size: tuple[float, float]
    lines: int
    ink_share: float
    overflow: bool
    timings: dict[str, float]


class Mistake(NamedTuple):
    """The renderer failed: where, but never at which text."""

    place: str


Outcome = Rendered | Problem | Mistake | None
