"""What an archive holds, as frames: its things, and what is missing of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from toolkit.dweets.archive.files import ArchiveFile, Numbers, missing_between
from toolkit.dweets.archive.joining import Footer
from toolkit.frames import declared_frame

Files = Mapping[str, Sequence[ArchiveFile]]

_THINGS = {
    "thing": "str",
    "first": "datetime64[us, UTC]",
    "last": "datetime64[us, UTC]",
    "dweets": "int64",
    "missing": "int64",
    "files": "int64",
    "bytes": "int64",
}
_GAPS = {
    "thing": "str",
    "epoch": "int64",
    "first": "int64",
    "last": "int64",
    "missing": "int64",
    "after": "datetime64[us]",
    "before": "datetime64[us]",
}


def things_frame(files: Files, footer_of: Callable[[ArchiveFile], Footer]) -> pd.DataFrame:
    """Return a row for each thing: first and last time, how many dweets, how many are missing, files and bytes."""
    return declared_frame([_summary(thing, its, footer_of) for thing, its in files.items()], _THINGS)


def gaps_frame(files: Files) -> pd.DataFrame:
    """Return a row for each range of sequence numbers that is missing."""
    return declared_frame([_row(*gap) for its in files.values() for gap in _gaps(its)], _GAPS)


def _summary(thing: str, files: Sequence[ArchiveFile], footer_of: Callable[[ArchiveFile], Footer]) -> dict[str, object]:
    footers = [footer_of(file) for file in files]
    return {
        "thing": thing,
        "first": pd.Timestamp(min(footer.first for footer in footers), unit="us", tz="UTC"),
        "last": pd.Timestamp(max(footer.last for footer in footers), unit="us", tz="UTC"),
        "dweets": sum(file.rows for file in files),
        "missing": sum(last - first + 1 for _, (_, first, last), _ in _gaps(files)),
        "files": len(files),
        "bytes": sum(footer.size for footer in footers),
    }


def _gaps(files: Sequence[ArchiveFile]) -> Iterator[tuple[ArchiveFile | None, Numbers, ArchiveFile]]:
    """Give what is missing, with the files before (none at the beginning) and after it."""
    before: ArchiveFile | None = None
    for file in files:
        epoch, first, _ = file.numbers
        follows = before is not None and before.numbers.epoch == epoch
        last = before.numbers.last if before is not None and follows else 0
        if missing := missing_between(last, first):
            yield before, Numbers(epoch, *missing), file
        before = file


def _row(before: ArchiveFile | None, numbers: Numbers, after: ArchiveFile) -> dict[str, object]:
    return {
        "thing": after.thing,
        **numbers._asdict(),
        "missing": numbers.last - numbers.first + 1,
        "after": pd.Timestamp(before.last_day) if before is not None else pd.NaT,
        "before": pd.Timestamp(after.first_day),
    }
