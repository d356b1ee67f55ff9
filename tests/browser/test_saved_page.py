"""Saved charts and explorers in a browser, from disk and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import BrowserContext, Page, expect

import toolkit
from tests.browser.widget_page import point

HOSTILE = "<img src=http://127.0.0.1:9/ onerror=alert(1)>"


@pytest.fixture
def page(chromium: BrowserContext) -> Iterator[Page]:
    page = chromium.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    yield page
    page.close()


def test_a_saved_explorer_zooms_and_filters_without_a_network(page: Page, tmp_path: Path) -> None:
    times = pd.date_range("2026-01-01", periods=300, freq="h", name="created", tz="UTC")
    frame = pd.DataFrame({"celsius": np.arange(300.0), "mode": ["auto", "off"] * 150}, index=times)
    frame = pd.concat([frame.assign(thing=name) for name in ("roof", HOSTILE)])
    toolkit.HistoryExplorer(frame, fields=["celsius", "mode"], unit="°C").save(tmp_path / "week.html")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "week.html").as_uri())
    expect(page.locator(".toolkit-chart-legend button")).to_have_text(["roof", HOSTILE])
    place = page.get_by_role("status")
    expect(place).to_have_text("1–50 of 600")
    page.mouse.move(*point(page.locator(".u-over").first, 0.5))
    expect(page.locator(".toolkit-chart-tip")).to_contain_text("roof celsius149 °C")
    page.locator(".toolkit-chart-plots").focus()
    page.keyboard.press("+")
    expect(place).to_have_text("1–50 of 300")
    page.get_by_role("button", name="roof").click()
    expect(place).to_have_text("1–50 of 150")
    page.get_by_label("Filter").fill("celsius >= 200")
    expect(place).to_have_text("1–25 of 25")
    page.get_by_role("button", name="celsius").click()
    page.get_by_role("button", name="celsius ▲").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text(f"{HOSTILE}224")
    page.get_by_label("Filter").fill("OFF")
    expect(place).to_have_text("1–50 of 75")
    assert requests == [(tmp_path / "week.html").as_uri()]
