"""The table of invalid input: one row each, with the texts that old clients match."""

from __future__ import annotations

import json
from itertools import product

from tests.handwriting_service import MOLLY, Service, errors_of

ORDERS = (
    "id, title, date_created, date_modified, rating_neatness, rating_cursivity, rating_embellishment, "
    "rating_character_width"
)

# (kind, parameters, the one error); "field: text" where they differ
ONE_ERROR = [
    ("png", {"handwriting_id": ""}, "handwriting_id is required"),
    ("png", {"handwriting_id": "made_up_id"}, "handwriting_id not found"),
    ("png", {"text": ""}, "text is required"),
    ("png", {"text": " \t\n"}, "text is required"),
    ("png", {"text": "x" * 9001}, "text maximum length is 9000 characters"),
    ("png", {"text": "a\x00b"}, "text contains control characters"),
    ("png", {"text": "a\x1bb"}, "text contains control characters"),
    ("png", {"text": "a\x7fb"}, "text contains control characters"),
    *(
        ("png", {field: value}, f'{field} unable to parse: "{value}"')
        for field in ("width", "height", "handwriting_size", "min_padding")
        for value in ("double wide", "5gophers", "80%", "300", "", "NaN px", "1e3px", "10 px px", "-5px", "٣px")
    ),
    ("png", {"width": "0px"}, "width must be at least 1px"),
    ("png", {"height": "0.4px"}, "height must be at least 1px"),
    ("pdf", {"width": "0in"}, "width must be at least 0.01pt"),
    ("png", {"handwriting_size": "0px"}, "handwriting_size must be greater than 0px"),
    ("pdf", {"handwriting_size": "0pt"}, "handwriting_size must be greater than 0in"),
    ("png", {"width": "9001px"}, "width maximum is 9000px"),
    ("png", {"height": "1" + "0" * 400 + "px"}, "height maximum is 9000px"),
    ("png", {"handwriting_size": "9001px"}, "handwriting_size maximum is 9000px"),
    ("pdf", {"width": "100.1in"}, "width maximum is 100in"),
    ("pdf", {"height": "255cm"}, "height maximum is 100in"),
    ("png", {"handwriting_size": "auto"}, 'handwriting_size unable to parse: "auto"'),
    ("png", {"min_padding": "auto"}, 'min_padding unable to parse: "auto"'),
    ("png", {"min_padding": "181px"}, "min_padding leaves no room for text"),
    ("png", {"min_padding": "60px", "width": "100px", "height": "auto"}, "min_padding leaves no room for text"),
    *(
        (kind, {"handwriting_color": colour}, "handwriting_color must be valid RGB or CMYK")
        for kind in ("png", "pdf")
        for colour in ("cheesecake", "#12", "#GGGGGG", "(1,0,0)", "(2,0,0,0)", "(a,b,c,d)", "(nan,0,0,0)", "")
    ),
    *(
        ("png", {field: value}, f'{field} unable to parse: "{value}"')
        for field in ("line_spacing", "line_spacing_variance", "word_spacing_variance", "random_seed")
        for value in ("x", "NaN", "inf", "", "1_0", "0x1")
    ),
    ("png", {"line_spacing": "5.1"}, "line_spacing must be between 0.0 and 5.0"),
    ("png", {"line_spacing": "-0.1"}, "line_spacing must be between 0.0 and 5.0"),
    ("png", {"line_spacing_variance": "1.01"}, "line_spacing_variance must be between 0.0 and 1.0"),
    ("png", {"word_spacing_variance": "1e9"}, "word_spacing_variance must be between 0.0 and 1.0"),
    ("png", {"random_seed": "9223372036854775808"}, "random_seed is out of range"),
    ("png", {"random_seed": "-9223372036854775809"}, "random_seed is out of range"),
    ("png", {"pen": "quill"}, "pen must be one of: plain, ballpoint, gel, fountain, pencil, felt"),
    ("svg", {"natural": "yes"}, "natural must be one of: true, false"),
    ("pdf", {"paper": ""}, "paper must be one of: none, blank, ruled, grid, kraft"),
    ("png", {"margin": "180px"}, "margin leaves no room for text"),
    ("png", {"margin": "0px,300px,0px,204px"}, "margin leaves no room for text"),
    *(("png", {"margin": text}, f'margin unable to parse: "{text}"') for text in ("1cm,2cm", "-2cm", "auto")),
    ("png", {"align": "bottom"}, "align must be one of: top, middle"),
    *(
        ("png", {**given, "min_padding": "1cm"}, "min_padding centres the text: give it without margin and align")
        for given in ({"margin": "1cm"}, {"align": "top"})
    ),
    ("png", {"text": "x\n" * 400, "height": "auto", "handwriting_size": "20px"}, "height auto exceeds 9000px"),
    ("pdf", {"text": "x\n" * 400, "height": "auto"}, "height auto exceeds 100in"),
    ("png", {"text": "x" * 2000, "width": "auto"}, "width auto exceeds 9000px"),
]


