"""The operator's key is in its file in the data folder and nowhere else."""

from __future__ import annotations

import logging
import stat
import traceback
from pathlib import Path

import pytest

import toolkit
from tests.conftest import operator_of
from toolkit.errors import KeyRejected, StoreUnavailable
from toolkit.system.files import running_gateway
from toolkit_gateway import Gateway


def test_the_key_is_private_and_survives_restarts(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with Gateway(tmp_path) as gateway:
            keys.append(gateway.operator_key)
            assert operator_of(gateway).locks().empty
    file = tmp_path / "operator.key"
    assert keys[0] == keys[1]
    assert file.read_text() == keys[0].reveal() + "\n"
    assert len(keys[0].reveal()) >= 43, "256 bits"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_two_gateways_have_different_keys(tmp_path: Path) -> None:
    with Gateway(tmp_path / "a") as one, Gateway(tmp_path / "b") as two, Gateway() as three:
        assert len({one.operator_key, two.operator_key, three.operator_key}) == 3
        with toolkit.connect(one.base_url, operator_key=two.operator_key) as tk, pytest.raises(KeyRejected) as caught:
            tk.operator.issue_lock()
        assert caught.value.status == 401
        assert operator_of(one).locks().empty


@pytest.mark.parametrize("damage", ["empty", "half", "binary"])
def test_damaged_key_file_is_replaced(damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Gateway(tmp_path) as gateway:
        before = gateway.operator_key
    file = tmp_path / "operator.key"
    file.write_bytes({"empty": b"", "half": before.reveal()[:20].encode(), "binary": bytes(range(200, 250))}[damage])
    with Gateway(tmp_path) as gateway:
        assert gateway.operator_key != before
        assert operator_of(gateway).locks().empty
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "it now has a new key" in caplog.text


def test_key_that_cannot_be_stored_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "operator.key").mkdir()
    with pytest.raises(StoreUnavailable, match="the key of the operator API cannot be kept"):
        Gateway(tmp_path)
    (tmp_path / "operator.key").rmdir()
    Gateway(tmp_path).close()


def test_the_key_is_in_no_log_repr_error_or_other_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), Gateway(tmp_path) as gateway, toolkit.connect(gateway) as tk:
        key = gateway.operator_key.reveal()
        issued = tk.operator.issue_lock()
        tk.dweets.lock("kitchen", lock=issued.lock, key=issued.master_key)
        shown = [
            repr(gateway),
            repr(tk),
            repr(tk.operator),
            repr(vars(tk.operator)),
            repr(issued),
            tk.operator.locks().to_string(),
        ]
        with toolkit.connect(gateway.base_url, operator_key="x" + key) as wrong, pytest.raises(KeyRejected) as caught:
            wrong.operator.outbox()
        shown += ["".join(traceback.format_exception(caught.value)), repr(vars(caught.value))]
        files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "operator.key"]
        assert (tmp_path / "gateway.url") in files
        for secret in (key, issued.master_key.reveal(), issued.read_key.reveal()):
            assert secret not in "".join(shown) + caplog.text
            assert not [path for path in files if secret.encode() in path.read_bytes()]
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "operator.key"]
    assert not [path for path in left if key.encode() in path.read_bytes()]


def test_address_file_exists_while_the_gateway_runs(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        assert running_gateway(tmp_path) == (gateway.base_url, gateway.operator_key)
        mode = (tmp_path / "gateway.url").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert not (tmp_path / "gateway.url").exists()
    assert running_gateway(tmp_path) is None


@pytest.mark.parametrize("is_running", [False, True], ids=["no gateway", "a gateway that starts"])
def test_the_address_of_a_killed_gateway_gets_no_key(is_running: bool, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    if not is_running:
        gateway.close()
    # A killed gateway leaves its address, which the next one removes once it has opened its store.
    (tmp_path / "gateway.url").write_text("http://127.0.0.1:9\n1\n")
    assert running_gateway(tmp_path) is None
    gateway.close()
