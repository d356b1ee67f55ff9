"""Any JSON value and any name is returned unchanged. More examples with ``--long``."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from tests.conftest import Caller
from toolkit.dweets.content import checked_content, coerced
from toolkit.dweets.wire import checked_thing
from toolkit.errors import MalformedRequest
from toolkit_gateway import Gateway
from toolkit_gateway.dweets.contents import content_of_pairs
from toolkit_gateway.dweets.replies import dweet_record

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
NAMES = st.text(min_size=1, max_size=60).filter(lambda name: name not in (".", ".."))
QUICK = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


def there_and_back(gateway: Gateway, name: str, value: Any) -> None:
    try:
        checked_thing(name)
    except MalformedRequest:
        return
    with toolkit.connect(gateway) as tk:
        assert tk.dweets.post(name, value)["thing"].tolist() == [name]
        with tk.dweets.listen(name, since=0) as listener:
            *_, last = [next(listener)]
            assert last.thing == name
    (record,) = Caller(gateway).get(f"/get/latest/dweet/for/{quote(name, safe='')}")["with"]
    assert record["thing"] == name
    assert orjson.dumps(record["content"]) == orjson.dumps(value)


@QUICK
@given(name=NAMES, value=VALUES)
def test_any_value_and_name_round_trip(shared: Gateway, name: str, value: Any) -> None:
    there_and_back(shared, name, value)


@pytest.mark.long
@settings(QUICK, max_examples=3_000)
@given(name=NAMES, value=VALUES)
def test_any_value_and_name_round_trip_at_depth(shared: Gateway, name: str, value: Any) -> None:
    there_and_back(shared, name, value)


@QUICK
@given(body=st.binary(max_size=200))
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    try:
        content = checked_content(body)
    except MalformedRequest:
        return
    record = dweet_record("a", 1_767_225_600_000, content)
    assert orjson.dumps(orjson.loads(record)["content"]) == orjson.dumps(orjson.loads(content))


@QUICK
@given(pairs=st.lists(st.tuples(st.text(), st.text() | st.floats().map(repr) | st.integers().map(str))))
def test_any_query_becomes_content_that_says_the_same(pairs: list[tuple[str, str]]) -> None:
    content = orjson.loads(content_of_pairs(pairs))
    for name, text in dict(pairs).items():
        if name not in ("key", "callback", "_"):
            value = content[name]
            assert value == coerced(text)
            assert isinstance(value, str) is (text == value) or float(text) == value
