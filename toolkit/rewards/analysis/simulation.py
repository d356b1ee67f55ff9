"""What-if: recorded or made-up moments through the real engine, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.decision_frame import decision_frame
from toolkit.rewards.analysis.rates import checked_configuration
from toolkit.rewards.configuration import Configuration
from toolkit.rewards.engine import DeviceState, Engine, Moment, Session, draw, record_of

#: Names and shares of made-up moments.
MADE_UP_MOMENTS = {"opened_app": 0.45, "finished_level": 0.3, "finished_5k_run": 0.15, "invited_friend": 0.1}
MADE_UP_START = "2026-01-05T00:00:00Z"


def simulate(
    configuration: Configuration | Mapping[str, Any],
    events: pd.DataFrame,
    *,
    sessions: pd.DataFrame | None = None,
    trace: bool = False,
    shown: float = 0.0,
    claimed: float = 0.0,
) -> pd.DataFrame:
    """Decide moments by a configuration, as the gateway would have done.

    Parameters
    ----------
    configuration
        The rules of the what-if, as a `Configuration` or a table.
    events
        at (UTC), device, moment_id; app_key_sha256, test and session_id where there are such. Decisions of a
        gateway are events. They are taken in the order of `at`.
    sessions
        Session starts (at, device), as `toolkit.Gateway.reward_sessions`; a session then lives as long as the
        configuration says. None takes the sessions of the events: a moment without a session_id is in no session.
        Where no event says anything about sessions, every moment is in one whose id is not known.
    trace
        Keep the trace of every decision, for `explain`.
    shown, claimed
        Shares of made-up readers: who looks at a reward, and who of these claims it. The engine does not know.

    Returns
    -------
    pandas.DataFrame
        Decisions with the columns of `toolkit.Gateway.decisions`, in the order of `at`. With the configuration
        and the moments of a gateway they are the same decisions. Where stock or pacing bind, the order of moments
        matters, here as there.

    Raises
    ------
    InvalidArgument
        The events lack a column, or the configuration cannot be.

    Examples
    --------
    >>> events = made_up_moments(devices=3, days=1, seed=1)
    >>> bool(simulate({"default": {"p": 0}}, events)["rewarded"].any())
    False
    """
    if missing := {"at", "device", "moment_id"} - set(events.columns):
        raise InvalidArgument(f"the events have no column {', '.join(sorted(missing))}")
    checked = checked_configuration(configuration)
    ordered = events.sort_values("at", kind="stable")
    records = list(_decided(Engine(checked), _moments(ordered, _SessionBook(checked, sessions)), trace))
    _read_pages(records, checked.seed, shown, claimed)
    return decision_frame(records)


def _decided(engine: Engine, moments: Iterator[tuple[Moment, str | None]], trace: bool) -> Iterator[dict[str, Any]]:
    devices: dict[tuple[str, str], DeviceState] = {}
    spent: dict[str, int] = {}
    for number, (moment, session_id) in enumerate(moments, 1):
        device = devices.setdefault((moment.app, moment.device), DeviceState())
        decision = engine.decide(moment, device, spent)
        record = record_of(f"d-{number:06d}", moment, session_id, decision)
        yield record if trace else {**record, "trace": None}


def _read_pages(records: list[dict[str, Any]], seed: int, shown: float, claimed: float) -> None:
    for record in records:
        if not record["rewarded"]:
            continue
        key = (record["device"], record["moment_id"], str(record["at"]))
        if draw(seed, "shown", *key) < shown:
            record["shown"] = record["at"] + 1_000
            if draw(seed, "claimed", *key) < claimed:
                record["claimed"] = record["at"] + 5_000


class _SessionBook:
    """Which session a moment is in: of the given starts, or as the events say."""

    def __init__(self, configuration: Configuration, sessions: pd.DataFrame | None) -> None:
        self._life = round(configuration.session_minutes * 60_000)
        self._live: dict[str, Session] = {}
        self.given = sessions is not None
        self._starts: list[tuple[int, str]] = []
        if sessions is not None:
            ordered = sessions.sort_values("at", kind="stable")
            self._starts = list(zip(_milliseconds(ordered["at"]), ordered["device"], strict=True))
        self._next = 0

    def at(self, device: str, at: int) -> Session | None:
        while self._next < len(self._starts) and self._starts[self._next][0] <= at:
            start, started = self._starts[self._next]
            self._next += 1
            self._live[started] = Session(f"s-{self._next:04d}", start, start)
        session = self._live.get(device)
        if session is None or at >= session.last + self._life:
            return None
        self._live[device] = session._replace(last=at)
        return session


def _moments(events: pd.DataFrame, book: _SessionBook) -> Iterator[tuple[Moment, str | None]]:
    n = len(events)
    apps = events["app_key_sha256"] if "app_key_sha256" in events else [""] * n
    tests = events["test"] if "test" in events else [False] * n
    ids = events["session_id"] if "session_id" in events else [None] * n
    says_sessions = _says_sessions(events)
    times = _milliseconds(events["at"])
    for at, device, moment_id, app, test, given in zip(
        times, events["device"], events["moment_id"], apps, tests, ids, strict=True
    ):
        if book.given:
            session = book.at(device, at)
            session_id, age = (None, None) if session is None else (session.id, session.age_s(at))
        else:
            session_id = None if pd.isna(given) else str(given)
            age = None if session_id is None and says_sessions else 0.0
        yield Moment(str(app), str(device), str(moment_id), at, bool(test), age), session_id


def _says_sessions(events: pd.DataFrame) -> bool:
    """Whether a missing session_id means that there was no session; a refusal for that reason says so, too."""
    named = "session_id" in events and events["session_id"].notna().any()
    return bool(named or ("reason" in events and (events["reason"] == "NO_SESSION").any()))


def _milliseconds(times: pd.Series[Any]) -> list[int]:
    utc = pd.DatetimeIndex(pd.to_datetime(times, utc=True)).as_unit("us")
    return [int(value) for value in utc.asi8 // 1_000]


def made_up_moments(
    *, devices: int, days: int, seed: int = 0, start: str = MADE_UP_START, count: int | None = None
) -> pd.DataFrame:
    """Return moments of made-up devices: some are keen, most are not, and nights are quiet.

    Parameters
    ----------
    devices, days
        How many, over how long.
    seed
        The same seed gives the same moments.
    start
        When the first day begins, ISO 8601.
    count
        How many moments; about three a device and day if None.

    Returns
    -------
    pandas.DataFrame
        at (UTC), device, moment_id, session_id (a new one after half an hour of silence); in the order of `at`.
    """
    generator = np.random.default_rng(seed)
    total = generator.poisson(3 * devices * days) if count is None else count
    keenness = generator.gamma(1.2, 1.0, devices) + 0.05
    who = generator.choice(devices, total, p=keenness / keenness.sum())
    what = generator.choice(list(MADE_UP_MOMENTS), total, p=list(MADE_UP_MOMENTS.values()))
    # Two humps: around noon, and a larger one in the evening.
    evening = generator.random(total) < 0.65
    hour = np.where(evening, generator.normal(19, 2.2, total), generator.normal(12, 2.5, total)) % 24
    offset = generator.integers(0, days, total) * 86_400_000 + (hour * 3_600_000).astype(np.int64)
    at = pd.Timestamp(start).tz_convert("UTC").as_unit("ms") + pd.to_timedelta(offset, unit="ms")
    labels = np.array([f"dev-{number:04d}" for number in range(devices)])
    frame = pd.DataFrame({"at": pd.DatetimeIndex(at).as_unit("us"), "device": labels[who], "moment_id": what})
    return _with_sessions(frame).sort_values(["at", "device"], ignore_index=True)


def _with_sessions(moments: pd.DataFrame) -> pd.DataFrame:
    ordered = moments.sort_values(["device", "at"], ignore_index=True)
    silence = ordered.groupby("device")["at"].diff()
    number = (silence.isna() | (silence > pd.Timedelta(minutes=30))).cumsum()
    return ordered.assign(session_id=[f"s-{value:05d}" for value in number])
