"""One call of section D: request out, answer in, a step in the trace, and errors that show nothing."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from toolkit.endpoint import Endpoint
from toolkit.errors import ServiceError, ToolkitError, UnexpectedReply
from toolkit.http_client import HttpReply, HttpSession
from toolkit.identity.client.answers import Response, expect, secret_in
from toolkit.identity.client.held_secrets import AuthenticatedUser, Holder
from toolkit.identity.envelope import SUCCESS, error_of
from toolkit.identity.flow import MOVES, Call, State
from toolkit.identity.wire import GUESSABLE_FIELDS, OPEN_TARGET, SECRET_FIELDS, Operation
from toolkit.secret import Secret

T = TypeVar("T")
_STEPS_KEPT = 1_000

TRACE_COLUMNS = {
    "n": "int64",
    "operation": "str",
    "http": "Int64",
    "status": "Int64",
    "description": "str",
    "transition": "str",
    "ms": "float64",
    "seconds_left": "float64",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One call: what went out and came back, redacted; where the flow stood before and after."""

    n: int
    operation: str
    http: int | None
    status: int | None
    description: str
    before: frozenset[State]
    after: frozenset[State]
    ms: float
    seconds_left: float | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    response: Mapping[str, Any] = field(default_factory=dict)

    @property
    def transition(self) -> str:
        """``started → failed or proven``; empty where the call moved nothing."""
        before, after = (" or ".join(sorted(states)) for states in (self.before, self.after))
        return "" if before == after else f"{before} → {after}"


