"""Tab completion of the clients."""

from __future__ import annotations

from collections.abc import Iterable


class PublicNames:
    """Offers only public names to tab completion and ``dir()``."""

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]
