"""All five widgets, alike: by hand, by keyboard, in both themes, on a narrow page, with errors, and to their end.

The history and the handwriting explorer have files of their own for mouse and keyboard.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab_page import RunningLab, keep_picture, run_all, set_theme
from tests.browser.widget_page import (
    ask_kernel,
    click,
    drag,
    focus,
    focus_first,
    layout_faults,
    pale_words,
    slider_of,
    stops,
    tab_to,
    unexplained,
    use_every_control,
)
from tests.mail_server import eventually

Fresh = Callable[[str], Locator]

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
CODE = {
    "history-explorer": 'toolkit.HistoryExplorer(tk, things=["seattle"], time="date", fields=["temp_max"])',
    "live-dweets": 'toolkit.LiveDweets(tk, "roof", ["temp_max", "temp_min"], time="date")',
    "handwriting-explorer": 'toolkit.HandwritingExplorer(tk, text="Dear Ada,\\nthe engine works.")',
    "rewards-explorer": "toolkit.RewardsExplorer(tk.rewards, configuration=tk.operator.reward_configuration())",
    "identity-walkthrough": "toolkit.IdentityWalkthrough(tk)",
}
NAMES = list(CODE)
#: What has a widget ask its gateway. LiveDweets does that by itself.
ASKS = {
    "history-explorer": "Reload",
    "handwriting-explorer": "Again",
    "rewards-explorer": "Show a test reward",
    "identity-walkthrough": "1 Start",
}
_ARRIVE = "tk.dweets.post_frame('roof', weather, progress=False); shown.wait(400)"


# What each says, without an endpoint.
_UNANSWERED = re.compile(
    r"^⚠ No answer from http://[\d.:]+: [^/]+`\. (Trying again may help|LiveDweets is reconnecting)\.$"
)


def says(widget: Locator, words: str | re.Pattern[str]) -> None:
    expect(widget.locator("[role=status], [role=alert]").first).to_contain_text(words)


def button(widget: Locator, words: str) -> Locator:
    # Not by its role's name: that begins with the icon.
    return widget.locator("button", has_text=re.compile(f"^{words}$"))


def handle(widget: Locator, label: str) -> Locator:
    return slider_of(widget, label).locator(".noUi-handle").first


def moved(widget: Locator, label: str, across: float) -> None:
    drag(handle(widget, label), slider_of(widget, label).locator(".noUi-base"), across)


@pytest.fixture(scope="module")
def family(lab: RunningLab, page_of_module: Page) -> Page:
    shown = {name: f"shown = {code}\n{_ARRIVE if name == 'live-dweets' else ''}\nshown" for name, code in CODE.items()}
    assert run_all(page_of_module, lab, lab.write_notebook("family.ipynb", (_SETUP, *shown.values()))) == []
    return page_of_module


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


def expect_ready(widget: Locator) -> None:
    expect(widget.locator("[role=status]").first).not_to_contain_text(re.compile(r"\.\.\.$"))


@pytest.fixture
def fresh(family: Page) -> Fresh:
    def run(name: str) -> Locator:
        cell = family.locator(".jp-CodeCell").nth(NAMES.index(name) + 1)
        before = cell.locator(".toolkit-widget").element_handle()
        run_cell(family, NAMES.index(name) + 1)
        family.wait_for_function("before => !before.isConnected", arg=before)
        widget = cell.locator(".toolkit-widget")
        expect_ready(widget)
        return widget

    return run


@pytest.mark.parametrize("name", NAMES)
def test_tab_visits_all_controls_with_visible_focus(name: str, family: Page) -> None:
    widget = shown(family, name)
    expect_ready(widget)
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


def test_live_dweets_by_mouse(fresh: Fresh) -> None:
    widget = fresh("live-dweets")
    says(widget, "Listening to roof")
    widget.get_by_text("400 dweets").wait_for()
    click(button(widget, "Pause"))
    ask_kernel(widget.page, "len(tk.dweets.post('roof', {'temp_max': 1}))")
    expect(button(widget, "Pause")).to_have_class(re.compile("mod-active"))
    widget.get_by_text("400 dweets").wait_for()
    click(button(widget, "Pause"))
    widget.get_by_text("401 dweets").wait_for()
    click(button(widget, "Stop"))
    says(widget, "Stopped after 401 dweets.")
    click(button(widget, "Start"))
    says(widget, "Listening to roof")
    click(widget.get_by_role("checkbox", name="temp_min"))
    expect(widget.locator(".toolkit-chart-plots[aria-label*='temp_min']")).to_have_count(0)


def test_live_dweets_by_keyboard(fresh: Fresh) -> None:
    widget = fresh("live-dweets")
    focus_first(widget)
    keys = widget.page.keyboard
    widget.get_by_text("400 dweets").wait_for()
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
    widget.get_by_role("checkbox", name="cellar", checked=True).wait_for()


def test_rewards_explorer_by_mouse(fresh: Fresh) -> None:
    widget = fresh("rewards-explorer")
    says(widget, re.compile(r"^[45],\d{3} moments: \d+ rewards for"))
    moved(widget, "Minutes between two rewards", 0.9)
    # What the mouse passed first is said too, and a value that is still on its way would come after the reset.
    says(widget, re.compile(r"\d+ → \d+ rewards \(-\d+ %\)"))
    widget.get_by_text("Not for finished_5k_run and opened_app: set separately.").wait_for()
    click(button(widget, "Reset"))
    says(widget, re.compile(r"^[45],\d{3} moments: \d+ rewards for"))
    click(button(widget, "Show a test reward"))
    frame = widget.frame_locator("iframe[sandbox='allow-scripts']")
    frame.get_by_role("heading", name="[TEST]").wait_for()
    frame.get_by_role("button", name="Claim").click()
    expect(frame.get_by_role("button", name="Claimed")).to_be_disabled()


def test_rewards_explorer_by_keyboard(fresh: Fresh) -> None:
    widget = fresh("rewards-explorer")
    focus_first(widget)
    keys = widget.page.keyboard
    tab_to(widget, "Rewards for a device in 24 hours")
    keys.press("Home")
    says(widget, "→ 0 rewards")
    tab_to(widget, "Test groups by")
    keys.press("End")
    expect(widget.get_by_label("Test groups by")).to_have_value("moment")
    tab_to(widget, "Explain")
    keys.press("Home")
    expect(widget.get_by_role("region", name="Trace of the decision")).to_contain_text("refused")
    focus_first(widget)
    tab_to(widget, "Show a test reward")
    keys.press("Enter")
    says(widget, "a test, counted nowhere")


def test_identity_walkthrough_by_mouse(fresh: Fresh) -> None:
    widget = fresh("identity-walkthrough")
    for step, told in (("1 Start", "Start: a TargetUrl"), ("2 Open TargetUrl", "Open"), ("3 Finish", "Finish: a code")):
        click(button(widget, step))
        says(widget, told)
    widget.get_by_text("the code is valid for").wait_for()
    click(widget.get_by_role("option", name="2 final fingerprint").last)
    expect(widget.get_by_role("region", name="Response: HTTP 200")).to_contain_text('"vfp": "Secret(sha256:')
    click(button(widget, "Try it"))
    says(widget, "refused.")
    widget.get_by_role("listbox", name="Attack").wait_for()
    click(button(widget, "Advance"))
    says(widget, re.compile(r"^It is 09:.* The code is valid for 2\d\d s"))
    click(button(widget, "Reset phone"))
    says(widget, "The operator reset the phone: the code is revoked.")
    widget.get_by_role("img", name="State diagram, the flow is revoked").wait_for()
    click(button(widget, "Begin again"))
    says(widget, "Choose a phone and start.")
    widget.get_by_text("no code yet").wait_for()


def test_identity_walkthrough_by_keyboard(fresh: Fresh) -> None:
    widget = fresh("identity-walkthrough")
    focus_first(widget)
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


def test_all_steps_and_attacks_of_an_identity_flow(fresh: Fresh) -> None:
    widget = fresh("identity-walkthrough")
    for step in ("1 Start", "2 Open TargetUrl", "3 Finish", "4 Eligibility", "5 Payment list", "6 Details"):
        click(button(widget, step))
    widget.get_by_text("Details: 411111******1111").wait_for()
    widget.get_by_role("img", name="State diagram, the flow is unlocked").wait_for()
    expect(widget.get_by_role("option", name=re.compile("^[1-6] "))).to_have_count(15)
    attacks = widget.get_by_label("Attack", exact=True).and_(widget.page.locator("select"))
    titles = [text.replace("\xa0", " ") for text in attacks.locator("option").all_inner_texts()]
    assert len(titles) == 10
    for place, title in enumerate(titles):
        attacks.select_option(index=place)
        button(widget, "Try it").click()
        attack, rule = re.fullmatch(r"(.*) \((S[0-9]+)\)", title).groups()
        widget.get_by_text(f"{attack}: refused.").wait_for()
        widget.get_by_text(f"Refused by rule {rule}").wait_for()


def test_widgets_are_readable_in_both_themes_and_narrow(family: Page) -> None:
    page = family
    widgets = {name: shown(page, name) for name in NAMES}
    for step in ("1 Start", "2 Open TargetUrl", "3 Finish", "Try it"):
        click(button(widgets["identity-walkthrough"], step))
    says(widgets["identity-walkthrough"], "refused.")
    page.wait_for_function("document.getAnimations().every(one => one.animationName !== 'toolkit-part-appears')")
    for theme in ("light", "dark"):
        set_theme(page, dark=theme == "dark")
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
    page.set_viewport_size({"width": 1200, "height": 900})


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_control_works(name: str, fresh: Fresh) -> None:
    assert use_every_control(fresh(name)) == []


def test_an_error_is_shown_as_a_sentence(family: Page) -> None:
    page = family
    # LiveDweets is made after its gateway has ended.
    before, after = (
        [CODE[name].replace("(tk", "(far") for name in NAMES if (name in ASKS) is asks] for asks in (True, False)
    )
    page.evaluate("window.jupyterapp.commands.execute('notebook:insert-cell-below')")
    source = f"""lost = toolkit.Gateway.demo(); far = toolkit.connect(lost)
far.dweets.post_frame('seattle', weather, progress=False)
broken = [{", ".join(before)}]; lost.close()
display(*broken, {", ".join(after)})"""
    page.evaluate(
        "source => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource(source)", source
    )
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-cell')")
    cell = page.locator(".jp-CodeCell.jp-mod-active")
    widgets = cell.locator(".toolkit-widget")
    expect(widgets).to_have_count(len(NAMES))
    for place, words in enumerate(ASKS.values()):
        click(button(widgets.nth(place), words))
    for widget in widgets.all():
        expect(widget.get_by_role("alert")).to_have_text(_UNANSWERED)
    expect(page.locator(".jp-OutputArea-output").filter(has_text="Traceback")).to_have_count(0)
    for kind in ("error", "stderr"):
        expect(page.locator(f".jp-OutputArea-output[data-mime-type*={kind}]")).to_have_count(0)
    page.evaluate("window.jupyterapp.commands.execute('notebook:delete-cell')")  # or it reconnects until the end


def test_no_thread_outlives_its_cell(family: Page) -> None:
    run_cell(family, NAMES.index("live-dweets") + 1)
    family.get_by_text("Listening to roof.").wait_for()
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
