"""All five widgets, alike: by hand, by keyboard, in both themes, on a narrow page, with errors, and to their end.

By mouse and keyboard in Notebook 7, all else in JupyterLab; with ``--long`` in both, and every control of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab_page import RunningLab, keep_picture, open_notebook, run_opened, set_theme
from tests.browser.widget_page import (
    ask_kernel,
    click,
    drag,
    focus,
    focus_first,
    layout_faults,
    pale_words,
    point,
    slider_of,
    stops,
    tab_to,
    unexplained,
    use_every_control,
)
from tests.mail_server import eventually

_SETUP = """
import threading
import pandas as pd
import toolkit
gateway = toolkit.Gateway.demo()
tk = toolkit.connect(gateway)
weather = pd.read_csv("data/seattle_weather_daily_2012_2015.csv", parse_dates=["date"], index_col="date").head(400)
tk.dweets.post_frame("seattle", weather, progress=False)
tk.handwriting.png("the renderers are awake", "Molly")
"""
_THREADS = "sorted(thread.name for thread in threading.enumerate() if 'dweets' in thread.name)"


class Case(NamedTuple):
    """A widget: the code of its cell, and what a person does with it and sees then."""

    code: str
    by_mouse: Callable[[Locator], None]
    by_keyboard: Callable[[Locator], None]
    goes_wrong: Callable[[Locator], None]
    afterwards: str = ""


def says(widget: Locator, words: str | re.Pattern[str]) -> None:
    expect(widget.locator("[role=status], [role=alert]").first).to_contain_text(words)


def button(widget: Locator, words: str) -> Locator:
    # Not by its role's name: that begins with the icon.
    return widget.locator("button", has_text=re.compile(f"^{words}$"))


def handle(widget: Locator, label: str) -> Locator:
    return slider_of(widget, label).locator(".noUi-handle").first


def moved(widget: Locator, label: str, across: float) -> None:
    drag(handle(widget, label), slider_of(widget, label).locator(".noUi-base"), across)


# -- HistoryExplorer --------------------------------------------------------------------------------------


def history_by_mouse(widget: Locator) -> None:
    says(widget, "400 rows")
    click(widget.get_by_label("wind", exact=True))
    expect(widget.get_by_role("cell", name="wind", exact=True)).to_be_visible()
    over = widget.locator(".toolkit-chart .u-over").first
    mouse = widget.page.mouse
    mouse.move(*point(over, 0.5))
    expect(widget.locator(".toolkit-chart-tip")).to_contain_text("wind")
    mouse.down()
    mouse.move(*point(over, 0.999), steps=4)
    mouse.up()
    start = widget.get_by_label("From", exact=True)
    expect(start).to_have_value(re.compile(r"^2012-0\d-\d\d"))
    says(widget, re.compile(r"^(19|20)\d rows"))
    mouse.dblclick(*point(over, 0.5))
    expect(start).to_have_value("")
    says(widget, "400 rows")
    for kind in ("PNG", "CSV", "SVG"):
        with widget.page.expect_download() as download:
            click(widget.get_by_role("button", name=kind, exact=True))
        assert download.value.suggested_filename == f"history.{kind.lower()}"
        if kind != "PNG":
            text = download.value.path().read_text("utf-8")
            assert ("temp_max" in text, "wind" in text) == (True, True)


def history_by_keyboard(widget: Locator) -> None:
    keys = widget.page.keyboard
    keys.press("ArrowRight")
    expect(widget.locator(".toolkit-chart-tip")).to_contain_text("temp_max")
    tab_to(widget, "wind")
    keys.press("Space")
    expect(widget.get_by_role("cell", name="wind", exact=True)).to_be_visible()
    tab_to(widget, "Resample")
    keys.press("End")
    says(widget, "2 rows")
    tab_to(widget, "Reload")
    for _ in range(2):  # while it loads it is disabled, and the focus must not get lost by that
        keys.press("Enter")
        says(widget, "2 rows")
    focus_first(widget)
    tab_to(widget, "From")
    keys.type("2013")
    keys.press("Enter")
    says(widget, "1 row")


def history_goes_wrong(widget: Locator) -> None:
    click(button(widget, "Reload"))


# -- LiveDweets -------------------------------------------------------------------------------------------


def live_by_mouse(widget: Locator) -> None:
    says(widget, "Listening to roof")
    expect(widget.get_by_text("400 dweets")).to_be_visible()
    click(button(widget, "Pause"))
    ask_kernel(widget.page, "len(tk.dweets.post('roof', {'temp_max': 1}))")
    expect(button(widget, "Pause")).to_have_class(re.compile("mod-active"))
    expect(widget.get_by_text("400 dweets")).to_be_visible()
    click(button(widget, "Pause"))
    expect(widget.get_by_text("401 dweets")).to_be_visible()
    click(button(widget, "Stop"))
    says(widget, "Stopped after 401 dweets.")
    click(button(widget, "Start"))
    says(widget, "Listening to roof")
    click(widget.get_by_role("checkbox", name="temp_min"))
    expect(widget.locator(".toolkit-chart-plots[aria-label*='temp_min']")).to_have_count(0)


def live_by_keyboard(widget: Locator) -> None:
    keys = widget.page.keyboard
    expect(widget.get_by_text("400 dweets")).to_be_visible()
    tab_to(widget, "Pause")
    keys.press("Space")
    expect(button(widget, "Pause")).to_have_class(re.compile("mod-active"))
    tab_to(widget, "Stop")
    keys.press("Enter")
    says(widget, "Stopped after")
    tab_to(widget, "Show the last")
    keys.press("Home")
    expect(widget.get_by_label("Show the last")).to_have_value("100")
    tab_to(widget, "Add")
    keys.type("cellar")
    keys.press("Enter")
    expect(widget.get_by_label("cellar")).to_be_checked()


def live_goes_wrong(widget: Locator) -> None:
    pass  # made after its gateway had ended, it has nobody to listen to


# -- HandwritingExplorer ----------------------------------------------------------------------------------


def handwriting_by_mouse(widget: Locator) -> None:
    moved(widget, "Line spacing", 0.8)
    expect(widget.get_by_text(re.compile(r"line_spacing=[34]\.\d+"))).to_be_visible()
    card = widget.locator(".toolkit-wall-card").first
    title = card.locator("b").inner_text()
    click(card)
    says(widget, title)
    click(button(widget, "Again"))
    expect(widget.get_by_text("random_seed=1,")).to_have_count(0)
    with widget.page.expect_download() as download:
        click(button(widget, "Download"))
    assert download.value.suggested_filename == f"{title.lower()}.pdf"


def handwriting_by_keyboard(widget: Locator) -> None:
    keys = widget.page.keyboard
    tab_to(widget, "Line spacing")
    keys.press("ArrowRight")
    expect(widget.get_by_text("line_spacing=1.75")).to_be_visible()
    focus_first(widget)
    tab_to(widget, "Compare")
    keys.press("Space")
    expect(widget.get_by_alt_text("The earlier writing")).to_be_visible()


def handwriting_goes_wrong(widget: Locator) -> None:
    click(button(widget, "Again"))


# -- RewardsExplorer --------------------------------------------------------------------------------------


def rewards_by_mouse(widget: Locator) -> None:
    says(widget, re.compile(r"^[45],\d{3} moments: \d+ rewards for"))
    moved(widget, "Minutes between two rewards", 0.9)
    # What the mouse passed first is said too, and a value that is still on its way would come after the reset.
    says(widget, re.compile(r"\d+ → \d+ rewards \(-\d+ %\)"))
    expect(widget.get_by_text("Not for finished_5k_run and opened_app: set separately.")).to_be_visible()
    click(button(widget, "Reset"))
    says(widget, re.compile(r"^[45],\d{3} moments: \d+ rewards for"))
    click(button(widget, "Show a test reward"))
    frame = widget.frame_locator("iframe[sandbox='allow-scripts']")
    expect(frame.get_by_role("heading", name="[TEST]")).to_be_visible()
    frame.get_by_role("button", name="Claim").click()
    expect(frame.get_by_role("button", name="Claimed")).to_be_disabled()


def rewards_by_keyboard(widget: Locator) -> None:
    keys = widget.page.keyboard
    tab_to(widget, "Rewards for a device in 24 hours")
    keys.press("Home")
    says(widget, "→ 0 rewards")
    tab_to(widget, "Test groups by")
    keys.press("End")
    expect(widget.get_by_label("Test groups by")).to_have_value("moment")
    focus_first(widget)
    tab_to(widget, "Show a test reward")
    keys.press("Enter")
    says(widget, "a test, counted nowhere")


def rewards_goes_wrong(widget: Locator) -> None:
    click(button(widget, "Show a test reward"))


# -- IdentityWalkthrough ----------------------------------------------------------------------------------


def identity_by_mouse(widget: Locator) -> None:
    for step, told in (("1 Start", "Start: a TargetUrl"), ("2 Open TargetUrl", "Open"), ("3 Finish", "Finish: a code")):
        click(button(widget, step))
        says(widget, told)
    expect(widget.get_by_text("the code is valid for")).to_be_visible()
    click(widget.get_by_role("option", name="2 final fingerprint").last)
    expect(widget.get_by_role("region", name="Response: HTTP 200")).to_contain_text('"vfp": "Secret(sha256:')
    click(button(widget, "Try it"))
    says(widget, "refused.")
    expect(widget.get_by_role("listbox", name="Attack")).to_be_visible()
    click(button(widget, "Advance"))
    says(widget, re.compile(r"^It is 09:.* The code is valid for 2\d\d s"))
    click(button(widget, "Begin again"))
    says(widget, "Choose a phone and start.")
    expect(widget.get_by_text("no code yet")).to_be_visible()


def identity_by_keyboard(widget: Locator) -> None:
    keys = widget.page.keyboard
    keys.press("ArrowDown")
    expect(widget.get_by_label("Phone")).not_to_have_value(re.compile("^happy"))
    for step, told in (("1 Start", "Start: a TargetUrl"), ("2 Open TargetUrl", "Open")):
        expect(button(widget, step)).to_be_enabled()
        tab_to(widget, step)
        keys.press("Enter")
        says(widget, told)
    tab_to(widget, "final fingerprint")
    for key, request in (("Home", "1 authenticateByRedirect"), ("ArrowDown", "1 auth"), ("End", "2 deviceAuth")):
        keys.press(key)
        expect(widget.locator(".toolkit-exchange")).to_contain_text(request)
    focus_first(widget)
    tab_to(widget, "Attack")
    keys.press("End")
    tab_to(widget, "Try it")
    for _ in range(2):
        keys.press("Space")
        says(widget, "refused.")


def identity_goes_wrong(widget: Locator) -> None:
    click(button(widget, "1 Start"))


CASES = {
    "history-explorer": Case(
        'toolkit.HistoryExplorer(tk, things=["seattle"], time="date", fields=["temp_max"])',
        history_by_mouse,
        history_by_keyboard,
        history_goes_wrong,
    ),
    "live-dweets": Case(
        'toolkit.LiveDweets(tk, "roof", ["temp_max", "temp_min"], time="date")',
        live_by_mouse,
        live_by_keyboard,
        live_goes_wrong,
        "tk.dweets.post_frame('roof', weather, progress=False); shown.wait(400)",
    ),
    "handwriting-explorer": Case(
        'toolkit.HandwritingExplorer(tk, text="Dear Ada,\\nthe engine works.")',
        handwriting_by_mouse,
        handwriting_by_keyboard,
        handwriting_goes_wrong,
    ),
    "rewards-explorer": Case(
        "toolkit.RewardsExplorer(tk.rewards, configuration=tk.operator.reward_configuration())",
        rewards_by_mouse,
        rewards_by_keyboard,
        rewards_goes_wrong,
    ),
    "identity-walkthrough": Case(
        "toolkit.IdentityWalkthrough(tk)", identity_by_mouse, identity_by_keyboard, identity_goes_wrong
    ),
}
NAMES = list(CASES)
_IN_LAB, _IN_NOTEBOOK = "lab/tree", "notebooks"
only_in_lab = pytest.mark.parametrize("family", [_IN_LAB], indirect=True, scope="module")


def usually_in(interface: str) -> pytest.MarkDecorator:
    """Run a test in JupyterLab or in Notebook 7, and in the other one with ``--long``."""
    other = _IN_NOTEBOOK if interface == _IN_LAB else _IN_LAB
    return pytest.mark.parametrize(
        "family", [interface, pytest.param(other, marks=pytest.mark.long)], indirect=True, scope="module"
    )


@pytest.fixture(scope="module")
def family(request: pytest.FixtureRequest, lab: RunningLab, page_of_module: Page) -> Page:
    page = page_of_module
    cells = (_SETUP, *(f"shown = {case.code}\n{case.afterwards}\nshown" for case in CASES.values()))
    open_notebook(page, lab, lab.write_notebook("family.ipynb", cells), request.param)
    assert run_opened(page) == []
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    return page


def run_cell(page: Page, number: int) -> None:
    page.evaluate(
        """async number => {
          window.jupyterapp.shell.currentWidget.content.activeCellIndex = number;
          await window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        number,
    )


