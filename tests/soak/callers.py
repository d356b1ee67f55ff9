"""Callers of all four services, each in a loop that survives kills of its gateway."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import toolkit
from toolkit.errors import ServiceFailure, Unreachable
from toolkit_gateway.configuration import Configuration
from toolkit_gateway.demo_world import DemoWorld

MASTER_KEY = "master-of-the-garage"
JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Caller(threading.Thread):
    """Takes one turn after another until `is_over`; what a turn raises is in ``failure``.

    Parameters
    ----------
    port
        Where every life of the gateway listens.
    pause
        Seconds between two turns.
    """

    def __init__(self, port: int, pause: float) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.is_over = threading.Event()
        self.failure: Exception | None = None
        self.answered = self.broken = 0
        self._pause = pause
        self.base_url = f"http://127.0.0.1:{port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        try:
            while not self.is_over.wait(self._pause):
                self.turn()
        except Exception as error:  # the test looks at it
            self.failure = error
        finally:
            self._connection.close()

    def turn(self) -> None:
        raise NotImplementedError

    def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer | None:
        """Return the answer; None where the gateway ended before it had answered, or is not there."""
        try:
            self._connection.request(method, target, body or None, headers)
            response = self._connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self.broken += 1
            return None
        # A gateway that ends may refuse what comes last; nothing else may fail.
        assert answer.status < 500 or answer.status == 503, (target, answer)
        self.answered += 1
        return answer if answer.status != 503 else None

    def succeeds(self, method: str, target: str, body: bytes = b"", **headers: str) -> bool:
        answer = self.ask(method, target, body, **headers)
        assert answer is None or b'"this":"succeeded"' in answer.body[:100], (target, answer)
        return answer is not None


class Poster(Caller):
    """Posts the numbers from 0 on to a thing, one at a time and in batches of ten."""

    def __init__(self, port: int, thing: str) -> None:
        super().__init__(port, 0.02)
        self.thing = thing
        self.acknowledged: list[int] = []
        #: Sent and never answered: they are there once or not at all.
        self.maybe: list[int] = []
        self._numbers = itertools.count()
        self._turns = itertools.count()

    def turn(self) -> None:
        many = 10 if next(self._turns) % 10 == 0 else 1
        numbers = list(itertools.islice(self._numbers, many))
        body = b"\n".join(b'{"n":%d,"fill":"%b"}' % (number, b"x" * 100) for number in numbers)
        told = self.succeeds("POST", f"/{'dweets' if many > 1 else 'dweet'}/for/{self.thing}", body, **JSON)
        (self.acknowledged if told else self.maybe).extend(numbers)


class Visitor(Caller):
    """Makes requests in turn; of those that a death can make fail, each answer is right."""

    def __init__(self, port: int, name: str, pause: float, targets: Iterable[str], *, may_fail: bool = False) -> None:
        super().__init__(port, pause)
        self.name = name
        self._targets = itertools.cycle(targets)
        self._may_fail = may_fail

    def turn(self) -> None:
        target = next(self._targets)
        answer = self.ask("GET", target)
        assert self._may_fail or answer is None or answer.status == 200, (target, answer)


def visitors(port: int, thing: str) -> list[Visitor]:
    """Return callers who read a thing in all ways, lock and alert another, and have texts written."""
    hour, key = f"date={datetime.now(UTC):%Y-%m-%d&hour=%H}", f"key={MASTER_KEY}"
    reads = [
        f"/get/latest/dweet/for/{thing}",
        f"/get/dweets/for/{thing}",
        f"/get/stored/dweets/for/{thing}?{hour}",
        f"/get/stored/dweets/for/{thing}?{hour}&responseType=csv",
        "/get/stats",
    ]
    locking = [
        f"/lock/shed?lock=shed-lock&{key}",
        f"/dweet/for/shed?n=1&{key}",
        "/get/latest/dweet/for/shed",
        f"/alert/a@b.example/when/shed/dweet.n%20%3E%20100?{key}",
        f"/get/alert/for/shed?{key}",
        f"/remove/alert/for/shed?{key}",
        f"/unlock/shed?{key}",
    ]
    texts = [quote(f"Dear number {number}, the engine works. " * 5) for number in range(40)]
    rendering = [
        f"/render/{kind}?apikey=any-key&handwriting_id=2D5QW0F80001&text={text}"
        for text, kind in zip(texts, itertools.cycle(("png", "pdf", "svg", "replay")), strict=False)
    ]
    return [
        Visitor(port, "Reader", 0.1, reads),
        Visitor(port, "Locksmith", 0.1, locking, may_fail=True),
        Visitor(port, "Writer", 0.3, rendering),
    ]


class Hearer(threading.Thread):
    """Listens to a thing with the toolkit's own client, from its first dweet to the one that says "end"."""

    def __init__(self, port: int, thing: str) -> None:
        super().__init__(daemon=True, name="Hearer")
        self.heard: list[int] = []
        self.failure: Exception | None = None
        self._base_url, self._thing = f"http://127.0.0.1:{port}", thing

    def run(self) -> None:
        try:
            with toolkit.connect(self._base_url) as tk:
                position: int | None = 0
                while position is not None:
                    position = self._hear(tk, position)
        except Exception as error:  # the test looks at it
            self.failure = error

    def _hear(self, tk: toolkit.Connection, position: int) -> int | None:
        """Hear 500 dweets, hang up, and return where to go on; None at the end."""
        with tk.dweets.listen(self._thing, since=position) as dweets:
            for dweet in itertools.islice(dweets, 500):
                if dweet.content == "end":
                    return None
                self.heard.append(dweet.content["n"])
            return dweets.position


