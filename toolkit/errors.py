"""The public errors of the toolkit; the gateway and the client use the same classes.

::

    ToolkitError
      InvalidArgument (also ValueError)
        SessionClosed, CodeExpired
      ConnectionClosed, Unreachable, TimedOut (also TimeoutError), UnexpectedReply, ArchiveUnusable, ExtraMissing
      GatewayError
        CannotServe, CannotStop
        StoreUnavailable
          FolderInUse, OutcomeUnknown
      ServiceError
        MalformedRequest
          InvalidParameters
        KeyRejected, NotFound, RateLimited, NotAuthenticated, NotEligible
        ServiceFailure
          Overloaded
        Conflict
          ThingNotLocked, ThingAlreadyLocked

A service raises an error, the gateway writes it in the format of the service, and the client raises the same class.
No message holds a key, a code or a query string.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple


class ToolkitError(Exception):
    """Base class of all errors of this module."""

    #: Whether the same call may succeed later without any change.
    retryable: ClassVar[bool] = False


class InvalidArgument(ToolkitError, ValueError):
    """An argument is wrong, so nothing was sent."""


class SessionClosed(InvalidArgument):
    """The session has ended and its secrets are deleted; begin a new session."""


class CodeExpired(InvalidArgument):
    """The code has expired, so nothing was sent; authenticate the phone again."""


class ConnectionClosed(ToolkitError):
    """The connection was closed before the call, so nothing was sent; connect again."""


class Unreachable(ToolkitError):
    """No complete response (unknown host, no connection, bad certificate, timeout, lost stream), or no browser came.

    ``message`` is the text without the method and the path of the request.
    """

    retryable = True

    def __init__(self, message: str, request: str = "") -> None:
        super().__init__(f"{message} ({request})" if request else message)
        self.message = message


class TimedOut(ToolkitError, TimeoutError):
    """The awaited event did not happen within ``timeout`` seconds."""

    retryable = True


class UnexpectedReply(ToolkitError):
    """The server sent a response that the specification does not allow."""


class ArchiveUnusable(ToolkitError):
    """The folder of an archive cannot be read or written, or holds other files; nothing was changed."""


class ExtraMissing(ToolkitError):
    """The call needs a library that is not installed; the message has the command that installs it."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} (extra [{extra}]) is not installed here; run: {install_command(extra)}")


class GatewayError(ToolkitError):
    """A gateway in this process, or its store, does not work; the subclasses say why."""


class CannotServe(GatewayError):
    """The gateway could not start: the port is in use, the address belongs to another machine, ..."""


class CannotStop(GatewayError):
    """The gateway did not stop in time; its port and its folder are still in use."""


class StoreUnavailable(GatewayError):
    """The store cannot keep or read anything now (disk full, server unreachable); nothing was acknowledged."""


class FolderInUse(StoreUnavailable):
    """Another process has the folder open."""

    def __init__(self, problem: str, advice: str = "stop that gateway or choose another folder") -> None:
        super().__init__(f"{problem}: {advice}")
        self.problem = problem


class OutcomeUnknown(StoreUnavailable):
    """The connection to the store broke, or a write was not confirmed: the change may or may not be stored."""


class ServiceError(ToolkitError):
    """The service answered the call with an error.

    Attributes
    ----------
    message
        What is wrong and what to do, in the words of the service.
    code, status
        The error code of the service (the HTTP status if the service has no codes), and the HTTP status.
    service, request
        The name of the service, and the method and the path of the request without the query.
    field, retry_after
        The wrong field of the request, and the seconds after which the call may succeed; None if there are none.

    Examples
    --------
    >>> error = NotFound("we couldn't find this")
    >>> error.status, error.code, str(error)
    (404, 404, "we couldn't find this")
    """

    default_status: ClassVar[int] = 400
    retry_after: float | None = None

    def __init__(
        self,
        message: str,
        *,
        code: int | str | None = None,
        status: int | None = None,
        service: str = "",
        request: str = "",
        field: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = self.default_status if status is None else status
        self.code = self.status if code is None else code
        self.service = service
        self.request = request
        self.field = field
        if retry_after is not None:
            self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} ({self.service}: {self.request})" if self.request else self.message


