"""Run the examples of the endpoint pages against a gateway; ``python -m tests.endpoint_examples`` records the answers.

What differs from run to run is a shell variable: its value is shown as ``$NAME``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import tomllib
from functools import reduce
from pathlib import Path
from typing import Any

import toolkit
from tests.conftest import ROOT, required_program

FOLDER = ROOT / "docs" / "reference"
EXAMPLES: dict[str, list[dict[str, Any]]] = tomllib.loads((FOLDER / "endpoints.toml").read_text("utf-8"))
DEVICE = "acme-6f1c9a52-0b7e-4c6d-9d0e-3a5b8f2d7c41"
RECORDED = FOLDER / "endpoint_answers.json"


def variables_of(gateway: toolkit.Gateway) -> dict[str, str]:
    """Return what the examples know at the beginning: the address, keys of the demo world, and one issued lock."""
    with toolkit.connect(gateway) as tk:
        issued = tk.operator.issue_lock()
        tk.rewards.start_session(DEVICE)
    keys = json.loads((ROOT / "data" / "demo_world.json").read_text("utf-8"))["credentials"]
    phone = gateway.handset("no_challenge")
    return {
        "GATEWAY": gateway.base_url,
        "LOCK": issued.lock,
        "MASTER_KEY": issued.master_key.reveal(),
        "READ_KEY": issued.read_key.reveal(),
        "OPERATOR_KEY": gateway.operator_key.reveal(),
        "PARTNER_KEY": keys["rewards"]["gatewaykey"],
        "APP_KEY": keys["rewards"]["app_key"],
        "DEVICE": DEVICE,
        "CLIENT": keys["identity"]["ApiClientId"],
        "PHONE": phone.address,
    }


def answers(gateway: toolkit.Gateway) -> dict[str, dict[str, str]]:
    """Return what each example prints, by service and then by endpoint; a refusal is below ``ENDPOINT refused``."""
    required_program("curl")
    known = variables_of(gateway)
    printed: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for service, examples in EXAMPLES.items():
            shown = printed.setdefault(service, {})
            for example in examples:
                if "before" in example:
                    _output_of(example["before"], known, folder)
                output = _output_of(example["call"], known, folder)
                known |= {name: _found(path, output) for name, path in example.get("save", {}).items()}
                shown[example["endpoint"]] = _masked(output, known)
                if "refused" in example:
                    refusal = _output_of(example["refused"], known, folder)
                    shown[f"{example['endpoint']} refused"] = _masked(refusal, known)
    return printed


def _output_of(command: str, known: dict[str, str], folder: str) -> str:
    command = command.replace("curl ", "curl --silent --show-error ")
    environment = {"PATH": os.environ["PATH"], **known}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 28), f"{command}: {done.stderr}"  # 28: the time of a stream is over
    return done.stdout


def _found(path: str, output: str) -> str:
    if path.startswith("/"):
        hit = re.search(path[1:-1], output)
        assert hit, output
        return hit[1]
    value = reduce(lambda data, name: data[name], path.split("."), json.loads(output))
    assert isinstance(value, str)
    return value


def _masked(output: str, known: dict[str, str]) -> str:
    for name, value in sorted(known.items(), key=lambda pair: -len(pair[1])):
        output = output.replace(value, f"${name}")
    return output


def main() -> None:
    with toolkit.Gateway.demo() as gateway:
        Path(RECORDED).write_text(json.dumps(answers(gateway), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
