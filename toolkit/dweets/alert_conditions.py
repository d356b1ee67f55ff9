"""Alert conditions: the body of a JavaScript function of ``dweet``, run in an engine of its own.

The engine (QuickJS) has 16 MiB of memory, 50 ms of processor time a dweet and no host object: a condition can
neither read a file nor reach the network, and one that loops or eats memory ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import quickjs

from toolkit.dweets.wire import MAX_CONDITION_CHARACTERS
from toolkit.errors import MalformedRequest

MEMORY_BYTES = 16 * 1024 * 1024
SECONDS = 0.05
_STACK_BYTES = 256 * 1024
_KEPT_COMPILED = 256
#: What an alert's message holds of what its condition returned.
MAX_MESSAGE_CHARACTERS = 1_000
# A long text that was put together is no plain one inside the engine, and neither it nor half of a surrogate pair nor
# a BigInt can leave it: so the result is made plain in there, with methods that no condition can have changed before.
_JUDGE = f"""
((condition, slice, wellFormed, replaceAll) => dweet => {{
    const result = condition(dweet);
    if (typeof result !== 'string') return result === true;
    return replaceAll(wellFormed(slice(result, 0, {MAX_MESSAGE_CHARACTERS})), '\\0', ' ');
}})(new Function('dweet', source), ...['slice', 'toWellFormed', 'replaceAll'].map(
    name => Function.prototype.call.bind(String.prototype[name])))
"""
_INTERRUPTED = "InternalError: interrupted"
# How often a condition is given its time, and how many other threads that took it are made up for.
_ATTEMPTS, _MOST_THREADS = 3, 32
_UNREADABLE = re.compile("[\x00\ud800-\udfff]")


class Verdict(NamedTuple):
    """What a condition says of one dweet.

    ``message`` is the alert's text where the condition is met, else None. ``fault`` says why the condition could
    not be evaluated, else it is None.
    """

    message: str | None
    fault: str | None = None

    @property
    def met(self) -> bool:
        """Whether the condition is met."""
        return self.message is not None


class Condition:
    """A compiled condition.

    An engine belongs to one thread: make, call and let go of a condition in the same one.

    Parameters
    ----------
    source
        The body of a function of ``dweet``, the content.

    Raises
    ------
    MalformedRequest
        It is empty, too long, or does not compile.

    Examples
    --------
    >>> hot = Condition("if (dweet.celsius > 30) return 'too hot'")
    >>> hot(b'{"celsius": 31}').message
    'too hot'
    >>> hot(b'{"celsius": 29}').met
    False
    """

    def __init__(self, source: str) -> None:
        if not source.isprintable() and _UNREADABLE.search(source):
            raise MalformedRequest("the condition doesn't compile: it must be UTF-8 without NUL")
        if not source.strip() or len(source) > MAX_CONDITION_CHARACTERS:
            limits = f"it must have 1 to {MAX_CONDITION_CHARACTERS} characters"
            raise MalformedRequest(f"the condition doesn't compile: {limits}")
        self._source = source
        self._start()

    def __call__(self, content: bytes) -> Verdict:
        """Evaluate the condition on one content, given as JSON text."""
        limit = SECONDS
        for _ in range(_ATTEMPTS):
            began = time.thread_time()
            verdict = self._verdict(content)
            spent = time.thread_time() - began
            if verdict.fault != _INTERRUPTED or spent > 0.9 * SECONDS:
                break
            # The engine looks at the clock of the whole process, which runs faster while other threads compute.
            limit *= SECONDS / max(spent, SECONDS / _MOST_THREADS)
            self._context.set_time_limit(limit)
        if limit > SECONDS:
            self._context.set_time_limit(SECONDS)
        return verdict

    def _verdict(self, content: bytes) -> Verdict:
        try:
            value = self._function(self._context.parse_json(content.decode("utf-8")))
        except (quickjs.JSException, quickjs.StackOverflow) as error:
            self._start()  # what a fault left behind must not reach the next dweet
            return Verdict(None, _first_line(error))
        if isinstance(value, str):
            return Verdict(value)
        return Verdict("true") if value is True else Verdict(None)

    def _start(self) -> None:
        self._context = quickjs.Context()
        self._context.set_memory_limit(MEMORY_BYTES)
        self._context.set_time_limit(SECONDS)
        self._context.set_max_stack_size(_STACK_BYTES)
        try:
            # The constructor takes the source as a body only: it cannot close the function and go on outside.
            self._context.set("source", self._source)
            self._function = self._context.eval(_JUDGE)
            self._context.eval("delete globalThis.source")
        except quickjs.JSException as error:
            raise MalformedRequest(f"the condition doesn't compile: {_first_line(error)}") from None


def compile_condition(source: str) -> Condition:
    """Compile the source as it came or, where that fails, with ``+`` read as space, as some clients send it.

    Raises
    ------
    MalformedRequest
        Neither compiles; the message is about the source as it came.
    """
    try:
        return Condition(source)
    except MalformedRequest as error:
        refused = error
    if "+" in source:
        with contextlib.suppress(MalformedRequest):
            return Condition(source.replace("+", " "))
    raise refused


class ConditionThread:
    """One thread in which all conditions of a gateway are compiled, evaluated and let go.

    Their time is never the event loop's, and an engine never sees a second thread.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "gateway-alerts")
        self._compiled: OrderedDict[str, Condition] = OrderedDict()

    async def compile(self, source: str) -> None:
        """Raise MalformedRequest where the condition does not compile."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._condition, source)

    async def judge(self, source: str, contents: Sequence[bytes], patience: int) -> list[Verdict]:
        """Evaluate one condition on contents, in order.

        After `patience` faults in a row the rest gets the last fault without being evaluated: a condition that
        loops takes its whole time at every dweet, and all alerts of the gateway share this thread.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._judge, source, contents, patience)

    def close(self) -> None:
        """Let go of the engines and end the thread."""
        self._thread.submit(self._compiled.clear)
        self._thread.shutdown(wait=True)

    def _judge(self, source: str, contents: Sequence[bytes], patience: int) -> list[Verdict]:
        condition = self._condition(source)
        verdicts: list[Verdict] = []
        faults = 0
        for content in contents:
            verdicts.append(condition(content) if faults < patience else verdicts[-1])
            faults = faults + 1 if verdicts[-1].fault else 0
        return verdicts

    def _condition(self, source: str) -> Condition:
        condition = self._compiled.get(source)
        if condition is None:
            condition = self._compiled[source] = compile_condition(source)
            if len(self._compiled) > _KEPT_COMPILED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(source)
        return condition


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else "it threw an empty value"
