"""The landing page in Chromium: both themes, a narrow window, the keyboard, and no request to another host."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import toolkit
from tests.browser.lab_page import keep_picture
from toolkit_gateway import Gateway

EVIL = "<img src=http://evil.example/x onerror=\"document.title='ran'\">"
WIDE = "a-name-without-any-place-to-break-" * 7
LUMINANCE = """(name) => {
  const [r, g, b] = getComputedStyle(document.body)[name].match(/[0-9.]+/g).map(Number);
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}"""
OVERFLOWING = """() => [...document.querySelectorAll("main *")]
  .filter((one) => one.getBoundingClientRect().right > 400).map((one) => one.outerHTML)"""
_RUN_INLINE = """() => new Promise((resolve) => {
  document.addEventListener("securitypolicyviolation", (event) => resolve(event.violatedDirective));
  const script = document.createElement("script");
  script.textContent = "window.ran = true";
  document.body.append(script);
})"""


@pytest.fixture
def tab(chromium: BrowserContext, foreign_requests: list[str], gateway: Gateway) -> Iterator[Page]:
    """The landing page of a gateway with hostile things; no request may have left this machine."""
    with toolkit.connect(gateway) as tk:
        tk.dweets.post(EVIL, {EVIL: EVIL})
        tk.dweets.post(WIDE, {WIDE: WIDE, "deep": {"list": list(range(100))}})
        tk.dweets.post("kitchen", {"celsius": 21.5, "window": "open", "air": {"humidity": 48}})
    tab = chromium.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(gateway.base_url)
    assert complaints == [], "the policy forbids nothing that the page needs"
    yield tab
    tab.close()
    assert foreign_requests == []


def assert_theme(tab: Page, theme: str) -> None:
    tab.emulate_media(color_scheme=theme)
    paper, ink = (tab.evaluate(LUMINANCE, name) for name in ("backgroundColor", "color"))
    assert (paper < 0.2, ink > 0.8) == (theme == "dark", theme == "dark")
    assert abs(paper - ink) > 0.6


def test_page_follows_the_theme_and_fits_400_pixels(tab: Page) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    for theme in ("light", "dark"):
        assert_theme(tab, theme)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        assert tab.evaluate(OVERFLOWING) == []
        keep_picture(tab, f"landing-{theme}", tab.locator("main"))


def test_hostile_names_stay_text_and_scripts_are_blocked(tab: Page) -> None:
    expect(tab.get_by_role("heading", level=3)).to_have_text(["kitchen", f"{WIDE[:80]}…", EVIL])
    assert tab.locator("img, main script").count() == 0
    assert tab.title() == "Gateway: public things"
    assert tab.evaluate(_RUN_INLINE).startswith("script-src")
    assert tab.evaluate("window.ran") is None


def test_the_keyboard_reaches_every_link(tab: Page) -> None:
    names = []
    for _ in range(tab.get_by_role("link").count()):
        tab.keyboard.press("Tab")
        names.append(tab.evaluate("document.activeElement.textContent"))
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert names[4:7] == ["README", "Public things as JSON", "kitchen"]
    tab.get_by_role("link", name="kitchen").focus()
    with tab.expect_navigation(url="**/follow/kitchen"):
        tab.keyboard.press("Enter")


def test_the_page_is_alive(tab: Page, gateway: Gateway) -> None:
    card = tab.get_by_role("listitem").filter(has_text="kitchen")
    card.get_by_text("21.5").wait_for()
    with toolkit.connect(gateway) as tk:
        tk.dweets.post("kitchen", {"celsius": 22.75})
        tk.dweets.post("cellar", {"celsius": 9})
    card.get_by_text("22.75").wait_for()
    expect(card.locator("time")).to_have_text(re.compile("just now| s ago"))
    expect(card.locator("polyline")).to_have_attribute("points", re.compile(r"^0,.* 100,"))
    expect(tab.get_by_role("listitem").first).to_contain_text("cellar")
    tab.get_by_role("button", name="Copy").first.click()
    tab.get_by_role("button", name="Copied").wait_for()
    assert "/dweet/for/kitchen" in tab.evaluate("getSelection().toString()")
    gateway.close()
    expect(tab.get_by_role("status")).to_have_text("The gateway does not answer: these are the last values")


def test_the_readme_opens(tab: Page) -> None:
    tab.get_by_role("link", name="README").click()
    expect(tab.locator("body")).to_contain_text("# gateway-toolkit")
