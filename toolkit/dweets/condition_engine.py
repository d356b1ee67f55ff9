"""The child process that evaluates alert conditions in QuickJS.

Each evaluation has its own context without host objects: a condition cannot read files, use the network, or keep data
for the next dweet. The engine ignores its time limit in native loops and while it converts an error to a string; in
these cases, the kernel ends the process at its limit of CPU time.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import quickjs

from toolkit.system.worker_process import limit_cpu, limit_memory, serve

MEMORY_BYTES = 16 * 1024 * 1024
#: Memory that the process may allocate for one engine and one job.
PROCESS_BYTES = 48 * 1024 * 1024
#: The kernel ends the process this many CPU seconds after the engine should have interrupted an evaluation.
GRACE_SECONDS = 0.5
#: After this many seconds a job evaluates no further content, so that other conditions get their turn.
JOB_SECONDS = 0.25
#: Longer messages of alerts are truncated.
MAX_MESSAGE_CHARACTERS = 1_000
_STACK_BYTES = 256 * 1024
# Only this many characters of a thrown string are read, because the string may have megabytes.
_MAX_FAULT_CHARACTERS = 1_000
#: The engine returns this number for a condition that returns a function; in Python it equals neither True nor False.
_FUNCTION_RESULT = 2

# The binding cannot convert some values to Python: a concatenated string (a rope in the engine), half a surrogate pair
# or a BigInt. So the engine converts the result, with methods that were saved before the condition runs.
_EVALUATION_SCRIPT = f"""
((condition, slice, wellFormed, replaceAll) => dweets => {{
    const result = condition(dweets[0]);
    if (typeof result === 'boolean') return result;
    if (typeof result === 'function') return {_FUNCTION_RESULT};
    if (typeof result !== 'string') return null;
    return replaceAll(wellFormed(slice(result, 0, {MAX_MESSAGE_CHARACTERS})), '\\0', ' ');
}})(%s, ...['slice', 'toWellFormed', 'replaceAll'].map(
    name => Function.prototype.call.bind(String.prototype[name])))
"""

# A source could break out of one wrapper: "1) || (2" breaks out of "(", and "}), (function(){" out of the Function
# constructor of QuickJS. So a source must compile in two wrappers that end differently: an expression in "(" and "[";
# a body in an object, where "," or "}" may follow, and in a script, where both are syntax errors.
_EXPRESSION_WRAPPERS = ("(function(dweet){ return (%s\n) })", "(function(dweet){ return [%s\n] })")
_BODY_WRAPPERS = ("({ condition(dweet) {%s\n} })", "function condition(dweet) {%s\n}")
# In a script, a return outside of a function is a syntax error, found before `throw 0` runs: 0 means no return.
_RETURN_TEST, _NO_RETURN_ERROR = "throw 0;\n%s", "0"
_END_OF_STATEMENT = re.compile(r";(?:[;\s]|//[^\n\r\u2028\u2029]*+|/\*(?>.*?\*/))*+\Z", re.DOTALL)
_NO_VALUE_FAULT = (
    "it is neither an expression nor returns a value; "
    "write dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'"
)
_FUNCTION_FAULT = "it returns a function and does not call it; write dweet.celsius > 30"
# The error message of the binding if it cannot convert a value, such as a symbol, to a string.
_BINDING_ERROR = "(Failed obtaining QuickJS error string. Concurrency issue?)"
_TOO_LARGE_FAULT = "what it returned or threw is too large"
# If no memory is left for an error, the engine throws null.
_NULL_FAULT = f"it threw null, or it needs more than {MEMORY_BYTES >> 20} MiB of memory"

# What a condition with a word of Python needs instead; a name is Python only where the engine does not know it.
_PYTHON_OPERATORS = {"and": "&&", "or": "||", "is not": "!==", "is": "===", "not": "!", "elif": "else if"}
_PYTHON_NAMES = {"None": "null", "True": "true", "False": "false", "len": ".length", "str": "String"}
_PYTHON_WORDS = "|".join(word.replace(" ", r"\s+") for word in [*_PYTHON_OPERATORS, *_PYTHON_NAMES])
# Texts, also unfinished ones, are found too, but not as the group.
_PYTHON_WORD = re.compile(
    rf"""'(?:\\.|[^'\\])*+(?:'|\Z)|"(?:\\.|[^"\\])*+(?:"|\Z)|(?<![\w$.])({_PYTHON_WORDS})(?![\w$])"""
)
_UNKNOWN_NAME = re.compile(r"ReferenceError: (\S+) is not defined")

# The engine interrupts with an error that a condition cannot catch.
_INTERRUPTED = "InternalError: interrupted"

#: A source, contents as JSON (None: only compile), and the CPU seconds of each evaluation.
Job = tuple[str, Sequence[bytes] | None, float]
#: For one content: the message (None: not met), the fault (or None), whether the result is a string or a boolean.
Outcome = tuple[str | None, str | None, bool]


class Interrupted(Exception):
    """The engine interrupted an evaluation or a compilation, as its CPU time was over."""


