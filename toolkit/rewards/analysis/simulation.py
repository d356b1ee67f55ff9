"""Simulation: the real engine decides recorded or made-up moments, without a network."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.rewards.analysis import rates
from toolkit.rewards.configuration import Configuration
from toolkit.rewards.engine import DeviceState, Engine, Moment, random_number, record_of
from toolkit.rewards.wire import checked_moment_id
from toolkit.system.nearest_name import MISSPELT, missing_names, nearest_names

#: The moments of an invented app, each with its weight.
_INVENTED_MOMENTS = {"opened_app": 0.45, "finished_level": 0.3, "finished_5k_run": 0.15, "invited_friend": 0.1}
MADE_UP_START = pd.Timestamp("2026-01-05T00:00:00Z").as_unit("ms")


@checked_arguments
def simulate(
    configuration: Configuration | Mapping[str, Any],
    events: pd.DataFrame,
    *,
    trace: bool = True,
    shown: float = 0.0,
    claimed: float = 0.0,
) -> pd.DataFrame:
    """Decide moments by a configuration, as a gateway with this configuration would have decided.

    Parameters
    ----------
    configuration
        The rules, as a `Configuration` or a table.
    events
        Moments with the columns at (in UTC if it has no zone), device, moment_id; optionally app_key_sha256, test and
        session_id. Decisions of a gateway can be used as events. Moments are decided in the order of `at`. A moment
        without a session_id is in no session; without any session_id or NO_SESSION, all are in unknown sessions.
    trace
        Keep the trace of every decision, for `explain`; without traces a frame is a fifth of the size.
    shown, claimed
        Probability that a simulated user looks at a reward, and that a user who looked claims the reward.

    Returns
    -------
    pandas.DataFrame
        Decisions with the columns of ``tk.operator.decisions()``, in the order of `at`. The configuration and the
        moments of a gateway give the gateway's decisions. If stock or pacing refuse, the order of moments matters. A
        DataWarning names rules for moments that no event has, and says if the stock was the limit.

    Examples
    --------
    >>> events = made_up_moments(devices=3, days=1, seed=1)
    >>> bool(simulate({"default": {"p": 0}}, events)["rewarded"].any())
    False
    """
    if not (0 <= shown <= 1 and 0 <= claimed <= 1):
        raise InvalidArgument("shown and claimed are probabilities, from 0 to 1")
    rules = Configuration.parse(configuration)
    decided = decided_moments(rules, events, trace=trace, shown=shown, claimed=claimed)
    warn_caller(unknown_moments_text(rules, decided), rates.stock_text(decided))
    return decided


def unknown_moments_text(configuration: Configuration, decisions: pd.DataFrame) -> str:
    """Return the sentence about rules for moments that never came; an empty text if there are none.

    Rules that switch a moment off count only if a moment without rules has nearly the same name.
    """
    rules, came = configuration.moments, list(decisions["moment_id"].unique())
    without_rules = [name for name in came if name not in rules]
    missing = [
        name
        for name, own in rules.items()
        if name not in came and (own.enabled or nearest_names(name, without_rules, likeness=MISSPELT))
    ]
    return missing_names("no event has", "moment", missing, len(rules), without_rules) if came and missing else ""


def decided_moments(
    configuration: Configuration, events: pd.DataFrame, *, trace: bool = True, shown: float, claimed: float
) -> pd.DataFrame:
    """Do what `simulate` does, without its warning."""
    engine, spent = Engine(configuration), dict[str, int]()
    devices: dict[tuple[str, str], DeviceState] = {}
    records = []
    for number, (moment, session_id) in enumerate(_moments_of(events), 1):
        decision = engine.decide(moment, devices.setdefault((moment.app, moment.device), DeviceState()), spent)
        record = record_of(f"d-{number:06d}", moment, session_id, decision)
        if trace:
            record["trace"] = decision.trace
        if decision.rewarded:
            _simulate_reader(record, moment, engine.configuration.seed, shown, claimed)
        records.append(record)
    return rates.decision_frame(records)


def _moments_of(events: pd.DataFrame) -> Iterator[tuple[Moment, str | None]]:
    """Yield each moment with the id of its session, in the order of `at`."""
    rates.check_columns(events, ("at", "device", "moment_id"), "events")
    utc, n = rates.utc_times(events["at"]), len(events)
    order = np.argsort(utc, kind="stable")
    times, ordered = (utc.asi8[order] // 1_000).tolist(), events.iloc[order]
    # In a CSV file, an empty text becomes a missing value.
    apps = ordered["app_key_sha256"].astype("object").fillna("") if "app_key_sha256" in ordered else [""] * n
    tests = rates.boolean_column(ordered["test"]) if "test" in ordered else [False] * n
    sessions = ordered["session_id"] if "session_id" in ordered else pd.Series([None] * n, dtype="object")
    # If other rows have an id or were refused as NO_SESSION, a missing id means that there was no session.
    has_sessions = sessions.notna().any() or ("reason" in ordered and (ordered["reason"] == "NO_SESSION").any())
    ids = sessions.astype("object").where(sessions.notna(), None)
    for app, device, moment_id, at, test, session_id in zip(
        apps, ordered["device"], ordered["moment_id"], times, tests, ids, strict=True
    ):
        age = None if has_sessions and session_id is None else 0.0
        moment = Moment(str(app), str(device), checked_moment_id(str(moment_id)), at, bool(test), age)
        yield moment, None if session_id is None else str(session_id)


def _simulate_reader(record: dict[str, Any], moment: Moment, seed: int, shown: float, claimed: float) -> None:
    parts = (moment.device, moment.moment_id, str(moment.at))
    if random_number(seed, "shown", *parts) < shown:
        record["shown"] = moment.at + 1_000
        if random_number(seed, "claimed", *parts) < claimed:
            record["claimed"] = moment.at + 5_000


@checked_arguments
def made_up_moments(
    configuration: Configuration | Mapping[str, Any] | None = None,
    *,
    moments: Mapping[str, float] | Iterable[str] | None = None,
    devices: int,
    days: int,
    seed: int = 0,
) -> pd.DataFrame:
    """Return about three moments a day for each made-up device: a few are very active, and nights are quiet.

    Parameters
    ----------
    configuration
        The rules whose moments the devices send, unless they switch a moment off.
    moments
        The names of the moments, equally frequent, or a weight for each name. If None, those of `configuration`; if
        it has none, four of an invented app.
    devices, days, seed
        Numbers of devices and days; the same seed gives the same moments.

    Returns
    -------
    pandas.DataFrame
        at (UTC), device, moment_id, session_id (a new one after half an hour without moments); in the order of `at`.

    Examples
    --------
    >>> made_up_moments(moments={"bought": 1, "looked": 9}, devices=10, days=7)["moment_id"].value_counts().idxmax()
    'looked'
    """
    if devices < 1 or days < 1 or seed < 0:
        raise InvalidArgument("devices and days are at least 1, and the seed is at least 0")
    weights = _weights(moments if moments is not None else _switched_on(configuration) or _INVENTED_MOMENTS)
    generator = np.random.default_rng(seed)
    total = generator.poisson(3 * devices * days)
    activity = generator.gamma(1.2, 1.0, devices) + 0.05
    indices = generator.choice(devices, total, p=activity / activity.sum())
    moment_ids = generator.choice(list(weights), total, p=list(weights.values()))
    # Two peaks: one at noon and a larger one in the evening.
    is_evening = generator.random(total) < 0.65
    hour = np.where(is_evening, generator.normal(19, 2.2, total), generator.normal(12, 2.5, total)) % 24
    offset_ms = generator.integers(0, days, total) * 86_400_000 + (hour * 3_600_000).astype(np.int64)
    at = MADE_UP_START + pd.to_timedelta(offset_ms, unit="ms")
    labels = np.array([f"dev-{number:04d}" for number in range(devices)])
    frame = pd.DataFrame({"at": pd.DatetimeIndex(at).as_unit("us"), "device": labels[indices], "moment_id": moment_ids})
    ordered = frame.sort_values(["device", "at"], ignore_index=True)
    pause = ordered.groupby("device")["at"].diff()
    session_numbers = (pause.isna() | (pause > pd.Timedelta(minutes=30))).cumsum()
    with_sessions = ordered.assign(session_id=pd.Series([f"s-{number:05d}" for number in session_numbers], dtype="str"))
    return with_sessions.sort_values(["at", "device"], ignore_index=True)


def _switched_on(configuration: Configuration | Mapping[str, Any] | None) -> list[str]:
    rules = Configuration.parse(configuration or {}).moments
    return [name for name, own in rules.items() if own.enabled]


def _weights(moments: Mapping[str, float] | Iterable[str]) -> dict[str, float]:
    weights = moments if isinstance(moments, Mapping) else dict.fromkeys(moments, 1.0)
    names, total = [checked_moment_id(name) for name in weights], sum(weights.values())
    if not (min(weights.values(), default=-1) >= 0 and 0 < total < float("inf")):
        raise InvalidArgument("moments are names, or a weight of at least 0 for each name; one is above 0")
    return {name: weight / total for name, weight in zip(names, weights.values(), strict=True)}
