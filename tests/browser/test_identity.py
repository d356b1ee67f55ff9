"""The identity walkthrough in Chromium: every step and every attack. Its look is in ``test_widget_family``."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import RunCells

CELL = """import toolkit
from toolkit.identity.widgets.identity_walkthrough import IdentityWalkthrough
gateway = toolkit.Gateway.demo()
IdentityWalkthrough(toolkit.connect(gateway))"""
STEPS = ("1 Start", "2 Open TargetUrl", "3 Finish", "4 Eligibility", "5 Payment list", "6 Details")


def test_every_step_and_every_attack_can_be_clicked(run_cells: RunCells) -> None:
    page = run_cells(CELL)
    for number, label in enumerate(STEPS):
        button = page.get_by_role("button", name=label)
        if number % 2:  # every other one by keyboard
            button.focus()
            page.keyboard.press("Enter")
        else:
            button.click()
        if number + 1 < len(STEPS):
            expect(page.get_by_role("button", name=STEPS[number + 1])).to_be_enabled()
    expect(page.get_by_text("Details: 411111******1111")).to_be_visible()
    expect(page.get_by_role("img", name="State diagram, the flow is unlocked")).to_be_visible()
    expect(page.get_by_role("option", name=re.compile("^[1-6] "))).to_have_count(15)
    attacks = page.get_by_label("Attack", exact=True).and_(page.locator("select"))
    titles = [text.replace("\xa0", " ") for text in attacks.locator("option").all_inner_texts()]
    assert len(titles) == 10
    for place, title in enumerate(titles):
        attacks.select_option(index=place)
        page.get_by_role("button", name="Try it").click()
        rule = re.search(r"\((S[0-9]+)\)", title)[1]
        expect(page.get_by_text(f"{title.split(' (')[0]}: refused.")).to_be_visible()
        expect(page.get_by_text(f"Refused by rule {rule}")).to_be_visible()
