"""A rendering for each combination of parameters, as a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pandas as pd
from tqdm.auto import tqdm

from toolkit.errors import InvalidArgument
from toolkit.frames import declared_frame
from toolkit.handwriting.client.style import Style
from toolkit.handwriting.handwritten import Handwritten

Value = TypeVar("Value")
#: One value, or a list of them.
Few: TypeAlias = Value | Sequence[Value]

_MANY = 20
_FIGURES = {"width": "float64", "height": "float64", "lines": "Int64", "ink_share": "float64", "seed": "object"}


def swept(
    render: Callable[[str, Style], Handwritten], handwriting: Few[str], lists: Mapping[str, Any], progress: bool
) -> pd.DataFrame:
    """See `toolkit.handwriting.client.handwriting.HandwritingClient.sweep`."""
    hands = _several("handwriting", handwriting)
    given = {name: _several(name, value) for name, value in lists.items() if value is not None}
    varied = [name for name, value in lists.items() if value is not None and not _is_single(value)]
    combinations = list(itertools.product(hands, *given.values()))
    rows = []
    for hand, *values in tqdm(combinations, unit="text", disable=not progress or len(combinations) <= _MANY):
        style = dict(zip(given, values, strict=True))
        done = render(hand, Style(**style))
        row = {"handwriting": done.handwriting, **{name: style[name] for name in varied}}
        figures = {name: getattr(done, name) for name in _FIGURES}
        rows.append({**row, "thumbnail": done, "ms": done.milliseconds, **figures})
    dtypes = {name: pd.Series(given[name]).dtype.name for name in varied}
    # A width or height that was asked for gives way to the one that came out.
    return declared_frame(rows, {"handwriting": "str", **dtypes, "thumbnail": "object", "ms": "float64", **_FIGURES})


def _is_single(value: object) -> bool:
    return isinstance(value, str) or not isinstance(value, Sequence | pd.Series | pd.Index | range)


def _several(name: str, value: Any) -> list[Any]:  # noqa: ANN401
    several = [value] if _is_single(value) else list(value)
    if not several:
        raise InvalidArgument(f"{name} is an empty list: there is nothing to render")
    return several