def shown(page: Page, name: str) -> Locator:
    return page.locator(".jp-CodeCell").nth(NAMES.index(name) + 1).locator(".toolkit-widget")


@pytest.fixture
def fresh(family: Page) -> Callable[[str], Locator]:
    def run(name: str) -> Locator:
        cell = family.locator(".jp-CodeCell").nth(NAMES.index(name) + 1)
        before = cell.locator(".toolkit-widget").element_handle()
        run_cell(family, NAMES.index(name) + 1)
        family.wait_for_function("before => !before.isConnected", arg=before)
        widget = cell.locator(".toolkit-widget")
        expect(widget.locator("[role=status]").first).not_to_contain_text(re.compile(r"\.\.\.$"))
        return widget

    return run


#: The history and the handwriting explorer have files of tests by mouse and keyboard, in JupyterLab.
usually_the_others = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in ("history-explorer", "handwriting-explorer") else [])
     for name in NAMES],
)  # fmt: skip


@usually_in(_IN_NOTEBOOK)
@usually_the_others
def test_every_widget_by_mouse(name: str, fresh: Callable[[str], Locator]) -> None:
    CASES[name].by_mouse(fresh(name))


@usually_in(_IN_NOTEBOOK)
@usually_the_others
def test_every_widget_by_keyboard(name: str, fresh: Callable[[str], Locator]) -> None:
    widget = fresh(name)
    focus_first(widget)
    CASES[name].by_keyboard(widget)


