"""Host names of the gateway, and bodies made to break parsers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.identity_lab import ACCOUNT, DONE, MOBILE, PHONE, SHOP, Lab, Wire, people
from toolkit.errors import InvalidArgument, ServiceError
from toolkit_gateway import Gateway
from toolkit_gateway.http.exchange import Request, Response
from toolkit_gateway.identity.carrier import normal_ip_address
from toolkit_gateway.routes.identity import IdentityRoutes

ECHO = ACCOUNT + "accountEcho"


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    return shared_lab


def test_the_target_url_has_the_loopback_name_of_the_call(wire: Wire) -> None:
    body = {"RequestId": "r", "ApiClientId": SHOP, "DeviceIp": PHONE, "FinalTargetUrl": DONE}
    for host in ("127.0.0.1", "127.0.0.1:1234", "localhost:80", "LOCALHOST", "[::1]:99"):
        answer = wire.send("POST", MOBILE + "authenticateByRedirect", json.dumps(body).encode(), {"Host": host})
        assert answer.response["TargetUrl"].startswith(f"http://{host.lower()}{MOBILE}deviceAuthenticate?vfp=")


def test_listening_on_other_interfaces_needs_an_option() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "gateway.example"):  # noqa: S104
        with pytest.raises(InvalidArgument, match="exposed=True"):
            Gateway(host=host)
    with pytest.raises(InvalidArgument, match="exposed=True"):
        Gateway(host="0.0.0.0", exposed="no")  # type: ignore[arg-type]  # noqa: S104


def called_from_elsewhere(
    lab: Lab,
    method: str,
    path: str,
    host: str,
    *,
    body: bytes = b"",
    query: str = "",
    on_loopback: bool = False,
    public_url: str | None = None,
) -> Response:
    """Return the response to a caller at another machine, without listening anywhere."""
    routes = IdentityRoutes(lab.services.identity, on_loopback=on_loopback, public_url=public_url)
    headers = {b"host": host.encode(), b"content-type": b"application/json", b"x-simulated-device-ip": PHONE.encode()}
    request = Request(method, path.encode(), query.encode(), headers, "198.18.0.9")
    request.body = body
    (handler,) = (route.handler for route in routes.table if route.endpoint.template == path)
    try:
        return asyncio.run(handler(request))
    except ServiceError as error:
        return routes.error_response(error, request)


def test_an_exposed_gateway_serves_its_public_name_only(lab: Lab) -> None:
    body = json.dumps({"RequestId": "r", "ApiClientId": SHOP, "EchoMessage": "x"}).encode()
    for public_url, host, http in (
        (None, "127.0.0.1", 421),
        (None, "identity.example", 421),
        ("https://identity.example", "127.0.0.1", 421),
        ("https://identity.example", "identity.example", 200),
    ):
        assert called_from_elsewhere(lab, "POST", ECHO, host, body=body, public_url=public_url).status == http


@pytest.mark.parametrize("on_loopback", [False, True])
def test_remote_caller_cannot_simulate_a_phone(lab: Lab, on_loopback: bool) -> None:
    query, path = f"vfp={lab.wire.first()}&r=f", MOBILE + "deviceAuthenticate"
    reached = {"on_loopback": on_loopback, "public_url": None if on_loopback else "https://identity.example"}
    host = "127.0.0.1" if on_loopback else "identity.example"
    opened = called_from_elsewhere(lab, "GET", path, host, query=query, **reached)
    assert opened.status == 200
    assert lab.wire.finish(json.loads(opened.body)["vfp"]).status == 1001, "the header is ignored"


def opened_with(wire: Wire, headers: dict[str, str]) -> int:
    """Open a TargetUrl with a header that names the phone and with these; return the status of Finish."""
    target = f"{MOBILE}deviceAuthenticate?vfp={wire.first()}&r=f"
    opened = wire.send("GET", target, headers={"X-Simulated-Device-Ip": PHONE, **headers})
    assert opened.http == 200
    return wire.finish(opened.json["vfp"]).status


def test_public_gateway_simulates_no_phone(make_lab: Any) -> None:
    wire = make_lab(public_url="https://identity.example").wire
    here = {"Host": "127.0.0.1"}
    for headers in ({"Host": "identity.example"}, here, {**here, "X-Forwarded-For": "198.18.0.9"}):
        assert opened_with(wire, headers) == 1001


def test_proxy_or_malformed_address_identifies_nobody(wire: Wire) -> None:
    assert opened_with(wire, {}) == 0
    for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        assert opened_with(wire, {name: "198.18.0.9"}) == 1001
    for address in ("", "203.0.113", "203.0.113.07", "fe80::1%eth0", "one", "203.0.113.7, 192.0.2.7"):
        assert opened_with(wire, {"X-Simulated-Device-Ip": address}) == 1001


def test_a_start_with_simulated_phones_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    identity = {"clients": [{"name": "mine", "api_client_id": "client-id-of-mine"}]}
    Gateway(config={"identity": identity}).close()
    assert [record.getMessage() for record in caplog.records] == [
        "mobile identity simulates phones: it believes X-Simulated-Device-Ip in calls to 127.0.0.1, so anybody who "
        "reaches this gateway can pretend to be any phone. Set public_url before you put a proxy in front of it."
    ]
    caplog.clear()
    public = {"public_url": "https://identity.example"}
    Gateway(config={"identity": identity, "rewards": {}, "gateway": public}).close()
    Gateway().close()
    assert not caplog.records


BODIES = {
    b"": 400,
    b" ": 400,
    b"{": 400,
    b"null": 400,
    b"[]": 400,
    b'"text"': 400,
    b"5": 400,
    b"{} {}": 400,
    b'{"RequestId": "a", "RequestId": "b"}': 400,
    b'{"EchoMessage": {"a": 1, "a": 2}}': 400,
    b'{"EchoMessage": NaN}': 400,
    b'{"EchoMessage": Infinity}': 400,
    b'{"EchoMessage": -Infinity}': 400,
    b'{"EchoMessage": ' + b"9" * 5000 + b"}": 400,
    b'{"EchoMessage": 1e999}': 401,
    b"[" * 16_000: 400,
    b'{"EchoMessage": "\\ud800"}': 400,
    b'{"\\udc00": 1}': 400,
    b'{"EchoMessage": "\xff"}': 400,
    b"\xef\xbb\xbf{}": 400,
    b"\x00": 400,
    "{}".encode("utf-16"): 400,
    b'{"EchoMessage": "' + b"x" * 16_384 + b'"}': 413,
    b"x" * 1_000_000: 413,
}


def test_hostile_bodies_are_refused_in_the_envelope(wire: Wire) -> None:
    for body, http in BODIES.items():
        answer = wire.send("POST", ECHO, body)
        assert answer.http == http, body[:24]
        assert answer.status == (1005 if answer.http == 401 else 2)
        assert answer.json["RequestId"] is None


def test_body_of_exactly_16_kib_is_read(wire: Wire) -> None:
    body = json.dumps({"RequestId": "r", "ApiClientId": SHOP, "EchoMessage": "x"}).encode()
    assert wire.send("POST", ECHO, body.ljust(16 * 1024)).status == 0
    assert wire.send("POST", ECHO, body.ljust(16 * 1024 + 1)).http == 413


def test_only_json_is_accepted(wire: Wire) -> None:
    body = json.dumps({"RequestId": "r", "ApiClientId": SHOP, "EchoMessage": "x"}).encode()
    assert wire.send("POST", ECHO, body, {"Content-Type": "Application/JSON; charset=utf-8"}).status == 0
    for other in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"):
        answer = wire.send("POST", ECHO, body, {"Content-Type": other})
        assert (answer.http, answer.status) == (415, 2)
        assert answer.json["AdditionalInfo"] == "Content-Type must be application/json."


def test_unknown_and_disabled_clients_look_the_same(wire: Wire) -> None:
    told = {"RequestId": "req-1", "Status": 1005, "Description": "The client is not enabled."}
    for key in (None, "", "unknown", "disabled-client", 5, True, ["x"], "é", SHOP + " ", SHOP.upper()):
        refused = wire.echo(ApiClientId=key)
        assert (refused.http, refused.json) == (401, told), key


def test_ipv4_mapped_address_is_read_as_ipv4(wire: Wire) -> None:
    first = wire.first(DeviceIp="::ffff:203.0.113.7")
    assert wire.finish(wire.open(first, PHONE).json["vfp"]).status == 0
    first = wire.first(DeviceIp=PHONE)
    assert wire.finish(wire.open(first, "::FFFF:203.0.113.7").json["vfp"]).status == 0


def test_ipv6_phone_is_recognised(lab: Lab) -> None:
    owner = next(one for one in people() if ":" in one.device_ip)
    assert lab.wire.finish(lab.wire.final(owner.device_ip)).status == 0
    long_form = owner.device_ip.replace("::", ":0:0:0:0:")
    assert normal_ip_address(long_form) == owner.device_ip


def test_carriers_are_found_by_address_or_code(wire: Wire) -> None:
    rows: list[tuple[dict[str, Any], int, str]] = [
        ({"DeviceIp": None}, 1000, "Send DeviceIp or CarrierShortCode."),
        ({"DeviceIp": "198.18.0.1"}, 1003, "No carrier serves this address."),
        ({"DeviceIp": "127.0.0.1"}, 1003, "No carrier serves this address."),
        ({"DeviceIp": None, "CarrierShortCode": "OLD"}, 1003, "No carrier has this CarrierShortCode."),
        ({"DeviceIp": None, "CarrierShortCode": "NOBODY"}, 1003, "No carrier has this CarrierShortCode."),
        ({"CarrierShortCode": "NWT"}, 1038, "DeviceIp and CarrierShortCode belong to different carriers."),
    ]
    for fields, status, info in rows:
        refused = wire.start(**fields)
        assert (refused.status, refused.json["AdditionalInfo"]) == (status, info)


def test_an_empty_table_switches_identity_off() -> None:
    with Gateway(config={"identity": {}}) as gateway:
        assert Wire(gateway.base_url).echo().status == 1005
        assert "ApiClientId" not in gateway.credentials


def test_legacy_http_200_keeps_the_status_in_the_body(make_lab: Any) -> None:
    refused = make_lab(legacy_http_200=True).wire.echo(5)
    assert (refused.http, refused.status) == (200, 1000)
