"""handwritingio 1.0.0, the published client of the service of 2016, unchanged against the gateway."""

from __future__ import annotations

import datetime
import io

import handwritingio
import pypdf
import pytest
from PIL import Image

from tests.handwriting_service import MOLLY
from toolkit_gateway import Gateway


@pytest.fixture(scope="module")
def client():
    keys = [{"apikey": "apikey-of-the-developer", "apisecret": "dev-secret"}]
    with Gateway(config={"handwriting": {"apikeys": keys}}) as gateway:
        client = handwritingio.Client("apikey-of-the-developer", "dev-secret", base_url=gateway.base_url)
        yield client
        client.close()


def test_listing_is_paged_and_sorted(client: handwritingio.Client) -> None:
    everyone = client.list_handwritings()
    assert len(client.list_handwritings({"limit": 1})) == 1
    assert client.list_handwritings({"limit": 5, "offset": 3}) == everyone[3:8]
    neat = client.list_handwritings({"order_by": "rating_neatness", "order_dir": "desc"})
    ratings = [hand["rating_neatness"] for hand in neat]
    assert ratings == sorted(ratings, reverse=True)
    assert isinstance(everyone[0]["date_created"], datetime.datetime)


def test_one_handwriting_is_read(client: handwritingio.Client) -> None:
    assert client.get_handwriting(MOLLY)["title"] == "Molly"
    with pytest.raises(handwritingio.APIError, match="not found"):
        client.get_handwriting("made_up_id")


def test_png_is_rendered(client: handwritingio.Client) -> None:
    data = client.render_png(
        {"handwriting_id": MOLLY, "text": "Hello world!", "height": "auto", "handwriting_color": "#0000FF"}
    )
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (504, 48)
        assert image.getpixel((0, 0)) == (0, 0, 255, 0)


def test_pdf_is_rendered(client: handwritingio.Client) -> None:
    data = client.render_pdf(
        {"handwriting_id": MOLLY, "text": "Hello world!", "handwriting_color": "(1.0, 0.5, 0.0, 0.2)", "width": "3in"}
    )
    (page,) = pypdf.PdfReader(io.BytesIO(data)).pages
    assert page.mediabox.width == 216
    assert page.extract_text().strip() == "Hello world!"
    assert b"1 0.5 0 0.2 k" in page.get_contents().get_data()


def test_invalid_parameters_raise_its_error(client: handwritingio.Client) -> None:
    for params, named, count in (
        ({"handwriting_id": MOLLY}, "text", 1),
        ({"handwriting_id": "made_up_id", "text": "foo"}, "handwriting_id", 1),
        ({"handwriting_id": MOLLY, "text": "foo", "handwriting_color": "(0, 0.1, 0.1, 0.8)"}, "handwriting_color", 1),
        ({"handwriting_id": MOLLY, "text": "foo क"}, "क", 1),
        ({}, "handwriting_id", 2),
    ):
        with pytest.raises(handwritingio.ValidationError, match=named) as caught:
            client.render_png(params)
        assert len(caught.value.errors) == count
    with pytest.raises(handwritingio.ValidationError, match="order_by"):
        client.list_handwritings({"order_by": "rating_friendliness"})


def test_bad_authentication_raises_its_error(client: handwritingio.Client) -> None:
    stranger = handwritingio.Client("foo", "bar", base_url=client.base_url)
    with pytest.raises(handwritingio.AuthorizationError, match="^unauthorized$"):
        stranger.list_handwritings()
    stranger.close()


def test_rate_limit_raises_its_error() -> None:
    with Gateway(config={"handwriting": {"burst": 1, "calls_a_second": 0.001}}) as gateway:
        client = handwritingio.Client("dev", "dev", base_url=gateway.base_url)
        client.list_handwritings({"limit": 1})
        with pytest.raises(handwritingio.RateLimitError, match="rate limit exceeded"):
            client.list_handwritings({"limit": 1})
        client.close()
