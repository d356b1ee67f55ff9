"""The child process that renders.

Rendering needs a separate process, because drawing a long text holds the global interpreter lock for up to a quarter
of a second, and no stream of the gateway would send anything in that time.
"""

import os
import traceback
from collections.abc import Iterator

from toolkit.errors import InvalidParameters, Problem
from toolkit.system.worker_process import limit_cpu, limit_memory, serve
from toolkit_gateway.handwriting import refusals
from toolkit_gateway.handwriting.render_job import Job, Outcome
from toolkit_gateway.ink.renderer import render, writable_text

_NICENESS = 2  # lower priority than the gateway, but rendering still progresses on a busy machine
#: Limit of memory for one text; in most hands, a letter of 60,000 characters in pencil takes 440 MB.
MEMORY_BYTES = 480 * 1024 * 1024


def main() -> None:
    serve(outcomes, _NICENESS)


def outcomes(job: Job) -> Iterator[Outcome]:
    parameters, checks_only, cpu_seconds = job
    outcome: Outcome = ()
    limit_cpu(cpu_seconds)
    limit_memory(MEMORY_BYTES)
    try:
        if checks_only:
            writable_text(parameters)
        else:
            outcome = render(parameters)
    except InvalidParameters as error:
        outcome = error.problems
    except MemoryError:
        outcome = (Problem(None, refusals.TOO_MUCH_WORK),)
    except Exception as error:  # a bug: the gateway logs the line of code, never the text
        frame = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__} at {os.path.basename(frame.filename)}:{frame.lineno}"
    limit_cpu(0)  # no limit until the next job
    yield outcome
