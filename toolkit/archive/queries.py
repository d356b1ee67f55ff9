"""Queries over a whole archive: SQL with DuckDB, and Dask DataFrames."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit.archive.parquet_files import BASE, Footer, common_schema, conformed, fits, read_rows
from toolkit.errors import InvalidArgument, needs_extra

if TYPE_CHECKING:
    import dask.dataframe as dd

# About so many rows, in whole files: each partition is a task, with an overhead of milliseconds.
_ROWS_PER_PARTITION = 500_000
# DuckDB must not download or load extensions, nor read Python variables of the caller by their names.
_CONFIGURATION = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
# The progress bar of a slow query would stay in the output of its cell. DuckDB rejects TimeZone in _CONFIGURATION, and
# `allowed_directories` after external access is off. No query can undo what comes before `lock_configuration`.
_SETTINGS = """
SET enable_progress_bar = false;
SET TimeZone = 'UTC';
SET allowed_directories = [{folder}];
SET enable_external_access = false;
SET lock_configuration = true;
"""
_ONE_SELECT = "it must be one SELECT (a PIVOT names its columns: PIVOT ... ON column IN (values))"
_INTEGERS = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
_DTYPES = {pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name) for name in _INTEGERS}
_DTYPES |= {pa.bool_(): pd.BooleanDtype(), pa.string(): pd.StringDtype(na_value=np.nan)}


class ArchiveQueries:
    """Runs SQL over the files of an archive, one query at a time, on a connection that stays open.

    A query reads the files in `folder` and no others, and changes nothing.
    """

    def __init__(self, folder: Path) -> None:
        with needs_extra("archive"):
            import duckdb
        self._connection = duckdb.connect(config=_CONFIGURATION)
        self._connection.execute(_SETTINGS.format(folder=_quoted(os.path.join(folder, ""), "'")))
        # Queries run in a thread of their own, because DuckDB does not notice Ctrl-C in the thread of the caller.
        self._thread = ThreadPoolExecutor(1, "archive-sql")
        self._paths_in_view: list[Path] | None = None

    def sql(
        self, query: str, files: Sequence[Footer], parameters: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Run a query; FileNotFoundError if one of the files was merged into another one and removed."""
        result = self._thread.submit(self._result, query, files, parameters)
        try:
            return _to_frame(result.result())
        finally:
            if not result.done() and not result.cancel():  # Ctrl-C
                self._connection.interrupt()

    def _result(
        self, query: str, files: Sequence[Footer], parameters: Sequence[Any] | Mapping[str, Any] | None
    ) -> pa.Table:
        import duckdb

        try:
            if (paths := [footer.file.path for footer in files]) != self._paths_in_view:
                # Only if files changed, because a new view makes DuckDB open every file again.
                if files:
                    self._connection.execute(f"CREATE OR REPLACE TEMP VIEW dweets AS {_view(files)}")
                else:
                    self._connection.register("dweets", BASE.empty_table())
                self._paths_in_view = paths
            statements = self._connection.extract_statements(query)
            if [statement.type for statement in statements] == [duckdb.StatementType.SELECT]:
                return self._connection.sql(query, params=parameters).to_arrow_table()
            gone, reason = None, _ONE_SELECT
        except duckdb.Error as error:
            gone = next((footer.file.path for footer in files if not footer.file.path.exists()), None)
            reason = re.split(r"\n\n|\s+Candidate functions", str(error))[0]
        if gone is not None:
            raise FileNotFoundError(str(gone))
        raise InvalidArgument(f"the query cannot be answered: {reason}")


def _view(files: Sequence[Footer]) -> str:
    """Return a query for all rows of all files; a file's columns whose types do not fit the archive are left out."""
    wanted = {field.name.casefold(): field for field in common_schema(footer.schema for footer in files)}

    @cache
    def unfit_columns(schema: pa.Schema) -> tuple[str, ...]:
        return tuple(field.name for field in schema if not fits(field, wanted[field.name.casefold()]))

    groups: dict[tuple[str, ...], list[Footer]] = {}
    for footer in files:
        groups.setdefault(unfit_columns(footer.schema), []).append(footer)
    selects = []
    for names, group in groups.items():
        without = "EXCLUDE (" + ", ".join(_quoted(name, '"') for name in names) + ")" if names else ""
        paths = ", ".join(_quoted(str(footer.file.path), "'") for footer in group)
        # With union_by_name, DuckDB opens each file to compare the columns.
        by_name = str(any(footer.schema != group[0].schema for footer in group)).lower()
        options = f"union_by_name = {by_name}, hive_partitioning = false"
        selects.append(f"SELECT * {without} FROM read_parquet([{paths}], {options})")
    return " UNION ALL BY NAME ".join(selects)


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, 2 * quote) + quote


def dask_frame(files: Sequence[Footer]) -> dd.DataFrame:
    with needs_extra("archive"):
        import dask.dataframe as dd
    schema = common_schema(footer.schema for footer in files)
    groups: dict[int, list[Footer]] = {}
    rows_before = 0
    for footer in files:
        groups.setdefault(rows_before // _ROWS_PER_PARTITION, []).append(footer)
        rows_before += footer.file.rows

    def read(group: Sequence[Footer], columns: Sequence[str] | None = None) -> pd.DataFrame:
        wanted = pa.schema([schema.field(name) for name in (schema.names if columns is None else columns)])
        tables = [wanted.empty_table()]
        for footer in group:
            present = {name.casefold(): name for name in footer.schema.names}
            names = [present[name.casefold()] for name in wanted.names if name.casefold() in present]
            tables.append(conformed(read_rows(footer.file, names), wanted))
        return _to_frame(pa.concat_tables(tables), is_partition=True)

    return dd.from_map(read, list(groups.values()) or [[]], meta=read([]), label="archive")


def _to_frame(table: pa.Table, *, is_partition: bool = False) -> pd.DataFrame:
    """Convert a table; integers are nullable if some are missing, and (but for `BASE`) always in a Dask partition."""
    names = table.column_names
    while len(set(names)) < len(names):  # a query may use a name twice
        names = [f"{name}_{n + 1}" if name in names[:n] else name for n, name in enumerate(names)]
    table = table.rename_columns(names)
    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(field.type.value_type))
        elif pa.types.is_decimal(field.type):  # DuckDB's type for a sum of integers
            table = table.set_column(number, field.name, table.column(number).cast(pa.float64()))
    frame: pd.DataFrame = table.to_pandas(types_mapper=_DTYPES.get, date_as_object=False)
    for name in map(str, frame.columns):
        dtype = str(frame[name].dtype)
        if dtype in _INTEGERS and (name in BASE.names or not is_partition) and not frame[name].isna().any():
            frame[name] = frame[name].to_numpy(dtype.lower())
    return frame
