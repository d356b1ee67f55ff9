"""Sphinx extension: a page for each service with all its endpoints, and the OpenAPI file of all.

Method, path and query come from the `Endpoint` objects that client and gateway use. The rest comes from
``reference/endpoints.toml`` and ``reference/endpoint_answers.json``, which a test compares with a gateway.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

from toolkit.endpoint import Endpoint
from toolkit.identity.envelope import STATUSES
from toolkit_gateway.rewards.refusals import REFUSALS

REFERENCE = Path(__file__).parent / "reference"
EXAMPLES: dict[str, list[dict[str, Any]]] = tomllib.loads((REFERENCE / "endpoints.toml").read_text("utf-8"))
TITLES = {
    "dweets": "Thing messaging",
    "handwriting": "Handwriting",
    "rewards": "Mobile rewards",
    "identity": "Mobile identity",
    "operator": "Operator API",
}
VARIABLES = """\
`$GATEWAY` is the address of a gateway, `$LOCK` and `$MASTER_KEY` are a lock that its operator issued,
`$OPERATOR_KEY` is in the data folder; `$PARTNER_KEY`, `$APP_KEY` and `$CLIENT` are keys of the configuration,
`$PHONE` is the address of a phone and `$DEVICE` a device id. Other names are taken from the answers above them."""


def endpoints_of(service: str) -> dict[str, Endpoint]:
    """Return the endpoints of a service, by method and path."""
    found = _endpoints_in(import_module(f"toolkit.{service}.wire"))
    return {f"{endpoint.method} {endpoint.template}": endpoint for endpoint in found}


def _endpoints_in(module: ModuleType) -> Iterator[Endpoint]:
    for value in list(vars(module).values()):
        parts = value.values() if isinstance(value, dict) else [getattr(value, "endpoint", value)]
        yield from (part for part in parts if isinstance(part, Endpoint))


def page(service: str, examples: list[dict[str, Any]], answers: dict[str, str]) -> str:
    endpoints = endpoints_of(service)
    sections = [_section(endpoints[example["endpoint"]], example, answers) for example in examples]
    return "\n\n".join([f"# {TITLES[service]}", VARIABLES, *sections]) + "\n"


def _section(endpoint: Endpoint, example: dict[str, Any], answers: dict[str, str]) -> str:
    name = example["endpoint"]
    parts = [f"## `{name}`", example["about"]]
    if endpoint.query:
        parts.append(f"**Query**: {', '.join(f'`{name}`' for name in endpoint.query)}")
    if "body" in example:
        parts.append(f"**Body**: {example['body']}")
    parts.append(_exchange(example["call"], answers[name]))
    if "refused" in example:
        parts += ["A refusal:", _exchange(example["refused"], answers[f"{name} refused"])]
    return "\n\n".join(parts)


def _exchange(call: str, answer: str) -> str:
    return f"```sh\n{call}\n```\n\n```text\n{_readable(answer)}\n```"


def _readable(answer: str) -> str:
    try:
        value = json.loads(answer)
    except ValueError:
        return answer.rstrip("\n") or "(an empty body)"
    text = json.dumps(value, ensure_ascii=False)
    return (
        text
        if len(text) <= 100 or not isinstance(value, dict | list)
        else json.dumps(value, indent=1, ensure_ascii=False)
    )


def errors_page() -> str:
    rewards = [f"| {row.status} | `{code}` | {row.message} |" for code, row in REFUSALS.items()]
    identity = [f"| {row.http} | {code} | {row.description} |" for code, row in STATUSES.items()]
    head = ["| HTTP status | code | message |", "|--:|---|---|"]
    return "\n".join(
        [
            "# Errors of mobile rewards and mobile identity",
            "\n## Mobile rewards\n",
            *head,
            *rewards,
            "\n## Mobile identity\n",
            "The service of 2014 defined 1000 to 1039; the others are ours.\n",
            *head,
            *identity,
            "",
        ]
    )


def write_pages(app: Sphinx) -> None:
    from openapi import document  # it reads this module

    answers = json.loads((REFERENCE / "endpoint_answers.json").read_text("utf-8"))
    for service in TITLES:
        text = page(service, EXAMPLES[service], answers[service])
        (REFERENCE / "endpoints" / f"{service}.md").write_text(text, "utf-8")
    (REFERENCE / "endpoints" / "errors.md").write_text(errors_page(), "utf-8")
    (REFERENCE / "endpoints" / "openapi.json").write_text(json.dumps(document(), indent=1) + "\n", "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
