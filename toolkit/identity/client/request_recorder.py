"""Send the requests of the identity client once each, and record them as steps of a trace without secrets."""

import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import msgspec

from toolkit.endpoint import Endpoint
from toolkit.errors import ServiceError, ToolkitError, UnexpectedReply
from toolkit.http_client import HttpReply, HttpSession
from toolkit.identity.client.transaction import Flow
from toolkit.identity.envelope import SUCCESS_DESCRIPTION, USED_OR_EXPIRED, error_of
from toolkit.identity.flow import TRANSITIONS, Event, State, in_words
from toolkit.identity.responses import Eligibility, Opened
from toolkit.identity.wire import GUESSABLE_FIELDS, OPEN_TARGET, SECRET_FIELDS, Operation
from toolkit.secret import Secret, masked

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)
Response = Mapping[str, Any]
#: The largest number of requests in the trace.
_MAX_STEPS = 1_000
#: For each operation: its client method (errors name this, not the operation), and its event in the flow.
_OPERATIONS: dict[str, tuple[str, Event | None]] = {
    "accountEcho": ("echo", None),
    "authenticateByRedirectFinish": ("finish_authentication", Event.FINISH),
    "authenticateByRedirect": ("start_authentication", Event.START),
    "deviceAuthenticate": ("authenticate_device", Event.OPEN),
    "HEAD deviceAuthenticate": ("preview", None),
    "getEligibility": ("eligibility", Event.ELIGIBILITY),
    "getPaymentList": ("payment_list", Event.PAYMENTS),
    "getPaymentDetails": ("payment_details", Event.PAYMENTS),
}
_OPERATION_PATTERN = re.compile("|".join(_OPERATIONS))
#: From these states, no request leads to another one.
_ENDED = {State.REFUSED, State.EXPIRED, State.REVOKED}

TRACE_COLUMNS = {
    "n": "int64", "step": "str", "operation": "str", "http": "Int64", "status": "Int64", "description": "str",
    "state": "str", "request": "str", "response": "str", "ms": "float64", "seconds_left": "float64",
}  # fmt: skip


@dataclass(slots=True)
class Step:
    """One request and its response, secrets redacted; `before` and `after` are the states in which the flow can be."""

    n: int
    operation: str
    request: Mapping[str, Any]
    before: frozenset[State]
    after: frozenset[State]
    http: int | None = None
    status: int | None = 0
    description: str = SUCCESS_DESCRIPTION
    response: Mapping[str, Any] = field(default_factory=dict)
    ms: float = 0.0
    seconds_left: float | None = None

    def row(self) -> dict[str, Any]:
        texts = {"step": _OPERATIONS[self.operation][0], "state": in_words(self.after)}
        request, response = (json.dumps(content, ensure_ascii=False) for content in (self.request, self.response))
        return asdict(self) | texts | {"request": request, "response": response if self.response else None}


