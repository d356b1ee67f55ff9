"""The chart as a widget, without a browser: its input, its state and its drawing."""

from __future__ import annotations

import base64
import json

import numpy as np
import pandas as pd
import pytest

from data.tools.npm import sha512
from data.tools.uplot import UPLOT
from toolkit.charts.chart import Chart
from toolkit.charts.columns import chosen_columns
from toolkit.charts.figure import chart_figure, legend_entries, series_axes
from toolkit.charts.look import LOOK, PALETTE, style_at
from toolkit.charts.matplotlib_style import styled
from toolkit.charts.series import ChartMarks, figure_data
from toolkit.dweets.analysis.accessor import DweetAccessor
from toolkit.errors import InvalidArgument

HOURS = pd.date_range("2026-01-01", periods=48, freq="h", name="created", tz="UTC")
MIXED = pd.DataFrame(
    {"celsius": np.arange(48.0), "open": np.arange(48) % 5 == 0, "mode": ["auto", "off", "auto"] * 16, "id": [{}] * 48},
    index=HOURS,
)


def test_uplot_matches_its_archive() -> None:
    about = json.loads((UPLOT / "package.json").read_text("utf-8"))
    assert {name: sha512((UPLOT / name).read_bytes()) for name in about["files"]} == about["files"]
    assert f"uPlot (v{about['version']})" in (UPLOT / "uPlot.js").read_text("utf-8")
    assert "MIT" in (UPLOT / "LICENSE").read_text("utf-8")


def test_the_visible_range_is_set_and_observed() -> None:
    chart = Chart(MIXED, ["celsius"])
    seen: list[object] = []
    chart.observe(lambda change: seen.append(change["new"]), "visible_range")
    chart.visible_range = "2026-01-01 06:00", "2026-01-01T14:00+02:00"
    assert seen == [(HOURS[6], HOURS[12])]
    chart.set_state({"_range": [HOURS[2].timestamp(), HOURS[3].timestamp()]})  # as from a browser
    assert chart.visible_range == (HOURS[2], HOURS[3])
    chart.set_state({"_range": []})
    assert chart.visible_range is None
    assert len(seen) == 3


def test_invalid_range_is_refused() -> None:
    chart = Chart(MIXED, ["celsius"])
    for wrong in ("2026", 5, ("a", "b"), (HOURS[3], HOURS[2]), (HOURS[3],)):
        with pytest.raises(InvalidArgument, match="visible_range"):
            chart.visible_range = wrong


def test_columns_are_sent_as_buffers_of_doubles() -> None:
    chart = Chart(MIXED.tz_convert("Europe/Berlin"), ["celsius", "open", "mode"], unit={"celsius": "°C"})
    sent = chart.get_state()["_data"]
    celsius, opened, mode = sent["lines"]
    assert (sent["zone"], celsius["unit"], opened["kind"], mode["states"]) == (
        "Europe/Berlin", "°C", "boolean", ["auto", "off"],
    )  # fmt: skip
    assert np.frombuffer(sent["axes"][celsius["x"]])[1] == HOURS[1].timestamp()
    assert len(sent["axes"]) == 1, "lines with the same times share them"
    assert np.frombuffer(mode["y"])[:3].tolist() == [0, 1, 0]
    assert repr(chart) == "<Chart: 144 points of celsius, open, mode>"


def test_more_points_than_a_browser_holds_are_thinned() -> None:
    times = pd.date_range("2026-01-01", periods=2_500_000, freq="s", name="created")
    values = np.zeros(len(times))
    values[[17, 2_400_001]] = 5, -5
    sent = Chart(pd.DataFrame({"v": values}, index=times), ["v"]).get_state()["_data"]
    kept = np.frombuffer(sent["lines"][0]["y"])
    assert sent["isThinned"]
    assert len(kept) <= 2_000_000
    assert (kept.max(), kept.min()) == (5, -5)


def test_a_chart_shows_a_picture_where_it_cannot_run() -> None:
    shown, _ = Chart(MIXED, ["celsius", "open", "mode"])._repr_mimebundle_()
    assert base64.b64decode(shown["image/png"]).startswith(b"\x89PNG\r\n")
    assert shown["text/plain"] == "<Chart: 144 points of celsius, open, mode>"
    assert b"<svg" in Chart(MIXED, ["celsius"]).svg()
    assert repr(Chart()) == "<Chart: no data>"
    assert "1970" not in Chart().svg().decode("utf-8")
    assert Chart().png().startswith(b"\x89PNG")


