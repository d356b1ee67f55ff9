"""Check the arguments of a call against its annotations.

A wrong argument raises InvalidArgument with what is wrong, what was given and what to do, in at most 250 characters.
The signature follows only if arguments are missing, swapped or too many. The message does not show the value, which may
be a key, except where only certain words are allowed (a Literal).
"""

from __future__ import annotations

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
_MAX_SHOWN_CHARACTERS = 40
_MAX_MESSAGE_CHARACTERS, _MAX_SIGNATURE_CHARACTERS = 250, 150


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
    signature = _signature(function)
    parameters = signature.parameters.values()
    takes_any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    @wraps(function)
    def checked(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            if not takes_any_name and (unknown := [name for name in named if name not in signature.parameters]):
                fault = _unknown_keyword_fault(function, unknown[0], [p.name for p in parameters if p.name != "self"])
            else:
                fault = "" if keywords_only else _argument_fault(function, signature, args, named)
            if not fault:
                return function(*args, **named)
        finally:
            del args, named  # tracebacks of IPython can print the values of this frame, and an argument may be a key
        raise InvalidArgument(_shortened(fault))

    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature with a parameter for each key of ``**style: Unpack[Style]``, for completion and messages."""
    signature, options = inspect.signature(function), _options_type(function)
    if options is None:
        return signature
    *named, _ = signature.parameters.values()
    for name, hint in options.__annotations__.items():
        annotation = getattr(hint, "__forward_arg__", hint)
        named.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return signature.replace(parameters=named)


def _options_type(function: Callable[..., Any]) -> type | None:
    """Return the TypedDict of ``**style: Unpack[Style]``; None if the function has no such argument."""
    *_, last = [None, *inspect.signature(function).parameters.values()]
    hint = _type_hint(function, last.name) if last and last.kind is last.VAR_KEYWORD else None
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Unpack else None


def _argument_fault(
    function: Callable[..., Any], signature: inspect.Signature, args: tuple[Any, ...], named: dict[str, Any]
) -> str:
    """Return what is wrong with the first wrong argument; an empty text if all are right."""
    try:
        given = signature.bind(*args, **named).arguments
    except TypeError as error:
        return f"{error}: {_call_text(function, signature)}"
    for name, value in given.items():
        hint = _type_hint(function, name)
        if not _fits(value, hint):
            expected = " or ".join(dict.fromkeys(_expected_types(hint)))
            is_word = isinstance(value, str) and "'" in expected  # a Literal has its words in quotes and takes no key
            shown = repr(value[:_MAX_SHOWN_CHARACTERS]) if is_word else described(value)
            fault = f"{name} is {expected}, not {shown}"
            others = ((other, _type_hint(function, other)) for other in given if other not in (name, "self"))
            is_swapped = any(_fits(value, other_hint) and _fits(given[other], hint) for other, other_hint in others)
            return f"{fault}: {_call_text(function, signature)}" if is_swapped and len(args) > 1 else fault
    return ""


def _unknown_keyword_fault(function: Callable[..., Any], name: str, known: Sequence[str]) -> str:
    near = nearest_name(name, known)
    hint = f"did you mean {near}?" if near else f"it has {', '.join(known) or 'none'}"
    return f"{_name_of(function)}() has no argument {name[:_MAX_SHOWN_CHARACTERS]}: {hint}"


def _call_text(function: Callable[..., Any], signature: inspect.Signature) -> str:
    """Return the call as in code: ``post_frame(thing, frame, *, key=None)``; a long one without optional keywords."""
    named = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
    text = f"{_name_of(function)}{inspect.Signature(named)}"
    if len(text) <= _MAX_SIGNATURE_CHARACTERS:
        return text
    needed = [p for p in named if p.kind is not p.KEYWORD_ONLY or p.default is p.empty]
    return f"{_name_of(function)}{str(inspect.Signature(needed))[:-1]}, ...)"


def _name_of(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_CHARACTERS else f"{text[: _MAX_MESSAGE_CHARACTERS - 3]}..."


@cache
def _type_hint(function: Callable[..., Any], name: str) -> Any:  # noqa: ANN401
    if name not in function.__annotations__:
        options = _options_type(function)
        return typing.get_type_hints(options).get(name, Any) if options else Any
    # Resolve this hint alone. A class imported only under TYPE_CHECKING is unknown here: the function itself checks it.
    holder = types.SimpleNamespace(__annotations__={name: function.__annotations__[name]})
    try:
        return typing.get_type_hints(holder, function.__globals__)[name]
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
    """Yield the types that a hint allows, in words."""
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
