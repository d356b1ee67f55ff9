"""What every canvas returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn page.

    Attributes
    ----------
    data : bytes
        The file.
    ink_share : float or None
        Share of the page under ink, where the canvas knows it.
    timings : dict of str to float
        Seconds by stage.
    """

    data: bytes
    ink_share: float | None
    timings: dict[str, float]
