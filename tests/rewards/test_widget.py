"""RewardsExplorer: every control by its attribute, what is drawn, and what a saved notebook shows."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from xml.etree import ElementTree

import pandas as pd
import pytest

import toolkit
from tests.conftest import operator_of
from tests.rewards.conftest import settings
from toolkit import Gateway, RewardsExplorer
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis import charts
from toolkit.rewards.analysis.explanation import sentence
from toolkit.rewards.analysis.simulation import made_up_moments

EVENTS = made_up_moments(devices=30, days=4, seed=1)


@pytest.fixture
def explorer() -> Iterator[RewardsExplorer]:
    shown = RewardsExplorer(events=EVENTS)
    yield shown
    shown.close()


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
def test_each_control_decides_anew(explorer: RewardsExplorer, control: str, value: float, reason: str) -> None:
    before, plots = explorer.decisions, explorer.plots.value
    getattr(explorer, control).value = value
    assert (explorer.decisions["reason"] == reason).sum() > (before["reason"] == reason).sum()
    assert explorer.decisions["rewarded"].sum() < before["rewarded"].sum()
    assert explorer.plots.value != plots
    assert explorer.error is None


def test_a_stock_is_shared_out_as_it_was(explorer: RewardsExplorer) -> None:
    items = [{"id": name, "title": name, "stock": stock} for name, stock in (("a", 30), ("b", 10), ("c", 0))]
    shown = RewardsExplorer(events=EVENTS, configuration={"rewards": items})
    shown.stock.value = 9
    assert [item.stock for item in shown.configuration.rewards] == [7, 2, 0]


def test_arms_by_moment_or_device() -> None:
    arms = {"opened_app": {"arms": {"A": {}, "B": {"p": 0.9}}}}
    shown = RewardsExplorer(events=EVENTS, configuration={"moments": arms})

    def arms_of_a_device() -> int:
        return int(shown.decisions.dropna(subset=["arm"]).groupby("device")["arm"].nunique().max())

    assert arms_of_a_device() == 1
    shown.arms_by.value = "moment"
    assert arms_of_a_device() == 2


def test_what_is_shown_can_be_read(explorer: RewardsExplorer) -> None:
    assert list(explorer.funnel["step"]) == ["session", "moment", "rewarded", "shown", "claimed"]
    rewarded = explorer.decisions[explorer.decisions["rewarded"]]
    assert explorer.funnel["n"].iloc[2] == rewarded["session_id"].nunique()
    assert explorer.rates["rewarded"].sum() == len(rewarded)
    assert f"{len(EVENTS):,} moments of" in explorer.status.value
    per_session = len(EVENTS) / EVENTS["session_id"].nunique()
    assert f"{per_session:.2f} moments per session" in explorer.status.value


def test_events_without_sessions_make_a_funnel_of_devices() -> None:
    shown = RewardsExplorer(events=EVENTS.drop(columns="session_id"))
    assert list(shown.funnel["step"]) == ["moment", "rewarded", "shown", "claimed"]
    assert shown.funnel["n"].iloc[0] == EVENTS["device"].nunique()
    assert "Funnel of devices" in shown.plots.value
    assert "per session" not in shown.status.value
    assert shown.picture().startswith(b"\x89PNG")


def test_one_decision_is_explained(explorer: RewardsExplorer) -> None:
    reasons = [reason for _, reason in explorer.why.options]
    assert set(reasons) == set(explorer.decisions["reason"])
    for reason in reasons:
        explorer.why.value = reason
        assert sentence(explorer.decisions[explorer.decisions["reason"] == reason].head(1)).split(",")[
            0
        ] in explorer.explanation.value.replace("&#x27;", "'")
    explorer.why.value = "DRAW"
    explorer.p.value = 1.0
    assert explorer.why.value == "REWARDED"


def test_the_saved_notebook_shows_a_picture_and_a_line(explorer: RewardsExplorer) -> None:
    bundle = explorer._repr_mimebundle_()
    png = base64.b64decode(bundle["image/png"])
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (920, 260)
    rewarded = explorer.decisions["rewarded"].sum()
    assert bundle["text/plain"] == f"<RewardsExplorer: {rewarded} of {len(EVENTS)} moments rewarded>"


def test_the_picture_is_a_drawing_that_follows_the_theme(explorer: RewardsExplorer) -> None:
    svg = charts.svg(explorer.funnel, explorer.rates)
    root = ElementTree.fromstring(svg)
    assert root.get("fill") == "currentColor"
    assert root.get("role") == "img"
    assert "moment" in root.get("aria-label")
    assert "Funnel of sessions</text>" in svg
    assert "#333333" not in svg
    assert "<style" not in svg, "it would hold for the whole page"


def test_a_name_with_dollar_signs_is_no_formula(explorer: RewardsExplorer) -> None:
    rates = explorer.rates.assign(moment_id=[rf"$\bad{n}$" for n in range(len(explorer.rates))])
    assert r"$\bad0$</text>" in charts.svg(explorer.funnel, rates)
    assert charts.png(explorer.funnel, rates).startswith(b"\x89PNG")


def test_a_moments_name_is_never_markup() -> None:
    events = EVENTS.assign(moment_id='<img src=x onerror="alert(1)">')
    shown = RewardsExplorer(events=events)
    assert "<img" not in shown.plots.value
    assert "<img" not in shown.explanation.value


def test_no_moments_is_a_line_and_no_traceback() -> None:
    shown = RewardsExplorer(events=EVENTS.head(0))
    assert isinstance(shown.error, InvalidArgument)
    assert "There are no moments to decide." in shown.status.value
    assert shown._repr_mimebundle_()["text/plain"] == "<RewardsExplorer: 0 of 0 moments rewarded>"


def test_a_test_reward_in_a_sandboxed_frame() -> None:
    keys = {"gatewaykey": "partner-key", "app_key": "demo-app"}
    with Gateway(config={"rewards": settings()}) as gateway, toolkit.connect(gateway, credentials=keys) as tk:
        shown = RewardsExplorer(tk.rewards, events=EVENTS)
        shown.page_button.click()
        assert 'sandbox="allow-scripts"' in shown.page.value
        assert f"{gateway.base_url}/reward/" in shown.page.value
        assert list(operator_of(gateway).decisions()["reason"]) == ["TEST"]
        gateway.stop()
        shown.page_button.click()
        assert shown.error is not None
        assert 'role="alert"' in shown.status.value


def test_without_a_gateway_there_is_no_page(explorer: RewardsExplorer) -> None:
    assert explorer.page_button not in explorer.children


def test_results_can_be_observed(explorer: RewardsExplorer) -> None:
    seen: list[pd.DataFrame] = []
    explorer.observe(lambda change: seen.append(change["new"]), "funnel")
    explorer.p.value = 0.9
    assert len(seen) == 1
    assert seen[0] is explorer.funnel
