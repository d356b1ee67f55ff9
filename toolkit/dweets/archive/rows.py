"""The rows of an archive as Arrow tables, and how tables with different columns are joined.

Every file has the columns of `BASE`; ``content`` is the exact JSON. Numbers, booleans and short texts in the contents
also have their own columns, named as in ``tk.dweets.history``, so that queries need not parse JSON. A column has one
type: if numbers and texts are mixed, the texts are in ``content`` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from toolkit.dweets.content_leaves import MOST_COLUMNS, leaf_columns

#: The first columns of every file. Times have microseconds, because other servers may be more precise than ours.
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
LONGEST_TEXT = 256
_LONGEST_NAME = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# If a column has two types, the one with the higher rank wins.
_RANK = {pa.string(): 0, pa.bool_(): 1, pa.int64(): 2, pa.float64(): 3}
Leaves = Mapping[str, pa.Array]


class Row(NamedTuple):
    """A dweet to be archived: ``at`` is microseconds since the Unix epoch, ``content`` its exact JSON."""

    sequence: int
    at: int
    transaction: str | None
    content: bytes


def table_of(thing: str, rows: Sequence[Row]) -> pa.Table:
    sequences, times, transactions, contents = zip(*rows, strict=True)
    leaves, _ = leaf_columns([orjson.loads(content) for content in contents])
    typed = {name: _typed(values) for name, values in leaves.items()}
    return table_with(
        thing,
        pa.array(sequences, pa.int64()),
        pa.array(times, pa.timestamp("us", tz="UTC")),
        pa.array(transactions, pa.string()),
        pa.array(contents, pa.binary()).cast(pa.string()),
        {name: values for name, values in typed.items() if values is not None},
    )


def table_with(
    thing: str, sequences: pa.Array, times: pa.Array, transactions: pa.Array, contents: pa.Array, leaves: Leaves
) -> pa.Table:
    names = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(times)), pa.array([thing]))
    columns = dict(zip(BASE, (names, sequences, times, times.cast(pa.date32()), transactions, contents), strict=True))
    taken: set[str] = set()
    for name, values in leaves.items():
        column = f"content.{name}" if name.casefold() in BASE.names else name
        is_usable = name and len(name) <= _LONGEST_NAME and not _CONTROL.search(name)
        # SQL names ignore case, so only the first of Temp and temp gets a column.
        if is_usable and column.casefold() not in taken and len(taken) < MOST_COLUMNS:
            taken.add(column.casefold())
            columns[pa.field(column, values.type)] = values
    return pa.table(list(columns.values()), schema=pa.schema(list(columns)))


def _typed(values: list[Any]) -> pa.Array | None:
    """Return a column with the values of the winning kind, null for others; None if no kind has a column."""
    for kinds, kind in (((int, float), None), ((bool,), pa.bool_()), ((str,), pa.string())):
        if not any(type(value) in kinds for value in values):
            continue
        kept = [value if type(value) in kinds else None for value in values]
        if kind == pa.string():
            return pa.array([None if text is None or len(text) > LONGEST_TEXT else text for text in kept], kind)
        try:
            return pa.array(kept, kind)
        except (OverflowError, pa.ArrowInvalid):  # integers beyond 64 bits, or beyond what a float holds exactly
            return pa.array([None if value is None else float(value) for value in kept], pa.float64())
    return None


def common_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of all schemas, each with its first spelling and the winning type."""
    fields: dict[str, pa.Field] = {field.name: field for field in BASE}
    for schema in dict.fromkeys(schemas):
        for field in schema:
            known = fields.setdefault(field.name.casefold(), field)
            if _RANK.get(field.type, -1) > _RANK.get(known.type, -1) and known.name not in BASE.names:
                fields[field.name.casefold()] = known.with_type(field.type)
    return pa.schema(list(fields.values()))


def fits(field: pa.Field, into: pa.Field) -> bool:
    return bool(field.type == into.type) or {field.type, into.type} == {pa.int64(), pa.float64()}


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the columns of `schema`; missing columns and other types become null."""
    places = {field.name.casefold(): number for number, field in enumerate(table.schema)}
    columns = []
    for field in schema:
        place = places.get(field.name.casefold())
        if place is None or not fits(table.schema.field(place), field):
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(table.column(place).cast(field.type, safe=False))
    return pa.table(columns, schema=schema)
