"""Dweets as rows of an archive: the columns of its files, and how files of different columns become one table.

Every file has the columns of `BASE`, of which ``content`` is the exact JSON. What a content holds in numbers, truth
values and short texts has columns of its own besides, named as in ``tk.dweets.history``, so that a query needs not
read JSON. A column is of one kind: where numbers meet texts, the texts stay in ``content`` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from toolkit.dweets.content_leaves import leaf_columns

DAY = 86_400_000_000
#: What every file begins with. Times are microseconds, because servers elsewhere may tell more than ours.
BASE = pa.schema(
    [
        pa.field("thing", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("created", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("transaction", pa.string()),
        pa.field("content", pa.string(), nullable=False),
    ]
)
MOST_COLUMNS = 200
LONGEST_TEXT = 256
_LONGEST_NAME = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LEAST, _MOST = -(2**63), 2**63
# Of two types that meet in one column the later one wins: numbers over truth values over texts.
_RANK = {pa.string(): 0, pa.bool_(): 1, pa.int64(): 2, pa.float64(): 3}


class Row(NamedTuple):
    """A dweet on its way into an archive: ``at`` is microseconds since the epoch, ``content`` its JSON as it came."""

    sequence: int
    at: int
    transaction: str | None
    content: bytes


def table_of(thing: str, rows: Sequence[Row]) -> pa.Table:
    """Return rows, in their order, as a table with the columns of a file."""
    sequences, times, transactions, contents = zip(*rows, strict=True)
    leaves = _typed_leaves(leaf_columns([orjson.loads(content) for content in contents]))
    base = base_columns(thing, np.array(sequences, dtype="int64"), np.array(times, dtype="int64"))
    base |= {
        "transaction": pa.array(transactions, pa.string()),
        "content": pa.array(contents, pa.binary()).cast(pa.string()),
    }
    return table_with(base, leaves)


def base_columns(
    thing: str, sequences: np.ndarray[Any, np.dtype[np.int64]], times: np.ndarray[Any, np.dtype[np.int64]]
) -> dict[str, pa.Array]:
    """Return the columns that every file has, but for transaction and content."""
    days = pa.array(np.floor_divide(times, DAY).astype("int32")).cast(pa.date32())
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(sequences), dtype="int32")), pa.array([thing]))
    return {
        "thing": names,
        "sequence": pa.array(sequences),
        "created": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        "day": days,
    }


def table_with(base: Mapping[str, pa.Array], leaves: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table of the base columns and of the leaves that may have a column, under the name they get."""
    columns: dict[str, pa.Array] = {}
    taken: set[str] = set()
    for name, values in leaves.items():
        column = f"content.{name}" if name.casefold() in BASE.names else name
        usable = name and len(name) <= _LONGEST_NAME and not _CONTROL.search(name)
        # SQL does not tell capitals apart: the first of Temp and temp has the column.
        if usable and column.casefold() not in taken and len(columns) < MOST_COLUMNS:
            taken.add(column.casefold())
            columns[column] = values
    fields = [*BASE, *(pa.field(name, values.type) for name, values in columns.items())]
    return pa.table([*(base[name] for name in BASE.names), *columns.values()], schema=pa.schema(fields))


def _typed_leaves(leaves: Mapping[str, list[Any]]) -> dict[str, pa.Array]:
    typed = ((name, _typed(values)) for name, values in leaves.items())
    return {name: values for name, values in typed if values is not None}


def _typed(values: list[Any]) -> pa.Array | None:
    kinds = set(map(type, values))
    if kinds <= {float, type(None)} and float in kinds:
        return pa.array(values, pa.float64())
    if int in kinds or float in kinds:
        return _numbers(values, whole=float not in kinds)
    if bool in kinds:
        return pa.array([value if type(value) is bool else None for value in values], pa.bool_())
    if str in kinds:
        short = [value if type(value) is str and len(value) <= LONGEST_TEXT else None for value in values]
        return pa.array(short, pa.string())
    return None


def _numbers(values: list[Any], *, whole: bool) -> pa.Array:
    numbers = [value if type(value) in (int, float) else None for value in values]
    if whole and all(value is None or _LEAST <= value < _MOST for value in numbers):
        return pa.array(numbers, pa.int64())
    return pa.array([None if value is None else float(value) for value in numbers], pa.float64())


# -- many files as one table -------------------------------------------------------------------------------


def common_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of all: each under the name it came with first, with the type that wins.

    Examples
    --------
    >>> both = common_schema([pa.schema({"Wind": pa.int64()}), pa.schema({"wind": pa.float64()})])
    >>> both.field("Wind").type
    DataType(double)
    """
    fields: dict[str, pa.Field] = {name: BASE.field(name) for name in BASE.names}
    for schema in dict.fromkeys(schemas):
        for field in schema:
            name = field.name.casefold()
            if name not in fields:
                fields[name] = field
            elif name not in BASE.names and _rank(field) > _rank(fields[name]):
                fields[name] = fields[name].with_type(field.type)
    return pa.schema(list(fields.values()))


def _rank(field: pa.Field) -> int:
    return _RANK.get(field.type, -1)


def fits(field: pa.Field, into: pa.Field) -> bool:
    """Tell whether values of one column can stand in the other: numbers among numbers, else only the same type."""
    return bool(field.type == into.type) or {field.type, into.type} == {pa.int64(), pa.float64()}


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the columns of `schema`: what it lacks, or has of another kind, is missing there."""
    places = {field.name.casefold(): number for number, field in enumerate(table.schema)}
    columns = []
    for field in schema:
        place = places.get(field.name.casefold())
        if place is None or not fits(table.schema.field(place), field):
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(table.column(place).cast(field.type, safe=False))
    return pa.table(columns, schema=schema)
