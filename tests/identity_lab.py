"""The identity service of a gateway with a frozen clock, and raw calls from the specification."""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from tests.conftest import ROOT
from tests.gateway_parts import gateway_and_services
from tests.mail_server import eventually
from toolkit_gateway import DEMO_START, Gateway, SteppedClock
from toolkit_gateway.configuration import configuration_of
from toolkit_gateway.identity.carrier import Subscriber

_DEMO = json.loads((ROOT / "data" / "demo_world.json").read_bytes())
CREDENTIALS = _DEMO["credentials"]["identity"]
CLIENTS = _DEMO["identity"]["clients"]
CARRIERS = _DEMO["identity"]["carriers"]
PEOPLE = json.loads((ROOT / "data" / "demo_subscribers.json").read_bytes())["subscribers"]
SHOP, BOOKS = CREDENTIALS["ApiClientId"], CREDENTIALS["OtherApiClientId"]
ACCOUNT, MOBILE = "/account/2014/07/25/", "/mobileauth/2014/07/01/"
PHONE = "203.0.113.7"
DONE = "http://127.0.0.1:8890/done"


@dataclass
class Answer:
    """An answer as it came: HTTP status, headers with lower-case names, bytes."""

    http: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def status(self) -> int:
        return self.json["Status"]

    @property
    def response(self) -> dict[str, Any]:
        assert self.status == 0, self.raw
        return self.json["Response"]

    @property
    def without_request_id(self) -> dict[str, Any]:
        return {name: value for name, value in self.json.items() if name != "RequestId"}


