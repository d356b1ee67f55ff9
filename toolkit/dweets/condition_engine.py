"""The child process that evaluates alert conditions in QuickJS.

Each evaluation has its own context without host objects: a condition cannot read a file, reach the network, or leave
anything behind for the next dweet. The engine does not check its time limit in native loops and while it converts an
error to a text; there the system ends the process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import quickjs

from toolkit.worker_process import limit_cpu, limit_memory, serve

MEMORY_BYTES = 16 * 1024 * 1024
#: What the whole process may allocate: one engine, a job, and Python itself.
PROCESS_BYTES = 64 * 1024 * 1024
SECONDS = 0.05
#: CPU time of one evaluation or one compilation, after which the process is ended.
CPU_SECONDS = 0.5
#: A job ends early after so long, so that other conditions have their turn.
JOB_SECONDS = 0.25
#: A longer message of an alert is cut off here.
MAX_MESSAGE_CHARACTERS = 1_000
_STACK_BYTES = 256 * 1024
# What is looked at of a thrown text, which may have megabytes.
_LONGEST_FAULT = 1_000

#: What the engine gives back in place of a function; equal to neither true nor false.
_A_FUNCTION = 2

# Python cannot take every value: a concatenated text is a rope inside the engine, and half a surrogate pair or a
# BigInt has no counterpart. So the result becomes a plain text there, by methods taken before the condition runs.
_EVALUATE = f"""
((condition, slice, wellFormed, replaceAll) => dweets => {{
    const result = condition(dweets[0]);
    if (typeof result === 'boolean') return result;
    if (typeof result === 'function') return {_A_FUNCTION};
    if (typeof result !== 'string') return null;
    return replaceAll(wellFormed(slice(result, 0, {MAX_MESSAGE_CHARACTERS})), '\\0', ' ');
}})(%s, ...['slice', 'toWellFormed', 'replaceAll'].map(
    name => Function.prototype.call.bind(String.prototype[name])))
"""

# One wrapper is not enough to keep a source inside: "1) || (2" closes a parenthesis and opens another one, and the
# Function constructor of QuickJS accepts "}), (function(){". So a source has to compile in two wrappers that need
# different text to leave them: ")" and "]", or "}" followed by "," or "}" in an object, but by neither in a script.
_AS_EXPRESSION = ("(function(dweet){ return (%s\n) })", "(function(dweet){ return [%s\n] })")
_AS_BODY = ("({ condition(dweet) {%s\n} })", "function condition(dweet) {%s\n}")
# In a script a return is a syntax error, unless a nested function has it; the parser finds it before anything runs.
_WITHOUT_RETURN, _NO_RETURN = "throw 0;\n%s", "0"
_END_OF_STATEMENT = re.compile(r";(?:[;\s]|//[^\n\r\u2028\u2029]*+|/\*(?>.*?\*/))*+\Z", re.DOTALL)
_RETURNS_NOTHING = (
    "it is neither an expression nor returns a value; "
    "write dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'"
)

_RETURNS_A_FUNCTION = "it returns a function and does not call it; write dweet.celsius > 30"
# What the binding says of a value whose conversion to a text fails, such as a symbol.
_NO_TEXT = "(Failed obtaining QuickJS error string. Concurrency issue?)"
_TOO_LARGE = "what it returned or threw is too large"
# Where no memory is left for an error, the engine throws null instead of one.
_THREW_NULL = f"it threw null, or it needs more than {MEMORY_BYTES >> 20} MiB of memory"

#: A source, contents as JSON text (None only compiles it), and after how many faults in a row the job ends.
Job = tuple[str, Sequence[bytes] | None, int]
#: For one content: the message where the condition is met; the fault; whether it returned a text, true or false.
Outcome = tuple[str | None, str | None, bool]


def main() -> None:
    limit_memory(PROCESS_BYTES)
    serve(work, niceness=5)  # posts have priority over conditions


def work(job: Job) -> Iterator[Outcome | str | float | None]:
    """Yield an outcome for each content while there is time, or why there is no condition; at the end CPU seconds."""
    began = time.process_time()
    yield from _answers(*job)
    yield time.process_time() - began


def _answers(source: str, contents: Sequence[bytes] | None, patience: int) -> Iterator[Outcome | str | None]:
    limit_cpu(CPU_SECONDS)
    compiled = compiled_condition(source)
    limit_cpu(0)
    if contents is None:
        yield compiled.fault
        return
    until, faults = time.monotonic() + JOB_SECONDS, 0
    for content in contents:
        limit_cpu(CPU_SECONDS)
        outcome = _outcome(compiled, content)
        limit_cpu(0)
        yield outcome
        faults = faults + 1 if outcome[1] is not None else 0
        if faults >= patience or time.monotonic() > until:
            return


class CompiledCondition(NamedTuple):
    """A function expression in JavaScript, or why there is none."""

    function: str
    fault: str | None = None


@lru_cache(256)
def compiled_condition(source: str) -> CompiledCondition:
    """Read a source as an expression, else as a function body, else as either with ``+`` for space: some clients do."""
    compiled = _read(source)
    if compiled.fault is not None and "+" in source:
        spaced = _read(source.replace("+", " "))
        if spaced.fault is None:
            return spaced
    return compiled


def _read(source: str) -> CompiledCondition:
    for expression in (source, _END_OF_STATEMENT.sub("", source)):
        if _fault(_AS_EXPRESSION, expression) is None:
            return CompiledCondition(_AS_EXPRESSION[0] % expression)
    fault = _fault(_AS_BODY, source)
    if fault is None and _fault([_WITHOUT_RETURN], source) == _NO_RETURN:
        fault = _RETURNS_NOTHING
    return CompiledCondition(f"(function(dweet) {{{source}\n}})", fault)


def _fault(wrappers: Sequence[str], source: str) -> str | None:
    for wrapper in wrappers:
        try:
            # A source that does leave its wrapper runs here, so what it changes must not reach the next wrapper.
            _context().eval(wrapper % source)
        except (quickjs.JSException, quickjs.StackOverflow) as error:
            return _first_line(error)
    return None


def _outcome(compiled: CompiledCondition, content: bytes) -> Outcome:
    if compiled.fault is not None:
        return None, f"it doesn't compile: {compiled.fault}", False
    context = _context()
    try:
        # In an array, because a content that is a text would become one of Python, which half a surrogate pair cannot.
        dweets = context.parse_json(f"[{content.decode('utf-8')}]")
        value = context.eval(_EVALUATE % compiled.function)(dweets)
    except (quickjs.JSException, quickjs.StackOverflow) as error:
        return None, _first_line(error), False
    except MemoryError:
        return None, _TOO_LARGE, False
    if isinstance(value, str):
        return value, None, True
    if value == _A_FUNCTION:
        return None, _RETURNS_A_FUNCTION, False
    return ("true" if value is True else None), None, value is not None


def _context() -> quickjs.Context:
    context = quickjs.Context()
    context.set_memory_limit(MEMORY_BYTES)
    context.set_time_limit(SECONDS)
    context.set_max_stack_size(_STACK_BYTES)
    return context


def _first_line(error: Exception) -> str:
    text = str(error)[:_LONGEST_FAULT].strip()
    if text == "null":
        return _THREW_NULL
    if text == _NO_TEXT:
        return "it threw a value that cannot be converted to a text"
    return text.splitlines()[0][:200] if text else "it threw an empty value"
