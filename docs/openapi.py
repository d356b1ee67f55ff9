"""The OpenAPI file of the gateway, made from the `Endpoint` objects and from what the endpoint pages say about them.

`endpoint_pages` writes it beside the pages; ``python docs/openapi.py`` prints it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from endpoint_pages import EXAMPLES, TITLES, endpoints_of

from toolkit.endpoint import Endpoint
from toolkit.identity.wire import OPERATIONS, Field, Operation

_BODIES: dict[str, dict[str, Any]] = {
    "POST /dweets/for/{thing}": {"text/plain": {"schema": {"type": "string"}}},
    "POST /render/letter/{kind}": {"application/json": {"schema": {"type": "object"}}},
    "POST /2.0/web/moment/": {"application/json": {"schema": {"type": "object"}}},
    "POST /operator/clock": {"application/json": {"schema": {"type": "object"}}},
    **dict.fromkeys(
        ("POST /dweet", "POST /dweet/for/{thing}", "POST /dweet/quietly/for/{thing}"),
        {"application/json": {"schema": {}}},
    ),
}


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    identity = {str(operation.endpoint): operation for operation in OPERATIONS}
    for service in TITLES:
        endpoints = endpoints_of(service)
        for example in EXAMPLES[service]:
            name = example["endpoint"]
            operation = _operation(service, endpoints[name], example)
            if body := _body_of(identity[name]) if name in identity else _BODIES.get(name):
                operation["requestBody"] = {"required": True, "content": body}
                if "body" in example:
                    operation["requestBody"]["description"] = example["body"]
            path = paths.setdefault(re.sub(r"\.\.\.\}", "}", endpoints[name].template), {})
            path[endpoints[name].method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gateway Toolkit", "version": "1", "description": "Four services behind one gateway."},
        "servers": [{"url": "http://127.0.0.1:8787"}],
        "tags": [{"name": title} for title in TITLES.values()],
        "paths": paths,
        "components": {"securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(service: str, endpoint: Endpoint, example: dict[str, Any]) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)", endpoint.template)
    text = {"type": "string"}
    of_path = [{"name": name, "in": "path", "required": True, "schema": text} for name in names]
    of_query = [{"name": name, "in": "query", "schema": text} for name in endpoint.query]
    return {
        "tags": [TITLES[service]],
        "summary": example["about"].partition(". ")[0].rstrip("."),
        "description": example["about"],
        "parameters": [*of_path, *of_query],
        # Thing messaging tells most failures in the body of a 200: old clients read only that.
        "responses": {"default": {"description": "The answer, or a refusal in the form of the service."}},
        **({"security": [{"operator": []}]} if service == "operator" else {}),
    }


def _body_of(operation: Operation) -> dict[str, Any]:
    """Return the JSON body of an operation of mobile identity, whose fields are declared."""
    properties = {field.name: _schema_of(field) for field in operation.fields}
    required = [field.name for field in operation.fields if field.required]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"application/json": {"schema": schema}}


def _schema_of(field: Field) -> dict[str, Any]:
    if field.name == "PaymentIds":
        return {"type": "array", "items": {"type": "string"}}
    # OpenAPI has the regular expressions of JavaScript, which know no flags of a group.
    if length := re.fullmatch(r"\(\?s:\.(?:\*|\{0,(\d+)\})\)", field.pattern):
        return {"type": "string", **({"maxLength": int(length[1])} if length[1] else {})}
    return {"type": "string", "pattern": f"^(?:{field.pattern})$"}


if __name__ == "__main__":
    print(json.dumps(document(), indent=1))
