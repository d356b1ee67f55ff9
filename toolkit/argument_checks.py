"""Check the arguments of a call against its annotations.

A wrong argument raises InvalidArgument with what is wrong, what was given and what to do, in at most 250 characters.
The signature follows only if arguments are missing, swapped or too many. The message does not show the value, which may
be a key, except where only certain words are allowed (a Literal).
"""

import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack

import numpy as np

from toolkit.errors import InvalidArgument
from toolkit.system.nearest_name import nearest_name

CheckedT = TypeVar("CheckedT", bound=Callable[..., Any])

_TYPE_NAMES = {
    bool: "True or False", dict: "a dict", float: "a number", int: "a whole number", object: "a value", Any: "values",
    str: "a str", tuple: "a pair", types.NoneType: "None", Mapping: "a dict", Callable: "a function",
}  # fmt: skip
_MAX_SHOWN_CHARACTERS = 40  # of a value or a name
_MAX_CHARACTERS = 250  # of a message


def checked_arguments(target: CheckedT) -> CheckedT:
    """Decorate a function, or `__init__` and the public methods of a class, so that wrong arguments raise an error."""
    if not isinstance(target, type):
        return typing.cast("CheckedT", _checked_function(target))
    for name, member in vars(target).items():
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(target, name, _checked_function(member))
    return target


def checked_keywords(function: CheckedT) -> CheckedT:
    """Decorate a function that checks its values itself, so that an unknown keyword raises an error."""
    return typing.cast("CheckedT", _checked_function(function, keywords_only=True))


def described(value: object) -> str:
    """Describe the type of a value for a message: ``None``, ``NaT``, ``a list``, ``a function``."""
    import pandas as pd

    if value is None or value is pd.NaT or value is pd.NA:
        return str(value)
    if inspect.isroutine(value):
        return "a function"
    name = type(value).__name__ if not isinstance(value, type) else f"class {value.__name__}"
    if isinstance(value, list | tuple) and value:
        name += f" of {' and '.join(sorted({type(item).__name__ for item in value}))}"
    return _with_article(name)


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path, because the working directory may change later; InvalidArgument if it is no path."""
    with suppress(RuntimeError):  # ~NAME of an unknown user
        if (text := os.fspath(path)) and "\0" not in text:
            return Path(text).expanduser().absolute()
    raise InvalidArgument("a path must not be empty or contain NUL, and NAME in ~NAME must be a user of this machine")


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _checked_function(function: Callable[..., Any], *, keywords_only: bool = False) -> Callable[..., Any]:
    signature, options = inspect.signature(function), _option_hints(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD] + list(options)
    takes_any_name = not options and any(p.kind is p.VAR_KEYWORD for p in parameters)

    @wraps(function)
    def checked(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            unknown = [] if takes_any_name else [name for name in named if name not in known]
            if unknown:
                fault = f"{_name_of(function)}() has no argument {_nearest(unknown[0], known)}"
            else:
                fault = "" if keywords_only else _argument_fault(function, signature, args, named)
            if not fault:
                return function(*args, **named)
        finally:
            del args, named  # tracebacks of IPython can print the values of this frame, and an argument may be a key
        raise InvalidArgument(fault if len(fault) <= _MAX_CHARACTERS else f"{fault[: _MAX_CHARACTERS - 3]}...")

    return checked


def _argument_fault(
    function: Callable[..., Any], signature: inspect.Signature, args: tuple[Any, ...], named: dict[str, Any]
) -> str:
    try:
        given = signature.bind(*args, **named).arguments
    except TypeError as error:
        return f"{error}: {_call_text(function, signature)}"
    options = _option_hints(function)
    hints = {name: _type_hint(function, name) for name in given if name in signature.parameters}
    if options:
        hints |= options
        given |= given.pop(list(signature.parameters)[-1], {})
    for name, value in given.items():
        if fault := _value_fault(name, value, hints[name]):
            others = [other for other in given if other not in (name, "self")]
            is_swapped = any(_fits(value, hints[other]) and _fits(given[other], hints[name]) for other in others)
            return f"{fault}: {_call_text(function, signature)}" if is_swapped and len(args) > 1 else fault
    return ""


def _value_fault(name: str, value: object, hint: Any) -> str:  # noqa: ANN401
    """Return what is wrong with a value; an empty text if it fits. The options in a TypedDict are checked, too."""
    kind = next(filter(typing.is_typeddict, (hint, *typing.get_args(hint))), None)
    if kind is not None and isinstance(value, Mapping):
        hints = typing.get_type_hints(kind)
        unknown = [key for key in value if key not in hints]
        if unknown:
            return f"{name} has no option {_nearest(str(unknown[0]), list(hints))}"
        return next(filter(None, (_value_fault(key, item, hints[key]) for key, item in value.items())), "")
    if _fits(value, hint):
        return ""
    expected = " or ".join(dict.fromkeys(_expected_types(hint)))
    is_word = isinstance(value, str) and "'" in expected  # a Literal has its words in quotes and takes no key
    shown = repr(str(value)[:_MAX_SHOWN_CHARACTERS]) if is_word else described(value)
    return f"{name} is {expected}, not {shown}"


def _nearest(name: str, known: Sequence[str]) -> str:
    near = nearest_name(name, known)
    advice = f"did you mean {near}?" if near else f"it has {', '.join(known) or 'none'}"
    return f"{name[:_MAX_SHOWN_CHARACTERS]}: {advice}"


def _call_text(function: Callable[..., Any], signature: inspect.Signature) -> str:
    """Return the call as in code: ``post_frame(thing, frame, *, key=None)``."""
    named = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
    return f"{_name_of(function)}{inspect.Signature(named)}"


def _name_of(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


@cache
def _option_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the hints of ``**options: Unpack[Style]``; of ``Annotated[Any, Style]``, only the names are checked."""
    *_, last = [None, *inspect.signature(function).parameters.values()]
    if last is None or last.kind is not last.VAR_KEYWORD:
        return {}
    hint = _type_hint(function, last.name)
    kind = next(filter(typing.is_typeddict, typing.get_args(hint)), None)
    hints = typing.get_type_hints(kind) if kind else {}
    return hints if typing.get_origin(hint) is Unpack else dict.fromkeys(hints, Any)


