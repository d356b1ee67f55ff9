"""The chart on a plain page, by mouse and keyboard. In JupyterLab: ``test_history_explorer``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.lab_page import ARTEFACTS
from tests.browser.widget_page import settled_box
from toolkit.charts.assets import chart_module, chart_styles
from toolkit.charts.look import LOOK, PALETTE, tick_labels

_T0 = 1767225600  # 2026-01-01 UTC
_INKS = {"light": 0x22, "dark": 0xEE}

_CASES = """
delete Map.groupBy;  // as before Firefox 119 and Safari 17.4
const T0 = 1767225600, N = (n, f) => Float64Array.from({length: n}, (_, i) => f(i));
const times = (n, step = 60) => N(n, i => T0 + i * step);
const cases = {
  counter: [{name: "counter", x: times(200), y: N(200, i => 1234567890 + Math.floor(i / 20))}],
  magnitudes: [1e-9, 1, 1e12].map(size =>
    ({name: `at ${size}`, x: times(200), y: N(200, i => size * (i % 17))})),
  forty: Array.from({length: 40}, (_, k) => "warehouse-north-sensor-no-" + String(k).padStart(4, "0")).map((thing, k) =>
    ({thing, field: "celsius", unit: "°C", x: times(500), y: N(500, i => k + Math.sin(i / 30 + k))})),
  million: [{name: "volts", unit: "V", x: times(1e6, 1), y: N(1e6, i => i === 345678 ? 99 : Math.sin(i / 1e5))}],
  mixed: [
    {name: "open", kind: "boolean", x: times(60), y: N(60, i => Number(i % 13 < 5))},
    {name: "mode", kind: "text", states: ["auto", "=off"], x: times(60), y: N(60, i => Number(i > 30))},
    {name: "celsius", unit: "°C", x: times(60), y: N(60, i => 20 + i / 10)}],
  missing: [{name: "celsius", x: times(60), y: N(60, i => i % 10 < 3 || i == 25 ? NaN : i)}],
  one: [{name: "celsius", x: times(1), y: N(1, () => 21.5)}],
  none: [],
  years: [{name: "celsius", x: N(600, i => T0 + (i < 300 ? i : i + 130) * 86400), y: N(600, i => Math.sin(i / 58)),
    rings: {x: N(1, () => T0 + 100 * 86400), y: N(1, () => 0.98), expected: N(1, () => 0.5), score: N(1, () => 9)}}],
  fleet: ["roof", "cellar", "garden"].flatMap(thing => ["a", "b", "c", "d", "e", "f"].map(field =>
    ({thing, field, x: times(200), y: N(200, i => Math.sin(i / 9))}))),
};
const marks = {years: {gaps: [["", T0 + 299 * 86400, T0 + 430 * 86400]]}, none: {empty: "waiting for dweets of roof"}};
window.charts = {}; window.ranges = [];
for (const [name, lines] of Object.entries(cases)) {
  const element = document.createElement("section");
  element.id = name;
  document.body.append(element);
  charts[name] = createChart(element, {timeName: "created", fileName: name, onRange: range => ranges.push(range)});
  charts[name].setData(lines, marks[name]);
}
window.tickLabels = tickLabels;
window.onNewChart = async (lines, use, options) => {
  const element = document.createElement("section");
  document.body.append(element);
  const chart = createChart(element, options);
  chart.setData(lines);
  await Promise.resolve(); // uPlot draws in a microtask
  const found = await use(chart);
  chart.destroy();
  return [found, element.childElementCount];
};
"""


@pytest.fixture(scope="module")
def plain_page(chromium: BrowserContext) -> Iterator[Page]:
    page = chromium.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    styles = f"{chart_styles()} body {{ font-family: sans-serif; background: #fff; color: #222; }}"
    page.set_content(
        f"<!doctype html><style>{styles}</style><body><script type=module>{chart_module()}{_CASES}</script>"
    )
    page.wait_for_function("window.charts?.years")
    yield page
    page.close()


@pytest.fixture
def page(plain_page: Page) -> Iterator[Page]:
    yield plain_page
    plain_page.mouse.move(0, 0)
    plain_page.evaluate("ranges.length = 0; for (const chart of Object.values(charts)) chart.setRange(null)")


def over(page: Page, name: str, across: float, down: float = 0.5) -> tuple[float, float]:
    """Return the point at these shares of a chart's first panel."""
    left, top, width, height = settled_box(page.locator(f"#{name} .u-over").first)
    return left + across * width, top + down * height


def shown(page: Page, name: str) -> list[float] | None:
    found: list[float] | None = page.evaluate("name => charts[name].range", name)
    return found


def saved(page: Page, name: str, kind: str) -> Path:
    with page.expect_download() as download:
        page.locator(f"#{name}").get_by_role("button", name=kind, exact=True).click()
    assert download.value.suggested_filename == f"{name}.{kind.lower()}"
    return Path(download.value.path())


