"""`toolkit config` and ``--config``: the example, the check, and a gateway with a configuration.

A lab with one is in ``test_own_configuration.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import called, end, started, url_of
from tests.conftest import raw_call, raw_exchange

HUSH = "hush-hush"
JSON = "Content-Type: application/json\r\n"
CONFIG = """
[dweets.locks]
garage = "key-of-the-garage"

[[rewards.partners]]
gatewaykey = "partner-key-of-acme"
company_token = "acme"
apps = ["app-of-acme"]

[[identity.clients]]
name = "mine"
api_client_id = "client-id-of-mine"
"""


def echo_of(url: str, client: str) -> bytes:
    body = json.dumps({"RequestId": "r", "ApiClientId": client, "EchoMessage": "hello"}).encode()
    return raw_call(url, "POST", "/account/2014/07/25/accountEcho", body, JSON).body


def partner_answer(url: str, key: str) -> bytes:
    return raw_call(url, "POST", f"/2.0/web/moment/?gatewaykey={key}", b"{}", JSON).body


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(CONFIG, "utf-8")
    return path


def test_the_example_is_checked_without_an_error(tmp_path: Path) -> None:
    example = called("config", "example").stdout
    (tmp_path / "gateway.toml").write_text(example, "utf-8")
    done = called("config", "check", str(tmp_path / "gateway.toml"))
    assert done.stdout == "no errors; rewards has partners: 1; identity has clients: 1\n"
    (tmp_path / "empty.toml").touch()
    done = called("config", "check", str(tmp_path / "empty.toml"))
    assert done.stdout == "no errors; rewards has the demo world; identity has the demo world\n"
    (tmp_path / "open.toml").write_text('gateway = {allow_hosts = ["a.example"]}\n[rewards]', "utf-8")
    done = called("config", "check", str(tmp_path / "open.toml"))
    assert done.stdout == "no errors; rewards has partners: 0; identity has nobody\n"
    assert done.stderr.startswith("Warning: no key is taken by mobile identity: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gateway]\nprot = 1", "gateway.prot: unknown key; did you mean port? allowed: "),
        (f'[dweets.locks]\na = ["{HUSH}"]', "dweets.locks.a: expected a text, not an empty one, got a list"),
        (f'[dweets.locks]\na = "{HUSH}', "is not TOML (at "),
        (None, "cannot be read: No such file or directory"),
    ],
)
@pytest.mark.parametrize("command", [("config", "check"), ("gateway", "--config"), ("lab", "--config")])
def test_invalid_file_is_one_line_of_error(
    command: tuple[str, ...], text: str | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.toml"
    if text is not None:
        file.write_text(text, "utf-8")
    done = called(*command, str(file), code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert HUSH not in done.stderr


def test_check_refuses_published_keys_on_other_interfaces(tmp_path: Path) -> None:
    file = tmp_path / "open.toml"
    file.write_text('[gateway]\nallow_hosts = ["a.example"]\n[dweets.locks]\na = "change-me-master-key"', "utf-8")
    done = called("config", "check", str(file), code=2)
    assert done.stderr.startswith("Error: dweets.locks.a: this key is published with the toolkit")
    refused = called("gateway", "--port=0", "--config", str(file), code=2)
    assert refused.stderr == done.stderr
    with started("gateway", "--port=0", f"--config={file}", "--demo") as process:
        url_of(process)
        end(process)


def test_gateway_uses_its_file_and_options_override_it(file: Path, tmp_path: Path) -> None:
    elsewhere = f'folder = "{(tmp_path / "file").as_posix()}"'
    file.write_text(f"[gateway]\nport = 1\n{elsewhere}\ncors = false\n{CONFIG}", "utf-8")
    with started("gateway", "--port=0", f"--data={tmp_path / 'option'}", TOOLKIT_CONFIG=str(file)) as process:
        url = url_of(process)
        assert b"hello" in echo_of(url, "client-id-of-mine")
        assert b"hello" not in echo_of(url, "another-key")
        assert b"gatewaykey" not in partner_answer(url, "partner-key-of-acme")
        assert raw_call(url, "GET", "/lock/door?lock=garage&key=key-of-the-garage").status == 200
        page = raw_call(url, "GET", "/get/stats", headers="Origin: https://page.example\r\n")
        assert "access-control-allow-origin" not in page.headers, "as in the file"
        _, complaint = end(process)
    assert "no key is taken" not in complaint
    assert (tmp_path / "option").is_dir()
    assert not (tmp_path / "file").exists()


def test_public_url_is_served_without_demo_keys() -> None:
    with started("gateway", "--port=0", "--public-url=https://gateway.example") as process:
        url = url_of(process)
        for name, status in (("gateway.example", 200), ("evil.example", 421)):
            request = f"GET /get/stats HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
            assert int(raw_exchange(url, request.encode()).split()[1]) == status
        _, complaint = end(process)
    assert complaint.count("no key is taken by mobile rewards and mobile identity") == 1
