"""Base classes of public classes, and names that a package imports when they are first used."""

import importlib
import importlib.util
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, Self

from toolkit.errors import needs_extra


class PublicNames:
    """Offers only public names to tab completion; cannot be copied or pickled, because it holds sockets and keys."""

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} is neither copied nor pickled: call toolkit.connect(URL) in each process instead")


class Closable(ABC):
    """Is closed by `close`, or at the end of a ``with`` statement."""

    @abstractmethod
    def close(self) -> object:
        """Stop everything that is running, and release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lazy_names(
    package: str, modules: Mapping[str, str], extra: str | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package; `modules` maps each name to its module.

    `extra` is the extra of this distribution with the libraries that the modules need.
    """

    def get_attribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with interrupts_deferred(), needs_extra(extra) if extra else nullcontext():
            value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        names = {*modules, *getattr(sys.modules[package], "__all__", ())}
        if importlib.util.find_spec("rocksdict") is None:  # help() gets every name, and the gateway needs its extra
            names -= {name for name in names if modules.get(name, "").startswith("toolkit_gateway")}
        return sorted(names)

    return get_attribute, list_names


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let an interrupt (Ctrl-C, or *Interrupt kernel*) take effect at the end of the block instead of within it.

    Around imports: an interrupted import leaves a library half imported, and the process cannot import it again.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # interrupts are raised in the main thread only
        return
    interrupts: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *details: interrupts.append(details))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if interrupts:
        handler(*interrupts[0])
