"""One connection to one Redis server, on which all calls that wait travel together.

While the answers to one batch are on their way, more calls gather; the next batch takes all of them. So a hundred
callers cost one write to the socket, one read and one fsync of the server. Nothing is ever sent twice behind a
caller's back, but for what the server has refused without running it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import AskError, NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from toolkit.gateway.stores import OutcomeUnknown, StoreUnavailable
from toolkit.gateway.stores.redis.link import Argument, Link, packed
from toolkit.gateway.stores.redis.scripts import Script, all_texts, text_of

Connect = Callable[[], Awaitable[Link]]

# More calls than this wait for the next batch; more than that are refused, so that memory stays bounded.
_CALLS_A_BATCH = 512
_CALLS_WAITING = 100_000
# What says that this server is not the one to write to (any more): a new connection may find another.
_ELSEWHERE = ("READONLY", "MASTERDOWN", "LOADING", "NOAUTH", "CLUSTERDOWN")


class Call:
    """One command and what its answer means.

    ``writes`` says whether it changes anything, and so has to reach the replicas that are asked for.
    """

    __slots__ = ("redirections", "writes")

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.redirections = 0

    def command(self) -> tuple[Argument, ...]:
        """Return what is sent; from here on nothing is added to the call."""
        raise NotImplementedError

    def on_answer(self, answer: Any) -> None:  # noqa: ANN401
        """Take what the server answered."""
        raise NotImplementedError

    def on_failure(self, error: Exception) -> None:
        """Take why there is no answer."""
        raise NotImplementedError


class FutureCall(Call):
    """A command whose answer is a future, read by `read` where that is given."""

    __slots__ = ("_command", "_read", "future")

    def __init__(self, *command: Argument, read: Callable[[Any], Any] | None = None, writes: bool = False) -> None:
        super().__init__(writes=writes)
        self._command = command
        self._read = read
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def command(self) -> tuple[Argument, ...]:
        """Return the command."""
        return self._command

    def on_answer(self, answer: Any) -> None:  # noqa: ANN401
        """Settle the future."""
        if not self.future.done():
            try:
                self.future.set_result(answer if self._read is None else self._read(answer))
            except Exception as error:  # what somebody else wrote under our keys must not break the lane
                self.future.set_exception(StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))

    def on_failure(self, error: Exception) -> None:
        """Settle the future."""
        if not self.future.done():
            self.future.set_exception(error)


class ScriptCall(FutureCall):
    """A script, its keys and its arguments."""

    __slots__ = ()

    def __init__(
        self,
        script: Script,
        keys: Sequence[str],
        *arguments: Argument,
        read: Callable[[Any], Any] | None = None,
        writes: bool = True,
    ) -> None:
        super().__init__(b"EVALSHA", script.digest, len(keys), *keys, *arguments, read=read, writes=writes)


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
        self._waiting: list[Call] = []
        self._wake = asyncio.Event()
        self._link: Link | None = None
        self._closing = self._is_doubtful = False
        self._task = asyncio.ensure_future(self._run())

    def submit(self, call: Call) -> None:
        """Send the call with the next batch."""
        if self._closing:
            call.on_failure(StoreUnavailable("the gateway is stopping"))
        elif len(self._waiting) >= _CALLS_WAITING:
            call.on_failure(StoreUnavailable(f"too many calls wait for the Redis at {self._shown}"))
        else:
            self._waiting.append(call)
            self._wake.set()

    def doubt(self) -> None:
        """Connect anew before the next call: the server may not be the right one any more."""
        self._is_doubtful = True

    async def close(self) -> None:
        """Send what waits, and hang up."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not (self._closing and not self._waiting):
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:_CALLS_A_BATCH], self._waiting[_CALLS_A_BATCH:]
                await self._exchange(batch)
        await self._hang_up()

    async def _exchange(self, batch: list[Call]) -> None:
        sent = False
        try:
            async with asyncio.timeout(self._timeout):
                await self._be_connected()
                batch, commands = _packable(batch)
                sent = True
                answers = await self._ask(batch, commands)
        except (RedisError, OSError, TimeoutError) as error:
            # Whoever waits is told now, instead of finding out one after the other.
            waiting, self._waiting = self._waiting, []
            await self._hang_up()
            self._look_again()
            reason, unsent = reason_of(error), waiting if sent else batch + waiting
            for call in batch if sent else []:
                why = f"{self._shown} broke off ({reason})"
                call.on_failure(OutcomeUnknown(f"{why} at a change") if call.writes else StoreUnavailable(why))
            for call in unsent:
                call.on_failure(StoreUnavailable(f"{self._shown} cannot be used now: {reason}"))
        else:
            if any(isinstance(answer, ResponseError) and _word(answer) in _ELSEWHERE for answer in answers):
                await self._hang_up()
                self._look_again()
            for call, answer in zip(batch, answers, strict=True):
                self._settle(call, answer)

    async def _be_connected(self) -> None:
        # A server that was restarted is noticed before it is used, and costs no call its answer.
        if self._link is not None and (self._is_doubtful or not self._link.is_idle):
            await self._hang_up()
        self._is_doubtful = False
        if self._link is None:
            self._link = await self._connect()
            # Known to the server before they are used: else its answer to a first call would be that they are not.
            await self._answers([packed((b"SCRIPT", b"LOAD", text)) for text in all_texts()])

    async def _ask(self, batch: Sequence[Call], commands: list[bytes]) -> list[Any]:
        waits = bool(self._replicas) and any(call.writes for call in batch)
        if waits:
            commands.append(packed((b"WAIT", self._replicas, int(self._timeout * 500))))
        answers = await self._answers(commands)
        if waits and not self._is_confirmed(answers.pop()):
            why = f"kept by {self._shown}, but not confirmed by {self._replicas} replicas in time"
            for number, call in enumerate(batch):
                if call.writes and not isinstance(answers[number], Exception):
                    answers[number] = OutcomeUnknown(why)
        unknown = [number for number, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            # The server is new or was promoted and lacks the script: nothing of these calls has run.
            again = [batch[number] for number in unknown]
            texts = [packed(_with_text(call)) for call in again]
            for number, answer in zip(unknown, await self._ask(again, texts), strict=True):
                answers[number] = answer
        return answers

    def _is_confirmed(self, answer: Any) -> bool:  # noqa: ANN401
        return isinstance(answer, int) and answer >= self._replicas

    async def _answers(self, commands: list[bytes]) -> list[Any]:
        link = self._link
        assert link is not None
        link.send(commands)
        return await link.answers(len(commands))

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
            context = {"message": "a store callback failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    async def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.hang_up()


def _packable(batch: list[Call]) -> tuple[list[Call], list[bytes]]:
    """Return the calls that can be sent, and what is sent for each; the others are told."""
    calls, commands = [], []
    for call in batch:
        try:
            commands.append(packed(call.command()))
            calls.append(call)
        except Exception as error:  # half of a surrogate pair, say: one bad call costs no other its answer
            call.on_failure(error)
    return calls, commands


def _with_text(call: Call) -> tuple[Argument, ...]:
    _, digest, *rest = call.command()
    assert isinstance(digest, bytes)
    return b"EVAL", text_of(digest), *rest


def _word(error: ResponseError) -> str:
    # The first word of an answer says what it is; the redis package takes it off those that it knows.
    return error.status_code or str(error).partition(" ")[0]


def reason_of(error: Exception | None) -> str:
    """Return why, in words that hold no secret: these libraries know of addresses only."""
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return "no answer in time"
    word = f"{error.status_code} " if isinstance(error, ResponseError) and error.status_code else ""
    return word + (str(error) or type(error).__name__)
