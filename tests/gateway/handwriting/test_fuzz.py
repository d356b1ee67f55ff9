"""Random parameters never cause a 500, nor more than the limit of work or 500 MB."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.handwriting.test_render_processes import children
from tests.handwriting_service import Service, errors_of
from toolkit.handwriting.wire import OWN_PARAMETERS, PAPERS, PENS, RENDER_PARAMETERS
from toolkit_gateway import Gateway
from toolkit_gateway.ink.catalogue import catalogue

MEGABYTES = 500.0

IDS = list(catalogue())
NUMBERS = st.one_of(
    st.sampled_from(["0", "1", "0.5", "-1", "1e3", "", "NaN", "5", "5.0", "0.0001", "9" * 30]),
    st.floats(0, 10).map(lambda number: f"{number:.6f}"),
)
DISTANCES = st.one_of(
    st.tuples(st.floats(0, 9100).map(lambda n: f"{n:.3f}"), st.sampled_from(["px", "pt", " px"])).map("".join),
    st.tuples(st.floats(0, 130).map(lambda n: f"{n:.3f}"), st.sampled_from(["in", "cm", "mm"])).map("".join),
    st.sampled_from(["auto", "", "px", "1px", "0.01px", "9000px", "100in", "0px", "٣px"]),
)


def repeated(piece: str, count: int) -> str:
    return (piece * count)[:9000]


TEXTS = st.one_of(
    st.text(max_size=80),
    st.text("abc Hello,\t\n\r.é€\N{SLIGHTLY SMILING FACE}П", max_size=300),
    st.builds(repeated, st.text("ab M.\n\t,é", min_size=1, max_size=40), st.integers(1, 9000)),
    st.builds(repeated, st.text("@W\u0152\N{NOTEBOOK}\N{POTTED PLANT} ", min_size=1, max_size=5), st.just(9000)),
    st.sampled_from(
        ["x" * 9000, "\n" * 8999 + "x", "x " * 4500, "é\N{SLIGHTLY SMILING FACE}" * 4500, "\t" * 8999 + "x"]
    ),
)
FULL = st.fixed_dictionaries(
    {"handwriting_id": st.sampled_from(IDS), "text": TEXTS},
    optional={
        "handwriting_size": DISTANCES,
        "handwriting_color": st.one_of(
            st.sampled_from(["#000000", "ff8800", "(0,0,0,1)", "(1, 0.5, 0, 0.2)", "red"]), st.text(max_size=12)
        ),
        "width": DISTANCES,
        "height": DISTANCES,
        "min_padding": DISTANCES,
        "line_spacing": NUMBERS,
        "line_spacing_variance": NUMBERS,
        "word_spacing_variance": NUMBERS,
        "random_seed": NUMBERS,
        "pen": st.sampled_from(PENS),
        "natural": st.sampled_from(["true", "false", "yes"]),
        "paper": st.sampled_from(PAPERS),
    },
)
KINDS = st.sampled_from(["png", "png", "pdf", "svg", "replay"])


def peak_megabytes(running: Gateway) -> float:
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in children()]
    peaks = [int(line.split()[1]) for status in statuses for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks, default=0) / 1024


def forget_peaks() -> None:
    for pid in children():
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def check(service: Service, kind: str, given: dict[str, str]) -> None:
    reply = service.render(kind, **given)
    assert reply.status in (200, 400), (kind, given, reply.body[:200])
    if reply.status == 400:  # an error of too much work has no field
        assert all(error["field"] in (*RENDER_PARAMETERS, *OWN_PARAMETERS) for error in errors_of(reply))


# The same examples every time: what is found at depth is written down below.
@settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=KINDS, full=FULL)
def test_any_parameters_get_a_page_or_an_error(
    service: Service, running: Gateway, kind: str, full: dict[str, str]
) -> None:
    check(service, kind, full)
    assert peak_megabytes(running) < MEGABYTES


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=KINDS, full=FULL)
def test_any_parameters_at_depth_get_a_page_or_an_error(
    service: Service, running: Gateway, kind: str, full: dict[str, str]
) -> None:
    check(service, kind, full)
    assert peak_megabytes(running) < MEGABYTES


@settings(max_examples=100, deadline=None)
@given(query=st.text(st.characters(codec="ascii", exclude_characters=" #\r\n\x00", min_codepoint=33), max_size=60))
def test_any_query_string_gets_a_page_or_an_error(service: Service, query: str) -> None:
    assert service.get("/handwritings", f"apikey=k&{query}").status in (200, 400)
    assert service.get("/render/png", query).status in (400, 401)


HUGE = {"width": "9000px", "height": "9000px"}
MANY_M = {"text": "M" * 9000, **HUGE}
EMOJI = {"text": "é\N{SLIGHTLY SMILING FACE}" * 4500, "height": "auto"}
WORST = [
    ("png", {"text": "x", **HUGE, "handwriting_size": "9000px"}),
    ("png", {"text": "ab " * 3000, "handwriting_size": "0.01px", "width": "1px"}),
    ("pdf", {"text": "ab " * 3000, "width": "100in", "height": "100in", "handwriting_size": "100in"}),
    ("png", {"text": "\n" * 8999 + "x", "height": "auto", "line_spacing": "0"}),
]
NATURAL = {"height": "auto", "natural": "true"}
WORST_AND_LONG = [
    ("replay", {"text": "the quick " * 900, "height": "auto"}),
    ("pdf", {"text": "W" * 9000, "width": "1px", "height": "auto", "line_spacing": "0.01"}),
    ("png", {**MANY_M, "handwriting_size": "300px", "line_spacing": "0"}),
    ("pdf", {"text": "\N{NOTEBOOK}" * 9000, "width": "100in", "height": "auto"}),
    ("pdf", {"text": "x" * 9000, "height": "auto"}),
    ("png", EMOJI),
    # Of all pages full of ink, the one of 300px takes longest.
    ("png", {"text": "x" * 9000, **HUGE, "handwriting_size": "60px"}),
    ("png", MANY_M),
    ("png", {**MANY_M, "handwriting_size": "9000px", "line_spacing": "0", "pen": "pencil", "paper": "grid"}),
    ("png", {"text": "\N{NOTEBOOK}" * 9000, **HUGE}),  # its PDF takes as long
    ("pdf", {"text": "\N{POTTED PLANT}" * 9000, "width": "100in", "pen": "pencil", **NATURAL}),
    ("replay", {"text": "W\N{POTTED PLANT}" * 4500, "handwriting_size": "1px", **NATURAL}),
    ("pdf", {"text": "W" * 9000, "width": "100in", **NATURAL}),
    ("png", {**EMOJI, "handwriting_size": "1px", "natural": "true"}),
]


def test_expensive_pages_stay_within_memory(service: Service, running: Gateway) -> None:
    for kind, page in WORST:
        check_memory(service, running, kind, page)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "given"), WORST_AND_LONG)
def test_most_expensive_known_pages_stay_within_memory(
    service: Service, running: Gateway, kind: str, given: dict[str, str]
) -> None:
    check_memory(service, running, kind, given)


def check_memory(service: Service, running: Gateway, kind: str, given: dict[str, str]) -> None:
    forget_peaks()
    check(service, kind, given)
    assert 20 < peak_megabytes(running) < MEGABYTES