class RequestRecorder:
    """Sends the requests of one client and records each as a step.

    No request is retried, because a second Finish would revoke the code. Errors are raised without context, from stack
    frames without a response, because notebooks save tracebacks and IPython can print every value in a frame.
    """

    def __init__(
        self, http: HttpSession, api_client_id: Callable[[], Secret], now: Callable[[], int] | None = None
    ) -> None:
        self._http = http
        self._api_client_id = api_client_id
        self.now = now or (lambda: time.time_ns() // 1_000_000)
        self.steps: deque[Step] = deque(maxlen=_MAX_STEPS)
        self._count = 0

    def post(self, operation: Operation, fields: Mapping[str, object], read: Callable[[Response], T], flow: Flow) -> T:
        """Send a POST request and return what `read` makes of the response; `flow` gets its new state."""
        present = {name: value for name, value in fields.items() if value is not None}
        body = {"RequestId": f"req-{self._count + 1:03d}", "ApiClientId": self._api_client_id(), **present}

        def send(step: Step) -> T:
            reply = self._http.call(operation.endpoint, body=body)
            envelope = _json_object_of(reply, step, operation.endpoint, body)
            return read(_checked_response(envelope, body, reply, str(operation.endpoint)))

        return self._record(operation.name, body, send, flow)

    def open_target(self, fingerprint: Secret, headers: Mapping[str, str], flow: Flow) -> Secret:
        query: dict[str, str | Secret | None] = {"vfp": fingerprint, "r": "f"}

        def send(step: Step) -> Secret:
            reply = self._http.call(OPEN_TARGET, query=query, headers=headers)
            content = _json_object_of(reply, step, OPEN_TARGET, query)
            if reply.status != 200:
                # Responses to phones have no status code, only these HTTP statuses; 410 has two causes.
                status = {404: 2001, 410: 2003, 429: 2040}.get(reply.status)
                fields = {"Status": status, "AdditionalInfo": USED_OR_EXPIRED if status == 2003 else None}
                error = error_of(fields, reply.status, request=str(OPEN_TARGET))
                raise error or UnexpectedReply(f"{OPEN_TARGET} was answered by HTTP {reply.status}")
            final_fingerprint = Secret(checked(content, Opened).vfp)
            expect(final_fingerprint != fingerprint, "the final fingerprint equals the first one")
            return final_fingerprint

        return self._record(Event.OPEN, query, send, flow)

    def preview(self, fingerprint: Secret, flow: Flow) -> int:
        query: dict[str, str | Secret | None] = {"vfp": fingerprint}
        head = Endpoint("HEAD", OPEN_TARGET.template, OPEN_TARGET.query)

        def send(step: Step) -> int:
            step.http = self._http.call(head, query=query).status
            step.status, step.description = None, "Only GET opens TargetUrl."
            return step.http

        return self._record(f"HEAD {Event.OPEN}", query, send, flow)

    def _record(self, operation: str, sent: Mapping[str, Any], send: Callable[[Step], T], flow: Flow) -> T:
        self._count += 1
        before = flow.states
        step = Step(self._count, operation, redacted(sent), before, before)
        outcome: T | ToolkitError
        began = time.perf_counter()
        try:
            outcome = send(step)
        except ToolkitError as error:
            outcome = error
            step.status = error.code if isinstance(error, ServiceError) and isinstance(error.code, int) else None
            step.description = getattr(error, "message", str(error))
        step.ms = round((time.perf_counter() - began) * 1000, 3)
        event = _OPERATIONS[operation][1]
        if isinstance(outcome, Eligibility):
            step.after = frozenset({_state_after_eligibility(outcome)})
        elif event is not None and step.status is not None:
            step.after = states_after(before, event, step.status)
        flow.states = step.after
        step.seconds_left = None if flow.user is None else flow.user.seconds_left(self.now())
        self.steps.append(step)
        if isinstance(outcome, ServiceError) and any(row.status == step.status for row in TRANSITIONS):
            outcome.message += f" {_flow_text(step.after, outcome.message)}"
        if isinstance(outcome, ToolkitError):
            # Remove the traceback and the earlier errors, because they hold the response.
            outcome.__context__ = outcome.__cause__ = None
            raise outcome.with_traceback(None)
        return outcome


def expect(condition: bool, problem: str) -> None:
    """Raise UnexpectedReply unless the condition holds; `problem` must not contain values of the response."""
    if not condition:
        raise UnexpectedReply(f"the response breaks the contract: {problem}")


def checked(response: Response, record: type[StructT]) -> StructT:
    try:
        return msgspec.convert(response, record)
    except msgspec.ValidationError as error:
        # Only the name of the field: other parts of the message may quote the response.
        field = re.findall(r"`\$?\.?([^`]*)`", str(error))[-1]
    raise UnexpectedReply(f"the response breaks the contract: {field} is missing or has another form")


def _json_object_of(reply: HttpReply, step: Step, endpoint: Endpoint, sent: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the JSON object of a reply and record it in the step, without secrets, also those that were `sent`."""
    step.http = reply.status
    if 300 <= reply.status < 400:
        raise UnexpectedReply(f"{endpoint} was answered by a redirect ({reply.status}), which is not followed")
    try:
        value = msgspec.json.decode(reply.body, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise UnexpectedReply(f"the response to {endpoint} ({reply.status}) is not a JSON object") from None
    step.response = redacted(value, secrets=[each for each in sent.values() if isinstance(each, Secret)])
    return value


def _checked_response(
    envelope: Mapping[str, Any], body: Mapping[str, object], reply: HttpReply, request: str
) -> Response:
    status = envelope.get("Status")
    expect(type(status) is int, "Status is not a number")
    error = error_of(envelope, reply.status, request=request)
    if error is not None:
        error.message = _OPERATION_PATTERN.sub(lambda match: _OPERATIONS[match[0]][0], error.message)
        raise error
    expect(status == 0, "Status is not known")
    expect(reply.status == 200, "a successful response has HTTP status 200")
    expect(envelope.get("RequestId") == body["RequestId"], "RequestId is not the one that was sent")
    response = envelope.get("Response")
    expect(isinstance(response, dict), "Response is not an object")
    return dict(response or {})


def _flow_text(states: frozenset[State], message: str) -> str:
    """Return the state of the flow as the last sentence of an error, and what to do if the flow has ended."""
    is_told = states - _ENDED or "start_authentication" in message
    return f"The flow is {in_words(states)}{'' if is_told else ': begin again with start_authentication'}."


def states_after(states: frozenset[State], event: Event, status: int) -> frozenset[State]:
    # The refusal may come from a transition with time, such as an expiry, before the request.
    events = (event, Event.TIME) if status else (event,)
    rows = [row for row in TRANSITIONS if row.event in events and row.status == status]
    # If the flow has expired or been revoked, no row matches the states that the client knew.
    possible = [row for row in rows if row.state in states] or rows
    after = frozenset(row.next for row in possible) or states
    # A phone gets the same response for a used fingerprint and for an expired one.
    is_ambiguous = (event, status) == (Event.OPEN, 2003) and State.STARTED in states
    return after | {State.EXPIRED} if is_ambiguous else after


def _state_after_eligibility(eligibility: Eligibility) -> State:
    if not eligibility.eligible:
        return State.NOT_ELIGIBLE
    if not eligibility.challenge:
        return State.UNLOCKED
    return State.ELIGIBLE if eligibility.challenge.attempts_left else State.LOCKED


def redacted(value: Any, name: str = "", secrets: Sequence[Secret] = ()) -> Any:  # noqa: ANN401
    """Return JSON content with every secret field, and every text of `secrets`, replaced by its short hash."""
    if isinstance(value, Secret):
        return repr(value)
    if name in SECRET_FIELDS or name == "vfp":
        return repr(Secret(value, guessable=name in GUESSABLE_FIELDS)) if isinstance(value, str) else "Secret(***)"
    if isinstance(value, Mapping):
        return {redacted(key, "", secrets): redacted(inner, key, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner, "", secrets) for inner in value]
    if isinstance(value, str):
        for secret in secrets:
            value = masked(value, secret)
    return value
