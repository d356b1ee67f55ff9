"""Questions to all of an archive: DuckDB for SQL, Dask for more than one machine; both over the same files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit.dweets.archive.files import ArchiveFile
from toolkit.dweets.archive.frames import frame_of
from toolkit.dweets.archive.joining import Footer, read_rows
from toolkit.dweets.archive.rows import BASE, common_schema, conformed, fits
from toolkit.errors import ExtraMissing, InvalidArgument
from toolkit.extras import install_command

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb

Listed = Sequence[tuple[ArchiveFile, Footer]]

# Files are read together until they have so many rows: a task of Dask costs milliseconds.
_ROWS_A_PARTITION = 500_000


def missing(library: str) -> ExtraMissing:
    """Return the error for a library of the extra that is not installed."""
    return ExtraMissing(f"{library} is not installed here; run: {install_command('archive')}")


# -- DuckDB ------------------------------------------------------------------------------------------------


class ArchiveQueries:
    """SQL over the files of an archive. One question at a time; the connection stays open for the next one."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.Lock()
        self._viewed: list[Path] | None = None

    def sql(self, query: str, files: Listed) -> pd.DataFrame:
        """Answer a query.

        Raises
        ------
        InvalidArgument
            It cannot be answered.
        FileNotFoundError
            A file was joined into another one meanwhile.
        ExtraMissing
            DuckDB is not installed.
        """
        try:
            import duckdb
        except ImportError:
            raise missing("DuckDB") from None
        with self._lock:
            try:
                return frame_of(self._answer(duckdb, query, files))
            except duckdb.Error as error:
                gone = next((file.path for file, _ in files if not file.path.exists()), None)
                said = str(error).split("\n\n")[0]
        if gone is not None:
            raise FileNotFoundError(str(gone))
        raise InvalidArgument(f"the query cannot be answered: {said}")

    def _answer(self, duckdb: Any, query: str, files: Listed) -> pa.Table:  # noqa: ANN401
        if self._connection is None:
            self._connection = duckdb.connect()
            # Hours are UTC's on every machine; nothing is fetched from another one.
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute("SET autoinstall_known_extensions = false")
            # A name in a query is a column or the table, never a variable of the program that asks.
            self._connection.execute("SET python_enable_replacements = false")
        paths = [file.path for file, _ in files]
        if paths != self._viewed:  # else DuckDB would open every file once more, for nothing
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW dweets AS {_view(files)}")
            self._viewed = paths
        found = self._connection.sql(query)
        return pa.table({}) if found is None else found.to_arrow_table()


def _view(files: Listed) -> str:
    schema = common_schema(footer.schema for _, footer in files)
    if not files:
        return "SELECT " + ", ".join(f"NULL::{_SQL_TYPES[name]} AS {name}" for name in BASE.names) + " WHERE false"
    kinds: dict[tuple[str, ...], list[tuple[ArchiveFile, Footer]]] = {}
    for listed, unfit in zip(files, _unfit_of(files, schema), strict=True):
        kinds.setdefault(unfit, []).append(listed)
    return " UNION ALL BY NAME ".join(_select(listed, unfit) for unfit, listed in kinds.items())


def _unfit_of(files: Listed, schema: pa.Schema) -> Iterator[tuple[str, ...]]:
    """Give for each file its columns of another kind than the archive's: usually none."""
    wanted = {field.name.casefold(): field for field in schema}
    known: dict[int, tuple[str, ...]] = {}
    for _, footer in files:
        if id(footer.schema) not in known:
            names = (field.name for field in footer.schema if not fits(field, wanted[field.name.casefold()]))
            known[id(footer.schema)] = tuple(sorted(names))
        yield known[id(footer.schema)]


_SQL_TYPES: Mapping[str, str] = {
    "thing": "VARCHAR",
    "sequence": "BIGINT",
    "created": "TIMESTAMPTZ",
    "day": "DATE",
    "transaction": "VARCHAR",
    "content": "VARCHAR",
}


def _select(files: Listed, unfit: tuple[str, ...]) -> str:
    without = f" EXCLUDE ({', '.join(map(_quoted_name, unfit))})" if unfit else ""
    listed = ", ".join(_quoted(str(file.path)) for file, _ in files)
    # Where all files have the same columns, DuckDB need not open each of them to find out.
    differ = any(footer.schema != files[0][1].schema for _, footer in files)
    options = f"union_by_name = {str(differ).lower()}, hive_partitioning = false"
    return f"SELECT *{without} FROM read_parquet([{listed}], {options})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- Dask --------------------------------------------------------------------------------------------------


def partitions(files: Listed) -> dd.DataFrame:
    """Return the files as a Dask DataFrame.

    Raises
    ------
    ExtraMissing
        Dask is not installed.
    """
    try:
        import dask.dataframe as dd
    except ImportError:
        raise missing("Dask") from None
    schema = common_schema(footer.schema for _, footer in files)
    groups = list(_groups([file for file, _ in files])) or [[]]
    return dd.from_map(_Partition(schema), groups, meta=_frame(schema.empty_table()), label="archive")


class _Partition:
    """Reads some files as one frame; Dask says which columns it needs."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, files: list[ArchiveFile], columns: list[str] | None = None) -> pd.DataFrame:
        names = self._schema.names if columns is None else columns
        schema = pa.schema([self._schema.field(name) for name in names])
        wanted = {name.casefold() for name in names}
        tables = [schema.empty_table()]
        for file in files:
            present = [name for name in _names(file) if name.casefold() in wanted]
            tables.append(conformed(read_rows(file, present), schema))
        return _frame(pa.concat_tables(tables))


def _names(file: ArchiveFile) -> list[str]:
    import pyarrow.parquet as pq

    names: list[str] = pq.read_schema(file.path).names
    return names


def _groups(files: list[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    group: list[ArchiveFile] = []
    for file in files:
        if group and sum(each.rows for each in group) + file.rows > _ROWS_A_PARTITION:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _frame(table: pa.Table) -> pd.DataFrame:
    """Return a frame whose dtypes do not depend on its values, as all partitions must be alike."""
    dtypes = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.string(): pd.StringDtype(na_value=np.nan)}
    plain = table.cast(pa.schema([_plain(field) for field in table.schema]))
    frame: pd.DataFrame = plain.to_pandas(types_mapper=dtypes.get, date_as_object=False)
    return frame.astype({"sequence": "int64"}) if "sequence" in frame.columns else frame


def _plain(field: pa.Field) -> pa.Field:
    if pa.types.is_dictionary(field.type):
        return field.with_type(field.type.value_type)
    return field.with_type(pa.timestamp("us")) if pa.types.is_date(field.type) else field
