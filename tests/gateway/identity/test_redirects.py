"""The targets of redirects, and the redirect itself."""

from __future__ import annotations

import pytest

from tests.identity_lab import DONE, PHONE, Lab, Wire, final_in
from toolkit.errors import InvalidArgument
from toolkit_gateway import Gateway


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    return shared_lab


MALFORMED = [
    # Strings that one parser or another reads as something it is not.
    "http://evil.example\\@127.0.0.1/done",
    "http://127.0.0.1\\.evil.example/done",
    "http://127.0.0.1/do\tne",
    "http://127.0.0.1/done\r\nSet-Cookie: a=b",
    " http://127.0.0.1/done",
    "http://127.0.0.1/done ",
    "http://127.0.0.1/d\u00f6ne",
    "http://127.0.0.1\u3002evil.example/done",
    "http://127.0.0.1/done\u0000",
    "http://127.0.0.1/done\x7f",
    "http://127.0.0.1/" + "a" * 2048,
    "\ufeffhttp://127.0.0.1/done",
    # A scheme, a host or a query that is not of the allowed form.
    "http://coffee-shop.example/done",
    "ftp://127.0.0.1/done",
    "javascript:alert(1)",
    "//127.0.0.1/done",
    "http:///done",
    "https:evil.example",
    "https:///evil.example",
    "HTTP://127.0.0.1/done",
    "http://localhost/done",
    "http://127.1/done",
    "http://2130706433/done",
    "http://0x7f000001/done",
    "http://0177.0.0.1/done",
    "http://127.0.0.1./done",
    "http://[::ffff:127.0.0.1]/done",
    "http://[::1%25lo]/done",
    "http://user@127.0.0.1/done",
    "http://user:word@127.0.0.1/done",
    "http://127.0.0.1@evil.example/done",
    "https://coffee-shop.example@evil.example/done",
    "http://127.0.0.1:0/done",
    "http://127.0.0.1:65536/done",
    "http://127.0.0.1:/done",
    "http://127.0.0.1:8890x/done",
    "http://127.0.0.1/done#here",
    "http://127.0.0.1/done#",
    "http://127.0.0.1/done?vfp=mine",
    "http://127.0.0.1/done?a=1&vfp",
    "http://127.0.0.1/done?%76fp=mine",
    "https://coffee-shop.example%2eevil.example/done",
    "",
    *(None, 1, True, ["http://127.0.0.1/done"], {"url": DONE}),
]


UNREGISTERED = [
    "http://127.0.0.1/done/",
    "http://127.0.0.1/Done",
    "http://127.0.0.1/done?more=1",
    "http://127.0.0.1/done?",
    "http://127.0.0.1/done2",
    "http://127.0.0.1/",
    "http://127.0.0.1",
    "http://127.0.0.1/x/../done",
    "http://127.0.0.1/%64one",
    "http://[::1]/done",
    "https://127.0.0.1/done",
    "https://www.coffee-shop.example/done",
    "https://coffee-shop.example.evil.example/done",
    "https://coffee-shop.example:8443/done",
    "https://COFFEE-SHOP.example/done",
    "https://bookshop.example/checkout?step=2",
]


def test_target_must_be_well_formed_and_match_its_registration(wire: Wire) -> None:
    form = "FinalTargetUrl must be https, or http to 127.0.0.1 or [::1], in printable ASCII."
    unregistered = "FinalTargetUrl is not registered for this client."
    for urls, info in ((MALFORMED, form), (UNREGISTERED, unregistered)):
        for url in urls:
            refused = wire.start(FinalTargetUrl=url)
            assert (refused.http, refused.status, refused.json["AdditionalInfo"]) == (400, 1000, info), url
    for port in ("", ":1", ":8890", ":65535"):
        assert wire.start(FinalTargetUrl=f"http://127.0.0.1{port}/done").status == 0


def test_invalid_target_cannot_be_registered() -> None:
    shop = {
        "name": "shop",
        "api_client_id": "client-id-of-the-shop",
        "final_targets": ["http://127.0.0.1/", "http://localhost/done"],
    }
    with pytest.raises(InvalidArgument, match=r"identity.clients\[0\].final_targets\[1\]: expected https, or http to"):
        Gateway(config={"identity": {"clients": [shop]}})


def test_an_error_never_redirects(lab: Lab) -> None:
    wire = lab.wire
    used = wire.first()
    wire.open(used)
    expired = wire.first()
    lab.clock.advance(seconds=120)
    answers = [
        wire.open("", tail=""),
        wire.open("", tail="&r=f"),
        wire.send("GET", "/mobileauth/2014/07/01/deviceAuthenticate"),
        wire.open("unknown", tail=""),
        wire.open("x" * 5000, tail=""),
        wire.open("%FF%00", tail=""),
        wire.open(used, tail=""),
        wire.open(expired, tail=""),
        wire.open(wire.first(), tail="&r=t"),
        wire.open(wire.first(), tail="&r="),
        wire.open(wire.first(), tail="&r=http://evil.example"),
        wire.open(wire.first(), method="HEAD", tail=""),
    ]
    assert [answer.http for answer in answers] == [400, 400, 400, 404, 404, 404, 410, 410, 400, 400, 400, 405]
    assert not any("location" in answer.headers for answer in answers)
    assert answers[0].json == {"error": "vfp is required."}
    assert answers[8].json == {"error": "r must be f."}


def test_redirect_is_a_302_without_referrer_or_cache(lab: Lab) -> None:
    for wire, target in (
        (lab.wire, DONE),
        (lab.wire, "https://coffee-shop.example/done"),
        (lab.books, "https://bookshop.example/checkout?step=2"),
    ):
        opened = f"/mobileauth/2014/07/01/deviceAuthenticate?vfp={wire.first(FinalTargetUrl=target)}"
        headers = {"X-Simulated-Device-Ip": PHONE, "Origin": "https://evil.example"}
        sent = wire.send("GET", opened, headers=headers)
        assert (sent.http, sent.raw) == (302, b"")
        assert sent.headers["cache-control"] == "no-store"
        assert sent.headers["referrer-policy"] == "no-referrer"
        assert not any(name.startswith("access-control") for name in sent.headers)
        final = final_in(sent.headers["location"])
        assert sent.headers["location"] == f"{target}{'&' if '?' in target else '?'}vfp={final}"
        assert wire.finish(final).status == 0