class Alarm(Caller):
    """Posts to a locked thing; now and then what its alert mails about."""

    CONDITION = "return dweet.alarm === undefined ? false : 'number ' + dweet.alarm"

    def __init__(self, port: int, thing: str, seconds_between: float) -> None:
        super().__init__(port, 0.1)
        self.thing = thing
        self.acknowledged: list[int] = []
        self.maybe: list[int] = []
        self._alarms = itertools.count()
        self._turns_between = max(2, round(seconds_between / 0.1))
        self._turns = itertools.count()

    def arm(self) -> None:
        key = f"key={MASTER_KEY}"
        assert self.succeeds("GET", f"/lock/{self.thing}?lock={self.thing}-lock&{key}")
        assert self.succeeds("GET", f"/alert/a@b.example/when/{self.thing}/{quote(self.CONDITION, safe='')}?{key}")

    def turn(self) -> None:
        target = f"/dweet/for/{self.thing}?key={MASTER_KEY}"
        if next(self._turns) % self._turns_between:
            self.succeeds("POST", target, b'{"celsius":21.5}', **JSON)
        else:
            number = next(self._alarms)
            told = self.succeeds("POST", target, b'{"alarm":%d}' % number, **JSON)
            (self.acknowledged if told else self.maybe).append(number)


class Player(Caller):
    """Has moments of 20 devices decided."""

    TARGET = "/2.0/web/moment/?r=1412359522&gatewaykey={}"

    def __init__(self, port: int) -> None:
        super().__init__(port, 0.1)
        keys = DemoWorld(Configuration()).credentials
        self._target = self.TARGET.format(keys["gatewaykey"].reveal())
        self._common = {"app_key": keys["app_key"].reveal(), "protocol": "http", "sdk_version": "1.0", "test": False}
        self._devices = [str(uuid.uuid4()) for _ in range(20)]
        self._turns = itertools.count()
        #: The identifiers of the decisions that were answered.
        self.decided: list[str] = []

    def turn(self) -> None:
        turn = next(self._turns)
        device = self._devices[turn % 20]
        if turn % 400 < 20:  # each device again, before its session ends
            started = {"id": "session_start", "start": datetime.now(UTC).isoformat()}
            self._post({"events": [started]}, device)
        answer = self._post({"moment_id": "finished_5k_run"}, device)
        if answer is not None:
            self.decided.append(answer.headers["X-Reward-Decision"].partition(";")[0])

    def _post(self, fields: dict[str, Any], device: str) -> Answer | None:
        body = json.dumps({**self._common, **fields, "device_id": device}).encode()
        answer = self.ask("POST", self._target, body, **JSON)
        assert answer is None or answer.status == 200, answer
        return answer


class Phone(Caller):
    """Walks the identity flow with the toolkit's own client; a flow that a death cut off begins again."""

    def __init__(self, port: int) -> None:
        super().__init__(port, 1.0)
        world = DemoWorld(Configuration())
        self._handset = world.handset("happy")
        self._credentials = world.credentials

    def turn(self) -> None:
        try:
            with toolkit.connect(self.base_url, credentials=self._credentials) as tk:
                started = tk.identity.start_authentication(self._handset)
                user = tk.identity.finish_authentication(tk.identity.authenticate_device(started, self._handset))
                assert tk.identity.eligibility(user)["eligible"].item()
                assert len(tk.identity.payment_list(user, answer=self._handset.answer)) > 0
        except (Unreachable, ServiceFailure) as error:
            if isinstance(error, ServiceFailure) and error.status != 503:
                raise
            self.broken += 1
        else:
            self.answered += 1
