"""How fast the widgets answer, in a lab in Chromium; prints only: ``python -m tests.benchmarks.widgets``.

The first picture: from the moment in which the kernel begins with the cell. An answer: from the mouse button that goes
up to the next frame after the picture has changed.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

from tests.browser.lab_page import (
    CHROMIUM_FLAGS,
    EXPOSED,
    open_notebook,
    run_opened,
    running_lab,
    shut_down_kernels,
)
from tests.browser.widget_page import ask_kernel, click, point, settled_box, slider_of
from tests.notebook_pictures import chromium_program

_CELLS = (
    """\
import time, numpy as np, pandas as pd, toolkit
tk, began = toolkit.connect(toolkit.Gateway.demo()), []
times = pd.date_range("2026-01-01", periods=130_000, freq="min", name="time")
rows = pd.DataFrame({"celsius": 20 + np.sin(np.arange(130_000) / 300), "humidity": np.arange(130_000) % 70}, times)""",
    "began.append(time.time())\ntoolkit.HistoryExplorer(rows)",
    "began.append(time.time())\ntoolkit.HandwritingExplorer(tk)",
    "began.append(time.time())\ntoolkit.RewardsExplorer(tk.rewards, configuration=tk.operator.reward_configuration())",
    "began.append(time.time())\ntoolkit.IdentityWalkthrough(tk)",
)
# When each widget first had a picture.
_FIRST = """window.pictured = [];
setInterval(() => document.querySelectorAll('.toolkit-widget').forEach((widget, number) => {
  const has = [...widget.querySelectorAll('canvas, img, svg')]
    .some((one) => one.getBoundingClientRect().width > 100 && one.complete !== false);
  if (has) window.pictured[number] ??= Date.now() / 1000;
}), 10);"""
# A canvas is cleared before it is drawn; the other pictures are elements that are replaced.
_WATCH = """() => {
  window.at = {up: 0, drawn: 0};
  const draw = () => requestAnimationFrame(() => { at.drawn = performance.now(); });
  addEventListener('pointerup', () => { at.up = performance.now(); }, true);
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) { draw(); return clear.apply(this, box); };
  const seen = new MutationObserver(draw);
  for (const one of document.querySelectorAll('.toolkit-widget .widget-html-content, .toolkit-widget .widget-image'))
    seen.observe(one, {childList: true, subtree: true, attributes: true, attributeFilter: ['src']});
}"""
_NAMES = ("HistoryExplorer", "HandwritingExplorer", "RewardsExplorer", "IdentityWalkthrough")
_REST = 1500  # ms: whatever was asked for is drawn


def milliseconds(page: Page, act: Callable[[], None]) -> float:
    """Do it with the mouse and return how long after that the last picture came."""
    page.evaluate("at.drawn = 0")
    act()
    page.wait_for_timeout(_REST)
    last: float = page.evaluate("at.drawn - at.up")
    return max(0.0, last)


def tell(page: Page, name: str, acts: list[Callable[[], None]]) -> None:
    taken = [milliseconds(page, act) for act in acts]
    print(f"{name:46} median {statistics.median(taken):4.0f} ms, most {max(taken):4.0f} ms")


def slide(widget: Locator, label: str, share: float) -> None:
    """Drag its handle there within 0.3 s, rest as a hand does, and let go."""
    slider, mouse = slider_of(widget, label), widget.page.mouse
    x, y = point(slider.locator(".noUi-handle").first)
    left, _, width, _ = settled_box(slider.locator(".noUi-base"))
    mouse.move(x, y)
    mouse.down()
    for step in range(1, 13):
        mouse.move(x + (left + width * share - x) * step / 12, y)
        widget.page.wait_for_timeout(25)
    widget.page.wait_for_timeout(60)
    mouse.up()


def answer_times(page: Page) -> None:
    page.evaluate(_WATCH)
    widgets = page.locator(".toolkit-widget").all()
    shares = (0.3, 0.7, 0.45, 0.6, 0.2, 0.8, 0.5)
    history, handwriting, rewards, identity = widgets
    marks = [history.get_by_label(name, exact=True) for name in ("Gaps", "Outliers", "humidity")] * 3
    tell(page, "HistoryExplorer, check boxes (130,000 rows)", [lambda it=it: click(it) for it in marks])
    tell(page, "HandwritingExplorer, size slider", [lambda it=it: slide(handwriting, "Size, px", it) for it in shares])
    tell(
        page,
        "RewardsExplorer, chance slider",
        [lambda it=it: slide(rewards, "Chance of a reward", it) for it in shares],
    )
    steps = [identity.locator("button", has_text=name).first for name in ("1 Start", "2 Open", "3 Finish", "Try it")]
    tell(page, "IdentityWalkthrough, buttons", [lambda it=it: click(it) for it in steps * 2])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_lab(Path(folder), *EXPOSED) as lab, sync_playwright() as web:
        browser = web.chromium.launch(executable_path=chromium_program(), args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script(_FIRST)
        open_notebook(page, lab, lab.write_notebook("widgets.ipynb", _CELLS))
        if errors := run_opened(page):
            sys.exit(f"the cells failed: {errors}")
        started = json.loads(ask_kernel(page, "began"))
        for name, begin, end in zip(_NAMES, started, page.evaluate("pictured"), strict=True):
            print(f"{name:24} first picture after {1000 * (end - begin):5.0f} ms")
        answer_times(page)
        shut_down_kernels(page)
        browser.close()


if __name__ == "__main__":
    main()
