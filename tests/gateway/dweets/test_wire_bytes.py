"""Outside judge: calls typed by hand from the specification, answers compared byte for byte.

The gateway of the demo world steps its clock by one second a dweet from 2026-01-01 09:00 on and seeds its
identifiers, so whole answers can be written down.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import Caller, raw_exchange
from tests.redis_servers import fresh_url
from toolkit_gateway import DEMO_START, Gateway
from toolkit_gateway.dweets import dweets
from toolkit_gateway.runtime import SteppedClock

UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
CREATED = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
NOT_FOUND = b'{"this":"failed","with":404,"because":"we couldn\'t find this"}'


@pytest.fixture
def demo_call(demo: Gateway) -> Caller:
    return Caller(demo)


def test_post_response_byte_for_byte(demo: Gateway) -> None:
    body = b'{"temp": 21.50,"note":"it\'s"}'
    head = b"POST /dweet/for/kitchen HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    answer = raw_exchange(demo.base_url, head + body)
    top, _, payload = answer.partition(b"\r\n\r\n")
    assert re.fullmatch(
        rb'\{"this":"succeeded","by":"dweeting","the":"dweet","with":\{"thing":"kitchen",'
        rb'"created":"2026-01-01T09:00:01\.000Z","content":\{"temp": 21\.50,"note":"it\'s"\},"transaction":"%b"\}\}'
        % UUID4.encode(),
        payload,
    )
    status, *lines = top.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    headers = {line.partition(b": ")[0] for line in lines}
    assert b"content-type: application/json" in lines
    assert b"access-control-allow-origin: *" in lines
    assert b"content-length: %d" % len(payload) in lines
    assert b"server" not in headers


def test_read_responses_byte_for_byte(demo_call: Caller) -> None:
    for number in range(3):
        demo_call("POST", "/dweet/for/kitchen", b'{"n": %d}' % number)
    records = [
        b'{"thing":"kitchen","created":"2026-01-01T09:00:0%d.000Z","content":{"n": %d}}' % (n + 1, n) for n in range(3)
    ]
    start = b'{"this":"succeeded","by":"getting","the":"dweets","with":['
    assert demo_call("GET", "/get/latest/dweet/for/kitchen").body == start + records[2] + b"]}"
    newest_first = b",".join(records[::-1])
    assert demo_call("GET", "/get/dweets/for/kitchen").body == start + newest_first + b"]}"
    for target in ("/get/latest/dweet/for/nobody", "/get/dweets/for/nobody"):
        reply = demo_call("GET", target)
        assert (reply.status, reply.body) == (200, NOT_FOUND)


def test_quiet_post_answers_204(call: Caller, thing: str) -> None:
    for method, target, body in (
        ("POST", f"/dweet/quietly/for/{thing}", b'{"n":1}'),
        ("GET", f"/dweet/quietly/for/{thing}?n=2", b""),
    ):
        reply = call(method, target, body)
        assert (reply.status, reply.body) == (204, b"")
        assert "content-length" not in reply.headers
        assert "transfer-encoding" not in reply.headers
    assert [d["content"] for d in call.get(f"/get/dweets/for/{thing}")["with"]] == [{"n": 2}, {"n": 1}]


def test_a_refused_quiet_dweet_says_why(call: Caller, thing: str) -> None:
    reply = call("POST", f"/dweet/quietly/for/{thing}", b"{")
    assert (reply.status, reply.body) == (200, b'{"this":"failed","with":400,"because":"the body is not valid JSON"}')


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_thing_without_a_name_gets_a_readable_one(call: Caller, method: str) -> None:
    target, body = ("/dweet", b'{"n":1}') if method == "POST" else ("/dweet?n=1", b"")
    answer = json.loads(call(method, target, body).body)
    assert (answer["this"], answer["by"], answer["the"]) == ("succeeded", "dweeting", "dweet")
    assert list(answer["with"]) == ["thing", "created", "content", "transaction"]
    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{4}", answer["with"]["thing"])
    assert call.get(f"/get/latest/dweet/for/{answer['with']['thing']}")["with"][0]["content"] == {"n": 1}
    assert call.get("/dweet?n=1")["with"]["thing"] != answer["with"]["thing"]


CONTENTS = [
    b"1", b"-0", b"1.50", b"1E5", b"123456789012345678901234567890", b"0.1000000000000000055511151231257827",
    b'"text"', b'""', b"true", b"null", b"[]", b"{}", b'[1, {"a" : [ ]}]',
    b'{"b":1,"a":2,"b":3}', b'{"b" :\t1,\r\n "a": [1 ,2]}',
    '"ü€😀\u2028"'.encode(), b'"\\u00fc\\ud83d\\ude00\\/\\u0000"', '{"ключ": "値"}'.encode(),
    b'{"thing":"x","created":"y","content":"z"}', b'"\\"created\\":\\"x\\""',
]  # fmt: skip


def test_content_comes_back_byte_for_byte(call: Caller, thing: str) -> None:
    for number, content in enumerate(CONTENTS):
        name = f"{thing}-{number}"
        answer = call("POST", f"/dweet/for/{name}", b" \r\n\t" + content + b"\n ").body
        assert b',"content":' + content + b',"transaction":"' in answer
        record = re.escape(b'{"thing":"%b","created":"' % name.encode()) + CREATED.encode() + b'","content":'
        latest = call("GET", f"/get/latest/dweet/for/{name}").body
        assert re.fullmatch(rb".*\[" + record + re.escape(content) + rb"\}\]\}", latest, re.DOTALL)
        with call.stream(f"/listen/for/dweets/from/{name}?since=0") as stream:
            _, text, _ = stream.chunk().split(b"\r\n")
            assert json.loads(text).encode().endswith(b',"content":' + content + b"}")


# What a query says -> the content of its dweet.
QUERIES = {
    "s=66": '{"s":66}',
    "s=18.5": '{"s":18.5}',
    "s=-4&t=0": '{"s":-4,"t":0}',
    "s=true&t=false&u=null": '{"s":true,"t":false,"u":null}',
    "s=True": '{"s":"True"}',
    "s=007&t=%2B5&u=5.&v=.5&w=0x10": '{"s":"007","t":"+5","u":"5.","v":".5","w":"0x10"}',
    "s=47.606209500000011&t=-122.33207300000001": '{"s":"47.606209500000011","t":-122.33207300000001}',
    "s=9007199254740992&t=9007199254740993": '{"s":9007199254740992,"t":"9007199254740993"}',
    "s=1e400&t=1e5&u=-1e-5": '{"s":"1e400","t":100000.0,"u":-0.00001}',
    "s=NaN&t=Infinity": '{"s":"NaN","t":"Infinity"}',
    "s=": '{"s":""}',
    "s=a+b%20c": '{"s":"a b c"}',
    "s=%C3%BC%22%5C": '{"s":"ü\\"\\\\"}',
    "%E5%80%A4=1": '{"値":1}',
    "a=1&b=2&a=3": '{"a":3,"b":2}',
    "key=k&_=123&a=1": '{"a":1}',
    "mycallback=1": '{"mycallback":1}',
    "": "{}",
    "a=%7B%22x%22%3A1%7D": '{"a":"{\\"x\\":1}"}',
}


def test_a_dweet_by_get_or_form(call: Caller, thing: str) -> None:
    for query, content in QUERIES.items():
        wanted = f',"content":{content},"transaction":"'.encode()
        assert wanted in call("GET", f"/dweet/for/{thing}?{query}").body, query
        for media_type in ("application/x-www-form-urlencoded", "Application/X-WWW-Form-URLEncoded ; charset=utf-8"):
            form = call("POST", f"/dweet/for/{thing}", query.encode(), f"Content-Type: {media_type}\r\n")
            assert wanted in form.body, query


def test_jsonp_wraps_the_response(call: Caller, thing: str) -> None:
    call("POST", f"/dweet/for/{thing}", '{"a":"\u2028)"}'.encode())
    plain = call("GET", f"/get/latest/dweet/for/{thing}").body
    for name in ("show", "a.b_c$[0]", "jQuery_123"):
        reply = call("GET", f"/get/latest/dweet/for/{thing}?callback={name}&_=1")
        assert reply.body == b"/**/%b(%b);" % (name.encode(), plain.replace("\u2028".encode(), b"\\u2028"))
        assert reply.headers["content-type"] == "application/javascript; charset=utf-8"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_every_get_answers_jsonp_also_on_failure(call: Caller, thing: str) -> None:
    for target in (
        *("/dweet/for/{0}?a=1", "/dweet?a=1", "/get/dweets/for/{0}", "/get/stats", "/lock/{0}?lock=l&key=k"),
        *("/get/stored/dweets/for/{0}?date=2026-01-01", "/unlock/{0}?key=k", "/remove/lock/l?key=k"),
        *("/alert/a@b.c/when/{0}/return%20true?key=k", "/get/alert/for/{0}?key=k", "/remove/alert/for/{0}?key=k"),
    ):
        reply = call("GET", target.format(thing) + ("&" if "?" in target else "?") + "callback=show")
        inner = re.fullmatch(rb"/\*\*/show\((.*)\);", reply.body, re.DOTALL)
        assert inner is not None, reply.body
        assert json.loads(inner[1])["this"] in ("succeeded", "failed")
        assert reply.status == 200


def test_invalid_callback_is_refused_without_effect(call: Caller, thing: str) -> None:
    for name in ("", "1a", "alert(1)//", "a%C3%A9", "a%00", "a%0Ab", "a%20b", "x" * 65, "%FF"):
        reply = call("GET", f"/dweet/for/{thing}?a=1&callback={name}")
        assert json.loads(reply.body)["with"] == 400, name
        assert reply.headers["content-type"] == "application/json"
    assert call.get(f"/get/latest/dweet/for/{thing}")["with"] == 404


def test_head_is_get_without_a_body(call: Caller, thing: str) -> None:
    call.post(thing, {"n": 1})
    for target in (f"/get/latest/dweet/for/{thing}", f"/get/dweets/for/{thing}", "/get/stats", "/get/dweets/for/no"):
        get, head = call("GET", target), call("HEAD", target)
        assert (head.status, head.body) == (get.status, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
    stream = call("HEAD", f"/listen/for/dweets/from/{thing}")
    assert (stream.status, stream.body) == (200, b"")


def test_head_request_has_no_effect(call: Caller, thing: str) -> None:
    lock, master, _ = call.locked(thing)
    assert call.get(f"/alert/a@b.example/when/{thing}/return%201?key={master}")["this"] == "succeeded"
    other, free, free_master, _ = f"{thing}-other", *call.lock()
    public = len(call.get("/get/stats")["with"]["active_things"])
    for target, allow in [
        (f"/dweet/for/{other}?n=1", "GET, POST"),
        ("/dweet?n=1", "GET, POST"),
        (f"/dweet/quietly/for/{other}?n=1", "GET, POST"),
        (f"/lock/{other}?lock={free}&key={free_master}", "GET"),
        (f"/unlock/{thing}?key={master}", "GET"),
        (f"/remove/lock/{lock}?key={master}", "GET"),
        (f"/remove/alert/for/{thing}?key={master}", "GET"),
        (f"/alert/x@y.example/when/{thing}/return%202?key={master}", "GET"),
    ]:
        reply = call("HEAD", target)
        assert (reply.status, reply.headers["allow"], reply.body) == (405, allow, b""), target
    assert call.get(f"/get/latest/dweet/for/{other}")["with"] == 404
    assert len(call.get("/get/stats")["with"]["active_things"]) == public
    assert call.get(f"/unlock/{other}?key=k")["with"] == 409, "it is not locked"
    alert = call.get(f"/get/alert/for/{thing}?key={master}")
    assert (alert["this"], alert["with"]["condition"]) == ("succeeded", "return 1")


def test_wrong_method_gets_405_with_allow(call: Caller) -> None:
    for method, target, allow in (
        ("DELETE", "/dweet/for/kitchen", "GET, POST"),
        ("PUT", "/dweet", "GET, POST"),
        ("POST", "/get/latest/dweet/for/kitchen", "GET, HEAD"),
        ("PATCH", "/lock/kitchen", "GET"),
        ("GET", "/dweets/for/kitchen", "POST"),
    ):
        reply = call(method, target)
        assert (reply.status, reply.headers["allow"], json.loads(reply.body)["with"]) == (405, allow, 405), target


def test_unknown_path_is_404(call: Caller) -> None:
    for target in (
        *("/", "/dweet/", "/dweet/for", "/dweet/for/", "/dweet/for/a/b", "/get", "/get/latest/dweet/for/", "//"),
        *("/favicon.ico", "/get/dweets/for/a/", "/listen", "/DWEET/for/a", "/alert/a@b.c/when/t/"),
        *("/%2e%2e/etc/passwd", "/unlock/", "/?a=1"),
    ):
        reply = call("GET", target)
        assert (reply.status, reply.body) == (404, NOT_FOUND), target


def test_gateway_serves_an_old_client_as_proxy(call: Caller, thing: str) -> None:
    for host in ("dweet.io", "dweet.io:80", "127.0.0.1:1"):
        reply = call("POST", f"http://{host}/dweet/for/{thing}", b'{"n":1}')
        assert json.loads(reply.body)["this"] == "succeeded"
        reply = call("GET", f"http://{host}/get/latest/dweet/for/{thing}?callback=f")
        assert reply.body.startswith(b'/**/f({"this":"succeeded"')


# As in a path -> the name.
NAMES = {
    "a%20b": "a b", "a+b": "a+b", "a%2Fb": "a/b", "a@b": "a@b", "%C3%BC%F0%9F%98%80": "ü😀", "%2541": "%41",
    "a%3Fb%23c": "a?b#c", "...": "...", ".": ".", "%2e%2e": "..", "~!$&'()*,;=:": "~!$&'()*,;=:", "%22%5C": '"\\',
    "x" * 256: "x" * 256, "%E2%82%AC" * 85: "€" * 85, "for": "for", "null": "null", "%E2%80%A8": "\u2028",
    "%C2%A0": "\u00a0", "%EF%BF%BF": "\uffff",
}  # fmt: skip


def test_names_are_decoded_once(call: Caller) -> None:
    for raw, name in NAMES.items():
        answer = json.loads(call("POST", f"/dweet/for/{raw}", b'{"n":1}').body)
        assert answer["with"]["thing"] == name
        assert call.get(f"/get/latest/dweet/for/{raw}")["with"][0]["thing"] == name
        with call.stream(f"/listen/for/dweets/from/{raw}?since=0") as stream:
            assert json.loads(json.loads(stream.chunk().split(b"\r\n")[1]))["thing"] == name


@pytest.mark.parametrize(
    "target",
    [
        "/dweet/for/{}?a=1", "/dweet/quietly/for/{}", "/get/latest/dweet/for/{}", "/get/dweets/for/{}",
        "/listen/for/dweets/from/{}", "/get/stored/dweets/for/{}?date=2026-01-01", "/lock/{}?lock=l&key=k",
        "/unlock/{}?key=k", "/get/alert/for/{}?key=k", "/alert/a@b.c/when/{}/return%20true?key=k",
    ],
)  # fmt: skip
def test_invalid_thing_names_are_refused(call: Caller, target: str) -> None:
    text = b"a thing's name must have 1 to 256 bytes of UTF-8 and no control characters"
    controls, not_utf8 = ("%00", "a%00b", "a%0Ab", "%7F", "%C2%85"), ("%FF", "%ED%A0%80", "%80x")
    for raw in (*controls, *not_utf8, "x" * 257, "%E2%82%AC" * 86):
        reply = call("GET", target.format(raw))
        assert (reply.status, reply.body) == (200, b'{"this":"failed","with":400,"because":"%b"}' % text), raw


def test_history_is_the_last_500_dweets(call: Caller, thing: str) -> None:
    for start in range(0, 1200, 400):
        body = b"\n".join(b'{"n":%d}' % n for n in range(start, start + 400))
        answer = json.loads(call("POST", f"/dweets/for/{thing}", body).body)
        assert (answer["by"], answer["the"]) == ("dweeting", "dweets")
        assert [d["content"]["n"] for d in answer["with"]] == list(range(start, start + 400))
        assert list(answer["with"][0]) == ["thing", "created", "content", "transaction"]
    history = call.get(f"/get/dweets/for/{thing}")["with"]
    assert [d["content"]["n"] for d in history] == list(range(1199, 699, -1))
    assert list(history[0]) == ["thing", "created", "content"]


def test_batch_is_accepted_entirely_or_refused(call: Caller, thing: str) -> None:
    answer = json.loads(call("POST", f"/dweets/for/{thing}", b'1\n\n 2 \r\n{"a":\n3').body)
    assert answer == {"this": "failed", "with": 400, "because": "line 4: the body is not valid JSON"}
    answer = json.loads(call("POST", f"/dweets/for/{thing}", b'1\n"' + b"x" * 65536 + b'"').body)
    assert answer == {"this": "failed", "with": 413, "because": "line 2: a dweet holds at most 65536 bytes"}
    for body in (b"", b"\n\n", b"1\n" * 10_001, b"1" + b"\n" * 20_001):
        answer = json.loads(call("POST", f"/dweets/for/{thing}", body).body)
        assert answer["because"] == "send 1 to 10000 dweets, one JSON value per line"
    assert call("GET", f"/get/latest/dweet/for/{thing}").body == NOT_FOUND


def test_stored_dweets_by_day_and_hour(demo_call: Caller) -> None:
    demo_call.post("kitchen", {"n": 1, "t": 'a,"b"\r\nc', "deep": {"x": [1, 2]}})
    demo_call.gateway.clock.advance(seconds=3600)  # type: ignore[attr-defined]
    demo_call.post("kitchen", {"n": 2.50, "late": None, "ü": True})
    demo_call.gateway.clock.advance(seconds=86400)  # type: ignore[attr-defined]
    demo_call.post("kitchen", "tomorrow")

    def contents(query: str) -> list[object]:
        answer = demo_call.get(f"/get/stored/dweets/for/kitchen?{query}")
        assert (answer["this"], answer["by"], answer["the"]) == ("succeeded", "getting", "dweets")
        return [dweet["content"] for dweet in answer["with"]]

    first, second = {"n": 1, "t": 'a,"b"\r\nc', "deep": {"x": [1, 2]}}, {"n": 2.5, "late": None, "ü": True}
    assert contents("date=2026-01-01") == [second, first]
    assert contents("date=2026-01-01&hour=09") == [first]
    assert contents("date=2026-01-01&hour=10&responseType=json") == [second]
    assert contents("date=2026-01-01&hour=23") == []
    assert contents("date=2026-01-02") == ["tomorrow"]
    assert contents("date=2025-12-31") == []
    reply = demo_call("GET", "/get/stored/dweets/for/kitchen?date=2026-01-01&responseType=csv")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert reply.body.decode() == (
        "created,n,t,deep,late,ü\r\n"
        '2026-01-01T09:00:01.000Z,1,"a,""b""\r\nc","{""x"": [1, 2]}",,\r\n'
        "2026-01-01T10:00:02.000Z,2.5,,,,true\r\n"
    )
    csv = demo_call("GET", "/get/stored/dweets/for/kitchen?date=2026-01-02&responseType=csv").body
    assert csv == b"created,content\r\n2026-01-02T10:00:03.000Z,tomorrow\r\n"


def test_invalid_stored_dweets_request_is_refused(call: Caller, thing: str) -> None:
    for query, because in (
        ("", "date is required"),
        ("date=", "date is required"),
        ("date=yesterday", "date must be YYYY-MM-DD"),
        ("date=2026-02-30", "date must be YYYY-MM-DD"),
        ("date=2026-01-01&hour=24", "hour must be 00 to 23"),
        ("date=2026-01-01&hour=7", "hour must be 00 to 23"),
        ("date=2026-01-01&hour=%D9%A1%D9%A1", "hour must be 00 to 23"),
        ("date=2026-01-01&responseType=xml", "responseType must be csv or json"),
    ):
        answer = call.get(f"/get/stored/dweets/for/{thing}?{query}")
        assert answer == {"this": "failed", "with": 400, "because": because}
    for date in ("0001-01-01", "9999-12-31", "9999-12-31&hour=23"):  # the ends of the calendar
        assert call.get(f"/get/stored/dweets/for/{thing}?date={date}")["with"] == []


def active(call: Caller) -> list[str]:
    return [each["thing"] for each in call.get("/get/stats")["with"]["active_things"]]


def test_stats_list_the_public_things(demo_call: Caller) -> None:
    start = b'{"this":"succeeded","by":"getting","the":"stats","with":{"active_things":['
    assert demo_call("GET", "/get/stats").body == start + b"]}}"
    demo_call.post("a", {"celsius": 1, "on": True})
    demo_call.post("b", [1])
    demo_call.post("secret", {"x": 1})
    assert active(demo_call) == ["secret", "b", "a"], "a new thing is seen at once"
    demo_call.locked("secret")
    things = b'{"thing":"b","keywords":[]},{"thing":"a","keywords":["celsius","on"]}'
    assert demo_call("GET", "/get/stats").body == start + things + b"]}}", "and so is a new lock"


def test_stats_list_the_things_active_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locked things do not crowd out public ones."""
    monkeypatch.setattr(dweets, "MAX_ACTIVE_THINGS", 3)
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(clock=clock, seed=1) as gateway:
        call = Caller(gateway)
        for number in [*range(20, 80), *range(20)]:
            call.post(f"public-{number}", {})
        assert active(call) == ["public-19", "public-18", "public-17"]
        call.post("public-3", {})
        assert active(call) == ["public-3", "public-19", "public-18"]
        for number in range(10):
            call.post(f"secret-{number}", {})
            _, key, _ = call.locked(f"secret-{number}")
            call.post(f"secret-{number}", {}, f"?key={key}")
        for _ in range(2):
            clock.advance(seconds=1)
            assert active(call) == ["public-3", "public-19", "public-18"]
        call.post("public-1", {})
        assert active(call)[0] == "public-1"