@usually_in(_IN_LAB)
@pytest.mark.parametrize("name", NAMES)
def test_tab_visits_all_controls_with_visible_focus(name: str, family: Page) -> None:
    widget = shown(family, name)
    everything = stops(widget)
    assert everything >= 3
    focus_first(widget)
    reached = []
    for _ in range(everything):
        reached.append(focus(widget))
        widget.page.keyboard.press("Tab")
    assert [each["place"] for each in reached] == list(range(everything)), reached
    assert all(each["seen"] for each in reached), reached
    # The first was not reached with a key, so that its ring need not show.
    assert [each["told"] for each in reached[1:] if each["ring"] < 1] == []
    assert focus(widget)["place"] == -1, "one gets out again"


@only_in_lab
def test_widgets_are_readable_in_both_themes_and_narrow(family: Page, fresh: Callable[[str], Locator]) -> None:
    page = family
    widgets = {name: shown(page, name) for name in NAMES}
    for step in ("1 Start", "2 Open TargetUrl", "3 Finish", "Try it"):
        click(button(widgets["identity-walkthrough"], step))
    says(widgets["identity-walkthrough"], "refused.")
    page.wait_for_function("document.getAnimations().every(one => one.animationName !== 'toolkit-part-appears')")
    for theme in ("light", "dark"):
        set_theme(page, dark=theme == "dark")
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        for name, widget in widgets.items():
            assert layout_faults(widget) == [], name
            assert pale_words(widget) == [], (name, theme)
            assert unexplained(widget) == [], name
            keep_picture(page, f"{name}-{theme}", of=widget)
    set_theme(page, dark=False)
    page.set_viewport_size({"width": 800, "height": 900})
    page.wait_for_function("document.querySelector('.jp-Notebook').clientWidth < 600")
    for name, widget in widgets.items():
        assert layout_faults(widget) == [], name
        keep_picture(page, f"{name}-narrow", of=widget)
    page.set_viewport_size({"width": 1200, "height": 900})


