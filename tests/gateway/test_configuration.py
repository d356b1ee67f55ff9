"""The configuration of a gateway: what it sets, what is refused, and when demo keys are served."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pandas as pd
import pytest

import toolkit
from tests.conftest import ROOT, operator_of, raw_call
from toolkit.errors import InvalidArgument
from toolkit.rewards.configuration import Configuration as Rules
from toolkit.rewards.configuration import Limits, RewardItem
from toolkit.secret import Secret
from toolkit.settings import Table
from toolkit_gateway import DEMO_SEED, DEMO_START, Gateway, SteppedClock
from toolkit_gateway.configuration import EXAMPLE, Configuration, configuration_of
from toolkit_gateway.demo_world import DemoWorld
from toolkit_gateway.identity.callers import IdentitySettings

DEMO = json.loads((ROOT / "data" / "demo_world.json").read_bytes())
DEMO_PARTNER = DEMO["rewards"]["partners"][0]
PARTNERS = [
    {"gatewaykey": "partner-key-of-acme", "company_token": "acme", "apps": ["run", "walk"]},
    {"gatewaykey": "partner-key-of-umbra", "company_token": "umbra", "apps": ["swim"]},
]
KEY = "the-key-of-the-garage"
ECHO = "/account/2014/07/25/accountEcho"


# -- the example ---------------------------------------------------------------------------------------------


def with_all_keys() -> dict[str, Any]:
    """Return the example with the keys that are comments in it, and without the folder that excludes the store."""
    text = re.sub(r"^# ([a-z_]+ = )", r"\1", EXAMPLE.read_text("utf-8"), flags=re.MULTILINE)
    return tomllib.loads(re.sub(r"^folder = .*$", "", text, flags=re.MULTILINE))


def missing_keys(table: Any, kind: Any, place: str) -> list[str]:
    tables = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, Table)]
    if get_origin(kind) is dict:
        return [name for one in table.values() for name in missing_keys(one, get_args(kind)[1], place)]
    if isinstance(table, list):
        return [name for one in table for name in missing_keys(one, kind, place)]
    if not tables:
        return []
    hints = get_type_hints(tables[0], include_extras=True)
    absent = [f"{place}.{name}" for name in hints if name not in table]
    for name in hints:
        if name in table:
            absent += missing_keys(table[name], hints[name], f"{place}.{name}")
    return absent


def test_the_example_loads_and_has_every_key() -> None:
    configuration_of(EXAMPLE)
    table = with_all_keys()
    configuration_of(table)
    # A folder excludes a store; the object of a real network is for Python only.
    arms = {f".rewards.rules.moments.arms.{name}" for name in Limits.__struct_fields__ if name != "p"}
    assert set(missing_keys(table, Configuration, "")) == {".gateway.folder", ".identity.carrier", *arms}


def test_the_example_shows_the_defaults() -> None:
    shown, default = configuration_of(EXAMPLE), Configuration()
    assert shown.rewards is not None
    assert shown.identity is not None
    pairs: list[tuple[Any, Any, set[str]]] = [
        (shown.gateway, default.gateway, {"folder", "port"}),
        (shown.dweets, default.dweets, {"locks"}),
        (shown.handwriting, default.handwriting, {"apikeys", "renderers"}),
        (shown.rewards.rules, Rules(), {"moments", "rewards", "quiet_hours", "pacing"}),
        (shown.rewards.rules.rewards[0], RewardItem("cold-drink", "A cold drink on us"), set()),
        (shown.identity, IdentitySettings(), {"clients", "carriers", "subscribers"}),
    ]
    for one, other, but in pairs:
        for name in set(one.__struct_fields__) - but:
            assert getattr(one, name) == getattr(other, name), name


# -- what a configuration does -------------------------------------------------------------------------------


def test_all_four_services_work_without_configuration() -> None:
    before = datetime.now(UTC)
    with toolkit.connect() as tk:
        assert tk.gateway is not None
        assert tk.dweets.post("kitchen", {"celsius": 21.5}).index[0] >= pd.Timestamp(before).floor("ms")
        assert len(tk.handwriting.available()) >= 120
        device = tk.rewards.new_device_id("acme")
        tk.rewards.start_session(device)
        assert tk.rewards.moment(device, "run", test=True)["rewarded"].all()
        with tk.identity.session() as session:
            session.authenticate(tk.gateway.handset("no_challenge"))
            session.eligibility()
            assert len(session.payment_list()) == 2


def test_a_file_sets_clients_carriers_and_subscribers(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    table = EXAMPLE.read_text("utf-8").replace('"gateway-data"', f'"{tmp_path.as_posix()}/data"')
    file.write_text(table.replace("port = 8787", "port = 0"), "utf-8-sig")  # as Notepad may
    body = {"RequestId": "r", "ApiClientId": "change-me-client-id"}
    with Gateway(config=file) as gateway:
        assert (tmp_path / "data").is_dir()
        assert gateway.presets == {}
        assert operator_of(gateway).reward_configuration().moments["finished_5k_run"].arms["B"].p == 0.6
        start = {**body, "DeviceIp": "203.0.113.7", "FinalTargetUrl": "http://127.0.0.1/done"}
        target = "/mobileauth/2014/07/01/authenticateByRedirect"
        headers = "Content-Type: application/json\r\n"
        answer = raw_call(gateway.base_url, "POST", target, json.dumps(start).encode(), headers)
        assert json.loads(answer.body)["Status"] == 0


def test_arguments_override_the_configuration(tmp_path: Path) -> None:
    config = {"gateway": {"folder": tmp_path / "other", "port": 1}, "dweets": {"locks": {"a": KEY}, "keep": 600}}
    with Gateway(tmp_path / "mine", config=config, port=0, locks={"b": Secret(KEY)}) as gateway:
        assert (tmp_path / "mine").is_dir()
        assert not (tmp_path / "other").exists()
        assert raw_call(gateway.base_url, "GET", f"/lock/kitchen?lock=b&key={KEY}").status == 200
        assert b'"with":4' in raw_call(gateway.base_url, "GET", f"/lock/roof?lock=a&key={KEY}").body
    assert config["gateway"]["port"] == 1, "the dict is left as it is"


def test_demo_option_sets_clock_and_seed() -> None:
    def run(gateway: Gateway) -> tuple[Any, ...]:
        with gateway:
            posted = raw_call(gateway.base_url, "GET", "/dweet?n=1").body  # has a time, a random name and an identifier
            return posted, sorted(gateway.presets)

    by_hand = Gateway(clock=SteppedClock(DEMO_START, timedelta(seconds=1)), seed=DEMO_SEED)
    assert run(Gateway.demo()) == run(by_hand)


def test_a_wrong_clock_or_seed_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"clock": 5}, {"seed": "7"}, {"seed": True}]
    for argument, message in zip(wrong, ("clock is a", "seed is a whole number", "seed is a whole"), strict=True):
        with pytest.raises(InvalidArgument, match=message):
            Gateway(**argument)


def test_documented_configuration_matches_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], names)  # noqa: S102
    with names["gateway"], names["tk"] as tk:
        device = tk.rewards.new_device_id("acme")
        tk.rewards.start_session(device)
        assert tk.rewards.moment(device, "run", test=True)["rewarded"].all()
        with tk.identity.session() as session:
            session.authenticate(names["gateway"].handset("no_challenge"))
    for table in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE):
        assert table in Configuration.__struct_fields__


# -- what is refused -----------------------------------------------------------------------------------------

HUSH = "hush-hush"
PERSON = {"id": "a", "mobile_number": "+12025550100", "carrier": "CMB", "device_ip": "203.0.113.7", "name": "A"}
ADDRESS = {"line1": "1", "city": "C", "region": "R", "postal_code": "97024"}
SUBSCRIBER = {**PERSON, "email": "a@example.com", "address": ADDRESS}
CARD = {"payment_type": "CREDIT_CARD", "first_six": "411111", "last_four": "1111", "digits": 16}
CARRIER = {"short_code": "CMB", "name": "C", "networks": ["203.0.113.0/24"]}
CLIENT = {"name": "a", "api_client_id": HUSH}


def paid(**payment: Any) -> dict[str, Any]:
    """Return a configuration with a subscriber who has this payment."""
    return {"identity": {"subscribers": [{**SUBSCRIBER, "payments": [payment]}]}}


PAYMENT = "identity.subscribers[0].payments[0]"
WRONG: list[tuple[Any, str]] = [
    (7, "config is the path of a file or a dict, not int"),
    ({"gatewy": {}}, "gatewy: unknown key; did you mean gateway? allowed: gateway, dweets, handwriting, "),
    ({1: {}}, "the configuration: every key must be a text"),
    ({"a\nb": {}}, "'a\\nb'...: unknown key; allowed: gateway, "),
    ({"x - at `$.dweets.y`": {}}, "object contains unknown field"),
    ({"dweets": {"locks": {"a\nb": 5}}}, "dweets.locks.'a\\nb'...: expected a text"),
    ({"gateway": 5}, "gateway: expected a table, got a whole number"),
    ({"gateway": {"prot": 1}}, "gateway.prot: unknown key; did you mean port? allowed: folder, store, host, port, "),
    ({"gateway": {"port": "80"}}, "gateway.port: expected a whole number, got a text"),
    ({"gateway": {"port": -1}}, "gateway.port: expected a whole number >= 0, got -1"),
    ({"gateway": {"host": ""}}, "gateway.host: expected a text of length >= 1"),
    ({"gateway": {"folder": 5}}, "gateway.folder: expected the path of a folder, got a whole number"),
    ({"gateway": {"store": f"http://:{HUSH}@h"}}, "gateway.store: the URL of the store cannot be used"),
    ({"gateway": {"store": "redis://h", "folder": "f"}}, "gateway.store: give a folder or a store, not both"),
    ({"gateway": {"allow_hosts": "a.example"}}, "gateway.allow_hosts: expected a list, got a text"),
    ({"gateway": {"allow_hosts": [f"/{HUSH}"]}}, "gateway.allow_hosts: this is not a host name: give a name or an"),
    ({"gateway": {"trusted_proxies": [HUSH]}}, "gateway.trusted_proxies: this is not an address or network of a proxy"),
    ({"gateway": {"public_url": "https://a.example/path"}}, "public_url: expected an https origin, as https://"),
    ({"gateway": {"public_url": f"https://u:{HUSH}@a.example"}}, "gateway.public_url: expected an https origin"),
    ({"dweets": {"keep": 100}}, "dweets.keep: expected a whole number >= 500, got 100"),
    ({"dweets": {"sender": "x"}}, "dweets.sender: expected one e-mail address"),
    ({"dweets": {"smtp": f"http://u:{HUSH}@h"}}, "dweets.smtp: expected smtp://"),
    ({"dweets": {"smtp": "smtp://"}}, "dweets.smtp: expected smtp://"),
    ({"dweets": {"locks": {"a": HUSH, "b": 7}}}, "dweets.locks.b: expected a text, not an empty one, got a whole"),
    ({"dweets": {"locks": {"a": HUSH, "": HUSH}}}, "dweets.locks: a lock's name must have 1 to 256 bytes of UTF-8 and"),
    ({"dweets": {"locks": {30 * HUSH: HUSH}}}, "dweets.locks: a lock's name must have 1 to 256 bytes of UTF-8 and no"),
    ({"dweets": {"archive_seconds": float("nan")}}, "dweets.archive_seconds: expected a number > 0.0"),
    ({"handwriting": {"apikeys": [{"apikey": HUSH}]}}, "handwriting.apikeys[0].apisecret: this key is missing"),
    ({"handwriting": {"apikeys": [{"apikey": HUSH, "apisecret": HUSH}] * 2}}, "handwriting.apikeys[1].apikey: "),
    ({"rewards": {"partners": PARTNERS[:1] * 2}}, "rewards.partners[1].gatewaykey: the same as partners[0].gatewaykey"),
    (
        {"rewards": {"partners": [PARTNERS[0], {**PARTNERS[0], "gatewaykey": HUSH}]}},
        "rewards.partners[1].company_token: the same as partners[0].company_token",
    ),
    ({"rewards": {"partners": [{"gatewaykey": [HUSH], "company_token": "a"}]}}, "rewards.partners[0].gatewaykey: "),
    ({"rewards": {"rules": {"moments": {"a": {}, "b": {"p": -1}}}}}, "rewards.rules.moments.b.p: expected a number "),
    ({"identity": {"first_life": 601}}, "identity.first_life: expected a whole number <= 600, got 601"),
    ({"identity": {"clients": [CLIENT, {**CLIENT, "name": "b"}]}}, "identity.clients[1].api_client_id: the same as"),
    ({"identity": {"clients": [{**CLIENT, "final_targets": ["ftp://x"]}]}}, "identity.clients[0].final_targets[0]: "),
    ({"identity": {"carriers": [{**CARRIER, "networks": ["x"]}]}}, "identity.carriers[0].networks[0]: expected "),
    ({"identity": {"carriers": [{**CARRIER, "short_code": "c"}]}}, "identity.carriers[0].short_code: expected a "),
    ({"identity": {"subscribers": [SUBSCRIBER]}}, "identity.subscribers[0].carrier: expected the short_code of one of"),
    ({"identity": {"subscribers": [{**SUBSCRIBER, "device_ip": "1.2.3"}]}}, "identity.subscribers[0].device_ip: "),
    (paid(payment_type="CASH"), f"{PAYMENT}.payment_type: expected one of CREDIT_CARD, DEBIT_CARD, CARRIER_BILL"),
    (paid(payment_type="CREDIT_CARD"), f"{PAYMENT}.first_six: required for a card, not allowed for a carrier bill"),
    (
        {"identity": {"subscribers": [{**SUBSCRIBER, "address": {**ADDRESS, "country_code": "USA"}}]}},
        "identity.subscribers[0].address.country_code: expected a text matching",
    ),
    (paid(**{**CARD, "last_four": "1111\n"}), f"{PAYMENT}.last_four: expected a text matching"),
    ({"identity": {"carriers": [CARRIER], "subscribers": [SUBSCRIBER] * 2}}, "identity.subscribers[1].id: the same as"),
    ({"identity": {"carrier": HUSH}}, "identity.carrier: expected a Carrier, got a text"),
]


@pytest.mark.parametrize(("config", "message"), WRONG, ids=[message.partition(":")[0] for _, message in WRONG])
def test_a_wrong_value_is_refused_with_its_key(config: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)) as refused:
        Gateway(config=config)
    assert HUSH not in str(refused.value)


BROKEN: dict[str, tuple[bytes, str]] = {
    "broken.toml": (b'[dweets.locks]\na = "hush-hush', r"broken\.toml is not TOML \(at .*\)"),
    "twice.toml": (b'[a]\nhush-hush = 1\n[a]\n"', r"twice\.toml is not TOML \(at line 3.*\)"),
    "latin.toml": (b'a = "\xe9"', r"latin\.toml is not TOML"),
    "deep.toml": (b"a = " + b"[" * 100_000, r"deep\.toml is not TOML"),
    "digits.toml": (b"a = " + b"9" * 100_000, r"digits\.toml is not TOML"),
    "large.toml": (b"# " + b"x" * 4_000_000, r"large\.toml is larger than 4 MB"),
    "broken.json": (b'{"a": "hush-hush', r"broken\.json is not JSON"),
    "list.json": (b"[]", r"list\.json is not a table of keys and values"),
    "wrong.toml": (b"[gateway]\nprot = 1", r"wrong\.toml: gateway\.prot: unknown key"),
}


def test_unusable_file_is_one_error(tmp_path: Path) -> None:
    for name, (content, message) in BROKEN.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidArgument, match=message) as refused:
            configuration_of(tmp_path / name)
        assert HUSH not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_missing_file_is_one_error() -> None:
    for path, message in {
        "no such file.toml": "no such file.toml cannot be read: No such file",
        ".": "cannot be read: Is a directory",
        "/dev/zero": "/dev/zero is larger than 4 MB",
        "a\0b": "cannot be read",
        "~nobody-of-this-name/x": "cannot be read",
    }.items():
        with pytest.raises(InvalidArgument, match=message):
            configuration_of(path)


def test_configuration_is_read_from_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "decrypted.json"  # as of `--config <(sops decrypt gateway.toml)`
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"dweets": {"keep": 700}}', "utf-8-sig"))
    writer.start()
    with Gateway(config=pipe) as gateway:
        assert raw_call(gateway.base_url, "GET", "/get/stats").headers["x-dweet-retention"] == "700"
    writer.join()


# -- keys that everybody knows -------------------------------------------------------------------------------

REACHED: dict[str, dict[str, Any]] = {
    "host": {"host": "0.0.0.0"},  # noqa: S104
    "public_url": {"public_url": "https://gateway.example"},
    "allow_hosts": {"allow_hosts": ["gateway.example"]},
    "trusted_proxies": {"trusted_proxies": ["127.0.0.1"]},
}


def is_served(gateway: Gateway) -> list[bool]:
    port = gateway.base_url.rpartition(":")[2]
    headers = "Content-Type: application/json\r\n"
    moment = f"/2.0/web/moment/?gatewaykey={DEMO_PARTNER['gatewaykey']}"
    partner = raw_call(f"http://127.0.0.1:{port}", "POST", moment, b"{}", headers)
    client = {"RequestId": "r", "ApiClientId": DEMO["credentials"]["identity"]["ApiClientId"], "EchoMessage": "x"}
    host = "Host: gateway.example\r\n" if gateway.base_url.startswith("http://0.0.0.0") else ""
    echo = raw_call(f"http://127.0.0.1:{port}", "POST", ECHO, json.dumps(client).encode(), headers + host)
    return [b"gatewaykey" not in partner.body, b'"Status":1005' not in echo.body]


@pytest.mark.parametrize("name", REACHED)
def test_demo_keys_are_refused_on_other_interfaces(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Gateway(config={"gateway": REACHED[name]}) as gateway:
        assert not any(is_served(gateway)[: 1 if name == "host" else 2])
        assert gateway.credentials == {}
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("no key is taken by mobile rewards and mobile identity: the keys of the demo world are ")
    assert "toolkit config example" in warning
    assert "--demo" in warning
    assert DEMO_PARTNER["gatewaykey"] not in warning


def test_demo_option_serves_its_keys_on_other_interfaces(caplog: pytest.LogCaptureFixture) -> None:
    reached = REACHED["public_url"] | REACHED["allow_hosts"] | REACHED["trusted_proxies"]
    with Gateway(config={"gateway": {**reached, "demo": True}}) as gateway:
        assert all(is_served(gateway))
        assert len(gateway.credentials) == 4
    assert not caplog.records


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (
            {"rewards": {"partners": [PARTNERS[0], {**DEMO_PARTNER, "company_token": "u"}]}},
            "rewards.partners[1].gatewaykey",
        ),
        ({"rewards": {"partners": [{**PARTNERS[0], "apps": DEMO_PARTNER["apps"]}]}}, "rewards.partners[0].apps"),
        ({"identity": {"clients": DEMO["identity"]["clients"]}}, "identity.clients[0].api_client_id"),
        ({"dweets": {"locks": {"garage": "change-me-master-key"}}}, "dweets.locks.garage"),
        (tomllib.loads(EXAMPLE.read_text("utf-8"))["handwriting"], ""),
    ],
    ids=["partner", "app", "client", "lock", "apikey"],
)
def test_published_key_is_refused_on_other_interfaces(config: dict[str, Any], key: str) -> None:
    own = config if key else {"handwriting": config}
    with pytest.raises(InvalidArgument, match=re.escape(key or "handwriting.apikeys[0].apikey")) as refused:
        Gateway(config={**own, "gateway": REACHED["allow_hosts"]})
    assert "this key is published with the toolkit" in str(refused.value)
    assert "--demo" in str(refused.value)
    assert DEMO_PARTNER["gatewaykey"] not in str(refused.value)
    # On this machine alone it is as good as any other.
    DemoWorld(configuration_of(own))


def test_key_that_might_be_guessed_is_refused() -> None:
    for key in ("fifteen-letters", "abcdefgabcdefgabcdefg"):
        for name, tables in keyed(key).items():
            with pytest.raises(InvalidArgument, match="this key might be guessed.*token_urlsafe") as refused:
                DemoWorld(configuration_of(tables))
            assert str(refused.value).startswith(f"{name}: ")
            assert key not in str(refused.value)
            DemoWorld(configuration_of({**tables, "gateway": {"demo": True}}))
        for tables in keyed(f"{key}h").values():
            DemoWorld(configuration_of(tables))


def keyed(key: str) -> dict[str, dict[str, Any]]:
    """Return a configuration for each kind of key, by the name of the key in it."""
    return {
        "dweets.locks.front.door": {"dweets": {"locks": {"a": KEY, "front.door": key}}},
        "handwriting.apikeys[0].apikey": {"handwriting": {"apikeys": [{"apikey": key, "apisecret": "s"}]}},
        "rewards.partners[0].gatewaykey": {"rewards": {"partners": [{**PARTNERS[0], "gatewaykey": key}]}},
        "identity.clients[0].api_client_id": {"identity": {"clients": [{**CLIENT, "api_client_id": key}]}},
    }