@dataclass
class Wire:
    """One client of the service, by hand: no line of the toolkit's own client."""

    base_url: str
    key: str = SHOP
    #: All bytes that ever came back.
    seen: list[bytes] = field(default_factory=list)

    def send(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        address = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        try:
            connection.request(method, target, body, {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            answer = Answer(reply.status, {n.lower(): v for n, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()
        self.seen.append(answer.raw + repr(answer.headers).encode())
        return answer

    def post(self, path: str, **fields: Any) -> Answer:
        body = {"RequestId": "req-1", "ApiClientId": self.key, **fields}
        return self.send("POST", path, json.dumps(body).encode())

    def echo(self, message: Any = "hello", **fields: Any) -> Answer:
        return self.post(ACCOUNT + "accountEcho", EchoMessage=message, **fields)

    def start(self, **fields: Any) -> Answer:
        given = {"DeviceIp": PHONE, "FinalTargetUrl": DONE, **fields}
        return self.post(MOBILE + "authenticateByRedirect", **{n: v for n, v in given.items() if v is not None})

    def open(self, fingerprint: str, address: str | None = PHONE, *, method: str = "GET", tail: str = "&r=f") -> Answer:
        headers = {"X-Simulated-Device-Ip": address} if address else {}
        return self.send(method, f"{MOBILE}deviceAuthenticate?vfp={fingerprint}{tail}", headers=headers)

    def finish(self, fingerprint: str, **fields: Any) -> Answer:
        return self.post(MOBILE + "authenticateByRedirectFinish", VerificationFingerprint=fingerprint, **fields)

    def eligibility(self, pair: dict[str, Any]) -> Answer:
        return self.post(ACCOUNT + "getEligibility", **pair)

    def payment_list(self, pair: dict[str, Any], **fields: Any) -> Answer:
        return self.post(ACCOUNT + "getPaymentList", **pair, **fields)

    def payment_details(self, pair: dict[str, Any], ids: Any, **fields: Any) -> Answer:
        return self.post(ACCOUNT + "getPaymentDetails", **pair, PaymentIds=ids, **fields)

    # -- the flow up to a point ------------------------------------------------------------------------------

    def first(self, **fields: Any) -> str:
        return self.start(**fields).response["VerificationFingerprint"]

    def final(self, address: str = PHONE, **fields: Any) -> str:
        return self.open(self.first(DeviceIp=address, **fields), address).json["vfp"]

    def pair(self, address: str = PHONE) -> dict[str, str]:
        response = self.finish(self.final(address)).response
        return {name: response[name] for name in ("ServiceAlias", "AuthenticationCode")}

    def challenged(self, address: str = PHONE) -> tuple[dict[str, str], str]:
        pair = self.pair(address)
        return pair, self.eligibility(pair).response["Challenge"]["ChallengeId"]

    def unlocked(self, address: str = PHONE) -> tuple[dict[str, str], list[str]]:
        pair, challenge_id = self.challenged(address)
        listed = self.payment_list(pair, ChallengeId=challenge_id, ChallengeAnswer="97024").response
        return pair, [payment["PaymentId"] for payment in listed["Payments"]]


def people() -> tuple[Subscriber, ...]:
    """The subscribers of the demo world; the first ones own the phones of the presets, in their order."""
    identity = configuration_of({"identity": {"carriers": CARRIERS, "subscribers": PEOPLE}}).identity
    assert identity is not None
    return identity.subscribers


class Lab:
    """A gateway with the demo world's people, on a clock that only `clock.advance` moves."""

    def __init__(self, folder: Path | None = None, seed: int = 1, *, store: str | None = None, **settings: Any) -> None:
        sleeping = {"name": "sleeping", "api_client_id": "disabled-client", "enabled": False}
        limits = {"calls_a_minute": 100_000, "failures_a_minute": 100_000, **settings}
        reached = {"public_url": limits.pop("public_url", None), "demo": True}
        config = {"gateway": reached, "identity": {"clients": [*CLIENTS, sleeping], **limits}}
        self.clock = SteppedClock(DEMO_START, timedelta(0))
        self.gateway, self.services = gateway_and_services(
            folder, store=store, config=config, clock=self.clock, seed=seed
        )
        self.carrier: Any = self.services.identity.carrier
        self.wire = Wire(self.gateway.base_url)
        self.books = Wire(self.gateway.base_url, BOOKS)

    def address_of(self, preset: str) -> str:
        return self.gateway.handset(preset).address

    def change(self, preset: str, **changes: Any) -> None:
        """Let something happen to a subscriber."""
        self.carrier.put(replace(people()[list(self.gateway.presets).index(preset)], **changes))

    def kept(self) -> bytes:
        """Return all records that the store holds now, of all spaces, as one run of bytes."""
        store: Any = self.services.store
        return repr([store.records.all_values(), store.ephemeral.all_values()]).encode()


_STOPPING: list[threading.Thread] = []


def stop_later(gateway: Gateway) -> None:
    """Stop a gateway while the next test begins: most of a stop is waiting."""
    thread = threading.Thread(target=gateway.close)
    thread.start()
    _STOPPING.append(thread)


@pytest.fixture(scope="session", autouse=True)
def all_stopped() -> Iterator[None]:
    yield
    for thread in _STOPPING:
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def make_lab() -> Iterator[Callable[..., Lab]]:
    labs: list[Lab] = []

    def make(folder: Path | None = None, **settings: Any) -> Lab:
        labs.append(Lab(folder, **settings))
        return labs[-1]

    yield make
    for lab in labs:
        stop_later(lab.gateway)


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab()


@pytest.fixture(scope="module")
def shared_lab() -> Iterator[Lab]:
    """One gateway for all tests of a file that leave nothing behind."""
    lab = Lab()
    yield lab
    lab.gateway.close()


@pytest.fixture
def wire(lab: Lab) -> Wire:
    return lab.wire


def log_requests(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Log everything, and wait until the gateway has noticed it: it reads the level from time to time only."""
    caplog.set_level(logging.DEBUG)
    eventually(lambda: lab.wire.echo().status == 0 and "accountEcho" in caplog.text)


def final_in(location: str) -> str:
    return parse_qs(urlsplit(location).query)["vfp"][0]
