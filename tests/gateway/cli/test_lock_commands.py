"""`toolkit lock` beside a running gateway, and its errors for options that do not fit together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.commands import called, outcome
from tests.conftest import Caller, operator_of
from toolkit.cli import main
from toolkit_gateway import Gateway

ISSUED = re.compile(r"lock +(\S+)\nmaster key +(\S+)\nread key +(\S+)\n")


def lock(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["lock", *arguments], env={"TOOLKIT_STORE": None, **environment})


def test_a_running_gateway_knows_a_new_lock_at_once(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        url = gateway.base_url
        name, master, read = ISSUED.fullmatch(called("lock", "new", f"--data={tmp_path}").stdout).groups()  # type: ignore[union-attr]
        assert outcome(url, "GET", f"/lock/kitchen?lock={name}&key={master}") == "succeeded"
        assert outcome(url, "GET", f"/dweet/for/kitchen?n=1&key={master}") == "succeeded"
        assert outcome(url, "GET", f"/get/latest/dweet/for/kitchen?key={read}") == "succeeded"
        assert called("lock", "list", f"--data={tmp_path}").stdout == f"{name}  in use   on kitchen\n"
    # The gateway has ended: the same command reads the folder itself.
    assert called("lock", "list", f"--data={tmp_path}").stdout == f"{name}  in use   on kitchen\n"
    said = called("lock", "revoke", name, f"--data={tmp_path}").stdout
    assert said.splitlines()[0] == f"The lock {name!r} is removed."
    assert "The thing 'kitchen' is unlocked" in said
    assert called("lock", "list", f"--data={tmp_path}").stdout == ""


def test_lock_is_revoked_beside_a_running_gateway(tmp_path: Path) -> None:
    with Gateway(tmp_path, locks={"door": "master-key-of-the-door"}) as gateway:
        call = Caller(gateway)
        assert call.get("/lock/kitchen?lock=door&key=master-key-of-the-door")["this"] == "succeeded"
        assert "'kitchen' is unlocked" in lock("revoke", "door", "--data", str(tmp_path)).output
        assert call.get("/dweet/for/kitchen?n=1")["this"] == "succeeded"
        refused = lock("revoke", "door", "--data", str(tmp_path))
    offline = lock("revoke", "door", "--data", str(tmp_path))
    assert refused.exit_code == offline.exit_code == 1
    assert refused.output == offline.output == "Error: there is no lock 'door'\n"


def test_data_option_overrides_the_store_variable(tmp_path: Path) -> None:
    elsewhere = "redis://127.0.0.1:9/0"
    with Gateway(tmp_path) as gateway:
        assert ISSUED.fullmatch(lock("new", "--data", str(tmp_path), TOOLKIT_STORE=elsewhere).output)
        assert len(operator_of(gateway).locks()) == 1


@pytest.mark.parametrize("command", [["new"], ["list"], ["revoke", "door"]])
def test_missing_or_conflicting_store_options_are_named(command: list[str], tmp_path: Path) -> None:
    missing = lock(*command)
    assert missing.exit_code == 2
    assert "give --data, --store or $TOOLKIT_STORE" in missing.output
    both = lock(*command, "--data", str(tmp_path), "--store", "redis://127.0.0.1:9/0")
    assert both.exit_code == 2
    assert "give --data or --store, not both" in both.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["list"], ["revoke", "door"]])
def test_folder_without_a_gateway_is_left_unchanged(command: list[str], tmp_path: Path) -> None:
    said = lock(*command, "--data", str(tmp_path))
    assert (
        said.output == f"Error: the folder {tmp_path} has no data of a gateway: give the folder of a gateway's --data\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_without_an_address_says_so(tmp_path: Path) -> None:
    with Gateway(tmp_path):
        (tmp_path / "gateway.url").unlink()
        said = lock("new", "--data", str(tmp_path))
    assert said.exit_code == 1
    assert "run this command again once that gateway accepts calls, or has ended" in said.output
