"""Hourly means of 10 million archived dweets: ``python -m tests.benchmarks.archive [--rounds N]``.

Ours: ``toolkit.Archive(folder).sql(...)``. The peer: DuckDB called by hand on the same files, with the same answer.
Each round asks both in turn, in a process of its own for the largest memory. Then how many rows a second the writer
takes, and what `add_frame` costs against pyarrow's `write_table` on the same frame with a column of JSON beside it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from toolkit.archive.archive import Archive
from toolkit.archive.parquet_files import Row
from toolkit.archive.writer import ArchiveWriter
from toolkit.dweets.frame_rows import row_texts

THINGS, ROWS = 1_000, 10_000
QUERY = """
SELECT thing, date_trunc('hour', created) AS hour, avg(celsius) AS celsius FROM {} GROUP BY thing, hour
"""
FLEET = """
SELECT date_trunc('hour', created) AS hour, avg(celsius) AS celsius FROM {} GROUP BY hour ORDER BY hour
"""


def fleet() -> Iterator[tuple[str, pd.DataFrame]]:
    """Give a frame for each thing: one measurement each six minutes."""
    random = np.random.default_rng(1)
    times = pd.date_range("2025-01-01", periods=ROWS, freq="6min", tz="UTC")
    for number in range(THINGS):
        values = {"celsius": random.normal(15, 5, ROWS).round(2), "humidity": random.integers(0, 100, ROWS)}
        yield f"sensor-{number:04}", pd.DataFrame(values, index=times)


def seconds(work: Callable[[], object]) -> float:
    """Return the time of one call."""
    return both_times(work)[0]


def both_times(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time of one call on the clock, and of all cores: the second one hardly sees what else runs."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def by_hand(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection as one would open it by hand."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE VIEW dweets AS FROM read_parquet('{folder}/*/*.parquet')")
    return connection


def one_pair(folder: Path, query: str) -> tuple[float, ...]:
    """Ask each way, once to warm up and then for its times: ours and by hand on the clock, then of all cores."""
    archive, connection, query = Archive(folder), by_hand(folder), query.format("dweets")
    ours, hand = archive.sql(query), connection.sql(query).df()
    names = [name for name in ("thing", "hour") if name in ours.columns]
    pd.testing.assert_series_equal(ours.sort_values(names)["celsius"], hand.sort_values(names)["celsius"],
                                   check_index=False)  # fmt: skip
    mine, its = both_times(lambda: archive.sql(query)), both_times(lambda: connection.sql(query).df())
    return mine[0], its[0], mine[1], its[1]


def largest_memory(folder: Path, query: str) -> float:
    """Return the megabytes that a process needs for our answer, all libraries included."""
    return float(subprocess.check_output([sys.executable, "-m", "tests.benchmarks.archive", str(folder), query]))


def of_all_kinds(rows: int = 200_000) -> pd.DataFrame:
    """Return a frame as devices send it: three floats with gaps, a truth value, a text and a nested number."""
    random = np.random.default_rng(1)
    values: dict[str, object] = {}
    for name in ("celsius", "humidity", "pressure"):
        values[name] = np.where(random.random(rows) < 0.01, np.nan, random.normal(15, 5, rows).round(2))
    values |= {"open": random.random(rows) < 0.5, "state": random.choice(["idle", "heating", "off"], rows)}
    values["air.quality"] = random.integers(0, 500, rows)
    return pd.DataFrame(values, index=pd.date_range("2025-01-01", periods=rows, freq="s", tz="UTC"))


def one_frame(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the CPU seconds of `add_frame`, and of `write_table` on the same frame with a column of JSON texts."""
    texts = pd.Series(row_texts(frame).to_pylist(), frame.index, dtype="str")
    with tempfile.TemporaryDirectory() as folder:
        ours = both_times(lambda: Archive(folder).add_frame("roof", frame))[1]
        with_texts = frame.assign(content=texts)
        write = lambda: pq.write_table(pa.Table.from_pandas(with_texts), f"{folder}/by-hand.parquet")  # noqa: E731
        return ours, both_times(write)[1]


def writer() -> float:
    """Return how many rows a second become files."""
    rows = [Row(n, n * 1_000_000, None, b'{"celsius":21.5,"air":{"humidity":%d}}' % n) for n in range(1, 200_001)]
    with tempfile.TemporaryDirectory() as folder, ArchiveWriter(Path(folder)) as archive:
        return len(rows) / seconds(
            lambda: [archive.append("t", rows[i : i + 10_000]) for i in range(0, len(rows), 10_000)]
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        took = seconds(lambda: Archive(folder).add_frames(tqdm(fleet(), total=THINGS, unit="thing")))
        things = Archive(folder).things()
        size = things["bytes"].sum() / things["dweets"].sum()
        print(
            f"{THINGS * ROWS:,} dweets added in {took:.1f} s, {things['files'].sum():,} files, {size:.1f} bytes a dweet"
        )
        for name_, query in [("of the fleet", FLEET), ("of each thing", QUERY)]:
            pairs = [one_pair(folder, query) for _ in range(rounds)]
            ours, hand, our_cores, its_cores = (statistics.median(column) for column in zip(*pairs, strict=True))
            memory = largest_memory(folder, query)
            print(
                f"hourly means {name_}, medians of {rounds}: archive.sql {ours:.2f} s, DuckDB by hand {hand:.2f} s, "
                f"{ours / hand:.2f} x (of all cores {our_cores / its_cores:.2f} x), at most {memory:,.0f} MB"
            )
    print(f"writer {writer():,.0f} rows/s")
    frame = of_all_kinds()
    ours, by_hand_ = (
        statistics.median(column) for column in zip(*(one_frame(frame) for _ in range(rounds)), strict=True)
    )
    print(
        f"add_frame of all kinds of columns {len(frame) / ours:,.0f} rows a CPU second, "
        f"{ours / by_hand_:.2f} x the CPU of pyarrow's write_table with a column of JSON"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3 and Path(sys.argv[1]).is_dir():
        Archive(sys.argv[1]).sql(sys.argv[2].format("dweets"))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    else:
        main()
