"""The follow page of a thing in Chromium: it draws new dweets, reconnects, and asks for the key of a locked thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

import toolkit
from tests.browser.lab_page import keep_picture
from tests.browser.test_landing_page import EVIL, WIDE, assert_theme
from tests.conftest import operator_of
from tests.ports import free_port
from toolkit_gateway import Gateway

_COUNT_VIOLATIONS = (
    "window.violations = []; addEventListener('securitypolicyviolation', e => violations.push(e.blockedURI))"
)
Follow = Callable[[Gateway, str], Page]


@pytest.fixture
def follow(chromium: BrowserContext, foreign_requests: list[str]) -> Iterator[Follow]:
    """Open the page of a thing; at the end it may have asked only this machine, and have broken no policy."""
    tab = chromium.new_page()
    tab.add_init_script(_COUNT_VIOLATIONS)
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))

    def opened(gateway: Gateway, path: str) -> Page:
        tab.goto(f"{gateway.base_url}/follow/{path}")
        return tab

    yield opened
    assert (tab.evaluate("window.violations"), errors) == ([], [])
    tab.close()
    assert foreign_requests == []


def status(tab: Page) -> Locator:
    return tab.get_by_role("status")


def chart(tab: Page, summary: str) -> Locator:
    return tab.locator(f".toolkit-chart-plots[aria-label*='{summary}']")


def test_posted_dweets_appear_on_the_open_page(tk: toolkit.Connection, gateway: Gateway, follow: Follow) -> None:
    tab = follow(gateway, "kitchen")
    expect(status(tab)).to_have_text("Nothing yet: waiting for the first dweet")
    expect(status(tab)).to_have_attribute("data-state", "")
    for celsius in (20, 21.5):
        tk.dweets.post("kitchen", {"celsius": celsius, "air": {"on": True}, "window": "open"})
    expect(status(tab)).to_have_text("Live")
    tab.get_by_text("2 dweets, the last at").wait_for()
    chart(tab, "celsius: from 20 to 21.5, last 21.5").wait_for()
    chart(tab, "air.on: last true").wait_for()
    expect(tab.get_by_role("definition")).to_have_text(["open"])
    tk.dweets.post_frame("kitchen", pd.DataFrame({"celsius": range(600)}), progress=False)
    tab.get_by_text("602 dweets, the last at").wait_for()
    tab.reload()
    tab.get_by_text("500 dweets, the last at").wait_for()
    chart(tab, "celsius: from 100 to 599, last 599").wait_for()


def test_page_reconnects_after_a_gateway_restart(tmp_path: Path, follow: Follow) -> None:
    port = free_port()
    with Gateway(tmp_path, port=port) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post("kitchen", {"celsius": 1})
        tab = follow(gateway, "kitchen")
        tab.get_by_text("1 dweet, the last at").wait_for()
    expect(status(tab)).to_have_text("The connection is lost, reconnecting ...")
    with Gateway(tmp_path, port=port) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post("kitchen", {"celsius": 2})
        expect(status(tab)).to_have_text("Live")
        tab.get_by_text("2 dweets, the last at").wait_for()
        chart(tab, "celsius: from 1 to 2, last 2").wait_for()


def test_a_silence_is_a_gap_and_is_said(follow: Follow) -> None:
    with Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        for celsius in (20, 21, 22):
            tk.dweets.post("kitchen", {"celsius": celsius})
        tk.operator.advance(9)
        tk.dweets.post("kitchen", {"celsius": 23})
        tab = follow(gateway, "kitchen")
        chart(tab, "celsius: from 20 to 23, last 23").wait_for()
        box = tab.locator(".toolkit-chart .u-over").bounding_box()
        assert box is not None
        tab.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 20)
        expect(tab.locator(".toolkit-chart-tip")).to_contain_text("gap")
        tk.dweets.post("kitchen", {"celsius": 24})
        expect(status(tab)).to_have_text("Live")
        expect(status(tab)).to_have_text("Connected, but nothing comes")
        tab.get_by_text(re.compile(r"5 dweets, the last at .* UTC, \d+ s ago · 0 / s")).wait_for()


def test_a_hidden_page_ends_its_stream_and_resumes(tk: toolkit.Connection, gateway: Gateway, follow: Follow) -> None:
    tk.dweets.post("kitchen", {"celsius": 1})
    tab = follow(gateway, "kitchen")
    tab.get_by_text("1 dweet, the last at").wait_for()
    show = """hidden => {
      Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with tab.expect_event("requestfailed", lambda request: "since=0" in request.url):
        tab.evaluate(show, True)
    tk.dweets.post("kitchen", {"celsius": 2})
    with tab.expect_request("**/listen/for/dweets/from/kitchen?key=&since=1"):
        tab.evaluate(show, False)
    tab.get_by_text("2 dweets, the last at").wait_for()
    expect(status(tab)).to_have_text("Live")


def test_a_locked_thing_needs_its_key(tk: toolkit.Connection, gateway: Gateway, follow: Follow) -> None:
    tk.dweets.post("vault", {"code": 1234})
    tab = follow(gateway, "vault")
    chart(tab, "last 1,234").wait_for()
    lock = operator_of(gateway).issue_lock()
    tk.dweets.lock("vault", lock=lock.lock, key=lock.master_key)
    expect(status(tab)).to_have_text("This thing is locked and requires a key")
    before = tab.evaluate("[location.href, history.length]")
    expect(tab.get_by_label("Read key or master key")).to_be_focused()
    tab.keyboard.type("wrong")
    tab.keyboard.press("Enter")
    expect(status(tab)).to_have_text("The key you provided doesn't work with this thing")
    tab.keyboard.type(lock.read_key.reveal())
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    expect(status(tab)).to_have_text("Live")
    expect(tab.get_by_label("Read key or master key")).to_be_hidden()
    tk.dweets.post("vault", {"code": 4321}, key=lock.master_key)
    chart(tab, "code: from 1,234 to 4,321").wait_for()
    assert tab.evaluate("[location.href, history.length]") == before
    assert lock.read_key.reveal() not in tab.content()
    assert tab.evaluate("Object.keys(localStorage).concat(Object.keys(sessionStorage))") == []
    tab.reload()
    expect(status(tab)).to_have_text("This thing is locked and requires a key")
    keep_picture(tab, "follow-locked", tab.locator("main"))


def test_hostile_fields_stay_text_and_long_ones_fit(tk: toolkit.Connection, gateway: Gateway, follow: Follow) -> None:
    many = {f"n{number}": number for number in range(250)}
    tk.dweets.post(
        EVIL,
        {EVIL: EVIL, WIDE: 1e-9, "constructor": 2, f"{EVIL} n": 1234567890, "deep": {"list": list(range(300))}, **many},
    )
    tab = follow(gateway, "%3Cimg%20src=http:%2F%2Fevil.example%2Fx%20onerror=%22document.title=%27ran%27%22%3E")
    expect(tab.get_by_role("heading", level=1)).to_have_text(EVIL)
    expect(tab.get_by_role("definition").first).to_have_text(EVIL)
    chart(tab, "last 1,234,567,890").wait_for()
    chart(tab, "constructor: from 2 to 2").wait_for()
    tab.get_by_text("only the first 200 are shown").wait_for()
    assert tab.locator(".toolkit-chart").count() == 24
    assert tab.locator("img").count() == 0
    assert tab.title() == f"{EVIL}: live"


def test_page_follows_the_theme_and_fits_400_pixels(tk: toolkit.Connection, gateway: Gateway, follow: Follow) -> None:
    tk.dweets.post(WIDE, {WIDE: WIDE, "celsius": 20.5, "open": True, f"{WIDE} n": 1e-9})
    tk.dweets.post(WIDE, {"celsius": 1234567890.5})
    tab = follow(gateway, WIDE)
    tab.set_viewport_size({"width": 400, "height": 800})
    chart(tab, "celsius: from 20.5 to 1,234,567,891").wait_for()
    for theme in ("dark", "light"):
        assert_theme(tab, theme)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        keep_picture(tab, f"follow-400px-{theme}", tab.locator("main"))


def test_the_keyboard_reaches_links_and_charts(tk: toolkit.Connection, gateway: Gateway, follow: Follow) -> None:
    tk.dweets.post("kitchen", {"celsius": 20})
    tab = follow(gateway, "kitchen")
    chart(tab, "last 20").wait_for()
    reached = []
    for _ in range(6):
        tab.keyboard.press("Tab")
        reached.append(
            tab.evaluate("document.activeElement.textContent.slice(0, 30) || document.activeElement.className")
        )
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached[:2] == ["All public things", "The last 500 dweets as JSON"]
    assert {"PNG", "CSV"} <= set(reached)
    chart(tab, "last 20").focus()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator(".toolkit-chart-tip")).to_contain_text("celsius20")
    with tab.expect_navigation(url=f"{gateway.base_url}/"):
        tab.get_by_role("link", name="All public things").press("Enter")
    with tab.expect_navigation(url="**/follow/kitchen"):
        tab.get_by_role("link", name="kitchen").press("Enter")
