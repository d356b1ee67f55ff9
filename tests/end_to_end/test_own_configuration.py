"""A new user's first hour with all four services: `toolkit lab --config` without demo data, in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient

from tests.commands import call_lab, kernel_environment, started_lab

RunCell = Callable[[str], str]

CONFIG = """
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
address = { line1 = "1 Own Street", city = "Owntown", region = "OR", postal_code = "97001" }
payments = [{ payment_type = "CARRIER_BILL" }]
"""

CONNECT = """import toolkit

identity = {"ApiClientId": "client-id-of-the-shop"}
tk = toolkit.connect(credentials={"gatewaykey": "partner-key-of-acme", "app_key": "app-of-acme", **identity})
umbra = toolkit.connect(credentials={"gatewaykey": "partner-key-of-umbra", "app_key": "app-of-umbra"})"""

LOCK_AND_ALERT = """import warnings

issued = tk.operator.issue_lock()
tk.dweets.lock("oven", lock=issued.lock, key=issued.master_key)
with warnings.catch_warnings(record=True) as warned:
    tk.dweets.set_alert("oven", who="ada@example.com", condition="dweet.celsius > 30", key=issued.master_key)
print("warning", str(warned[0].message).partition(",")[0])
for celsius in (29, 31):
    tk.dweets.post("oven", {"celsius": celsius}, key=issued.master_key)
try:
    tk.dweets.post("oven", {"celsius": 99})
except toolkit.errors.KeyRejected:
    print("the lock holds")
mail, = tk.operator.outbox().itertuples()
print("mail to", mail.to, "-", mail.subject, "-", "31" in mail.text)"""

LETTER = """letter = tk.handwriting.pdf("Dear Ada,\\nthe engine works.", "Molly", random_seed=7)
print("letter", letter.lines, letter.overflow)
letter"""

REWARDS = """for client, company, moments in ((tk, "acme", 3), (umbra, "umbra", 2)):
    device = client.rewards.new_device_id(company)
    client.rewards.start_session(device)
    for _ in range(moments):
        client.rewards.moment(device, "finished_run")
decisions = tk.operator.decisions()
print("reasons", *decisions["reason"])
funnel = toolkit.rewards.funnel(decisions, tk.operator.reward_sessions()).set_index("step")["n"]
print("funnel", funnel.loc[["session", "moment", "rewarded"]].to_dict())"""

IDENTITY = """phone = toolkit.identity.Handset("mine", address="198.51.100.7", device_ip="198.51.100.7")
with tk.identity.session() as session:
    user = session.authenticate(phone)
    print("user", user.mobile_number, user.mobile_operator_name, session.eligibility()["eligible"].tolist())
    print("pays by", *session.payment_list(answer="97001")["payment_type"])"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunCell]:
    """Runs a cell in the kernel of a notebook in such a lab; returns what the cell printed."""
    folder = tmp_path_factory.mktemp("own")
    config = folder / "gateway.toml"
    config.write_text(CONFIG, "utf-8")
    with started_lab(folder, "--port=0", "--lab-port=0", f"--config={config}") as (process, _, lab, token):
        kernel: Any = call_lab(lab, token, "/api/kernels", b"{}")
        runtime = Path(kernel_environment(process.pid)["JUPYTER_RUNTIME_DIR"])
        client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel['id']}.json"))
        client.load_connection_file()
        client.start_channels(hb=False)  # a slow machine misses heartbeats
        client.wait_for_ready(timeout=60)

        def run(code: str) -> str:
            printed: list[str] = []

            def take(message: dict[str, Any]) -> None:
                printed.append(message["content"].get("text", ""))

            reply = client.execute_interactive(code, timeout=60, output_hook=take)
            assert reply["content"]["status"] == "ok", reply["content"]
            return "".join(printed)

        yield run
        client.stop_channels()


def test_one_notebook_uses_every_configured_service(run: RunCell) -> None:
    said = "".join(run(cell) for cell in (CONNECT, LOCK_AND_ALERT, LETTER, REWARDS, IDENTITY))
    assert said.splitlines() == [
        "warning the gateway has no mail server",
        "the lock holds",
        "mail to ada@example.com - Alert of oven: true - True",
        "letter 2 False",
        "reasons REWARDED REWARDED DEVICE_CAP REWARDED NO_INVENTORY",
        "funnel {'session': 2, 'moment': 2, 'rewarded': 2}",
        "user *********88 Own Mobile [True]",
        "pays by CARRIER_BILL",
    ]


def test_demo_keys_are_refused_with_a_configuration(run: RunCell) -> None:
    said = run("""import json
import toolkit
services = json.load(open("data/demo_world.json"))["credentials"].values()
tk = toolkit.connect(credentials={name: key for keys in services for name, key in keys.items()})
for call in (lambda: tk.rewards.start_session(tk.rewards.new_device_id("acme")), lambda: tk.identity.echo("hello")):
    try:
        call()
    except toolkit.errors.ToolkitError as error:
        print("refused:", type(error).__name__)""")
    assert said == "refused: KeyRejected\nrefused: KeyRejected\n"