def test_pointer_shows_values_and_time(page: Page) -> None:
    page.mouse.move(*over(page, "mixed", 0.51))
    tip = page.locator("#mixed .toolkit-chart-tip")
    expect(tip).to_contain_text("2026-01-01 00:30:00 UTC")
    assert tip.locator(".toolkit-chart-tip-row").all_inner_texts() == ["open\ntrue", "mode\nauto", "celsius\n23 °C"]
    page.mouse.move(*over(page, "forty", 0.5))
    tip_of_many = page.locator("#forty .toolkit-chart-tip")
    expect(tip_of_many).to_contain_text(re.compile(r"and \d+ more$"))
    _, _, *covered = settled_box(tip_of_many)
    _, _, *whole = settled_box(page.locator("#forty .toolkit-chart"))
    assert 3 * covered[0] * covered[1] <= whole[0] * whole[1]
    page.mouse.move(*over(page, "years", 100 / 729))
    expect(page.locator("#years .toolkit-chart-tip")).to_contain_text("outlier, usual is 0.5")
    page.mouse.move(*over(page, "years", 350 / 729))
    expect(page.locator("#years .toolkit-chart-tip")).to_contain_text("gap131 d")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()


def test_drag_zooms_and_double_click_shows_everything(page: Page) -> None:
    page.mouse.move(*over(page, "counter", 0.25))
    page.mouse.down()
    page.mouse.move(*over(page, "counter", 0.75), steps=4)
    page.mouse.up()
    start, end = shown(page, "counter") or (0, 0)
    assert start == pytest.approx(_T0 + 0.25 * 199 * 60, abs=60)
    assert end == pytest.approx(_T0 + 0.75 * 199 * 60, abs=60)
    page.keyboard.down("Shift")
    page.mouse.move(*over(page, "counter", 0.5))
    page.mouse.down()
    page.mouse.move(*over(page, "counter", 0.7), steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert (shown(page, "counter") or [0])[0] == pytest.approx(start - 0.2 * (end - start), abs=60)
    before = shown(page, "counter")
    page.mouse.wheel(0, 40)
    page.wait_for_function("before => charts.counter.range[0] > before", arg=(before or [0])[0])
    page.mouse.dblclick(*over(page, "counter", 0.5))
    assert shown(page, "counter") is None
    assert page.evaluate("ranges.at(-1)") is None
    assert page.evaluate("ranges.length") >= 4


def test_the_keyboard_reads_zooms_and_pans(page: Page) -> None:
    plots = page.locator("#mixed .toolkit-chart-plots")
    plots.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#mixed .toolkit-chart-said")).to_have_text(
        "2026-01-01 00:02:00 UTC: open true, mode auto, celsius 20.2 °C"
    )
    page.keyboard.press("+")
    start, end = shown(page, "mixed") or (0, 0)
    assert end - start == pytest.approx(59 * 60 / 2, rel=0.1)
    page.keyboard.press("Shift+ArrowRight")
    assert (shown(page, "mixed") or [0])[0] > start
    page.keyboard.press("Escape")
    expect(page.locator("#mixed .toolkit-chart-tip")).to_be_hidden()
    page.keyboard.press("Home")
    assert shown(page, "mixed") is None
    expect(plots).to_have_attribute("aria-label", "Chart over created (UTC) from 2026-01-01 00:00:00 to "
        "2026-01-01 00:59:00. open: last false. mode: last =off. celsius in °C: from 20 to 25.9, last 25.9. "
        "Arrow keys read the values.")  # fmt: skip


def test_the_legend_hides_things(page: Page) -> None:
    legend = page.locator("#forty .toolkit-chart-legend")
    first = legend.get_by_role("button").first
    distinct = len(PALETTE) * len(LOOK["dashes"])
    expect(legend.get_by_role("button").last).to_have_text(f"and {40 - distinct} more")
    assert legend.get_by_role("button").count() == distinct + 1
    first.click()
    expect(first).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("charts.forty.visibleLines().length") == 39
    first.click(modifiers=["Shift"])
    assert legend.locator("[aria-pressed=true]").all_inner_texts() == ["warehouse-north-sensor-no-0000"]
    expect(page.locator("#counter .toolkit-chart-legend")).to_be_hidden()


