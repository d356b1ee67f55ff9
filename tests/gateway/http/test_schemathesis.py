"""Requests that Schemathesis makes of the OpenAPI file: the gateway has an answer to each, and logs no error."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, required_program
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings


@pytest.fixture
def openapi_file(tmp_path: Path) -> Path:
    command = [sys.executable, ROOT / "docs" / "openapi.py"]
    file = tmp_path / "openapi.json"
    file.write_bytes(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return file


def test_openapi_file_names_every_path(openapi_file: Path) -> None:
    paths = json.loads(openapi_file.read_bytes())["paths"]
    assert {"post", "get"} == paths["/dweet/for/{thing}"].keys()
    parameters = paths["/alert/{who}/when/{thing}/{condition}"]["get"]["parameters"]
    assert [one["name"] for one in parameters if one["in"] == "path"] == ["who", "thing", "condition"]
    body = paths["/account/2014/07/25/accountEcho"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"][:2] == ["RequestId", "ApiClientId"]
    assert len(paths) > 30


@pytest.mark.long
@pytest.mark.timeout(900)
def test_generated_requests_are_answered(openapi_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    uv = required_program("uv")
    with Gateway(timings=Timings(key_interval=1e-6)) as gateway, caplog.at_level(logging.ERROR, "toolkit_gateway"):
        command = [uv, "tool", "run", "--from", "schemathesis>=4,<5", "schemathesis", "run", openapi_file]
        options = ["--url", gateway.base_url, "--checks", "not_a_server_error", "--max-examples", "20", "--seed", "1"]
        # A stream stays open. A rendering of a long text takes seconds; `test_fuzz` of handwriting has those.
        options += ["--exclude-path-regex", "^/listen/|^/render/", "--header", "Authorization: Bearer unknown"]
        options += ["--suppress-health-check", "all"]
        # It keeps a cache in its working directory.
        done = subprocess.run([*command, *options], cwd=openapi_file.parent, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()
    assert caplog.messages == []
