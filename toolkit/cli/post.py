"""`toolkit post`: one dweet from the command line, or one for each line of stdin."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import orjson

from toolkit.cli.options import KEY, URL, dweet_calls
from toolkit.cli.process import json_text, stdin, terminal_safe, write_text
from toolkit.dweets import wire
from toolkit.dweets.checked_values import checked_name
from toolkit.dweets.content import checked_content, coerced
from toolkit.errors import MalformedRequest, ToolkitError, Unreachable, counted

if TYPE_CHECKING:
    from toolkit.dweets.client.calls import DweetCalls

#: A line with its number, from 1.
Line = tuple[int, bytes]
Receipts = list[dict[str, Any]]

_READ_BYTES = 256 * 1024
_LINES_PER_REQUEST = 1_000


@click.command()
@click.argument("thing")
@click.argument("content", metavar="KEY=VALUE...|-", nargs=-1, required=True)
@URL
@KEY
@click.option("-q", "--quiet", is_flag=True, help="Do not print the posted dweets.")
def post(thing: str, content: tuple[str, ...], url: str | None, key: str | None, quiet: bool) -> None:
    """Post a dweet, or one for each line of JSON on stdin.

    A VALUE is a number, true, false, null, or else a text; "-" reads stdin. Each dweet is printed as a line of JSON,
    with its time and its transaction.

    \b
      toolkit post kitchen celsius=21.5 window=open
      sensor | toolkit post kitchen -
    """  # noqa: D301 - click keeps the lines behind \b as they are
    from toolkit.dweets.client.calls import checked_records

    is_stream = content == ("-",)
    body = b"" if is_stream else _content_of_arguments(content)
    checked_name(thing)
    calls = dweet_calls(url)
    if is_stream:
        batches = _post_lines(calls, thing, key, stdin())
    else:
        batches = iter([checked_records([calls.call(wire.POST_DWEET, {"thing": thing}, key, body=body).data])])
    for receipts in batches:
        if not quiet:
            write_text("".join(f"{json_text(receipt)}\n" for receipt in receipts))


def _content_of_arguments(arguments: Sequence[str]) -> bytes:
    """Return KEY=VALUE arguments as JSON; values become numbers, booleans or null as in a GET request."""
    values = {}
    for number, argument in enumerate(arguments, 1):
        name, equals, value = argument.partition("=")
        if not (name and equals):  # not shown: it may be a key
            advice = "a file with a line of JSON for each dweet is sent by `toolkit post THING - < FILE`"
            raise click.UsageError(f"part {number} of the content is not KEY=VALUE; {advice}")
        if name in values:
            raise click.UsageError(f"part {number} of the content has the name of an earlier part")
        values[name] = coerced(value)
    try:
        return orjson.dumps(values)
    except orjson.JSONEncodeError:
        raise click.UsageError("the content is not UTF-8") from None


def _post_lines(calls: DweetCalls, thing: str, key: str | None, source: BinaryIO) -> Iterator[Receipts]:
    """Post lines as they arrive; a ClickException names the lines that failed, and counts the posted ones."""
    sent = 0
    for lines in _line_batches(source):
        contents, refusal = _checked_lines(lines)
        try:
            receipts = calls.post_rows(thing, contents, key) if contents else []
        except ToolkitError as error:
            unknown = "; whether this was sent is unknown" if isinstance(error, Unreachable) else ""
            first, last = lines[0][0], lines[len(contents) - 1][0]
            where = f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"
            sent_before = f"sent before that: {counted(sent, 'dweet')}"
            raise click.ClickException(f"{where}: {terminal_safe(str(error))}{unknown}; {sent_before}") from None
        sent += len(receipts)
        yield receipts
        if refusal:
            raise click.ClickException(f"{refusal}; sent before that: {counted(sent, 'dweet')}")


def _line_batches(source: BinaryIO) -> Iterator[list[Line]]:
    """Yield the lines of each read, except blank ones. One read may be one line: a slow sensor need not wait."""
    count, rest = 0, b""
    while piece := source.read1(_READ_BYTES):  # type: ignore[attr-defined]
        *complete, rest = (rest + piece).split(b"\n")
        if len(rest) > _READ_BYTES:  # longer than any dweet, and perhaps without end
            complete, rest = [*complete, rest], b""
        lines = [(count + position, line) for position, line in enumerate(complete, 1) if line.strip()]
        count += len(complete)
        yield from (lines[start : start + _LINES_PER_REQUEST] for start in range(0, len(lines), _LINES_PER_REQUEST))
    if rest.strip():
        yield [(count + 1, rest)]


def _checked_lines(lines: Sequence[Line]) -> tuple[list[bytes], str | None]:
    """Return the contents before the first invalid line, and what is wrong with it; None if no line is invalid."""
    contents: list[bytes] = []
    for number, line in lines:
        try:
            contents.append(checked_content(line.removeprefix(BOM_UTF8) if number == 1 else line))
        except MalformedRequest as error:
            return contents, f"line {number:,}: {error.message if error.status == 413 else _not_json(number, line)}"
    return contents, None


def _not_json(number: int, line: bytes) -> str:
    """Say that a line is no JSON, and what the file may be instead."""
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "this is UTF-16, and JSON is UTF-8"
    if line.strip() in (b"{", b"["):
        return "this is not valid JSON: each line has one complete value"
    if number == 1 and line[:1] not in b"{[" and any(separator in line for separator in (b",", b";", b"\t")):
        return "this is not valid JSON; send a CSV from Python, with tk.dweets.post_frame(thing, pd.read_csv(FILE))"
    return "this is not valid JSON"