def test_a_chart_needs_times_and_columns_to_draw() -> None:
    with pytest.raises(InvalidArgument, match="DatetimeIndex"):
        Chart(pd.DataFrame({"a": [1]}), ["a"])
    with pytest.raises(InvalidArgument, match="id cannot be drawn; numbers, truth values and texts are in celsius"):
        DweetAccessor(MIXED).chart("id")
    with pytest.raises(InvalidArgument, match="height"):
        DweetAccessor(MIXED).chart(height=10)
    assert chosen_columns(MIXED, None).names == ["celsius"]


def of_things(*things: str) -> pd.DataFrame:
    return pd.concat([MIXED.head(3).assign(thing=thing) for thing in things])


def test_a_thing_keeps_its_colour_in_all_panels_and_drawings() -> None:
    chart = Chart(of_things("roof", "cellar"), ["celsius", "open"])
    chart.draw(of_things("garden", "cellar", "roof"), ["open"])
    sent = chart.get_state()["_data"]
    assert sent["things"] == ["roof", "cellar", "garden"]
    assert [line["thing"] for line in sent["lines"]] == ["garden", "cellar", "roof"]
    assert not any("colour" in line for line in sent["lines"]), "the browser has the same table"


def test_things_differ_in_colour_then_dashes_then_are_counted() -> None:
    styles = [style_at(place) for place in range(50)]
    named = [style for style in styles if style.is_distinct]
    assert len({*named}) == len(named) == len(PALETTE) * len(LOOK["dashes"]) < 50
    assert {style.colour for style in styles[len(named) :]} == {LOOK["rest"]}
    frame = of_things(*(f"thing {number}" for number in range(50)))
    _, names = legend_entries(figure_data(frame, ["celsius"]))
    assert (names[0], names[-1], len(names)) == ("thing 0", f"and {50 - len(named)} more", len(named) + 1)