def test_each_invalid_parameter_has_its_error(service: Service) -> None:
    for kind, given, error in ONE_ERROR:
        reply = service.render(kind, **given)
        assert (reply.status, errors_of(reply)) == (400, [{"field": error.split(" ")[0], "error": error}])


def test_basic_authentication_keeps_the_rules_of_2016(service: Service) -> None:
    for kind, colour, model in (
        ("png", "(0, 0.1, 0.1, 0.8)", "RGB"),
        ("png", "cheesecake", "RGB"),
        ("pdf", "#000000", "CMYK"),
        ("pdf", "(2,0,0,0)", "CMYK"),
    ):
        reply = service.render(kind, basic=True, handwriting_color=colour)
        error = {"field": "handwriting_color", "error": f"handwriting_color must be valid {model}"}
        assert (reply.status, errors_of(reply)) == (400, [error])


def test_apikey_callers_may_use_any_css_colour(service: Service) -> None:
    for kind, colour in product(("png", "pdf"), ("#1B3a8f", "1b3a8f", "(1, 0.5, 0, 0.2)", "(0,0,0,1)")):
        assert service.render(kind, handwriting_color=colour, width="60px", height="40px").status == 200


def test_refused_margin_side_causes_no_second_error(service: Service) -> None:
    for room in ({"margin": "300px"}, {"min_padding": "300px"}):
        reply = service.render(width="9001px", height="9px9", **room)
        assert [error["field"] for error in errors_of(reply)] == ["width", "height"]


def test_all_errors_are_listed_together(service: Service) -> None:
    reply = service.render(handwriting_size="-5px", width="5gophers", height="80%")
    assert {error["field"] for error in errors_of(reply)} == {"handwriting_size", "width", "height"}
    assert len(errors_of(service.get("/render/png"))) == 2


def test_missing_characters_are_listed_with_other_errors(service: Service) -> None:
    reply = service.render(text="aकbखक", width="double wide")
    assert errors_of(reply) == [
        {"field": "width", "error": 'width unable to parse: "double wide"'},
        {
            "field": "text",
            "error": "text has characters this handwriting cannot write",
            "missing_characters": [{"character": "क"}, {"character": "ख"}],
        },
    ]
    assert errors_of(service.render(text="aकbखक")) == errors_of(reply)[1:]


def test_text_must_be_utf8(service: Service) -> None:
    for raw in ("%ff", "%ED%A0%80", "%C3"):
        reply = service.get("/render/png", f"apikey=k&handwriting_id={MOLLY}&text={raw}")
        assert errors_of(reply) == [{"field": "text", "error": "text must be valid UTF-8"}]


def test_invalid_listing_parameters_are_refused(service: Service) -> None:
    for query, error in (
        ("limit=x", 'limit unable to parse: "x"'),
        ("limit=", 'limit unable to parse: ""'),
        ("limit=1.5", 'limit unable to parse: "1.5"'),
        ("limit=0", "limit must be between 1 and 1000"),
        ("limit=1001", "limit must be between 1 and 1000"),
        ("offset=x", 'offset unable to parse: "x"'),
        ("offset=-1", "offset must be 0 or more"),
        ("order_by=rating_friendliness", f"order_by must be one of: {ORDERS}"),
        ("order_dir=up", "order_dir must be one of: asc, desc"),
    ):
        reply = service.get("/handwritings", f"apikey=k&{query}")
        assert (reply.status, errors_of(reply)) == (400, [{"field": query.partition("=")[0], "error": error}])


def test_broken_percent_encoding_is_refused(service: Service) -> None:
    paths = "/handwritings", "/render/png", f"/handwritings/{MOLLY}"
    for path, query in product(paths, ("apikey=%zz", "apikey=k&text=100%", "a=%f")):
        reply = service.get(path, query)
        assert (reply.status, errors_of(reply)) == (400, [{"error": "query string is malformed"}])


def test_first_of_repeated_parameters_counts(service: Service) -> None:
    reply = service.get("/handwritings", "apikey=k&limit=1&limit=5&colour=red")
    assert (reply.status, len(json.loads(reply.body))) == (200, 1)


def test_unknown_paths_and_methods_are_refused(service: Service) -> None:
    for method, path, status, error in (
        ("GET", "/render/gif", 404, "not found"),
        ("GET", "/render", 404, "not found"),
        ("GET", f"/handwritings/{MOLLY}/more", 404, "not found"),
        ("GET", "/handwritings/made_up_id", 404, "handwriting not found"),
        ("POST", "/handwritings", 405, "method not allowed"),
        ("PUT", "/render/png", 405, "method not allowed"),
        ("DELETE", f"/handwritings/{MOLLY}", 405, "method not allowed"),
        ("OPTIONS", "/render/pdf", 405, "method not allowed"),
    ):
        reply = service.get(path, method=method, headers="Accept: image/png\r\n")
        assert (reply.status, errors_of(reply)) == (status, [{"error": error}])
        assert reply.headers.get("allow") == ("GET, HEAD" if status == 405 else None)


def test_a_long_value_is_cut_in_its_error(service: Service) -> None:
    (error,) = errors_of(service.render(width="w" * 5000))
    assert error["error"] == f'width unable to parse: "{"w" * 80}..."'
