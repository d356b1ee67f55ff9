"""One call of section D: request out, answer in, a step in the trace, and errors that show nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from toolkit.errors import ServiceError, ToolkitError, UnexpectedReply
from toolkit.http_session import HttpReply, HttpSession
from toolkit.identity.answers import Response, expect, secret_in
from toolkit.identity.envelope import SUCCESS, error_of
from toolkit.identity.flow import Call, State
from toolkit.identity.held_secrets import AuthenticatedUser, Holder
from toolkit.identity.trace import Step, Trace, redacted, states_after
from toolkit.identity.wire import OPEN_TARGET, Operation
from toolkit.public_names import PublicNames
from toolkit.secret import Secret

T = TypeVar("T")


class _Made(NamedTuple):
    """A call that was made, answered or not."""

    number: int
    operation: str
    reply: HttpReply | None
    began: float
    request: Mapping[str, Any]
    response: Mapping[str, Any]


class IdentityCalls(PublicNames):
    """What every method of the client is made of.

    Each call is sent once: a second Finish or a second opening would kill the code, so nothing is ever retried.

    Parameters
    ----------
    http
        Calls to the gateway.
    api_client_id
        The caller's own key.
    now
        The gateway's clock in milliseconds since the epoch; this machine's if None.
    """

    def __init__(self, http: HttpSession, api_client_id: Secret, now: Callable[[], int] | None = None) -> None:
        self._http = http
        self._api_client_id = api_client_id
        self._now = now or _this_machine
        self._trace = Trace()

    def __repr__(self) -> str:
        return f"<Mobile identity at {self._http.base_url}>"

    def _call(
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
        Errors are raised here, where no frame holds an answer, and without context: a notebook saves tracebacks,
        and IPython can be told to print every value in them.
        """
        outcome = self._attempt(operation, fields, read, holder, call, told)
        if isinstance(outcome, ToolkitError):
            raise _bare(outcome)
        return outcome

    def _attempt(
        self,
        operation: Operation,
        fields: Mapping[str, object],
        read: Callable[[Response], T],
        holder: Holder | None,
        call: Call | None,
        told: Callable[[T], State] | None,
    ) -> T | ToolkitError:
        number, began = self._trace.next_number(), time.perf_counter()
        given = {name: value for name, value in fields.items() if value is not None}
        body = {"RequestId": f"req-{number:03d}", "ApiClientId": self._api_client_id, **given}
        request = f"{operation.endpoint.method} {operation.endpoint.template}"
        reply: HttpReply | None = None
        envelope: Mapping[str, Any] = {}
        outcome: T | ToolkitError
        try:
            reply = self._http.call(operation.endpoint, body=body)
            envelope = _envelope_of(reply, request)
            outcome = error_of(envelope, reply.status, request=request) or read(_response_of(envelope, body, reply))
        except ToolkitError as error:
            outcome = error
        state = told(outcome) if told is not None and not isinstance(outcome, ToolkitError) else None
        self._note(_Made(number, operation.name, reply, began, body, envelope), outcome, holder, call, state)
        return outcome

    def _open(self, fingerprint: Secret, headers: Mapping[str, str], holder: Holder) -> Secret:
        """Open a TargetUrl as a phone does and return the final fingerprint."""
        outcome = self._attempt_open(fingerprint, headers, holder)
        if isinstance(outcome, ToolkitError):
            raise _bare(outcome)
        return outcome

    def _attempt_open(self, fingerprint: Secret, headers: Mapping[str, str], holder: Holder) -> Secret | ToolkitError:
        number, began = self._trace.next_number(), time.perf_counter()
        query: dict[str, str | Secret | None] = {"vfp": fingerprint, "r": "f"}
        reply: HttpReply | None = None
        answer: Mapping[str, Any] = {}
        outcome: Secret | ToolkitError
        try:
            reply = self._http.call(OPEN_TARGET, query=query, headers=headers)
            answer = _object_of(reply, f"GET {OPEN_TARGET.template}")
            outcome = _opened(answer, reply, fingerprint)
        except ToolkitError as error:
            outcome = error
        self._note(_Made(number, Call.OPEN, reply, began, query, answer), outcome, holder, Call.OPEN, None)
        return outcome

    def _note(self, made: _Made, outcome: object, holder: Holder | None, call: Call | None, told: State | None) -> None:
        """Write down a step, and where the holder's flow stands after it."""
        status = _status_of(outcome)
        before = holder.states if holder is not None else frozenset({State.NEW} if call is Call.START else ())
        after = states_after(before, call, status) if call is not None and status is not None else before
        if told is not None:
            after = frozenset({told})
        if holder is not None:
            holder.states = after
        user = next((one for one in (outcome, holder) if isinstance(one, AuthenticatedUser)), None)
        self._trace.steps.append(
            Step(
                made.number,
                made.operation,
                made.reply.status if made.reply is not None else None,
                status,
                SUCCESS if status == 0 else getattr(outcome, "message", str(outcome)),
                before,
                after,
                round((time.perf_counter() - made.began) * 1000, 3),
                user.seconds_left(self._now()) if user is not None else None,
                redacted(made.request),
                redacted(made.response),
            )
        )


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


def _envelope_of(reply: HttpReply, request: str) -> Mapping[str, Any]:
    envelope = _object_of(reply, request)
    status = envelope.get("Status")
    expect(type(status) is int, "Status is not a number")
    expect(status == 0 or error_of(envelope, reply.status, request=request) is not None, "Status is not known")
    return envelope


def _response_of(envelope: Mapping[str, Any], body: Mapping[str, object], reply: HttpReply) -> Response:
    expect(reply.status == 200, "a success has HTTP status 200")
    expect(envelope.get("RequestId") == body["RequestId"], "RequestId is not the one that was sent")
    response = envelope.get("Response")
    expect(isinstance(response, dict), "Response is not an object")
    return dict(response or {})


def _opened(answer: Mapping[str, Any], reply: HttpReply, first: Secret) -> Secret | ToolkitError:
    if reply.status != 200:
        return _device_error(reply.status)
    final = secret_in(answer, "vfp")
    expect(final != first, "the final fingerprint is the first one")
    return final


def _device_error(http: int) -> ToolkitError:
    # A phone is told no status; these are what the three HTTP statuses stand for.
    code = {404: 2001, 410: 2003, 429: 2040}.get(http)
    error = error_of({"Status": code}, http, request=f"GET {OPEN_TARGET.template}") if code else None
    return error or UnexpectedReply(f"GET {OPEN_TARGET.template} was answered by HTTP {http}")


def _this_machine() -> int:
    return time.time_ns() // 1_000_000
