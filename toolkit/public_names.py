"""What tab completion offers: public names, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable


class PublicNames:
    """Offers its public names to tab completion and ``dir()``; all others work as ever.

    Examples
    --------
    >>> class Kettle(PublicNames):
    ...     def boil(self) -> None: ...
    ...     def _heat(self) -> None: ...
    >>> dir(Kettle())
    ['boil']
    """

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]
