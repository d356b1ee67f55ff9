"""A new user's first hour with its services: a configuration of one's own, without demo data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolkit
from tests.commands import called
from toolkit.errors import DataWarning, KeyRejected
from toolkit_gateway import Gateway

CONFIG = """
[gateway]
folder = "{folder}"

[[rewards.partners]]
gatewaykey = "partner-key-of-acme"
company_token = "acme"
apps = ["app-of-acme"]

[[rewards.partners]]
gatewaykey = "partner-key-of-umbra"
company_token = "umbra"
apps = ["app-of-umbra"]

[rewards.rules.default]
p = 1.0
per_device_per_day = 2
per_moment_per_day = 9
min_gap_s = 0

[[rewards.rules.rewards]]
id = "song"
title = "One song"
stock = 3

[[identity.clients]]
name = "shop"
api_client_id = "client-id-of-the-shop"
final_targets = ["http://127.0.0.1/done"]

[[identity.carriers]]
short_code = "OWN"
name = "Own Mobile"
networks = ["198.51.100.0/24"]

[[identity.subscribers]]
id = "grace"
mobile_number = "+12025550188"
carrier = "OWN"
device_ip = "198.51.100.7"
name = "Grace Example"
email = "grace@example.com"
address = {{ line1 = "1 Own Street", city = "Owntown", region = "OR", postal_code = "97001" }}
payments = [{{ payment_type = "CARRIER_BILL" }}]
"""

ACME = {"gatewaykey": "partner-key-of-acme", "app_key": "app-of-acme", "ApiClientId": "client-id-of-the-shop"}
UMBRA = {"gatewaykey": "partner-key-of-umbra", "app_key": "app-of-umbra"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Path]]:
    """A gateway with a configuration file, and the file."""
    folder = tmp_path_factory.mktemp("own")
    file = folder / "gateway.toml"
    file.write_text(CONFIG.format(folder=(folder / "data").as_posix()), "utf-8")
    with Gateway(config=file) as gateway:
        yield gateway, file


@pytest.fixture
def tk(own: tuple[Gateway, Path]) -> Iterator[toolkit.Connection]:
    with toolkit.connect(own[0], credentials=ACME) as connection:
        yield connection


def test_the_lab_uses_the_configuration(own: tuple[Gateway, Path], tmp_path: Path) -> None:
    refused = called("lab", "--no-browser", f"--config={own[1]}", f"--folder={tmp_path / 'lab'}", code=1)
    assert f"the folder {own[1].parent / 'data'} is in use" in refused.stderr


def test_a_locked_thing_mails_its_alert(tk: toolkit.Connection) -> None:
    issued = tk.operator.issue_lock()
    tk.dweets.lock("oven", lock=issued.lock, key=issued.master_key)
    with pytest.warns(DataWarning, match="the gateway has no mail server"):
        tk.dweets.set_alert("oven", who="ada@example.com", condition="dweet.celsius > 30", key=issued.master_key)
    for celsius in (29, 31):
        tk.dweets.post("oven", {"celsius": celsius}, key=issued.master_key)
    with pytest.raises(KeyRejected):
        tk.dweets.post("oven", {"celsius": 99})
    (mail,) = tk.operator.outbox().itertuples()
    assert (mail.to, mail.subject) == ("ada@example.com", "Alert of oven: true")
    assert "31" in mail.text


def test_rewards_follow_the_rules_of_the_file(tk: toolkit.Connection, own: tuple[Gateway, Path]) -> None:
    with toolkit.connect(own[0], credentials=UMBRA) as umbra:
        for client, company, moments in ((tk, "acme", 3), (umbra, "umbra", 2)):
            device = client.rewards.new_device_id(company)
            client.rewards.start_session(device)
            for _ in range(moments):
                client.rewards.moment(device, "finished_run")
    decisions = tk.operator.decisions()
    assert [*decisions["reason"]] == ["REWARDED", "REWARDED", "DEVICE_CAP", "REWARDED", "NO_INVENTORY"]
    funnel = toolkit.rewards.funnel(decisions, tk.operator.reward_sessions()).set_index("step")["n"]
    assert funnel.loc[["session", "moment", "rewarded"]].tolist() == [2, 2, 2]


def test_a_person_of_the_file_is_identified(tk: toolkit.Connection) -> None:
    phone = toolkit.identity.Handset("mine", address="198.51.100.7", device_ip="198.51.100.7")
    with tk.identity.session() as session:
        user = session.authenticate(phone)
        assert (user.mobile_number, user.mobile_operator_name) == ("*********88", "Own Mobile")
        assert session.eligibility()["eligible"].tolist() == [True]
        assert session.payment_list(answer="97001")["payment_type"].tolist() == ["CARRIER_BILL"]


def test_demo_keys_are_refused_with_a_configuration(own: tuple[Gateway, Path]) -> None:
    with Gateway.demo() as demo:
        demo_keys: dict[str, Any] = dict(demo.credentials)
    with toolkit.connect(own[0], credentials=demo_keys) as tk:
        for call in (lambda: tk.rewards.start_session(tk.rewards.new_device_id("acme")), lambda: tk.identity.echo("")):
            with pytest.raises(KeyRejected):
                call()