class MalformedRequest(ServiceError):
    """The service cannot read the request."""


class Problem(NamedTuple):
    """One wrong parameter: its name on the wire, what is wrong, and any characters that cannot be written."""

    field: str | None
    error: str
    missing_characters: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = " ".join(map(repr, self.missing_characters))
        return f"{self.error}: {missing}" if missing else self.error


class InvalidParameters(MalformedRequest):
    """One or more parameters of the request are wrong; ``problems`` names all of them."""

    def __init__(self, problems: Sequence[Problem], **details: Any) -> None:  # noqa: ANN401
        super().__init__("; ".join(map(str, problems)), **details)
        self.problems = tuple(problems)


class KeyRejected(ServiceError):
    """A key is missing or wrong."""

    default_status = 403


class NotFound(ServiceError):
    """The requested object does not exist."""

    default_status = 404


class RateLimited(ServiceError):
    """Too many calls; try again after ``retry_after`` seconds."""

    default_status = 429
    retryable = True
    retry_after: float = 1.0


class ServiceFailure(ServiceError):
    """The service itself failed; the request may be valid."""

    default_status = 500
    retryable = True


class Overloaded(ServiceFailure):
    """The service has too many texts to render; try again after ``retry_after`` seconds."""

    default_status = 503
    retry_after: float = 1.0


class Conflict(ServiceError):
    """The current state does not allow this call."""

    default_status = 409


class ThingNotLocked(Conflict):
    """The thing is not locked, and the call needs a locked one."""


class ThingAlreadyLocked(Conflict):
    """The thing is locked already."""


class NotAuthenticated(ServiceError):
    """The alias or the code is missing or unknown, or they do not belong together."""

    default_status = 401


class NotEligible(ServiceError):
    """The user is not eligible for this data."""

    default_status = 403


_CLASS_OF_STATUS = {401: KeyRejected, 403: KeyRejected, 404: NotFound, 409: Conflict, 410: NotFound, 429: RateLimited}


def class_of_status(status: int) -> type[ServiceError]:
    """Return the error class for an HTTP status, if nothing else tells the class."""
    return _CLASS_OF_STATUS.get(status, ServiceFailure if status >= 500 else MalformedRequest)


def install_command(extra: str) -> str:
    """Return the pip command that installs the libraries of an extra, such as ``lab``."""
    # The command names the libraries, because this package itself is on no package index.
    libraries = " ".join(f"'{library}'" for library in libraries_of(extra))
    return f"{sys.executable} -m pip install {libraries}"


def libraries_of(extra: str) -> list[str]:
    """Return the libraries of an extra for this system, with their versions, such as ``duckdb<3,>=1.3.1``."""
    from importlib.metadata import requires  # seldom needed, and it takes as long as all other imports of this module

    pairs = [requirement.split(";") for requirement in requires("gateway-toolkit") or () if ";" in requirement]
    # The metadata of a wheel list all libraries of an extra, also those of an extra that it contains.
    return [
        library
        for library, marker in pairs
        if f"extra == '{extra}'" in marker and f"sys_platform != '{sys.platform}'" not in marker
    ]


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn the error of a missing library into one that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "toolkit").startswith("toolkit"):  # a module of ours is missing: a bug
            raise
        raise ExtraMissing(str(error.name), extra) from None


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 gap`` or ``1,461 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class DataWarning(UserWarning):
    """Something about the data is doubtful, and the call goes on; the text has counts and an example.

    ``warnings.simplefilter("error", toolkit.errors.DataWarning)`` makes each of these warnings an error.
    """


def warn_caller(*texts: str) -> None:
    """Issue one DataWarning for the line of the caller's code that called this package; none if all texts are empty."""
    if not (text := "; ".join(filter(None, texts)).replace("?; ", "? ")):
        return
    import inspect  # seldom needed, and it takes a quarter of the time of `import toolkit`

    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("toolkit.", "toolkit_gateway.")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DataWarning, stacklevel=level)
