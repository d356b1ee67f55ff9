"""Alert conditions: JavaScript that reads ``dweet``, compiled and evaluated in a child process that can be killed.

A condition is an expression or the body of a function. `toolkit.dweets.condition_engine` is the code of the child.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from toolkit.dweets.wire import MAX_CONDITION_CHARACTERS
from toolkit.errors import MalformedRequest, ServiceFailure
from toolkit.public_api import Closable
from toolkit.system.worker_process import Death, WorkerDied, WorkerProcess

log = logging.getLogger("toolkit_gateway.alerts")

ENGINE_MODULE = "toolkit.dweets.condition_engine"
#: The CPU time of one evaluation, and of its repetition if it was interrupted: CPU time also passes on a busy machine.
SECONDS = (0.05, 0.5)
#: Wall-clock limit of a job, far above the CPU limit of the child: only a starved or suspended child exceeds it.
WALL_SECONDS = 30.0
#: At most this many contents are evaluated in one job.
CONTENTS_PER_JOB = 200
#: After this many faults in a row, a condition is not evaluated until its alert is set again.
FAULTS_TO_STOP = 20
_UNREADABLE_CHARACTER = re.compile("[\x00\ud800-\udfff]")
_OVERRUN_FAULT = "it ran past its limit of CPU time and had to be killed"
_KILLED = "another program keeps killing the process that evaluates conditions, try again"
_CRASH_FAULT = "the process that ran it crashed or hung twice"


# `Outcome` of the engine, or None: importing the engine would load QuickJS here, and importing this module costs the
# engine 5 MB of its memory.
_ANSWER = tuple[str | None, str | None, bool] | None


class Verdict(NamedTuple):
    """The result of a condition for one dweet."""

    message: str | None  #: the text of the alert; None if the condition is not met, or has a fault
    fault: str | None = None  #: why the condition could not be evaluated
    returned: bool = False  #: whether the condition returned a text, true or false
    stops: bool = False  #: whether the condition must not be evaluated again
    is_repetition: bool = False  #: whether a first evaluation was interrupted, or its process died

    @property
    def met(self) -> bool:
        return self.message is not None


#: Why a job ended early: its child died, or the engine interrupted the evaluation, and the child lives.
_Ending = Death | Literal["interrupted"] | None


class ConditionWorker(Closable):
    """Compiles and evaluates conditions in a child process. Calls block; only one thread at a time may call.

    An evaluation that is interrupted, or whose child dies, is repeated once with more CPU time. If the child is killed
    at its limit of CPU time or crashes again, the condition is stopped; if it is interrupted again, that is a fault.
    """

    def __init__(self, seconds: tuple[float, float] = SECONDS) -> None:
        self._process = WorkerProcess(ENGINE_MODULE, _ANSWER)
        self._seconds = seconds

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def check_compiles(self, source: str) -> None:
        """Raise MalformedRequest if the condition does not compile."""
        if _UNREADABLE_CHARACTER.search(source):
            fault: str | None = "it must be UTF-8 without NUL"
        elif not source.strip() or len(source) > MAX_CONDITION_CHARACTERS:
            fault = f"it must have 1 to {MAX_CONDITION_CHARACTERS} characters"
        else:
            fault = self.evaluate(source, None)[0].fault
        if fault is not None:
            raise MalformedRequest(f"the condition doesn't compile: {fault}")

    def evaluate(self, source: str, contents: Sequence[bytes] | None) -> list[Verdict]:
        """Return the verdicts of the first contents, in order, until the time of the job is up.

        Without contents, the condition is compiled, and the only verdict has its fault. Raises ServiceFailure if the
        child is killed from outside again and again.
        """
        first_seconds, more_seconds = self._seconds
        contents = contents and contents[:CONTENTS_PER_JOB]
        verdicts, ending = self._run_job(source, contents, first_seconds)
        if ending is None or len(verdicts) == (1 if contents is None else len(contents)):
            return verdicts  # perhaps the child died after its last answer
        next_content = contents and contents[len(verdicts) :][:1]
        repeated, ending = self._run_job(source, next_content, more_seconds)
        if ending is None:
            verdict = repeated[0]
        elif ending == "interrupted":
            first, more = (f"{round(seconds * 1000)} ms" for seconds in self._seconds)
            fault = f"it was interrupted after {first} of CPU time, and after {more} when it was repeated"
            verdict = Verdict(None, fault)
        elif ending is not Death.OTHER:
            verdict = Verdict(None, _OVERRUN_FAULT if ending is Death.CPU_LIMIT else _CRASH_FAULT, stops=True)
        # Another program killed the child twice; the condition is not the cause, so it can be tried again.
        elif verdicts:
            return verdicts
        else:
            raise ServiceFailure(_KILLED, status=503)
        return [*verdicts, verdict._replace(is_repetition=True)]

    def stop(self) -> None:
        """Kill the child, and never start another one; any thread may call this. `close` is still needed afterwards."""
        self._process.stop()

    def close(self) -> None:
        self._process.close()

    def _run_job(self, source: str, contents: Sequence[bytes] | None, seconds: float) -> tuple[list[Verdict], _Ending]:
        ending: _Ending = None
        try:
            answers = self._process.do((source, contents, seconds), WALL_SECONDS)
        except WorkerDied as died:
            # Two cases need no warning: the owner sees an overrun in the status of the alert; `stop` kills the child.
            level = logging.INFO if died.death is Death.CPU_LIMIT or self._process.is_stopped else logging.WARNING
            log.log(level, "the process that evaluates alert conditions ended: %s", died)
            answers, ending = died.answers, died.death
        if None in answers:  # the last one: the engine interrupted the evaluation
            answers, ending = answers[:-1], "interrupted"
        return [Verdict(*answer) for answer in answers], ending


def evaluate_all(worker: ConditionWorker, source: str, contents: Sequence[bytes]) -> list[Verdict]:
    """Evaluate all contents; once the condition is stopped or fails too often in a row, repeat the last verdict."""
    verdicts: list[Verdict] = []
    faults = 0
    while len(verdicts) < len(contents):
        for verdict in worker.evaluate(source, contents[len(verdicts) :]):
            verdicts.append(verdict)
            faults = faults + 1 if verdict.fault is not None else 0
            if verdict.stops or faults >= FAULTS_TO_STOP:
                return verdicts + [verdict] * (len(contents) - len(verdicts))
    return verdicts
