"""The reward page in Chromium: hidden until shown, counted once, and its texts are never markup."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import BrowserContext, Frame, Page, expect

import toolkit
from tests.conftest import operator_of
from toolkit import Gateway

EVIL = "<img src=x onerror=\"document.title='ran'\">"
SETTINGS = {
    "partners": [{"gatewaykey": "partner-key-of-acme", "company_token": "acme", "apps": ["app"]}],
    "rules": {"default": {"p": 1}, "rewards": [{"id": "drink", "title": EVIL, "message": "Cheers & enjoy"}]},
}


class Shop:
    """A gateway with one reward, and the page of it."""

    def __init__(self, gateway: Gateway, tk: toolkit.Connection, tab: Page) -> None:
        self.gateway = gateway
        self.tab = tab
        device = tk.rewards.new_device_id("acme")
        tk.rewards.start_session(device)
        self.url = str(tk.rewards.moment(device, "run")["body_url"].iloc[0])

    def counted(self) -> list[str]:
        decision = operator_of(self.gateway).decisions().iloc[0]
        return [name for name in ("shown", "claimed", "dismissed") if pd.notna(decision[f"{name}_at"])]

    def until(self, action: Callable[[], Any], event: str) -> None:
        """Do something, and wait until the gateway has answered the beacon that it causes."""
        with self.tab.expect_response(lambda response: f"/{event}?" in response.url) as answered:
            action()
        assert answered.value.status == 204


@pytest.fixture
def shop(chromium: BrowserContext) -> Iterator[Shop]:
    tab = chromium.new_page()
    with (
        Gateway(config={"rewards": SETTINGS}) as gateway,
        toolkit.connect(gateway, credentials={"gatewaykey": "partner-key-of-acme", "app_key": "app"}) as tk,
    ):
        yield Shop(gateway, tk, tab)
        tab.close()


def test_hidden_reward_counts_nothing_until_it_is_shown(shop: Shop) -> None:
    shop.tab.goto(shop.url)
    expect(shop.tab.locator("#unit")).to_be_hidden()
    assert shop.counted() == []
    shop.until(lambda: shop.tab.evaluate("location.hash = '#show'"), "shown")
    shop.tab.locator("#unit").wait_for()
    assert shop.counted() == ["shown"]


def test_a_claim_counts_once_after_a_reload(shop: Shop) -> None:
    tab = shop.tab
    shop.until(lambda: tab.goto(f"{shop.url}#show"), "shown")
    shop.until(lambda: tab.get_by_role("button", name="Claim").click(), "claimed")
    expect(tab.locator("#claim")).to_have_text("Claimed")
    first = operator_of(shop.gateway).decisions().iloc[0]
    shop.until(lambda: tab.reload(), "shown")
    expect(tab.locator("#claim")).to_have_text("Claimed")
    expect(tab.locator("#claim")).to_be_disabled()
    assert shop.counted() == ["shown", "claimed"]
    again, times = operator_of(shop.gateway).decisions().iloc[0], ["shown_at", "claimed_at"]
    assert again[times].equals(first[times])


def test_shown_reward_is_visible_and_its_title_stays_text(shop: Shop) -> None:
    shop.until(lambda: shop.tab.goto(f"{shop.url}#show"), "shown")
    shop.tab.locator("#unit").wait_for()
    expect(shop.tab.locator("h1")).to_have_text(EVIL)
    assert shop.tab.locator("img").count() == 0
    assert shop.tab.title() == EVIL


def test_reward_closes_by_keyboard(shop: Shop) -> None:
    shop.until(lambda: shop.tab.goto(f"{shop.url}#show"), "shown")
    expect(shop.tab.locator("#claim")).to_be_focused()
    shop.until(lambda: shop.tab.keyboard.press("Escape"), "dismissed")
    expect(shop.tab.locator("#unit")).to_be_hidden()
    assert shop.counted() == ["shown", "dismissed"]


def in_a_sandboxed_frame(shop: Shop, address: str) -> Frame:
    shop.tab.set_content(
        "<script>window.heard = []; addEventListener('message', (event) => heard.push(event.data));</script>"
        f'<iframe sandbox="allow-scripts" src="{html.escape(address)}" width="500" height="400"></iframe>'
    )
    shop.tab.wait_for_function("heard.length > 0")
    frame = shop.tab.frames[-1]
    assert frame.evaluate("origin") == "null"
    return frame


def test_show_message_reveals_a_sandboxed_reward(shop: Shop) -> None:
    frame = in_a_sandboxed_frame(shop, f"{shop.url}&frame_id=f7")
    expect(frame.locator("#unit")).to_be_hidden()
    shop.until(lambda: shop.tab.evaluate("frames[0].postMessage('show', '*')"), "shown")
    frame.locator("#unit").wait_for()
    shop.until(lambda: frame.locator("#claim").click(), "claimed")
    shop.until(lambda: frame.locator("#close").click(), "dismissed")
    shop.tab.wait_for_function("heard.length > 1")
    assert shop.tab.evaluate("heard") == ["ready|f7", "destroy|f7"]
    assert shop.counted() == ["shown", "claimed", "dismissed"]


def test_an_expired_reward_cannot_be_claimed(shop: Shop) -> None:
    tab = shop.tab
    shop.until(lambda: tab.goto(f"{shop.url}#show"), "shown")
    tab.route("**/claimed?*", lambda route: route.fulfill(status=410))
    tab.get_by_role("button", name="Claim").click()
    expect(tab.locator("#claim")).to_have_text("Try again")
    assert shop.counted() == ["shown"]