@cache
def _type_hint(function: Callable[..., Any], name: str) -> Any:  # noqa: ANN401
    # Resolve this hint alone. A class imported only under TYPE_CHECKING is unknown here: the function itself checks it.
    holder = types.SimpleNamespace(__annotations__={name: function.__annotations__.get(name, Any)})
    try:
        return typing.get_type_hints(holder, function.__globals__, include_extras=True)[name]
    except (NameError, TypeError):
        return Any


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401, PLR0911
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in inner)
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in inner)
    kind = dict if typing.is_typeddict(hint) else origin or hint
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is tuple and inner and Ellipsis not in inner:
        return isinstance(value, tuple | list) and len(value) == len(inner) and all(map(_fits, value, inner))
    if isinstance(kind, type) and issubclass(kind, Iterable) and inner and not issubclass(kind, Mapping):
        return _is_list_of(value, kind, inner[0])
    return isinstance(value, kind)


def _is_list_of(value: object, kind: type, hint: Any) -> bool:  # noqa: ANN401
    import pandas as pd  # not at the top: a gateway never checks a list and starts without pandas

    if isinstance(value, str | bytes | bytearray | memoryview | pd.DataFrame):  # iterable, but never accepted as a list
        return False
    if isinstance(value, Sequence | Set | Mapping | np.ndarray | pd.Series | pd.Index):
        return isinstance(value, kind | np.ndarray | pd.Series | pd.Index) and all(_fits(item, hint) for item in value)
    # A generator, or tqdm around one, gives its items only once, so the called function itself checks them.
    return isinstance(value, kind)


def _expected_types(hint: Any) -> Iterator[str]:  # noqa: ANN401
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    kind = dict if typing.is_typeddict(hint) else origin or hint
    if origin in (types.UnionType, typing.Union):
        for option in sorted(inner, key=lambda option: option is types.NoneType):
            yield from _expected_types(option)
    elif origin is Literal:
        yield from map(repr, inner)
    elif kind in _TYPE_NAMES:
        yield f"{len(inner)} values" if kind is tuple and len(inner) > 2 else _TYPE_NAMES[kind]
    elif isinstance(kind, type) and issubclass(kind, Iterable) and inner:
        yield f"a list of {' or '.join(words.removeprefix('a ') for words in _expected_types(inner[0]))}"
    else:
        yield _with_article(kind.__name__)