def test_three_things_and_six_fields_are_readable(page: Page) -> None:
    fleet = page.locator("#fleet")
    assert fleet.locator(".toolkit-chart-legend button").all_inner_texts() == ["roof", "cellar", "garden"]
    panels = page.evaluate("""() => charts.fleet.panels.map(({ plot, element }) => [
      plot.over.clientHeight, plot.axes[1]._values.length, plot.series.slice(1).map(one => one.stroke())])""")
    assert len(panels) == 6
    for height, ticks, colours in panels:
        assert height >= LOOK["panelPixels"] - 20
        assert 2 <= ticks <= 5
        assert colours == list(PALETTE[:3])
    kept = page.evaluate("""() => {
      const chart = charts.fleet, before = chart.panels.slice(1);
      chart.setData(chart.lines.filter(line => line.field !== "a" && line.thing !== "x").map(line => ({...line})));
      return [chart.panels.map((panel, place) => panel === before[place]), chart.style("garden").colour];
    }""")
    assert kept == [[True] * 5, PALETTE[2]]
    page.set_viewport_size({"width": 1200, "height": 500})
    assert fleet.evaluate("one => one.offsetHeight <= 500"), "its plots scroll"
    page.set_viewport_size({"width": 1200, "height": 900})


def test_a_chart_is_larger_on_the_whole_screen(page: Page) -> None:
    page.locator("#counter").get_by_role("button", name="Larger").click()
    page.wait_for_function("charts.counter.panels[0].plot.height > 600")
    page.locator("#counter").get_by_role("button", name="Smaller").click()
    page.wait_for_function("charts.counter.panels[0].plot.height < 400")


def test_a_million_points_answer_the_pointer(page: Page) -> None:
    assert page.evaluate("charts.million.lines[0].x.length") == 1_000_000
    assert page.evaluate("charts.million.panels[0].plot.data[1].length") <= 4_000
    high = "[...charts.million.panels[0].dense.values()][0].high"
    assert page.evaluate(f"Math.max(...{high})") == 99, "no spike is lost"
    assert page.evaluate("charts.million.panels[0].plot.scales.y.max") > 99
    page.evaluate("charts.million.setRange([T, T + 100])".replace("T", str(_T0 + 345_600)))
    assert page.evaluate("charts.million.panels[0].plot.data[0].length") == pytest.approx(103, abs=2)
    page.mouse.move(*over(page, "million", 0.78))
    expect(page.locator("#million .toolkit-chart-tip")).to_contain_text("volts99 V")


def on_new_chart(page: Page, lines: str, use: str, options: str = "{}") -> Any:
    """Return what a function says of a chart that exists for it only; all three are JavaScript."""
    found, left = page.evaluate(f"onNewChart({lines}, {use}, {options})")
    assert left == 0, "nothing is left of a destroyed chart"
    return found


def test_a_missing_value_interrupts_a_line_beside_others(page: Page) -> None:
    lines = """[{thing: "seldom", x: [0, 10, 15, 20, 30], y: [11, 12, NaN, 12, 11]},
        {thing: "often", x: [...Array(31).keys()], y: [...Array(31).keys()]}]"""
    values = "chart => chart.panels[0].plot.data[1].map(value => value === undefined ? 'absent' : value)"
    drawn = on_new_chart(page, lines, values)
    assert drawn[11:20] == [None] * 9
    assert (drawn[10], drawn[20]) == (12, 12)


def labels_and_summary(page: Page, times: list[int], options: str = "{}") -> tuple[list[str], str]:
    told = "chart => [chart.panels[0].plot.axes[0]._values, chart.summary()]"
    labels, said = on_new_chart(page, f"[{{name: 'celsius', x: {times}, y: {times}}}]", told, options)
    return labels, said


def test_times_are_shown_in_the_zone_that_is_named(page: Page) -> None:
    times = [_T0 + 180 * 86400, _T0 + 181 * 86400]
    _, said = labels_and_summary(page, times, "{zone: 'Europe/Berlin', timeName: 'measured'}")
    assert said.startswith("Chart over measured (Europe/Berlin) from 2026-06-30 02:00:00 to 2026-07-01 02:00:00.")


def test_times_in_an_hour_skipped_by_summer_time(page: Page) -> None:
    """In Berlin, 02:30 does not exist on 29 March 2026, but it does in UTC."""
    developer = page.context.new_cdp_session(page)
    developer.send("Emulation.setTimezoneOverride", {"timezoneId": "Europe/Berlin"})
    start = 1774742400  # 2026-03-29 00:00 UTC
    labels, said = labels_and_summary(page, [start + 1800 * number for number in range(6)])
    developer.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
    assert {"01:00", "02:00"} <= set(labels)
    assert "03:00" not in labels
    assert "from 2026-03-29 00:00:00 to 2026-03-29 02:30:00." in said


def test_times_of_thousands_of_years_are_labelled(page: Page) -> None:
    labels, said = labels_and_summary(page, [-62135596800, _T0])  # a device without a clock often says year 1
    assert labels == ["0254", "0760", "1266", "1772"]
    assert "from 0001-01-01 to 2026-01-01." in said


