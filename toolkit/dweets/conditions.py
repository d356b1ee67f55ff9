"""Alert conditions: JavaScript that reads ``dweet``, compiled and evaluated in a child process that can be killed.

A condition is an expression or the body of a function. `toolkit.dweets.condition_engine` is the code of the child.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from cachetools import LRUCache

from toolkit.dweets.wire import MAX_CONDITION_CHARACTERS
from toolkit.errors import MalformedRequest, ServiceFailure
from toolkit.public_names import Closable
from toolkit.worker_process import Death, WorkerDied, WorkerProcess

log = logging.getLogger("toolkit.gateway.alerts")

_ENGINE_MODULE = "toolkit.dweets.condition_engine"
#: Wall-clock limit of a job, far above the CPU limit of the child: only a starved or suspended child exceeds it.
WALL_SECONDS = 30.0
#: At most this many contents are evaluated in one job.
CONTENTS_PER_JOB = 200
_CRASHES_TO_STOP = 2
# CPU seconds that a condition is charged if its child dies: the CPU limit, and the start of the next child.
_SECONDS_CHARGED = 0.6
_MAX_CRASHED_SOURCES = 1_000
#: Seconds to wait after each child in a row that was killed from outside before its first verdict.
RESTART_PAUSES = (0.1, 0.5, 1.0, 5.0)
_ATTEMPTS_TO_COMPILE = 3
#: After this many faults in a row, a condition is not evaluated until its alert is set again.
FAULTS_TO_STOP = 20
_UNREADABLE_CHARACTER = re.compile("[\x00\ud800-\udfff]")
_OVERRUN_FAULT = "it ran past its limit of CPU time and had to be killed"
_CRASH_FAULT = "the process that ran it crashed or hung twice"


class Verdict(NamedTuple):
    """The result of a condition for one dweet."""

    message: str | None  #: the text of the alert; None if the condition is not met, or has a fault
    fault: str | None = None  #: why the condition could not be evaluated
    returned: bool = False  #: whether the condition returned a text, true or false
    stops: bool = False  #: whether the condition must not be evaluated again
    is_skipped: bool = False  #: whether it was not evaluated, as its CPU time was used up

    @property
    def met(self) -> bool:
        return self.message is not None


class ConditionWorker(Closable):
    """Compiles and evaluates conditions in a child process. Calls block; only one thread at a time may call.

    A condition is stopped if it exceeds its CPU limit or if the child crashes on it twice. If the child is killed from
    outside, the condition may be tried again.
    """

    def __init__(self) -> None:
        self._process = WorkerProcess(_ENGINE_MODULE)
        self._crashes: LRUCache[str, int] = LRUCache(_MAX_CRASHED_SOURCES)
        self.seconds = 0.0  # of CPU time, by all conditions together

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def check_compiles(self, source: str) -> None:
        """Forget the crashes of a condition, and raise MalformedRequest if the condition does not compile."""
        if (fault := self._compile_fault(source)) is not None:
            raise MalformedRequest(f"the condition doesn't compile: {fault}")

    def evaluate(self, source: str, contents: Sequence[bytes]) -> list[Verdict]:
        """Return the verdicts of the first contents, in order, until the time of the job is up or the child dies."""
        try:
            outcomes = self._run_job(source, contents[:CONTENTS_PER_JOB])
        except WorkerDied as died:
            fault = self._reason_to_stop(source, died)
            verdicts = [Verdict(*outcome) for outcome in died.answers]
            return verdicts if fault is None else [*verdicts, Verdict(None, fault, stops=True)]
        return [Verdict(*outcome) for outcome in outcomes]

    def stop(self) -> None:
        """Kill the child, and never start another one; any thread may call this. `close` is still needed afterwards."""
        self._process.stop()

    def close(self) -> None:
        self._process.close()

    def _compile_fault(self, source: str) -> str | None:
        if _UNREADABLE_CHARACTER.search(source):
            return "it must be UTF-8 without NUL"
        if not source.strip() or len(source) > MAX_CONDITION_CHARACTERS:
            return f"it must have 1 to {MAX_CONDITION_CHARACTERS} characters"
        self._crashes.pop(source, None)
        for _ in range(_ATTEMPTS_TO_COMPILE):
            try:
                faults: list[str | None] = self._run_job(source, None)
                return faults[0]
            except WorkerDied as died:
                if (reason := self._reason_to_stop(source, died)) is not None:
                    return reason
        raise ServiceFailure("the gateway could not check the condition, try again", status=503)

    def _run_job(self, source: str, contents: Sequence[bytes] | None) -> list[Any]:
        try:
            *answers, seconds = self._process.do((source, contents), WALL_SECONDS)
        except WorkerDied as died:
            self.seconds += 0.0 if died.death is Death.OTHER else _SECONDS_CHARGED
            raise
        self.seconds += seconds
        return answers

    def _reason_to_stop(self, source: str, died: WorkerDied) -> str | None:
        """Return why this condition is stopped, or None if it may be tried again."""
        # Two cases need no warning: the owner sees an overrun in the status of the alert, and `stop` kills the child.
        level = logging.INFO if died.death is Death.CPU_LIMIT or self._process.is_stopped else logging.WARNING
        log.log(level, "the process that evaluates alert conditions ended: %s", died)
        if died.death is Death.CPU_LIMIT:
            return _OVERRUN_FAULT
        if died.death is Death.OTHER:
            return None
        # The first crash does not stop the condition: a suspended machine also exceeds the wall-clock limit.
        crashes = self._crashes[source] = self._crashes.get(source, 0) + 1
        return _CRASH_FAULT if crashes >= _CRASHES_TO_STOP else None


def evaluate_all(worker: ConditionWorker, source: str, contents: Sequence[bytes]) -> list[Verdict]:
    """Evaluate all contents; once the condition is stopped or fails too often in a row, repeat the last verdict."""
    verdicts: list[Verdict] = []
    faults, pauses = 0, iter(RESTART_PAUSES)
    while len(verdicts) < len(contents):
        evaluated = worker.evaluate(source, contents[len(verdicts) :])
        for verdict in evaluated:
            verdicts.append(verdict)
            faults = faults + 1 if verdict.fault is not None else 0
            if verdict.stops or faults >= FAULTS_TO_STOP:
                return verdicts + [verdict] * (len(contents) - len(verdicts))
        if evaluated:
            pauses = iter(RESTART_PAUSES)
        elif (pause := next(pauses, None)) is not None:
            time.sleep(pause)
        else:
            raise ServiceFailure("another program keeps killing the process that evaluates conditions")
    return verdicts
