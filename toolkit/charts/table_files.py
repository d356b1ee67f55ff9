"""A frame as the bytes of a file."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

import pandas as pd

from toolkit.errors import InvalidArgument

_FORMULA_START, _PLAIN_NUMBER = re.compile(r"[=+\-@\t\r\n]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def table_bytes(frame: pd.DataFrame, suffix: str) -> bytes:
    """Return a frame as ``.csv`` or ``.parquet``; InvalidArgument for another suffix.

    In CSV, texts that a spreadsheet would execute as a formula begin with an apostrophe.
    """
    if suffix == ".csv":
        return _without_formulas(frame).to_csv(lineterminator="\n").encode()
    if suffix == ".parquet":
        file = BytesIO()
        frame.to_parquet(file)
        return file.getvalue()
    raise InvalidArgument("name a file that ends in .csv or .parquet")


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    # Devices choose the names of things and fields and the texts; all other cells are times and numbers.
    inert = frame.rename(columns=_escaped_formula).rename_axis(_escaped_formula(frame.index.name))
    texts = [name for name in inert.columns if pd.api.types.is_string_dtype(inert[name].dtype)]
    return inert.assign(**{name: inert[name].map(_escaped_formula) for name in texts})


def _escaped_formula(name: Any) -> Any:  # noqa: ANN401
    is_formula = isinstance(name, str) and _FORMULA_START.match(name) and not _PLAIN_NUMBER.fullmatch(name)
    return f"'{name}" if is_formula else name
