"""A query reads the folder of its archive and nothing else, changes nothing, and is one SELECT."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from toolkit import Archive
from toolkit.errors import InvalidArgument

# FOLDER is the folder of the archive, OUTSIDE a file next to it.
OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('OUTSIDE')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_text('FOLDER/../outside.csv')",
    "SELECT * FROM read_text('FOLDER-private/rows.csv')",
    "SELECT * FROM 'OUTSIDE'",
    "SELECT * FROM sniff_csv('OUTSIDE')",
    "SELECT * FROM parquet_metadata('OUTSIDE')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_csv('https://127.0.0.1:1/rows.csv')",
    "SELECT * FROM enable_logging(storage = 'file')",
]
CHANGES = [
    "COPY dweets TO 'FOLDER/copy.parquet'",
    "COPY (SELECT 1) TO 'OUTSIDE'",
    "COPY (PIVOT dweets ON thing USING count(*)) TO 'FOLDER/pivot.csv'",
    "EXPLAIN ANALYZE COPY dweets TO 'FOLDER/explained.parquet'",
    "EXPORT DATABASE 'FOLDER/exported'",
    "ATTACH 'FOLDER/other.db'",
    "ATTACH ':memory:' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CREATE TABLE kept AS SELECT 1",
    "CREATE MACRO one() AS 1",
    "DROP VIEW dweets",
    "PREPARE later AS SELECT 1",
    "CALL pragma_version()",
]
SEVERAL = ["SELECT 1; SELECT 2", "SELECT 1; DROP VIEW dweets", "", ";;", "-- only a comment"]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    for name in ("outside.csv", "years-private/rows.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a,b\n1,2\n", "utf-8")
    (tmp_path / "years").mkdir()
    archive = Archive(tmp_path / "years")
    hours = pd.date_range("2026-01-01", periods=3, freq="h", tz="UTC")
    archive.add_frame("it's", pd.DataFrame({"n": [1, 2, 3]}, index=hours))
    return archive


def files_of(archive: Archive) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in archive.folder.parent.rglob("*") if path.is_file()}


def test_a_query_reads_its_folder_and_changes_nothing(archive: Archive) -> None:
    before = files_of(archive)
    outside = str(archive.folder.parent / "outside.csv")
    for query in (*OUTSIDE, *CHANGES, *SEVERAL):
        with pytest.raises(InvalidArgument, match="the query cannot be answered: ") as caught:
            archive.sql(query.replace("FOLDER", str(archive.folder)).replace("OUTSIDE", outside))
        assert ("it must be one SELECT" in str(caught.value)) == (query not in OUTSIDE), query
        assert files_of(archive) == before, query
    assert archive.sql("SELECT sum(n) AS sum FROM dweets")["sum"].tolist() == [6]


def test_no_query_loads_an_extension(archive: Archive) -> None:
    settings = ", ".join(f"current_setting('{name}_known_extensions')" for name in ("autoload", "autoinstall"))
    assert not archive.sql(f"SELECT {settings}").to_numpy().any()


def test_the_forms_of_a_select_are_one_statement(archive: Archive) -> None:
    for query in ("FROM dweets", "WITH a AS (FROM dweets) FROM a", "SELECT n FROM dweets;", "DESCRIBE dweets"):
        assert len(archive.sql(query)), query
    assert archive.sql("PIVOT dweets ON thing IN ('it''s') USING sum(n)")["it's"].tolist()


def test_files_that_come_later_and_odd_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "it's, [an] 'archive'").mkdir()
    archive = Archive(tmp_path / "it's, [an] 'archive'")
    assert archive.sql("SELECT * FROM dweets").empty
    for number in range(3):
        hours = pd.date_range(f"2026-01-0{number + 1}", periods=2, freq="h", tz="UTC")
        archive.add_frame("roof", pd.DataFrame({"n": [1.5, 2.5]}, index=hours))
        assert archive.sql("SELECT sum(n) AS sum FROM dweets WHERE n > ?", [0])["sum"].tolist() == [4.0 * (number + 1)]