def light_of(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_is_seen_on_white_and_on_black() -> None:
    red, green, blue = (int(PALETTE[0][place : place + 2], 16) for place in (1, 3, 5))
    assert blue > 2 * red < green < blue, "the first colour is blue"
    for colour in (*PALETTE, LOOK["rest"]):
        assert 1.05 / (light_of(colour) + 0.05) > 3, colour
        assert (light_of(colour) + 0.05) / (light_of("#111111") + 0.05) > 3, colour


def test_each_field_has_a_panel_with_its_unit() -> None:
    data = figure_data(MIXED.assign(pascal=1e5), ["celsius", "pascal", "open", "mode"], unit="°C")
    assert [[line.field for line in panel] for panel in data.panels] == [["celsius"], ["pascal"], ["open"], ["mode"]]
    assert [line.unit for line in data.lines] == ["°C", "°C", "", ""], "only numbers have the unit of all fields"


def test_rare_texts_are_grouped_as_other() -> None:
    frame = pd.DataFrame(
        {"name": [f"n{number}" for number in range(1_500)]}, index=pd.date_range("2026", periods=1_500)
    )
    (line,) = figure_data(frame, ["name"]).lines
    assert (len(line.states), line.states[-1], line.values.max()) == (1_001, "other", 1_000)


def test_a_state_ends_where_a_gap_begins() -> None:
    gaps = pd.DataFrame({"start": [HOURS[3]], "end": [HOURS[9]]})
    frame = MIXED.iloc[[0, 1, 2, 3, 9, 10]]
    for line in figure_data(frame, ["open", "mode"], ChartMarks(gaps)).lines:
        (end,) = line.values.index[line.values.isna()]
        assert HOURS[3] < end < HOURS[3] + pd.Timedelta("1s")


def test_files_hold_the_lines_that_are_asked_for() -> None:
    things = pd.concat([MIXED.head(4).assign(thing=thing) for thing in ("roof", "cellar")])
    chart = Chart(things, ["celsius", "open"])
    chart.visible_range = HOURS[1], HOURS[2]
    rows = chart.csv(["roof"]).decode().splitlines()
    assert rows[0].endswith(",thing,celsius,open")
    assert [row.split(",")[1] for row in rows[1:]] == ["roof", "roof"]
    assert len(chart.csv().splitlines()) == 5
    assert b"cellar" in chart.svg()
    assert b"cellar" not in chart.svg(["roof"])


@pytest.mark.parametrize("steep", [1, 0])
def test_every_kind_of_panel_is_drawn(steep: int) -> None:
    gaps = pd.DataFrame({"start": [HOURS[3]], "end": [HOURS[9]]})
    found = pd.DataFrame({"field": ["celsius"] * 2, "value": [3.0, 4.0], "expected": 9.0, "score": [8, 32]}, HOURS[3:5])
    shifts = pd.DataFrame({"field": ["celsius"], "start": [HOURS[20]], "end": [HOURS[30]], "explained_by": ["x 10"]})
    frame = MIXED.assign(celsius=MIXED["celsius"] * steep)
    marks = ChartMarks(gaps, found, shifts)
    numbers, truths, texts = chart_figure(figure_data(frame, ["celsius", "open", "mode"], marks)).axes
    assert numbers.get_xlabel() == truths.get_xlabel() == ""
    assert texts.get_xlabel() == "created (UTC)"
    assert [len(each.collections) for each in (numbers, truths)] == [3, 2], "gap, shift, rings; gap, steps"
    small, large = numbers.collections[-1].get_sizes()
    assert small * 1.5 < large, "by score"
    assert "x 10" in numbers.texts[0].get_text()
    assert [label.get_text() for label in truths.get_yticklabels()] == ["false", "true"]
    assert [text.get_text().strip() for text in texts.texts][:2] == ["auto", "auto"], "where there is room"


def test_many_points_are_drawn_as_a_mean_in_their_span() -> None:
    values = np.tile([0.0, 10.0], 5_000)
    values[7_777] = 99
    frame = pd.DataFrame({"v": values}, index=pd.date_range("2026-01-01", periods=10_000, freq="s"))
    (axes,) = chart_figure(figure_data(frame, ["v"])).axes
    (line,), (span,) = axes.lines, axes.collections
    assert len(line.get_ydata()) < 1_000
    assert np.median(line.get_ydata()) == pytest.approx(5, abs=1)
    assert span.get_paths()[0].vertices[:, 1].max() == 99, "no spike is lost"


def test_a_picture_changes_no_setting_of_matplotlib() -> None:
    import matplotlib

    @styled
    def draw() -> object:
        matplotlib.rcParams["interactive"] = True  # as the first import of pyplot does in a notebook
        return matplotlib.rcParams["axes.titlelocation"]

    before = dict(matplotlib.rcParams)
    assert draw() == "left"
    assert {name for name, value in before.items() if matplotlib.rcParams[name] != value} == {"interactive"}
    matplotlib.rcParams["interactive"] = before["interactive"]


def test_labels_of_a_picture_differ() -> None:
    from matplotlib import pyplot

    steep = np.arange(60) / 59
    for values in (
        1_234_567_890 + 6 * steep,
        1e-9 * steep,
        1e12 + 100 * steep,
        1e18 + 1e9 * steep,
        np.where(steep < 0.5, np.nan, steep),
        np.full(60, 1_234_567_890.0),
        0.1 + 1.4e-17 * (np.arange(60) % 2),
        np.zeros(60),
    ):
        frame = pd.DataFrame({"a": values}, index=pd.date_range("2026-01-01", periods=60, freq="min"))
        axes = series_axes(figure_data(frame, ["a"]))
        axes.figure.canvas.draw()
        texts = [text.get_text() for text in axes.get_yticklabels()]
        assert len(set(texts)) == len(texts)
        assert axes.yaxis.get_major_formatter().get_offset() == ""
        pyplot.close(axes.figure)


def test_the_ends_of_the_calendar_are_drawn() -> None:
    from matplotlib import pyplot

    for ends in (("0001-01-01", "9999-12-31"), ("0001-01-01", "2026-01-01"), ("9999-12-31",)):
        times = pd.DatetimeIndex(np.array(ends, "datetime64[us]"), name="created")
        frame = pd.DataFrame({"celsius": np.arange(len(ends), dtype="float64")}, index=times)
        assert Chart(frame, ["celsius"]).png().startswith(b"\x89PNG")
        axes = series_axes(figure_data(frame, ["celsius"]))
        axes.figure.canvas.draw()
        least, most = axes.get_xlim()
        assert least <= axes.convert_xunits(times[0]) <= axes.convert_xunits(times[-1]) <= most
        pyplot.close(axes.figure)


#: What eyes without long, middle or short cones see of linear red, green and blue (Machado et al. 2009).
_EYES = {
    "all cones": np.eye(3),
    "no long": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no middle": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "no short": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}


def test_no_two_colours_look_alike() -> None:
    parts = np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in PALETTE]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
    oklab = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
    for eyes, seen_by in _EYES.items():
        seen = np.cbrt(np.clip(linear @ seen_by.T, 0, 1) @ cones.T) @ oklab.T
        distance = np.linalg.norm(seen[:, None] - seen[None], axis=-1) + np.eye(len(seen))
        assert distance.min() > (0.13 if eyes == "all cones" else 0.07), "a person just notices 0.03"
