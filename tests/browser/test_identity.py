"""The walkthrough in a real browser: every button, every attack, by mouse and by keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import RunCells
from tests.browser.lab_page import ARTEFACTS

CELL = """import toolkit
from toolkit.identity.widget import IdentityWalkthrough
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
    attacks = page.get_by_label("Attack")
    titles = [text.replace("\xa0", " ") for text in attacks.locator("option").all_inner_texts()]
    assert len(titles) == 10
    for place, title in enumerate(titles):
        attacks.select_option(index=place)
        page.get_by_role("button", name="Try it").click()
        rule = re.search(r"\((S[0-9]+)\)", title)[1]
        expect(page.get_by_text(f"{title.split(' (')[0]}: refused.")).to_be_visible()
        expect(page.get_by_text(f"Refused by rule {rule}")).to_be_visible()


def test_it_can_be_read_in_the_light_and_in_the_dark(run_cells: RunCells) -> None:
    page = run_cells(
        CELL.replace("\nIdentity", "\nshown = Identity") + "\nshown.run_all(); shown.try_attack('link preview')\nshown"
    )
    diagram = page.get_by_role("img", name="State diagram, the flow is unlocked")
    ARTEFACTS.mkdir(exist_ok=True)
    light = diagram.evaluate("image => getComputedStyle(image).color")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_function(f"document.body.dataset.jpThemeName === {theme!r}")
        expect(diagram).to_be_visible()
        expect(page.locator(".jp-LabShell-splash, #jupyterlab-splash")).to_have_count(0)
        if theme.endswith("Dark"):
            expect(diagram, "the drawing follows the theme").not_to_have_css("color", light)
        page.locator(".jp-OutputArea").first.screenshot(path=ARTEFACTS / f"identity-{theme.split()[1].lower()}.png")
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