class RecordedCalls:
    """Sends the calls of one client and keeps a step of each.

    Each call is sent once: a second Finish or a second opening would kill the code, so nothing is ever retried.
    Errors are raised where no frame holds an answer, and without context: a notebook saves tracebacks, and IPython
    can be told to print every value in them.
    """

    def __init__(self, http: HttpSession, api_client_id: Secret, now: Callable[[], int] | None = None) -> None:
        self._http = http
        self._api_client_id = api_client_id
        self.now = now or (lambda: time.time_ns() // 1_000_000)
        self.steps: deque[Step] = deque(maxlen=_STEPS_KEPT)
        self._count = 0

    def post(
        self,
        operation: Operation,
        fields: Mapping[str, object],
        read: Callable[[Response], T],
        *,
        holder: Holder | None = None,
        call: Call | None = None,
        told: Callable[[T], State] | None = None,
    ) -> T:
        """Make a POST call and return what `read` makes of its response.

        `holder` is whose flow the `call` moves; `told` says where to, where the table leaves more than one state.
        """
        self._count += 1
        given = {name: value for name, value in fields.items() if value is not None}
        body = {"RequestId": f"req-{self._count:03d}", "ApiClientId": self._api_client_id, **given}

        def understand(envelope: Mapping[str, Any], reply: HttpReply) -> T:
            return read(_response_of(envelope, body, reply, _line_of(operation.endpoint)))

        send = partial(self._http.call, operation.endpoint, body=body)
        step = _Step(operation.name, _line_of(operation.endpoint), body, call, holder)
        outcome = self._attempt(step, send, understand, told)
        return _result(outcome)

    def open(self, fingerprint: Secret, headers: Mapping[str, str], holder: Holder) -> Secret:
        """Open a TargetUrl as a phone does and return the final fingerprint."""
        self._count += 1
        query: dict[str, str | Secret | None] = {"vfp": fingerprint, "r": "f"}
        send = partial(self._http.call, OPEN_TARGET, query=query, headers=headers)
        step = _Step(Call.OPEN, _line_of(OPEN_TARGET), query, Call.OPEN, holder)
        return _result(self._attempt(step, send, lambda answer, reply: _opened(answer, reply, fingerprint)))

    def _attempt(
        self,
        step: _Step,
        send: Callable[[], HttpReply],
        understand: Callable[[Mapping[str, Any], HttpReply], T],
        told: Callable[[T], State] | None = None,
    ) -> T | ToolkitError:
        began = time.perf_counter()
        reply: HttpReply | None = None
        answer: Mapping[str, Any] = {}
        outcome: T | ToolkitError
        state = None
        try:
            reply = send()
            answer = _object_of(reply, step.line)
            outcome = understand(answer, reply)
            state = told and told(outcome)
        except ToolkitError as error:
            outcome = error
        ms = round((time.perf_counter() - began) * 1000, 3)
        status = _status_of(outcome)
        before, after = _moved(step, status, state)
        user = next((one for one in (outcome, step.holder) if isinstance(one, AuthenticatedUser)), None)
        self.steps.append(
            Step(
                n=self._count,
                operation=step.operation,
                http=reply.status if reply is not None else None,
                status=status,
                description=getattr(outcome, "message", str(outcome)) if isinstance(outcome, ToolkitError) else SUCCESS,
                before=before,
                after=after,
                ms=ms,
                seconds_left=user.seconds_left(self.now()) if user is not None else None,
                request=redacted(step.content),
                response=redacted(answer),
            )
        )
        return outcome


class _Step(NamedTuple):
    """A call that goes out, and whose flow it moves."""

    operation: str
    line: str
    content: Mapping[str, Any]
    call: Call | None
    holder: Holder | None


def _moved(step: _Step, status: int | None, told: State | None) -> tuple[frozenset[State], frozenset[State]]:
    """Return where the flow stood before a call and stands after it, and tell its holder."""
    before = step.holder.states if step.holder else frozenset({State.NEW} if step.call is Call.START else ())
    after = states_after(before, step.call, status) if step.call is not None and status is not None else before
    if told is not None:
        after = frozenset({told})
    if step.holder is not None:
        step.holder.states = after
    return before, after


def _result(outcome: T | ToolkitError) -> T:
    if isinstance(outcome, ToolkitError):
        raise _bare(outcome)
    return outcome


def _line_of(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.template}"


def _bare(error: ToolkitError) -> ToolkitError:
    """Return the error without the frames and errors behind it, which saw the answer."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _status_of(outcome: object) -> int | None:
    if isinstance(outcome, ServiceError):
        return outcome.code if isinstance(outcome.code, int) else None
    return None if isinstance(outcome, ToolkitError) else 0


def _object_of(reply: HttpReply, request: str) -> Mapping[str, Any]:
    if 300 <= reply.status < 400:
        raise UnexpectedReply(f"{request} was answered by a redirect ({reply.status}), which is not followed")
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UnexpectedReply(f"the answer to {request} ({reply.status}) is not a JSON object")
    return value


def _response_of(envelope: Mapping[str, Any], body: Mapping[str, object], reply: HttpReply, request: str) -> Response:
    status = envelope.get("Status")
    expect(type(status) is int, "Status is not a number")
    error = error_of(envelope, reply.status, request=request)
    if error is not None:
        raise error
    expect(status == 0, "Status is not known")
    expect(reply.status == 200, "a success has HTTP status 200")
    expect(envelope.get("RequestId") == body["RequestId"], "RequestId is not the one that was sent")
    response = envelope.get("Response")
    expect(isinstance(response, dict), "Response is not an object")
    return dict(response or {})


def _opened(answer: Mapping[str, Any], reply: HttpReply, first: Secret) -> Secret:
    if reply.status != 200:
        raise _device_error(reply.status)
    final = secret_in(answer, "vfp")
    expect(final != first, "the final fingerprint is the first one")
    return final


def _device_error(http: int) -> ToolkitError:
    # A phone is told no status; these are what the three HTTP statuses stand for.
    code = {404: 2001, 410: 2003, 429: 2040}.get(http)
    error = error_of({"Status": code}, http, request=_line_of(OPEN_TARGET)) if code else None
    return error or UnexpectedReply(f"{_line_of(OPEN_TARGET)} was answered by HTTP {http}")


def states_after(states: Iterable[State], call: Call, status: int) -> frozenset[State]:
    """Return where the flow may stand after a call was answered with this status."""
    rows = [row for row in MOVES if row.call is call and row.status == status]
    # An answer may say that the flow stood elsewhere: expired or revoked, which the caller could not know.
    told = [row for row in rows if row.state in states] or rows
    return frozenset(row.next for row in told) or frozenset(states)


def redacted(value: Any, name: str = "") -> Any:  # noqa: ANN401
    """Return JSON content with every secret replaced by its short hash."""
    if isinstance(value, Secret):
        return repr(value)
    if name in SECRET_FIELDS or name == "vfp":
        return repr(Secret(value, guessable=name in GUESSABLE_FIELDS)) if isinstance(value, str) else "Secret(***)"
    if isinstance(value, Mapping):
        return {key: redacted(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner) for inner in value]
    return value
