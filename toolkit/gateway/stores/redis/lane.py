"""One connection to one Redis server, on which the calls of all callers travel together.

What is called in one turn of the event loop goes out in one piece, a flight. A few flights are on their way at a
time, so that the server always has the next at hand; what is called meanwhile gathers. So a hundred callers cost a
few writes to the socket, a few reads and a few fsyncs of the server. Nothing is ever sent twice behind a caller's
back, but for what the server has refused without running it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import AskError, NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from toolkit.gateway.stores import OutcomeUnknown, StoreUnavailable
from toolkit.gateway.stores.redis.calls import Call
from toolkit.gateway.stores.redis.link import Argument, Link, packed
from toolkit.gateway.stores.redis.scripts import all_texts, text_of

Connect = Callable[[], Awaitable[Link]]

# What is sent and has no answer yet: so many pieces, and so many calls in each.
_FLIGHTS, _CALLS_A_FLIGHT = 8, 512
# More calls than this wait; more than that are refused, so that memory stays bounded.
_CALLS_WAITING = 100_000
# What says that this server is not the one to write to (any more): a new connection may find another.
_ELSEWHERE = ("READONLY", "MASTERDOWN", "LOADING", "NOAUTH", "CLUSTERDOWN")


class Lane:
    """Calls to one server, in the order in which they are given.

    Parameters
    ----------
    connect
        Makes a connection that is ready to use.
    shown
        The server's address for people.
    timeout
        Seconds until a server that does not answer counts as away.
    replicas
        How many replicas must confirm what is written.
    redirect
        Takes a call that the server refused because its key lives elsewhere; where it answers False, the call fails.
    look_again
        Called when the server is away or not the one to write to: another may have taken its place.
    """

    def __init__(
        self,
        connect: Connect,
        shown: str,
        timeout: float,
        replicas: int,
        redirect: Callable[[Call, AskError], bool],
        look_again: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._shown = shown
        self._timeout = timeout
        self._replicas = replicas
        self._redirect = redirect
        self._look_again = look_again
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Call] = []
        self._unknown: list[Call] = []  # the server did not know their scripts, and has run nothing of them
        self._flights = 0
        self._is_confirming = False
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_to_send = self._is_doubtful = self._closing = False
        self._at_rest = asyncio.Event()

    def submit(self, call: Call) -> None:
        """Send the call with all others of this turn of the loop."""
        if self._closing:
            call.on_failure(StoreUnavailable("the gateway is stopping"))
        elif len(self._waiting) >= _CALLS_WAITING:
            call.on_failure(StoreUnavailable(f"too many calls wait for the Redis at {self._shown}"))
        else:
            self._waiting.append(call)
            if not self._is_to_send:
                self._is_to_send = True
                self._loop.call_soon(self._send)

    def doubt(self) -> None:
        """Connect anew before the next call: the server may not be the right one any more."""
        self._is_doubtful = True

    async def close(self) -> None:
        """Send what waits, and hang up once it is answered."""
        self._closing = True
        self._loop.call_soon(self._send)
        await self._at_rest.wait()
        if self._link is not None:
            self._link.hang_up()

    def _send(self) -> None:
        self._is_to_send = False
        if self._connecting is not None or (self._unknown and self._flights):
            return
        # What the server did not know goes first, once all that was sent behind it has landed.
        self._waiting[:0], self._unknown = self._unknown, []
        if self._waiting:
            # A server that was restarted is noticed before it is used, and costs no call its answer.
            if self._link is None or self._is_doubtful or not self._link.is_open:
                self._connecting = asyncio.ensure_future(self._connect_anew())
                return
            # What is sent behind calls that replicas must confirm would wait for them longer than its own time.
            while self._waiting and self._flights < _FLIGHTS and not self._is_confirming:
                batch, self._waiting = self._waiting[:_CALLS_A_FLIGHT], self._waiting[_CALLS_A_FLIGHT:]
                self._launch(self._link, batch)
        if self._closing and not self._waiting and not self._flights:
            self._at_rest.set()

    async def _connect_anew(self) -> None:
        self._let_go()
        self._is_doubtful = False
        link = None
        try:
            async with asyncio.timeout(self._timeout):
                link = await self._connect()
                # Known to the server before they are used: else its answer to a first call would be that they are not.
                texts = all_texts()
                link.send([packed((b"SCRIPT", b"LOAD", text)) for text in texts])
                await link.answers(len(texts))
        except Exception as error:  # also what nobody thought of: whoever waits must be told
            if link is not None:
                link.hang_up()
            self._look_again()
            self._refuse_waiting(error)
        else:
            self._link = link
        self._connecting = None
        self._send()

    def _launch(self, link: Link, batch: list[Call]) -> None:
        batch, commands = _packable(batch)
        if not batch:
            return
        waits = bool(self._replicas) and any(call.writes for call in batch)
        if waits:
            commands.append(packed((b"WAIT", self._replicas, int(self._timeout * 500))))
        self._is_confirming = waits
        watch = self._loop.call_later(self._timeout, lambda: link.hang_up(TimeoutError()))
        self._flights += 1

        def land(answered: asyncio.Future[list[Any]]) -> None:
            watch.cancel()
            self._flights -= 1
            self._is_confirming = self._is_confirming and not waits
            error = answered.exception()
            if error is None:
                answers = answered.result()
                self._land(link, batch, self._confirmed(batch, answers) if waits else answers)
            else:
                self._break_off(link, batch, error)
            self._send()

        link.send(commands)
        link.answers(len(commands)).add_done_callback(land)

    def _land(self, link: Link, batch: list[Call], answers: list[Any]) -> None:
        if any([isinstance(answer, ResponseError) and _word(answer) in _ELSEWHERE for answer in answers]):
            if link is self._link:
                self._let_go()
            self._look_again()
        for call, answer in zip(batch, answers, strict=True):
            if isinstance(answer, NoScriptError):  # the server was told to forget it
                call.with_text = True
                self._unknown.append(call)
            else:
                self._settle(call, answer)

    def _confirmed(self, batch: list[Call], answers: list[Any]) -> list[Any]:
        """Return the answers without the replicas', which decides about those to what was written."""
        confirmed = answers.pop()
        if isinstance(confirmed, int) and confirmed >= self._replicas:
            return answers
        why = f"kept by {self._shown}, but not confirmed by {self._replicas} replicas in time"
        return [
            OutcomeUnknown(why) if call.writes and not isinstance(answer, Exception) else answer
            for call, answer in zip(batch, answers, strict=True)
        ]

    def _break_off(self, link: Link, batch: list[Call], error: BaseException) -> None:
        why = f"{self._shown} broke off ({reason_of(error)})"
        for call in batch:
            call.on_failure(OutcomeUnknown(f"{why} at a change") if call.writes else StoreUnavailable(why))
        if link is self._link:  # the first of its flights that hears of it
            self._let_go()
            self._look_again()
            self._refuse_waiting(error)

    def _refuse_waiting(self, error: BaseException) -> None:
        # Whoever waits is told now, instead of finding out one after the other.
        waiting, self._waiting, self._unknown = self._unknown + self._waiting, [], []
        for call in waiting:
            call.on_failure(StoreUnavailable(f"{self._shown} cannot be used now: {reason_of(error)}"))

    def _settle(self, call: Call, answer: Any) -> None:  # noqa: ANN401
        if isinstance(answer, AskError) and self._redirect(call, answer):
            return
        if isinstance(answer, ResponseError):
            answer = StoreUnavailable(f"{self._shown} refuses: {reason_of(answer)}")
        try:
            if isinstance(answer, Exception):
                call.on_failure(answer)
            else:
                call.on_answer(answer)
        except Exception as error:  # one caller's mistake must not cost the others their answers
            self._loop.call_exception_handler({"message": "a store callback failed", "exception": error})

    def _let_go(self) -> None:
        """Use this connection no more; what is on its way still lands."""
        link, self._link = self._link, None
        if link is not None:
            link.leave()


def _packable(batch: list[Call]) -> tuple[list[Call], list[bytes]]:
    """Return the calls that can be sent, and what is sent for each; the others are told."""
    calls, commands = [], []
    for call in batch:
        try:
            commands.append(packed(_command(call)))
            calls.append(call)
        except Exception as error:  # half of a surrogate pair, say: one bad call costs no other its answer
            call.on_failure(error)
    return calls, commands


def _command(call: Call) -> tuple[Argument, ...]:
    command = call.command()
    if not call.with_text:
        return command
    _, digest, *rest = command
    assert isinstance(digest, bytes)
    return b"EVAL", text_of(digest), *rest


def _word(error: ResponseError) -> str:
    # The first word of an answer says what it is; the redis package takes it off those that it knows.
    return error.status_code or str(error).partition(" ")[0]


def reason_of(error: BaseException | None) -> str:
    """Return why, in words that hold no secret: these libraries know of addresses only."""
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return "no answer in time"
    word = f"{error.status_code} " if isinstance(error, ResponseError) and error.status_code else ""
    return word + (str(error) or type(error).__name__)
