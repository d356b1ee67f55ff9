"""RewardsExplorer in JupyterLab: by keyboard, in both themes, and with a live reward page."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import RunCells
from tests.browser.lab_page import keep_picture, set_theme

_EXPLORER = """
import toolkit
gateway = toolkit.Gateway.demo()
tk = toolkit.connect(gateway)
explorer = toolkit.RewardsExplorer(tk.rewards, configuration=gateway.reward_configuration)
explorer
"""


def test_a_slider_moves_by_keyboard_and_a_reward_is_shown(run_cells: RunCells) -> None:
    page = run_cells(_EXPLORER)
    status = page.get_by_role("status").last
    button = page.get_by_role("button", name="Show a test reward")
    expect(status).to_contain_text("moments of")
    before = status.inner_text()
    handle = page.locator(".widget-slider .noUi-handle").first
    handle.focus()
    handle.press("PageUp")
    expect(status).not_to_have_text(before)
    expect(status).to_contain_text("moments of")
    expect(button).to_be_enabled()
    button.focus()
    page.keyboard.press("Enter")
    frame = page.frame_locator("iframe[sandbox='allow-scripts']")
    expect(frame.get_by_role("heading", name="[TEST]")).to_be_visible()
    frame.get_by_role("button", name="Claim").click()
    expect(frame.get_by_role("button", name="Claimed")).to_be_disabled()
    page.locator(".jp-WindowedPanel-outer").evaluate("panel => panel.scrollTo(0, 0)")
    keep_picture(page, "rewards-explorer-light")
    set_theme(page, dark=True)
    keep_picture(page, "rewards-explorer-dark")