def test_panels_stay_aligned_after_a_zoom(page: Page) -> None:
    lines = """["a", "b"].map((name, place) => ({name, x: [...Array(100).keys()].map(i => 60 * i),
        y: [...Array(100).keys()].map(i => 60 * i * 1e6 ** place)}))"""
    lefts = on_new_chart(page, lines, """async chart => {
      const lefts = [];
      for (const range of [null, [0, 600]]) { // from 2e9 to 200,000,000: wider labels
        chart.setRange(range);
        await new Promise(resolve => setTimeout(resolve));
        lefts.push(...chart.panels.map(panel => panel.plot.bbox.left / devicePixelRatio));
      }
      return lefts;
    }""")  # fmt: skip
    assert lefts[0] == lefts[1] < lefts[2] == lefts[3]


def test_axis_labels_differ_and_fit(page: Page) -> None:
    panels = page.evaluate("""() => Object.values(charts).flatMap(chart => chart.panels.map(panel => ({
      kind: panel.kind, width: panel.plot.bbox.left / devicePixelRatio, need: panel.axisWidth,
      labels: panel.plot.axes[1]._values }))).filter(panel => panel.kind === "number" && panel.labels)""")
    assert len(panels) >= 8
    for panel in panels:
        assert len(set(panel["labels"])) == len(panel["labels"]) >= 2, panel
        assert panel["width"] >= panel["need"], panel
    assert any(label.startswith("1,234,567,89") for panel in panels for label in panel["labels"])


TICKS: list[list[Any]] = [
    [1234567890, 1234567892], [0, 2.5e-10, 5e-10], [-4, -2, 0], [0.6, 0.8, 1.0], [1e6 + 0.25, 1e6 + 0.5], [5],
]  # fmt: skip


def test_browser_and_kernel_use_equal_labels(page: Page) -> None:
    for ticks in TICKS:
        texts = [text.replace("e-0", "e-") for text in tick_labels(ticks)]
        assert page.evaluate("ticks => tickLabels(ticks)", ticks) == texts


def test_each_download_is_the_right_file(page: Page) -> None:
    rows = saved(page, "mixed", "CSV").read_text("utf-8").splitlines()
    assert rows[0] == "created,open,mode,celsius"
    assert rows[32] == "2026-01-01T00:31:00Z,false,'=off,23.1"
    assert len(rows) == 61
    assert len(saved(page, "missing", "CSV").read_text("utf-8").splitlines()) == 1 + 41, "no row without a value"
    page.evaluate("charts.missing.setRange([T, T + 300])".replace("T", str(_T0)))
    assert saved(page, "missing", "CSV").read_text("utf-8").splitlines()[-1] == "2026-01-01T00:05:00Z,5"
    assert saved(page, "forty", "PNG").read_bytes().startswith(b"\x89PNG")


def test_new_points_are_painted_at_most_15_times_a_second(page: Page) -> None:
    kept, paints = on_new_chart(page, "[{name: 'open', kind: 'boolean'}]", """async chart => {
      let paints = 0;
      chart.append([0], [true]);
      const paint = chart.paint.bind(chart);
      chart.paint = () => { paints += 1; paint(); };
      for (let i = 1; i <= 500; i++) chart.append([i], [i % 2 > 0], 100);
      const [{x, y}] = chart.lines, kept = [x.length, x[0], y[0], y[1]];
      while (chart.panels[0].plot?.data[0].length !== 100) await new Promise(requestAnimationFrame);
      return [kept, paints];
    }""")  # fmt: skip
    assert kept == [100, 401, 1, 0]
    assert paints <= 4


def test_a_chart_in_a_box_has_no_scroll_bar(page: Page) -> None:
    heights = page.evaluate("""() => {
      const box = document.querySelector("#counter");
      box.style.overflow = "auto"; // as the output of a cell has it
      const found = [box.scrollHeight, box.clientHeight];
      box.style.overflow = "";
      return found;
    }""")
    assert heights[0] == heights[1]


def test_every_chart_is_drawn_in_both_themes(page: Page) -> None:
    empty = page.locator("#none .toolkit-chart-empty")
    expect(empty).to_have_text("waiting for dweets of roof")
    for theme in ("light", "dark"):
        page.evaluate(
            """theme => Object.assign(document.body.style,
          theme === "dark" ? {background: "#111", color: "#eee"} : {background: "#fff", color: "#222"})""",
            theme,
        )
        page.wait_for_function("grey => charts.counter.inkParts[0] === grey", arg=_INKS[theme])
        ink = page.evaluate("charts.counter.ink(1)")
        assert json.loads(ink.replace("rgba(", "[").replace(")", "]"))[0] == _INKS[theme]
        ARTEFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"charts-{theme}.png", full_page=True)
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_function("charts.counter.panels[0].plot.width < 400")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.screenshot(path=ARTEFACTS / "charts-400px.png", full_page=True)