def main() -> None:
    limit_memory(PROCESS_BYTES, for_good=True)
    serve(work, niceness=5)  # posts have priority over conditions


def work(job: Job) -> Iterator[Outcome | None]:
    """Yield the outcome of each content in time, or of a compilation; None and no more after an interruption."""
    deadline = time.monotonic() + JOB_SECONDS
    source, contents, seconds = job
    try:
        with _cpu_limit(seconds):
            compiled = compiled_condition(source, seconds)
        if contents is None:
            yield None, compiled.fault, False
        for content in contents or ():
            with _cpu_limit(seconds):
                outcome = _evaluate(compiled, content, seconds)
            yield outcome
            if time.monotonic() > deadline:
                break
    except Interrupted:
        yield None


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    limit_cpu(seconds + GRACE_SECONDS)
    try:
        yield
    finally:
        limit_cpu(0)


class CompiledCondition(NamedTuple):
    """A JavaScript function expression; `fault` says why its source is not a condition (None: it is one)."""

    function: str
    fault: str | None = None


@lru_cache(256)
def compiled_condition(source: str, seconds: float) -> CompiledCondition:
    """Compile an expression or a function body; if neither compiles, try spaces for ``+``, as in a form."""
    compiled = _compile(source, seconds)
    if compiled.fault is not None and "+" in source:
        spaced = _compile(source.replace("+", " "), seconds)
        if spaced.fault is None:
            return spaced
    return compiled


def _compile(source: str, seconds: float) -> CompiledCondition:
    for expression in (source, _END_OF_STATEMENT.sub("", source)):
        if _compile_fault(_EXPRESSION_WRAPPERS, expression, seconds) is None:
            return CompiledCondition(_EXPRESSION_WRAPPERS[0] % expression)
    fault = _compile_fault(_BODY_WRAPPERS, source, seconds)
    if fault is None and _compile_fault([_RETURN_TEST], source, seconds) == _NO_RETURN_ERROR:
        fault = _NO_VALUE_FAULT
    elif fault is not None:
        fault += _python_hint(source)
    return CompiledCondition(f"(function(dweet) {{{source}\n}})", fault)


def _compile_fault(wrappers: Sequence[str], source: str, seconds: float) -> str | None:
    for wrapper in wrappers:
        try:
            # A source that breaks out of its wrapper runs here, so each wrapper has its own context.
            _new_context(seconds).eval(wrapper % source)
        except (quickjs.JSException, quickjs.StackOverflow) as error:
            return _first_line(error)
    return None


def _evaluate(compiled: CompiledCondition, content: bytes, seconds: float) -> Outcome:
    if compiled.fault is not None:
        return None, f"it doesn't compile: {compiled.fault}", False
    context = _new_context(seconds)
    try:
        # In an array, because the binding would convert a content that is a string, and fail on half a surrogate pair.
        dweets = context.parse_json(f"[{content.decode('utf-8')}]")
        value = context.eval(_EVALUATION_SCRIPT % compiled.function)(dweets)
    except (quickjs.JSException, quickjs.StackOverflow) as error:
        fault = _first_line(error)
        return None, fault + _unknown_name_hint(fault), False
    except MemoryError:
        return None, _TOO_LARGE_FAULT, False
    if isinstance(value, str):
        return value, None, True
    if value == _FUNCTION_RESULT:
        return None, _FUNCTION_FAULT, False
    return ("true" if value is True else None), None, value is not None


def _python_hint(source: str) -> str:
    """Return what to write in JavaScript for the words of Python in a source; an empty text if it has none."""
    found = dict.fromkeys(" ".join(word.split()) for word in _PYTHON_WORD.findall(source) if word)
    words = {**_PYTHON_OPERATORS, **_PYTHON_NAMES}
    advice = ", ".join(f"{words[word]} for {word}" for word in found)
    return f"; a condition is JavaScript: write {advice}" if found else ""


def _unknown_name_hint(fault: str) -> str:
    """Return what to write for a name that JavaScript does not know; an empty text for any other fault."""
    unknown = _UNKNOWN_NAME.match(fault)
    if unknown is None or unknown[1] in _PYTHON_NAMES:
        return _python_hint(unknown[1]) if unknown else ""
    return f"; write dweet.{unknown[1]} for a field, '{unknown[1]}' for a text"


def _new_context(seconds: float) -> quickjs.Context:
    context = quickjs.Context()
    context.set_memory_limit(MEMORY_BYTES)
    context.set_time_limit(seconds)
    context.set_max_stack_size(_STACK_BYTES)
    return context


def _first_line(error: Exception) -> str:
    text = str(error)[:_MAX_FAULT_CHARACTERS].strip()
    if text.startswith(_INTERRUPTED):
        raise Interrupted
    if text == "null":
        return _NULL_FAULT
    if text == _BINDING_ERROR:
        return "it threw a value that cannot be converted to a text"
    return text.splitlines()[0][:200] if text else "it threw an empty value"