@pytest.mark.long
@only_in_lab
@pytest.mark.parametrize("name", NAMES)
def test_every_control_works(name: str, fresh: Callable[[str], Locator]) -> None:
    assert use_every_control(fresh(name)) == []


@only_in_lab
def test_an_error_is_shown_as_a_sentence(family: Page) -> None:
    page = family
    made = ", ".join(case.code.replace("(tk", "(far") for case in CASES.values() if "LiveDweets" not in case.code)
    live = CASES["live-dweets"].code.replace("(tk", "(far")
    page.evaluate("window.jupyterapp.commands.execute('notebook:insert-cell-below')")
    last = "lost = toolkit.Gateway.demo(); far = toolkit.connect(lost); "
    last += "far.dweets.post_frame('seattle', weather, progress=False)\n"
    last += f"broken = [{made}]; lost.close()\nbroken.insert(1, {live})\ndisplay(*broken)"
    page.evaluate(
        "source => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource(source)", last
    )
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-cell')")
    cell = page.locator(".jp-CodeCell.jp-mod-active")
    expect(cell.locator(".toolkit-widget")).to_have_count(len(CASES))
    for place, name in enumerate(NAMES):
        widget = cell.locator(".toolkit-widget").nth(place)
        CASES[name].goes_wrong(widget)
        expect(widget.get_by_role("alert")).to_have_text(re.compile(r"^⚠ .* Trying again may help\.$"))
    expect(page.locator(".jp-OutputArea-output").filter(has_text="Traceback")).to_have_count(0)
    expect(page.locator(".jp-OutputArea-output[data-mime-type*=error]")).to_have_count(0)
    expect(page.locator(".jp-OutputArea-output[data-mime-type*=stderr]")).to_have_count(0)


@only_in_lab
def test_no_thread_outlives_its_cell(family: Page) -> None:
    run_cell(family, NAMES.index("live-dweets") + 1)
    expect(family.get_by_text("Listening to roof.")).to_be_visible()
    # A page that shows it anew starts a timer for a moment.
    eventually(lambda: ask_kernel(family, _THREADS) == "['live-dweets-drawer', 'live-dweets-reader']")
    for _ in NAMES:
        family.evaluate(
            """async () => {
              window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
              await window.jupyterapp.commands.execute('notebook:delete-cell');
            }"""
        )
    family.wait_for_function(
        """async ([expression, none]) => {
          const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
          const asked = {code: '', user_expressions: {it: expression}, store_history: false};
          return (await kernel.requestExecute(asked).done).content.user_expressions.it.data['text/plain'] === none;
        }""",
        arg=[_THREADS, "[]"],
        polling=300,
    )
