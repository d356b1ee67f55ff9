"""The condition of an alert, tried on dweets that a widget shows: its limits as lines, and how many dweets meet it."""

import re
from collections.abc import Sequence
from typing import Any

from toolkit.dweets.client.alerts import encoded_content
from toolkit.dweets.conditions import ConditionWorker, Verdict, evaluate_all
from toolkit.errors import InvalidArgument, MalformedRequest

_FIELD, _NUMBER, _COMPARED = r"dweet\.([\w$.]+)", r"(-?\d+(?:\.\d+)?)", r"\s*(?:[<>]=?|===?)\s*"
_LIMIT = re.compile(rf"{_FIELD}{_COMPARED}{_NUMBER}(?![\w.])|(?<![\w.]){_NUMBER}{_COMPARED}{_FIELD}")


class TriedCondition:
    """Evaluates a condition in a child process, each dweet once; `close` ends the process."""

    def __init__(self) -> None:
        self.condition = ""
        self._worker: ConditionWorker | None = None
        self._verdicts: dict[int, tuple[object, Verdict]] = {}

    def set(self, condition: str) -> None:
        """Try another condition; InvalidArgument if it does not compile. An empty one tries nothing."""
        self.condition, self._verdicts = "", {}
        if condition.strip():
            self._worker = self._worker or ConditionWorker()
            try:
                self._worker.check_compiles(condition)
            except MalformedRequest as error:
                raise InvalidArgument(error.message) from None
            self.condition = condition

    def close(self) -> None:
        """End the child process; the next new dweet starts another one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    @property
    def limits(self) -> dict[str, list[float]]:
        """The numbers with which the condition compares fields, by field."""
        limits: dict[str, list[float]] = {}
        for field, number, first_number, last_field in _LIMIT.findall(self.condition):
            limits.setdefault(field or last_field, []).append(float(number or first_number))
        return limits

    def text(self, records: Sequence[dict[str, Any]]) -> str:
        """Say how many of these dweets meet the condition; empty without a condition."""
        if not self.condition:
            return ""
        known = self._verdicts
        if new := [record for record in records if id(record) not in known]:
            self._worker = self._worker or ConditionWorker()
            contents = [encoded_content(record["content"]) or b"null" for record in new]
            found = evaluate_all(self._worker, self.condition, contents)
            known |= {id(one): (one, verdict) for one, verdict in zip(new, found, strict=True)}
        self._verdicts = {id(record): known[id(record)] for record in records}
        verdicts = [verdict for _, verdict in self._verdicts.values()]
        if faults := [verdict.fault for verdict in verdicts if verdict.fault is not None]:
            return f"the condition failed at {len(faults):,} of {len(verdicts):,} dweets: {faults[-1]}"
        met = sum(verdict.met for verdict in verdicts)
        return f"the condition is met by {met:,} of the {len(verdicts):,} dweets that are shown"
