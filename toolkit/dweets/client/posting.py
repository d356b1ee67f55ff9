"""Post a frame, to one thing or to the things that a column names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from toolkit.dweets.arguments import checked_name
from toolkit.dweets.content_json import batches, row_contents
from toolkit.errors import InvalidArgument

Record = dict[str, Any]


def post_rows(
    post: Callable[[str, Sequence[bytes]], list[Record]],
    thing: str | None,
    frame: pd.DataFrame | None,
    thing_column: str | None,
    progress: bool,
) -> list[Record]:
    """Send the rows and return the receipts in the order of the frame; everything is checked before it is sent."""
    if frame is None:
        raise InvalidArgument("give a frame: post_frame(thing, frame)")
    parts = _parts(thing, frame, thing_column)
    requests = [(checked_name(name), batch) for name, rows, _ in parts for batch in batches(row_contents(rows))]
    records: list[Record] = []
    for name, batch in tqdm(requests, desc=thing, unit="request", disable=not progress or len(requests) < 2):
        records += post(name, batch)
    order = np.argsort(np.concatenate([places for _, _, places in parts])) if len(parts) > 1 else range(len(records))
    return [records[place] for place in order]


def _parts(
    thing: str | None, frame: pd.DataFrame, thing_column: str | None
) -> list[tuple[str, pd.DataFrame, np.ndarray[Any, Any]]]:
    """Return each thing with its rows, and where these stand in the frame."""
    if (thing is None) == (thing_column is None):
        raise InvalidArgument("name a thing or a column of things: post_frame(frame=df, thing_column='thing')")
    if thing is not None:
        return [(thing, frame, np.arange(len(frame)))]
    columns = [str(name) for name in frame.columns]
    if columns.count(str(thing_column)) != 1:
        raise InvalidArgument(f"the frame needs one column {thing_column!r}; it has {', '.join(columns) or 'none'}")
    names = frame[thing_column]
    if not names.map(lambda name: isinstance(name, str)).all():
        raise InvalidArgument(f"every row of the column {thing_column!r} must be the name of a thing")
    rest = frame.drop(columns=thing_column)
    places = pd.Series(np.arange(len(frame))).groupby(names.to_numpy(), sort=False).indices
    return [(str(name), rest.iloc[its], np.asarray(its)) for name, its in places.items()]
