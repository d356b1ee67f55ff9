"""The listing of handwritings and single records."""

from __future__ import annotations

import json
from itertools import product

import pytest

import toolkit
from tests.handwriting_service import MOLLY, Service
from toolkit.errors import InvalidParameters
from toolkit.handwriting import wire


def listed(service: Service, query: str = "") -> list[dict]:
    reply = service.get("/handwritings", f"apikey=k&{query}")
    assert reply.status == 200
    return json.loads(reply.body)


def test_pages_of_any_order_make_the_full_listing(service: Service) -> None:
    def key(record: dict, order_by: str) -> object:
        value = record[order_by]
        return value.casefold() if isinstance(value, str) else value

    everything = listed(service)
    assert len(everything) >= 120
    assert [record["id"] for record in everything] == sorted(record["id"] for record in everything)
    assert all(list(record) == list(wire.HANDWRITING_FIELDS) for record in everything)
    for order_by, order_dir in product(wire.HANDWRITING_FIELDS, ("asc", "desc")):
        order = f"order_by={order_by}&order_dir={order_dir}"
        whole, pages = listed(service, order), []
        while page := listed(service, f"{order}&limit=50&offset={len(pages)}"):
            pages += page
        assert pages == whole
        # Equal values are ordered by id.
        assert whole == sorted(everything, key=lambda one: key(one, order_by), reverse=order_dir == "desc")  # noqa: B023


def test_one_handwriting_is_read_by_id(service: Service) -> None:
    reply = service.get(f"/handwritings/{MOLLY}")
    assert json.loads(reply.body) == next(record for record in listed(service) if record["id"] == MOLLY)


def test_the_frame_has_typed_columns(hands: toolkit.Connection) -> None:
    frame = hands.handwriting.available()
    dtypes = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    assert dtypes == {
        "title": "str",
        "date_created": "datetime64[us, UTC]",
        "date_modified": "datetime64[us, UTC]",
        **dict.fromkeys(wire.RATINGS, "Int64"),
    }
    assert frame.index.name == "id"
    assert frame.index.is_unique


def test_order(hands: toolkit.Connection) -> None:
    frame = hands.handwriting.available(order_by="rating_neatness", order_dir="desc")
    assert frame["rating_neatness"].is_monotonic_decreasing
    with pytest.raises(InvalidParameters, match="order_by must be one of"):
        hands.handwriting.available(order_by="rating_friendliness")


def test_equal_ratings_are_ordered_by_title(hands: toolkit.Connection) -> None:
    frame = hands.handwriting.available(order_by="rating_neatness", order_dir="desc")
    pairs = list(zip(-frame["rating_neatness"].astype(int), frame["title"].str.casefold(), strict=True))
    assert pairs == sorted(pairs)


def test_zero_is_a_seed(hands: toolkit.Connection) -> None:
    first, second = (hands.handwriting.png("Hi", "Molly", random_seed=0) for _ in range(2))
    assert first.data == second.data
