"""Widgets changed by two threads at once, as JupyterLab does in kernels with subshells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import ipywidgets
import pandas as pd
import pytest
import traitlets

from toolkit import HistoryExplorer
from toolkit.widgets.base import ServiceWidget, in_turn

Stalling = tuple[traitlets.HasTraits, str]  # a widget and its trait, when that changes

_HEAD_START = 0.3  # seconds in which the second would be done, if it did not wait for the first


@pytest.fixture
def explorer() -> Iterator[HistoryExplorer]:
    days = pd.date_range("2026-01-01", periods=60, name="created")
    explorer = HistoryExplorer(pd.DataFrame({"n": range(60)}, index=days))
    yield explorer
    explorer.close()


def in_two_threads(first: Callable[[], object], stalling: Stalling, second: Callable[[], object]) -> None:
    """Start the first, the second once the first has come to where it stalls, and let both end."""
    reached, going_on = Event(), Event()
    widget, trait = stalling

    def stall(_change: object) -> None:
        widget.unobserve(stall, trait)
        reached.set()
        assert going_on.wait(60)

    widget.observe(stall, trait)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(first)
        assert reached.wait(60)
        other = threads.submit(second)
        futures.wait([other], _HEAD_START)
        going_on.set()
        one.result(60)
        other.result(60)


def turned(control: ipywidgets.Widget, value: object) -> Callable[[], None]:
    """Return what sets the control as a message of the page does."""
    return lambda: control.set_trait("value", value)


def test_last_change_wins(explorer: HistoryExplorer) -> None:
    in_two_threads(turned(explorer.rule, "1MS"), (explorer, "frame"), turned(explorer.start, "last summer"))
    assert "Cannot read these times" in explorer.status.value
    assert explorer.error is not None
    assert not explorer.busy


def test_choice_made_during_a_zoom_counts(explorer: HistoryExplorer) -> None:
    in_two_threads(turned(explorer.start, "2026-02"), (explorer.chart, "visible_range"), turned(explorer.rule, "1MS"))
    assert "2 rows from 2026-02-01" in explorer.status.value


def test_callbacks_of_all_widgets_are_serialised() -> None:
    one, other, stalling = ServiceWidget(), ServiceWidget(), ipywidgets.IntText(0)
    told: list[str] = []

    def block(widget: ServiceWidget, name: str) -> None:
        with widget.working("Counting"):
            stalling.value += 1
            told.append(name)

    @in_turn
    def method() -> None:
        stalling.value += 1
        told.append("method")

    in_two_threads(lambda: block(one, "one"), (stalling, "value"), lambda: block(other, "other"))
    in_two_threads(lambda: block(one, "one"), (stalling, "value"), method)
    in_two_threads(method, (stalling, "value"), lambda: block(one, "one"))
    assert told == ["one", "other", "one", "method", "method", "one"]
