"""RewardsExplorer: every control by its attribute, what is drawn, and what a saved notebook shows."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

import ipywidgets
import pandas as pd
import pytest

import toolkit
from tests.conftest import operator_of
from tests.reward_caller import settings
from toolkit import Gateway, RewardsExplorer
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.explanation import sentence
from toolkit.rewards.analysis.simulation import made_up_moments, simulate

EVENTS = made_up_moments(devices=30, days=3, seed=1)


@pytest.fixture(scope="module")
def made() -> Iterator[RewardsExplorer]:
    shown = RewardsExplorer(EVENTS)
    yield shown
    shown.close()


@pytest.fixture
def explorer(made: RewardsExplorer) -> RewardsExplorer:
    """As it was made: each takes long."""
    made.reset.click()
    return made


@pytest.mark.parametrize(
    ("control", "value", "reason"),
    [
        ("p", 0.0, "DRAW"),
        ("per_device", 0, "DEVICE_CAP"),
        ("per_moment", 0, "MOMENT_CAP"),
        ("gap", 240.0, "MIN_GAP"),
        ("stock", 5, "NO_INVENTORY"),
    ],
)
def test_each_control_reruns_the_decisions(explorer: RewardsExplorer, control: str, value: float, reason: str) -> None:
    before, drawn = explorer.decisions, explorer.plots.drawing
    getattr(explorer, control).value = value
    assert (explorer.decisions["reason"] == reason).sum() > (before["reason"] == reason).sum()
    assert explorer.decisions["rewarded"].sum() < before["rewarded"].sum()
    assert texts(explorer) != texts_of(drawn)
    assert explorer.error is None
    assert f"{before['rewarded'].sum()} → {explorer.decisions['rewarded'].sum()} rewards" in explorer.status.value
    assert explorer.funnel_before["n"].iloc[1] > explorer.funnel["n"].iloc[1]
    assert ("because the stock was used up" in explorer.status.value) == (control == "stock")
    explorer.reset.click()
    assert explorer.decisions["rewarded"].sum() == before["rewarded"].sum()
    assert explorer.plots.drawing == drawn


def texts_of(drawing: dict[str, object]) -> list[str]:
    return [shape["text"] for shape in drawing["shapes"] if shape["kind"] == "text"]


def texts(explorer: RewardsExplorer) -> list[str]:
    return texts_of(explorer.plots.drawing)


def inside(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    return [widget, *(found for child in getattr(widget, "children", ()) for found in inside(child))]


def hints(widget: ipywidgets.Widget) -> str:
    pages = [part.value for part in inside(widget) if isinstance(part, ipywidgets.HTML)]
    return "".join(page for page in pages if "toolkit-hint" in page)


def test_slider_hint_names_moments_it_does_not_change(explorer: RewardsExplorer) -> None:
    arms = {"a": {"p": 0.4}, "b": {"min_gap_s": 600}}
    moments = {"run": {"p": 0.5, "arms": arms}, "walk": {"per_device_per_day": 9}, "swim": {"enabled": False}}
    shown = RewardsExplorer(EVENTS, configuration={"moments": moments})
    said = hints(shown)
    assert said.count("Not for run: set separately.") == 2  # the chance, and the time between two rewards
    assert said.count("Not for walk: set separately.") == 1
    assert "Switched off, whatever you choose: swim." in said
    assert "no test groups" not in said
    assert "No moment has test groups: this changes nothing." in hints(explorer)
    shown.close()


@pytest.mark.parametrize("p", [0.35, 0.02])
def test_both_are_drawn_on_axes_that_fit(p: float) -> None:
    explorer = RewardsExplorer(EVENTS, configuration={"default": {"p": p}})
    explorer.p.value = p + 0.02
    before, after = (table.set_index("step")["n"]["rewarded"] for table in (explorer.funnel_before, explorer.funnel))
    place = texts(explorer).index("Got a reward") + 1
    numbers = f"{before:,}", f"{after:,}", f"{100 * (after / before - 1):+.0f} %" if after != before else "–"
    assert tuple(texts(explorer)[place : place + 3]) == numbers
    bars = [shape for shape in explorer.plots.drawing["shapes"] if shape["kind"] == "box"]
    assert {bar["corner"][0] for bar in bars} == {112.0}, "one on the other"
    ticks = [int(text.removesuffix(" %")) for text in texts(explorer) if re.fullmatch(r"\d+ %", text)]
    highest = 100 * max(explorer.rates["high"].max(), explorer.rates_before["high"].max())
    assert highest <= ticks[-1] <= 2.5 * highest
    assert ticks == [ticks[-1] * quarter // 4 for quarter in range(5)]


def test_a_cap_that_refuses_most_is_named(explorer: RewardsExplorer) -> None:
    for control, value, said in [
        ("per_device", 0, "The cap of a device is"),
        ("per_moment", 0, "The cap of a device and a moment is"),
        ("p", 0.1, ""),
    ]:
        explorer.reset.click()
        getattr(explorer, control).value = value
        assert said in explorer.limit.value
        assert ("is the limit" in explorer.limit.value) == bool(said)


@pytest.mark.parametrize("events", [EVENTS, None])
def test_the_code_gives_what_is_shown(events: pd.DataFrame | None) -> None:
    moments = {"run": {"enabled": False}, "opened_app": {"p": 0.2, "arms": {"a": {"p": 0.5}}}}
    shown = RewardsExplorer(events, configuration={"moments": moments, "pacing": None})
    shown.stock.value, shown.p.value = 5_000, 0.9
    names = {"toolkit": toolkit, "events": events}
    exec(shown.code(), names)
    assert names["decisions"].equals(shown.decisions)


def test_a_funnel_never_widens(explorer: RewardsExplorer) -> None:
    seen: list[pd.DataFrame] = []
    explorer.observe(lambda change: seen.append(change["new"]), "funnel")
    for p in (0.0, 0.3, 1.0):
        before, explorer.p.value = explorer.p.value, p
        solid = [s for s in explorer.plots.drawing["shapes"] if s["kind"] == "box" and s["tone"] == "good"]
        widths = [shape["size"][0] for shape in solid]
        assert widths == sorted(widths, reverse=True)
        assert (seen[-1] is explorer.funnel) or p == before


def test_stock_is_distributed_as_before() -> None:
    items = [{"id": name, "title": name, "stock": stock} for name, stock in (("a", 30), ("b", 10), ("c", 0))]
    shown = RewardsExplorer(EVENTS, configuration={"rewards": items})
    shown.stock.value = 9
    assert [item.stock for item in shown.configuration.rewards] == [7, 2, 0]
    shown = RewardsExplorer(EVENTS, configuration={"rewards": []})
    shown.stock.value = 5
    assert shown.error is None
    assert shown.configuration.rewards == ()
    assert not shown.decisions["rewarded"].any()


def test_arms_by_moment_or_device() -> None:
    arms = {"opened_app": {"arms": {"A": {}, "B": {"p": 0.9}}}}
    shown = RewardsExplorer(EVENTS, configuration={"moments": arms})

    def arms_of_a_device() -> int:
        return int(shown.decisions.dropna(subset=["arm"]).groupby("device")["arm"].nunique().max())

    assert arms_of_a_device() == 1
    shown.arms_by.value = "moment"
    assert arms_of_a_device() == 2


def test_events_without_sessions_make_a_funnel_of_devices() -> None:
    shown = RewardsExplorer(EVENTS.drop(columns="session_id"))
    assert list(shown.funnel["step"]) == ["moment", "rewarded", "shown", "claimed"]
    assert shown.funnel["n"].iloc[0] == EVENTS["device"].nunique()
    assert texts(shown)[0].startswith("Devices: ")
    assert "Used the app" in texts(shown)
    assert shown.picture().startswith(b"\x89PNG")


def test_one_decision_is_explained(explorer: RewardsExplorer) -> None:
    reasons = [reason for _, reason in explorer.why.options]
    assert set(reasons) == set(explorer.decisions["reason"])
    for reason in reasons:
        explorer.why.value = reason
        assert sentence(explorer.decisions[explorer.decisions["reason"] == reason].head(1)).split(",")[
            0
        ] in explorer.explanation.value.replace("&#x27;", "'")
    assert not [name for name, _ in explorer.why.options if "_" in name], "words, not names of the code"
    explorer.why.value = "DRAW"
    assert "✗ refused" in explorer.explanation.value
    explorer.p.value = 1.0
    assert explorer.why.value == "REWARDED"


def test_saved_notebook_shows_a_picture_and_a_line(explorer: RewardsExplorer) -> None:
    bundle = explorer._repr_mimebundle_()
    png = base64.b64decode(bundle["image/png"])
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    rewarded = explorer.decisions["rewarded"].sum()
    assert bundle["text/plain"] == f"<RewardsExplorer: {rewarded} of {len(EVENTS)} moments rewarded>"


def test_many_moments_with_long_names_stay_readable() -> None:
    names = [f"a moment with a very long name, number {number % 9}" for number in range(len(EVENTS))]
    shown = RewardsExplorer(EVENTS.assign(moment_id=names))
    assert "6 of 9 moments" in texts(shown)
    assert "a moment with a v…" in texts(shown)
    name = r"$\bad$<img src=x>"
    shown = RewardsExplorer(EVENTS.assign(moment_id=name))
    assert name in texts(shown), "a dollar is no formula"
    assert shown.picture().startswith(b"\x89PNG")
    assert "<img" not in shown.explanation.value


def test_without_moments_there_is_no_widget() -> None:
    with pytest.raises(InvalidArgument, match="there are no moments to decide"):
        RewardsExplorer(EVENTS.head(0))
    with pytest.raises(InvalidArgument, match="given twice"):
        RewardsExplorer(EVENTS, events=EVENTS)
    with pytest.raises(InvalidArgument, match="no column device"):
        RewardsExplorer(EVENTS.drop(columns="device"))


def test_before_column_uses_the_given_rules() -> None:
    rules = {"default": {"p": 1.0, "min_gap_s": 36_000}}
    shown = RewardsExplorer(EVENTS, configuration=rules)
    assert shown.gap.value == 600
    assert shown.configuration.default.min_gap_s == 36_000
    decided = simulate(rules, EVENTS)
    assert shown.summary().startswith(f"RewardsExplorer: {decided['rewarded'].sum()} of")


def test_test_reward_is_shown_in_a_sandboxed_frame() -> None:
    keys = {"gatewaykey": "partner-key-of-acme", "app_key": "demo-app"}
    with Gateway(config={"rewards": settings()}) as gateway, toolkit.connect(gateway, credentials=keys) as tk:
        shown = RewardsExplorer(tk.rewards, events=EVENTS)
        shown.page_button.click()
        assert 'sandbox="allow-scripts"' in shown.page.value
        assert f"{gateway.base_url}/reward/" in shown.page.value
        assert list(operator_of(gateway).decisions()["reason"]) == ["TEST"]
        gateway.close()
        shown.page_button.click()
        assert shown.error is not None
        assert 'role="alert"' in shown.status.value
