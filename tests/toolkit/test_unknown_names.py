"""An unknown name raises an error with the nearest name: in Python, on the command line and in widgets."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.commands import called, started
from tests.conftest import ROOT, raw_call
from tests.toolkit.test_wrong_calls import World
from toolkit.errors import DataWarning, InvalidArgument, KeyRejected, MalformedRequest, Unreachable
from toolkit.handwriting import Style
from toolkit.http_client import HttpSession
from toolkit.rewards import made_up_moments, simulate
from toolkit.system.nearest_name import missing_names, nearest_name, nearest_names

TIMES = pd.date_range("2026-01-01", periods=12, freq="h", tz="UTC", name="created")
FRAME = pd.DataFrame({"celsius": np.arange(12.0), "state": "on"}, index=TIMES)
EVENTS = made_up_moments(devices=3, days=2, seed=1)
KITCHEN = {"celsius": 21.5, "state": "on", "position": {"lat": 47.6}, "nothing": None}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        archive = toolkit.Archive(tmp_path_factory.mktemp("archive"))
        for thing in ("kitchen", "roof"):
            tk.dweets.post(thing, KITCHEN)
            archive.add_frame(thing, FRAME)
        yield World(tk, archive)


@pytest.fixture(scope="module")
def locked(world: World) -> toolkit.Secret:
    """The master key of the thing `safe`, which is locked and has a dweet."""
    issued = world.operator.issue_lock()
    world.dweets.lock("safe", lock=issued.lock, key=issued.master_key)
    world.dweets.post("safe", KITCHEN, key=issued.master_key)
    return issued.master_key


NO_DWEET = "the gateway has no dweet of the thing 'kitchn': did you mean 'kitchen'?"
NO_TIME = "no dweet has the field 'stat': did you mean 'state'?"
NO_FIELD = "no dweet has the field 'celsisu': did you mean 'celsius'?"
READINGS: dict[str, tuple[Callable[[World], object], str]] = {
    "history": (lambda w: w.dweets.history("kitchn"), NO_DWEET),
    "history of several": (
        lambda w: w.dweets.history(["roof", "far away", "kitchn"]),
        "the gateway has no dweet of 2 of 3 things, such as 'kitchn': did you mean 'kitchen'?",
    ),
    "latest": (lambda w: w.dweets.latest("kitchn"), NO_DWEET),
    "collect": (lambda w: w.dweets.collect("kitchn", seconds=0), NO_DWEET),
    "backtest": (lambda w: w.dweets.backtest("kitchn", "true"), NO_DWEET),
    "nothing near": (lambda w: w.dweets.history("cellar"), "no dweet of the thing 'cellar'; known: 'roof', 'kitchen'"),
    "archive": (
        lambda w: w.archive.history("kitchn"),
        "the archive has no dweet of the thing 'kitchn': did you mean 'kitchen'?",
    ),
    "archive of several": (
        lambda w: w.archive.history(["roof", "kitchn", "rof"]),
        "the archive has no dweet of 2 of 3 things, such as 'kitchn': did you mean 'kitchen'?",
    ),
    "columns of history": (lambda w: w.dweets.history("kitchen", columns=["state", "celsisu"]), NO_FIELD),
    "columns of latest": (lambda w: w.dweets.latest("kitchen", columns="celsisu"), NO_FIELD),
    "columns of archive": (lambda w: w.archive.history("kitchen", columns=["celsisu"]), NO_FIELD),
    "time of history": (lambda w: w.dweets.history("kitchen", time="stat"), NO_TIME),
    "time of latest": (lambda w: w.dweets.latest("kitchen", time="stat"), NO_TIME),
    "time of archive": (lambda w: w.archive.history("kitchen", time="stat"), NO_TIME),
    "columns, nested": (
        lambda w: w.dweets.history("kitchen", columns=["position"]),
        "no dweet has the field 'position': did you mean 'position.lat'?",
    ),
    "columns, several": (
        lambda w: w.dweets.history("kitchen", columns=["celsius", "far", "stat"]),
        "no dweet has 2 of 3 fields, such as 'stat': did you mean 'state'?",
    ),
    "condition of a backtest": (lambda w: w.dweets.backtest("kitchen", "dweet.celsisu > 3"), NO_FIELD),
    "condition on a frame": (lambda w: w.dweets.backtest(FRAME, "dweet['celsisu'] > 3"), NO_FIELD),
    "moment": (
        lambda w: w.rewards.moment(w.rewards.new_device_id("acme"), "opend_app", test=True),
        "the gateway has no rules for the moment 'opend_app': did you mean 'opened_app'?",
    ),
    "moments": (
        lambda w: w.rewards.moments(
            pd.DataFrame({"device": w.rewards.new_device_id("acme"), "moment_id": ["opend_app", "other", "opend_app"]})
        ),
        "the gateway has no rules for the moment 'opend_app': did you mean 'opened_app'?",
    ),
    "simulate": (
        lambda w: simulate({"moments": {"opend_app": {"enabled": False}, "finished_level": {"p": 1}}}, EVENTS),
        "no event has the moment 'opend_app': did you mean 'opened_app'?",
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_reading_warns_once_with_the_nearest_name(name: str, world: World) -> None:
    call, said = READINGS[name]
    with pytest.warns(DataWarning) as warned:
        call(world)
    assert [said in str(warning.message) for warning in warned] == [True]
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        with pytest.raises(DataWarning, match="did you mean|known"):
            call(world)


KNOWN: dict[str, Callable[[World], object]] = {
    "history": lambda w: w.dweets.history(["kitchen", "roof"], columns=["celsius", "position.lat", "nothing"]),
    "history before": lambda w: w.dweets.history("kitchen", until="2020-01-01", columns=["celsisu"]),
    "archive": lambda w: w.archive.history("kitchen", since="2030-01-01", columns="celsisu"),
    "backtest": lambda w: w.dweets.backtest("kitchen", "dweet.state.length > 9 || dweet.position.lat.toFixed() == '1'"),
    "backtest of a quiet day": lambda w: w.dweets.backtest("kitchen", "true", date="2020-01-01"),
    "a field in a text": lambda w: w.dweets.backtest("kitchen", "dweet.state == 'dweet.oven'"),
    "simulate": lambda w: simulate({"moments": {"opened_app": {"p": 1}, "uninstalled": {"enabled": False}}}, EVENTS),
    "moment": lambda w: w.rewards.moment(w.rewards.new_device_id("acme"), "opened_app", test=True),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_name_requests_no_listing(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = counted_listings(monkeypatch)
    KNOWN[name](world)  # warnings are errors in tests
    assert requests == []


def test_unknown_name_requests_one_listing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = counted_listings(monkeypatch)
    with pytest.warns(DataWarning, match="3 of 4 things"):
        world.dweets.history(["kitchen", "a", "b", "c"])
    assert len(requests) == 1


def counted_listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    requests: list[str] = []
    call = HttpSession.call

    def noted(self: HttpSession, endpoint: object, *arguments: object, **parts: object) -> object:
        requests.extend(["listing"] if "/get/stats" in str(endpoint) else [])
        return call(self, endpoint, *arguments, **parts)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpSession, "call", noted)
    return requests


def test_a_locked_thing_is_not_suggested(world: World, locked: toolkit.Secret) -> None:
    with pytest.warns(DataWarning) as warned:
        world.dweets.history("saf")
    assert "'safe'" not in str(warned[0].message)


ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "plot": (lambda: FRAME.dweets.plot("celsisu"), "field 'celsisu': did you mean 'celsius'?"),
    "chart": (lambda: FRAME.dweets.chart(["celsius", "stat"]), "field 'stat': did you mean 'state'?"),
    "resample": (lambda: FRAME.dweets.resample("1h", "mean", ["celsisu"]), "field 'celsisu': did you mean 'celsius'?"),
    "outliers": (lambda: FRAME.dweets.outliers("celsisu"), "field 'celsisu': did you mean 'celsius'?"),
    "statistics": (lambda: FRAME.dweets.statistics("far"), "field 'far'; known: 'celsius'"),
    "on": (lambda: FRAME.dweets.on("creatd"), "field 'creatd': did you mean 'created'?"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_analysis_of_an_unknown_field_is_an_error(name: str) -> None:
    call, said = ERRORS[name]
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        call()


def test_commands_say_the_nearest_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_URL", world.tk.base_url)
    assert called("history", "kitchn", code=1).stderr == f"Error: {NO_DWEET}\n"
    with started("tail", "kitchn") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"listening to kitchn at {world.tk.base_url}; {NO_DWEET}\n"


# -- keywords -----------------------------------------------------------------------------------------------


#: What the reference documents. Other classes are returned by calls; a Secret is below the checks of arguments.
DOCUMENTED = sorted(
    name
    for page in (ROOT / "docs" / "reference" / "python").glob("*.md")
    for name in re.findall(r"auto(?:class|function):: (\S+)", page.read_text("utf-8"))
    if name != "toolkit.Secret"
)
CONSTRUCTED = {"toolkit.identity.Handset", "toolkit_gateway.SteppedClock"} | {
    f"toolkit.{name}" for name in toolkit.__all__ if name != "Connection"
}


def keywords_of(name: str) -> Iterator[tuple[Callable[..., object], list[str]]]:
    """Yield the public calls of a documented class or function, with the names of their parameters."""
    subject = FRAME.dweets if name == "toolkit.dweets.DweetAccessor" else pydoc.locate(name)
    calls = [subject] if name in CONSTRUCTED or inspect.isfunction(subject) else []
    if not inspect.isfunction(subject):
        methods = vars(subject if isinstance(subject, type) else type(subject))
        calls += [getattr(subject, name) for name in methods if not name.startswith("_")]
    for call in filter(callable, calls):
        parameters = inspect.signature(call).parameters.values()
        names = [each.name for each in parameters if each.name != "self" and each.kind is not each.VAR_KEYWORD]
        yield call, [*names, *(Style.__annotations__ if "style" in names else ())]


def test_a_misspelt_keyword_gets_the_nearest_name() -> None:
    for name in DOCUMENTED:
        for call, keywords in keywords_of(name):
            for keyword in keywords:
                with pytest.raises(InvalidArgument) as error:
                    call(**{f"{keyword}x": None})
                assert f"() has no argument {keyword}x: did you mean {keyword}?" in str(error.value), name
                assert len(str(error.value)) <= 250
            if keywords:
                with pytest.raises(InvalidArgument) as error:
                    call(**{"q" * 300: None})
                assert len(str(error.value)) <= 250


def test_only_missing_and_swapped_arguments_show_the_signature(world: World) -> None:
    for arguments, options, ends in [
        (
            ("Hi",),
            {},
            "missing a required argument: 'hand': png(text, hand, style=None, *, width=504, height='auto', "
            "random_seed=None, **options)",
        ),
        (("Hi", 5), {}, "hand is a str, not an int"),
        (("Hi", "Molly"), {"width": [1]}, "width is a number or a str, not a list of int"),
    ]:
        with pytest.raises(InvalidArgument) as error:
            world.hands.png(*arguments, **options)
        assert str(error.value) == ends


# -- alerts -------------------------------------------------------------------------------------------------


def test_an_alert_says_which_fields_it_cannot_find(world: World, locked: toolkit.Secret) -> None:
    condition = "dweet.celsisu > 30 && dweet?.position.lon > 2 && dweet.state.startsWith('dweet.oven')"
    with pytest.warns(DataWarning) as warned:
        alert = world.dweets.set_alert("safe", who="a@b.example", condition=condition, key=locked)
    assert str(warned[0].message) == (
        "no dweet has 2 of 3 fields, such as 'celsisu': did you mean 'celsius'? the gateway has no mail server, so "
        "mails stay in the outbox: start it with --smtp or Gateway(smtp=...)"
    )
    assert alert["unknown_fields"].tolist() == ["celsisu, position.lon"]
    assert world.dweets.get_alert("safe", key=locked)["unknown_fields"].tolist() == ["celsisu, position.lon"]
    world.dweets.post("safe", {"celsisu": 1, "position": {"lon": 2}}, key=locked)
    assert world.dweets.get_alert("safe", key=locked)["unknown_fields"].tolist() == [""]


def test_an_alert_with_a_mail_server_causes_no_warning() -> None:
    with (
        toolkit.Gateway(smtp="smtp://127.0.0.1:1", locks={"l": "master-key-of-the-lock"}) as gateway,
        toolkit.connect(gateway) as tk,
    ):
        tk.dweets.lock("oven", lock="l", key="master-key-of-the-lock")
        tk.dweets.post("oven", {"celsius": 1}, key="master-key-of-the-lock")
        tk.dweets.set_alert("oven", who="a@b.example", condition="dweet.celsius > 30", key="master-key-of-the-lock")
        reply = raw_call(gateway.base_url, "GET", "/get/alert/for/oven?key=master")
    assert "x-dweet-mail" not in reply.headers


def test_a_header_says_that_mails_are_kept(world: World, locked: toolkit.Secret) -> None:
    target = f"/alert/a@b.example/when/safe/dweet.celsius%3E30?key={locked.reveal()}"
    assert raw_call(world.tk.base_url, "GET", target).headers["x-dweet-mail"] == "kept"
    assert "x-dweet-mail" not in raw_call(world.tk.base_url, "GET", "/get/dweets/for/kitchen").headers


HINTS = {
    "dweet.celsius > 30 and dweet.open": "write && for and",
    "dweet.celsius > 30 or dweet.open": "write || for or",
    "not dweet.open": "write ! for not",
    "dweet.open is  not None": "write !== for is not, null for None",
    "dweet.open == None": "write null for None",
    "dweet.open == True": "write true for True",
    "len(dweet.state) > 3": "write .length for len",
    "dweet.state == open": "write dweet.open for a field, 'open' for a text",
}


def test_words_of_python_in_a_condition_get_a_hint(world: World, locked: toolkit.Secret) -> None:
    for condition, hint in HINTS.items():
        with pytest.raises((InvalidArgument, DataWarning), match=re.escape(hint)):  # warnings are errors in tests
            world.dweets.backtest("kitchen", condition)
    for condition in ("dweet.celsius > 30 && 'this and that", "dweet.and ="):
        with pytest.raises(InvalidArgument) as error:
            world.dweets.backtest("kitchen", condition)
        assert "a condition is JavaScript" not in str(error.value)
    with pytest.raises(MalformedRequest, match="write && for and"):
        world.dweets.set_alert("safe", who="a@b.example", condition="dweet.a and dweet.b", key=locked)


# -- bodies, keys, addresses ----------------------------------------------------------------------------------

FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
BODIES = {
    '{"celsius": 21.5}': {"celsius": 21.5},
    ' {"a": {"b": [1, "x=1&y=2"]}}\n': {"a": {"b": [1, "x=1&y=2"]}},
    "{}": {},
    "celsius=21.5&state=on": {"celsius": 21.5, "state": "on"},
    '{"celsius": 21.5': {'{"celsius": 21.5': ""},
    "{a}=1": {"{a}": 1},
    "[1]": {"[1]": ""},
}


def test_a_json_object_sent_as_a_form_is_json(world: World) -> None:
    for body, content in BODIES.items():
        reply = raw_call(world.tk.base_url, "POST", "/dweet/for/curl", body.encode(), FORM)
        assert json.loads(reply.body)["with"]["content"] == content


def test_a_locked_thing_without_a_key_says_to_give_one(world: World, locked: toolkit.Secret) -> None:
    with pytest.raises(KeyRejected, match="requires a key: give its key, with key= in Python, --key or"):
        world.dweets.history("safe")
    with pytest.raises(KeyRejected) as error:
        world.dweets.history("safe", key="wrong")
    assert "give its key" not in str(error.value)


def test_an_unreachable_local_gateway_says_how_to_start_one() -> None:
    for url in ("http://127.0.0.1:9", "http://localhost:9"):
        with toolkit.connect(url) as tk, pytest.raises(Unreachable, match="; start one with `toolkit gateway`"):
            tk.dweets.latest("kitchen")


def test_history_explorer_names_an_unknown_thing(world: World) -> None:
    with pytest.warns(DataWarning) as warned:
        toolkit.HistoryExplorer(world.tk, things=["kitchn"])
    assert [str(warning.message) for warning in warned] == [NO_DWEET]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        explorer = toolkit.HistoryExplorer(world.tk, things=["kitchn"])
    assert "the gateway has no dweet of the thing" in explorer.status.value.replace("The", "the")


# -- the nearest name -------------------------------------------------------------------------------------------


def test_the_nearest_name_ignores_case_and_needs_likeness() -> None:
    assert nearest_names("Kitchn", ["KITCHEN", "roof"]) == ["KITCHEN"]
    assert nearest_names("x", ["kitchen"]) == nearest_names("", ["kitchen"]) == nearest_names("kitchen", []) == []
    names = ["position.lat", "handwriting_color", "pen_size"]
    nearest = {name: nearest_name(name, names) for name in ("lat", "colour", "sizes", "on", "")}
    assert nearest == {"lat": names[0], "colour": names[1], "sizes": names[2], "on": None, "": None}


def test_long_names_are_cut_and_many_are_counted() -> None:
    text = missing_names("no dweet has", "field", ["x" * 70_000], 1, ["y" * 70_000, *"abcdefgh"])
    assert len(text) < 300
    assert text.endswith("'a', 'b', 'c', 'd', 4 more")
