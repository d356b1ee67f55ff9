"""What the command line sets of a gateway, as it is given to one process or to several."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from toolkit.dweets.service import DweetSettings
from toolkit.gateway.gateway import Gateway
from toolkit.secret import Secret


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """All that is set but where to listen.

    Parameters
    ----------
    folder, store, locks, smtp, archive, demo
        As of `Gateway`.
    keep, rate
        As of `DweetSettings`; the rate counts in each process by itself.
    """

    folder: Path | None = None
    store: str | None = field(default=None, repr=False)  # a URL may hold a password
    locks: Mapping[str, Secret]
    smtp: str | None = field(default=None, repr=False)
    archive: Path | None = None
    demo: bool = False
    keep: int
    rate: int | None = None

    def start(self, host: str, port: int, listener: socket.socket | None = None) -> Gateway:
        """Start a gateway.

        Raises
        ------
        InvalidArgument, CannotServe, StoreUnavailable, ArchiveUnusable, Conflict
            As `Gateway`.
        """
        return Gateway(
            self.folder,
            store=self.store,
            host=host,
            port=port,
            locks=self.locks,
            smtp=self.smtp,
            settings=DweetSettings(keep=self.keep, rate=self.rate),
            archive=self.archive,
            demo=self.demo,
            listener=listener,
            exposed=True,  # whoever names a host of other machines on the command line means it
        )

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes in another process: keys are in it, so it goes on no command line."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        paths = {name: str(told[name]) for name in _PATHS if told[name] is not None}
        return {**told, **paths, "locks": {lock: key.reveal() for lock, key in self.locks.items()}}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> GatewayOptions:
        """Return the options that `to_json` told."""
        paths = {name: Path(told[name]) for name in _PATHS if told[name] is not None}
        return cls(**{**told, **paths, "locks": {lock: Secret(key) for lock, key in told["locks"].items()}})


_PATHS = ("folder", "archive")