def test_stats_count_dweets_from_before_the_start(tmp_path: Path) -> None:
    for number in range(3):
        with Gateway(tmp_path) as gateway:
            call = Caller(gateway)
            call.post(f"thing-{number}", {})
            assert active(call) == [f"thing-{each}" for each in range(number, -1, -1)]


def test_stats_count_dweets_of_another_gateway() -> None:
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with ExitStack() as stack:
        url = fresh_url()
        first, second = [Caller(stack.enter_context(Gateway(store=url, clock=clock, seed=seed))) for seed in range(2)]
        first.post("a", {})
        assert active(first) == active(second) == ["a"]
        clock.advance(seconds=10)  # Redis may order posts of 5 seconds by the first of them
        second.post("b", {})
        second.post("a", {"x": 1})
        second.locked("c")
        second.post("d", {})
        clock.advance(seconds=10)
        assert active(first) == active(second) == ["d", "a", "b"]
        first.post("b", {})
        clock.advance(seconds=1)
        assert active(first) == active(second) == ["b", "d", "a"]


def test_deepest_possible_dweet_does_not_affect_others(call: Caller, thing: str) -> None:
    deep = b"[" * 1_020 + b"]" * 1_020
    answer = call("POST", f"/dweet/for/{thing}", deep).body
    assert b'"succeeded"' in answer
    assert deep in call("GET", f"/get/latest/dweet/for/{thing}").body
    assert call.get("/get/stats")["this"] == "succeeded"
    day = re.search(rb'"created":"([-0-9]+)T', answer)[1].decode()
    csv = call("GET", f"/get/stored/dweets/for/{thing}?date={day}&responseType=csv")
    if sys.version_info >= (3, 12):
        assert deep in csv.body
    else:  # it counts the levels of parsers written in C too
        assert json.loads(csv.body)["because"] == "a dweet is nested too deeply for CSV: ask for json"


def test_posts_of_one_thing_can_be_rate_limited() -> None:
    clock = SteppedClock(DEMO_START, timedelta(0))
    with Gateway(config={"dweets": {"rate": 2}}, clock=clock) as gateway:
        call = Caller(gateway)
        outcomes = [call.post("a", n)["this"] for n in range(3)]
        assert outcomes == ["succeeded", "succeeded", "failed"]
        assert call("POST", "/dweet/for/a", b"1").body == (
            b'{"this":"failed","with":429,"because":"Rate limit exceeded, try again in 1 second(s)."}'
        )
        assert call.post("b", 1)["this"] == "succeeded", "each thing has its own limit"
        clock.advance(seconds=1)
        assert call.post("a", 1)["this"] == "succeeded"
