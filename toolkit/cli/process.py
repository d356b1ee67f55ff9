"""How commands read, write, log and end: JSON lines, errors in one line, closed pipes, signals."""

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, BinaryIO

import click

from toolkit.errors import InvalidArgument, ToolkitError

#: Signals that end a command; Windows has no SIGHUP, the signal of a closed terminal.
END_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# The exit code that a shell reports for a command that SIGINT ended.
_SIGINT_EXIT_CODE = 130
# A content may be nested 1,024 levels deep, and json calls itself for each level.
_RECURSION_LIMIT = 5_000
# JSON escapes for characters that terminals execute or readers cannot see, and that json.dumps leaves in texts.
_ESCAPES = {sign: f"\\u{sign:04x}" for sign in (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}
# Replacements for such characters in text that others wrote and a terminal shows: a CSV, the message of a service.
_TERMINAL_SAFE = dict.fromkeys([*_ESCAPES, *range(0x20)], "\N{REPLACEMENT CHARACTER}") | {0x09: "\t", 0x0A: "\n"}


class WrongArgument(click.ClickException):
    exit_code = 2


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Report an error or warning in one line; exit with 130 after Ctrl-C, with 0 if the reader of stdout is gone.

    The exit code of an error is 2 for a wrong argument, and otherwise 1.
    """
    recursion_limit = sys.getrecursionlimit()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _warn_in_one_line
            sys.setrecursionlimit(_RECURSION_LIMIT)
            yield
            if sys.stdout is not None:
                sys.stdout.flush()
    except ToolkitError as error:
        kind = WrongArgument if isinstance(error, InvalidArgument) else click.ClickException
        raise kind(terminal_safe(str(error))) from None
    except KeyboardInterrupt:
        raise SystemExit(_SIGINT_EXIT_CODE) from None
    except BrokenPipeError:  # the reader is gone, as with `| head -1`: no error
        _discard_stdout()
        raise SystemExit(0) from None
    except OSError as error:
        _discard_stdout()
        why = f"{error.filename or 'stdin or stdout'}: {error.strerror}" if error.strerror else str(error)
        raise click.ClickException(why) from None
    finally:
        sys.setrecursionlimit(recursion_limit)


def _warn_in_one_line(message: Warning | str, category: type[Warning], *_: object, **_named: object) -> None:
    if issubclass(category, UserWarning):  # a warning of the toolkit; deprecations of libraries are not for users
        click.echo(f"Warning: {terminal_safe(str(message))}", err=True)


def stdin() -> BinaryIO:
    if sys.stdin is None:
        raise click.ClickException("stdin is closed")
    return sys.stdin.buffer


def json_text(value: Any) -> str:  # noqa: ANN401
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def terminal_safe(text: str) -> str:
    """Return a text without characters that a terminal would execute."""
    return text.translate(_TERMINAL_SAFE)


def write_text(text: str) -> None:
    """Write to stdout in UTF-8 in any locale; a terminal gets no characters that it would execute."""
    shown = terminal_safe(text) if sys.stdout is not None and sys.stdout.isatty() else text
    write_bytes(shown.encode("utf-8", "backslashreplace"))


def write_bytes(data: bytes) -> None:
    if sys.stdout is not None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _discard_stdout() -> None:
    # When Python exits, it would write the rest of the buffer, fail again, and print a message with another exit code.
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def handling_end_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in END_SIGNALS}
    try:
        yield
    finally:
        for number, earlier_handler in previous.items():
            signal.signal(number, earlier_handler)
