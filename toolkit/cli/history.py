"""`toolkit history`: past dweets of a thing as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.options import KEY, URL, dweet_calls
from toolkit.cli.process import json_text, terminal_safe, write_bytes, write_text
from toolkit.dweets.content_leaves import (
    CREATED,
    column_of_field,
    column_type,
    content_columns,
    field_of_column,
    named_leaf_columns,
)
from toolkit.dweets.wire import HISTORY_LENGTH
from toolkit.system.files import escaped_formula

if TYPE_CHECKING:
    import pandas as pd

_FILE = click.Path(dir_okay=False, allow_dash=True)


@click.command()
@click.argument("thing")
@click.option("--since", metavar="TIME", help="From this time on (ISO 8601, UTC).")
@click.option("--until", metavar="TIME", help="Before this time; without --since, from the oldest dweet on.")
@click.option("--time", "time", metavar="FIELD", help="The field with the times of --since, --until and -n.")
@click.option("-n", "--last", metavar="N", type=click.IntRange(min=1), help="The newest N only.")
@click.option("--csv", "csv_file", metavar="FILE", type=_FILE, help="Write CSV to this file, not to stdout.")
@click.option("--parquet", "parquet_file", metavar="FILE", type=_FILE, help="Write Parquet to this file; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line: thing, created and content.")
@URL
@KEY
def history(
    thing: str,
    since: str | None,
    until: str | None,
    time: str | None,
    last: int | None,
    csv_file: str | None,
    parquet_file: str | None,
    as_json: bool,
    url: str | None,
    key: str | None,
) -> None:
    """Print past dweets of a thing as CSV.

    Without options the last 500; --since, --until and -n select from all that the gateway keeps. The oldest is first. A
    nested field has the names of its levels, joined with dots. With --time, all that the gateway keeps is read, and a
    field of the content says when a dweet was measured. The exit code is 1 if there are no dweets.

    \b
      toolkit history kitchen -n 1
      toolkit history kitchen --since 2026-01-01 --until 2026-02-01 --parquet january.parquet
    """  # noqa: D301 - click keeps the lines behind \b as they are
    if sum(map(bool, (csv_file, parquet_file, as_json))) > 1:
        raise click.UsageError("give only one of --csv, --parquet and --json")
    from toolkit.dweets.client.reading import Selection, read_history

    calls = dweet_calls(url)
    if (since, until, last) == (None, None, None):
        last = HISTORY_LENGTH
    selection = Selection.checked(last, since, until)
    time = None if time == CREATED else time
    asked = selection if time is None else Selection.checked(None, None, None)
    records, without_dweet = read_history(calls, [thing], key, asked, sys.stderr.isatty())
    if without_dweet:
        raise click.ClickException(terminal_safe(calls.no_dweet_text([thing])))
    times = None
    if time is not None:
        from toolkit.dweets.frame_time import TimeSelection  # pandas takes a second, and only this option needs it

        records, times = TimeSelection(time, *selection).select(records)
    if not records:
        if time is not None:
            raise click.ClickException(f"there are no dweets of {thing} in this time")
        raise click.ClickException(f"no dweet of {thing} arrived in this time; --time FIELD selects by a field's times")
    if as_json:
        write_text("".join(f"{json_text(record)}\n" for record in records))
    elif parquet_file is not None:
        _write_parquet(records, parquet_file, times)
    elif csv_file in (None, "-"):
        write_text(_csv_text(records, time))
    else:
        Path(csv_file).write_text(_csv_text(records, time), "utf-8", newline="")


def _csv_text(records: Sequence[dict[str, Any]], time: str | None) -> str:
    """Return the table of `tk.dweets.history` as CSV, without pandas, whose import takes a second."""
    contents, columns = [record["content"] for record in records], {}
    if time is not None:
        columns = named_leaf_columns(contents, [field_of_column(time)])
    columns[CREATED] = [record["created"] for record in records]
    for field, values in content_columns(contents).items():
        columns.setdefault(column_of_field(field), _csv_cells(values))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(map(escaped_formula, columns))
    lines.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _csv_cells(values: list[Any]) -> list[Any]:
    """Return the cells of a column; columns of mixed or nested values have JSON texts, as in Parquet."""
    kind, _ = column_type(values)
    if kind is float:
        return [None if value is None else float(value) for value in values]
    if kind is object:
        values = [None if value is None else json_text(value) for value in values]
    return list(map(escaped_formula, values))


def _write_parquet(records: Sequence[dict[str, Any]], file: str, times: pd.DatetimeIndex | None) -> None:
    """Write records as the table of `tk.dweets.history`, with JSON text in columns of mixed or nested values."""
    from toolkit.dweets.content_frame import history_frame
    from toolkit.frames import table_bytes

    frame = history_frame(records, times=times)
    for name in frame.columns[frame.dtypes == "object"]:
        frame[name] = frame[name].map(json_text, na_action="ignore").astype("str")
    content = table_bytes(frame, ".parquet")
    if file == "-":
        write_bytes(content)
    else:
        Path(file).write_bytes(content)
