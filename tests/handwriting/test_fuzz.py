"""Any parameters: never a 500, never more than 10 seconds of a processor or 500 MB."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.handwriting.conftest import Service, errors_of
from tests.handwriting.test_beside_the_loop import children
from toolkit.gateway import Gateway
from toolkit.handwriting.catalogue import catalogue
from toolkit.handwriting.wire import OWN_PARAMETERS, PAPERS, PENS, RENDER_PARAMETERS

SECONDS = 10.0
# What a text that we know takes on the machine that the limit is for; a slower or busier one has as much longer.
KNOWN = {"text": "the quick " * 200, "height": "auto"}
KNOWN_SECONDS = 0.2
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
TEXTS = st.one_of(
    st.text(max_size=80),
    st.text("abc Hello,\t\n\r.é€\N{SLIGHTLY SMILING FACE}П", max_size=300),
    st.builds(
        lambda piece, count: (piece * count)[:9000],
        st.text("ab M.\n\t,é", min_size=1, max_size=40),
        st.integers(1, 9000),
    ),
    st.builds(
        lambda piece: (piece * 9000)[:9000], st.text("@W\u0152\N{NOTEBOOK}\N{POTTED PLANT} ", min_size=1, max_size=5)
    ),
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
    """Return the largest memory that a rendering process has ever taken."""
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in children()]
    peaks = [int(line.split()[1]) for status in statuses for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks, default=0) / 1024


def forget_peaks() -> None:
    for pid in children():
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def processor_seconds() -> float:
    """Return what the rendering processes have used: a busy machine does not stretch it as it does time."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in children()]
    running = sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")
    ended = os.times()  # processes that kept too much memory and were replaced
    return running + ended.children_user + ended.children_system


def is_quick_enough(service: Service, spent: float) -> bool:
    """Whether this is below the limit; near to it this machine is compared with the one that the limit is for."""
    return spent < SECONDS / 2 or spent < SECONDS * max(1.0, check(service, "replay", KNOWN) / KNOWN_SECONDS)


def check(service: Service, kind: str, given: dict[str, str]) -> float:
    began = processor_seconds()
    reply = service.render(kind, **given)
    spent = processor_seconds() - began
    assert reply.status in (200, 400), (kind, given, reply.body[:200])
    if reply.status == 400:
        assert all(
            error["field"] in (*RENDER_PARAMETERS, *OWN_PARAMETERS) and error["error"] for error in errors_of(reply)
        )
    return spent


# The same examples every time: what is found at depth is written down below.
@settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=KINDS, full=FULL)
def test_any_parameters(service: Service, running: Gateway, kind: str, full: dict[str, str]) -> None:
    assert is_quick_enough(service, check(service, kind, full))
    assert peak_megabytes(running) < MEGABYTES


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=KINDS, full=FULL)
def test_any_parameters_at_depth(service: Service, running: Gateway, kind: str, full: dict[str, str]) -> None:
    assert is_quick_enough(service, check(service, kind, full))
    assert peak_megabytes(running) < MEGABYTES


@settings(max_examples=100, deadline=None)
@given(query=st.text(st.characters(codec="ascii", exclude_characters=" #\r\n\x00", min_codepoint=33), max_size=60))
def test_any_query_string(service: Service, query: str) -> None:
    assert service.get("/handwritings", f"apikey=k&{query}").status in (200, 400)
    assert service.get("/render/png", query).status in (400, 401)


WORST = [
    ("png", {"text": "x", "width": "9000px", "height": "9000px", "handwriting_size": "9000px"}),
    # Of all pages full of ink, the one of 300px takes longest.
    pytest.param(
        "png",
        {"text": "x" * 9000, "width": "9000px", "height": "9000px", "handwriting_size": "60px"},
        marks=pytest.mark.long,
    ),
    pytest.param(
        "png", {"text": "MW" * 4500, "width": "9000px", "height": "9000px", "line_spacing": "0"}, marks=pytest.mark.long
    ),
    pytest.param("png", {"text": "M" * 9000, "width": "9000px", "height": "9000px"}, marks=pytest.mark.long),
    (
        "png",
        {"text": "M" * 9000, "width": "9000px", "height": "9000px", "handwriting_size": "300px", "line_spacing": "0"},
    ),
    pytest.param(
        "png",
        {"text": "M" * 9000, "width": "9000px", "height": "9000px", "handwriting_size": "9000px", "line_spacing": "0"},
        marks=pytest.mark.long,
    ),
    pytest.param(
        "png",
        {
            "text": "M" * 9000,
            "width": "9000px",
            "height": "9000px",
            "handwriting_size": "9000px",
            "line_spacing": "0",
            "pen": "pencil",
            "paper": "grid",
        },
        marks=pytest.mark.long,
    ),
    # Its PDF takes as long.
    pytest.param("png", {"text": "\N{NOTEBOOK}" * 9000, "width": "9000px", "height": "9000px"}, marks=pytest.mark.long),
    ("pdf", {"text": "\N{NOTEBOOK}" * 9000, "width": "100in", "height": "auto"}),
    ("png", {"text": "ab " * 3000, "handwriting_size": "0.01px", "width": "1px"}),
    ("pdf", {"text": "x" * 9000, "height": "auto"}),
    ("pdf", {"text": "ab " * 3000, "width": "100in", "height": "100in", "handwriting_size": "100in"}),
    ("png", {"text": "é\N{SLIGHTLY SMILING FACE}" * 4500, "height": "auto"}),
    ("replay", {"text": "the quick " * 900, "height": "auto"}),
    ("png", {"text": "\n" * 8999 + "x", "height": "auto", "line_spacing": "0"}),
    pytest.param(
        "pdf",
        {"text": "\N{POTTED PLANT}" * 9000, "width": "100in", "height": "auto", "pen": "pencil", "natural": "true"},
        marks=pytest.mark.long,
    ),
    pytest.param(
        "replay",
        {"text": "W\N{POTTED PLANT}" * 4500, "height": "auto", "natural": "true", "handwriting_size": "1px"},
        marks=pytest.mark.long,
    ),
    pytest.param(
        "pdf", {"text": "W" * 9000, "width": "100in", "height": "auto", "natural": "true"}, marks=pytest.mark.long
    ),
    pytest.param(
        "png",
        {"text": "é\N{SLIGHTLY SMILING FACE}" * 4500, "handwriting_size": "1px", "height": "auto", "natural": "true"},
        marks=pytest.mark.long,
    ),
    ("pdf", {"text": "W" * 9000, "width": "1px", "height": "auto", "line_spacing": "0.01"}),
]


@pytest.mark.parametrize(("kind", "given"), WORST)
def test_the_worst_we_know(
    service: Service, running: Gateway, kind: str, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    forget_peaks()
    spent = check(service, kind, given)
    with capsys.disabled():
        print(f"\n  {kind} {str(given)[:70]}: {spent:.2f} s, peak {peak_megabytes(running):.0f} MB", end="")
    assert is_quick_enough(service, spent)
    assert peak_megabytes(running) < MEGABYTES


def test_the_measures_measure(service: Service, running: Gateway) -> None:
    # With nothing to measure all of the above would pass.
    assert check(service, "replay", KNOWN) > 0.01
    assert peak_megabytes(running) > 20
