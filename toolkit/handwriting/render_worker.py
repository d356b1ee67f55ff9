"""The child process that renders.

A separate process, because drawing a long text holds Python's lock for up to a quarter of a second at a time, and
every stream of the gateway would stand still for as long.
"""

from __future__ import annotations

import os
import traceback
import unicodedata
from functools import cache

from toolkit.handwriting.layout import normalised
from toolkit.handwriting.parameters import MissingCharacters, PageTooLarge
from toolkit.handwriting.render_jobs import Job, Mistake, Outcome, Rendered
from toolkit.handwriting.renderer import render
from toolkit.handwriting.shaping import Shaper
from toolkit.handwriting.wire import Problem
from toolkit.handwriting.writers import writer_of
from toolkit.worker_process import serve

_NICENESS = 2  # streams and small calls go first, and yet no render starves on a busy machine


def work(job: Job) -> Outcome:
    """Do one job; a text that cannot be drawn is an answer, not a failure."""
    if job.kind is None:
        missing = _missing(job.handwriting.script, job.handwriting.writer, job.parameters.text)
        return Problem("text", str(MissingCharacters(missing)), missing) if missing else None
    try:
        done = render(job.handwriting, job.parameters, job.kind)
    except MissingCharacters as error:
        return Problem("text", str(error), error.characters)
    except PageTooLarge as error:
        return Problem(error.field, str(error))
    return Rendered(done.data, done.size, done.lines, done.ink_share, done.overflow, done.timings)


def _missing(script: str, writer: int, text: str) -> tuple[str, ...]:
    return _shaper(script, writer).missing(normalised(unicodedata.normalize("NFC", text)))


@cache
def _shaper(script: str, writer: int) -> Shaper:
    return Shaper(script, writer_of(script, writer))


def main() -> None:
    """Render until the gateway is gone."""
    serve(lambda job: [_outcome(job)], _NICENESS)


def _outcome(job: Job) -> Outcome:
    try:
        return work(job)
    except Exception as error:  # a mistake of ours is told to the gateway, which answers and logs it
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Mistake(f"{type(error).__name__} at {os.path.basename(last.filename)}:{last.lineno}")
