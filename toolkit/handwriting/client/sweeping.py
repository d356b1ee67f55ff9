"""`HandwritingClient.sweep`: a rendering for each combination of parameters, as a table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, Unpack, cast

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from toolkit.errors import InvalidArgument
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.style import Distance, Style
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Align, Format, Paper, Pen

if TYPE_CHECKING:
    from toolkit.handwriting.client.handwriting import HandwritingClient

Value = TypeVar("Value")
#: One value, or a list of them.
Few: TypeAlias = Value | Sequence[Value]


class SweptStyle(TypedDict, total=False):
    """`PageStyle`, where each parameter may be a list."""

    handwriting_size: Few[Distance] | None
    handwriting_color: Few[str] | None
    width: Few[Distance] | None
    min_padding: Few[Distance] | None
    line_spacing: Few[float] | None
    line_spacing_variance: Few[float] | None
    word_spacing_variance: Few[float] | None
    random_seed: Few[int] | None
    pen: Few[Pen] | None
    natural: Few[bool] | None
    paper: Few[Paper] | None
    corrections: Few[float] | None
    page: Few[str] | None
    margin: Few[Distance] | None
    align: Few[Align] | None


_MANY = 20
_FIGURES = {
    "width": "float64", "height": "float64", "lines": "Int64", "ink_share": "float64", "seed": "object",
    "overflow": "bool",
}  # fmt: skip


class Thumbnail(bytes):
    """The file of a rendering: bytes, so that a frame can be written to Parquet, that show as the rendering does."""

    writing: Handwritten

    @classmethod
    def of(cls, writing: Handwritten) -> Thumbnail:
        """Return the file of a rendering."""
        thumbnail = cls(writing.data)
        thumbnail.writing = writing
        return thumbnail

    def __repr__(self) -> str:
        return repr(self.writing)

    __str__ = __repr__


def sweep(
    self: HandwritingClient,
    text: str,
    handwriting: Few[str],
    *,
    kind: Format = "png",
    height: Few[Distance] | None = "auto",
    progress: bool = True,
    **style: Unpack[SweptStyle],
) -> pd.DataFrame:
    """Write a text once for each combination of parameters.

    Parameters
    ----------
    text, handwriting, ...
        As in `png`; each may be a list, and the last list changes fastest.
    progress
        Show a bar where there are more than 20 combinations.

    Returns
    -------
    pandas.DataFrame
        One row a combination: ``handwriting``, a column for each parameter given as a list, then ``thumbnail``
        (the bytes of the file; ``.writing`` is the `Handwritten`), ``ms``, ``width``, ``height``, ``lines``,
        ``ink_share``, ``seed``, ``overflow`` (whether ink was cut off).

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk:
    ...     tk.handwriting.sweep("Hello", "Molly", line_spacing=[1, 2], random_seed=7)["height"].tolist()
    [39.0, 60.0]
    """
    if style.get("page") is not None and height == "auto":
        height = None
    given = {name: value for name, value in {**style, "height": height}.items() if value is not None}
    given = {name: given[name] for name in (*wire.RENDER_PARAMETERS, *wire.OWN_PARAMETERS, "page") if name in given}
    varied = [name for name, value in given.items() if not _is_single(value)]
    lists = {name: _several(name, value) for name, value in given.items()}
    combinations = list(itertools.product(_several("handwriting", handwriting), *lists.values()))
    rows = []
    for hand, *values in tqdm(combinations, unit="text", disable=not progress or len(combinations) <= _MANY):
        one = dict(zip(lists, values, strict=True))
        done = self.rendered(text, hand, kind, cast("Style", one))
        row = {"handwriting": done.handwriting, **{name: one[name] for name in varied}}
        figures = {name: getattr(done, name) for name in _FIGURES}
        rows.append({**row, "thumbnail": Thumbnail.of(done), "ms": done.milliseconds, **figures})
    dtypes = {name: pd.Series(lists[name]).dtype.name for name in varied}
    # A width or height that was asked for gives way to the one that came out.
    return declared_frame(rows, {"handwriting": "str", **dtypes, "thumbnail": "object", "ms": "float64", **_FIGURES})


def _is_single(value: object) -> bool:
    return isinstance(value, str) or not isinstance(value, Sequence | pd.Series | pd.Index | np.ndarray)


def _several(name: str, value: Any) -> list[Any]:  # noqa: ANN401
    several = [value] if _is_single(value) else list(value)
    if not several:
        raise InvalidArgument(f"{name} is an empty list: there is nothing to render")
    return several
