"""docs/reference/wire.md lists each endpoint and header that the specification does not have."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests.conftest import ROOT
from toolkit.dweets import wire as dweets
from toolkit.dweets.condition_engine import compiled_condition
from toolkit.endpoint import Endpoint
from toolkit.handwriting import wire as handwriting
from toolkit.identity import wire as identity
from toolkit.rewards import wire as rewards

PAGE = (ROOT / "docs" / "reference" / "wire.md").read_text("utf-8")
SPECIFIED = """
POST /dweet/for/{thing}
GET /get/latest/dweet/for/{thing}
GET /get/dweets/for/{thing}
GET /listen/for/dweets/from/{thing}
GET /alert/{who}/when/{thing}/{condition...}
GET /get/alert/for/{thing}
GET /remove/alert/for/{thing}
GET /lock/{thing}
GET /unlock/{thing}
GET /remove/lock/{lock}
GET /handwritings
GET /render/png
GET /render/pdf
POST /2.0/web/moment/
GET /mobileauth/2014/07/01/deviceAuthenticate
""".splitlines()


def endpoints(module: ModuleType) -> list[str]:
    values = [*vars(module).values(), *vars(module).get("RENDER", {}).values()]
    return [f"{value.method} {value.template}" for value in values if isinstance(value, Endpoint)]


@pytest.mark.parametrize("module", [dweets, handwriting, rewards, identity], ids=lambda module: module.__name__)
def test_the_page_lists_what_the_specification_lacks(module: ModuleType) -> None:
    headers = [value for value in vars(module).values() if isinstance(value, str) and re.fullmatch(r"X-[\w-]+", value)]
    added = [line for line in endpoints(module) if line not in SPECIFIED]
    assert added + headers
    assert [name for name in added + headers if name not in PAGE] == []


def test_the_conditions_on_the_page_are_what_it_says() -> None:
    examples = re.findall(r"^[123]\. .*: `(.+)`", PAGE, re.MULTILINE)
    assert [compiled_condition(example, 60.0).fault for example in examples] == [None, None]
    refusal = compiled_condition("if (dweet.celsius > 30) 'too hot'", 60.0).fault
    assert f'"because":"the condition doesn\'t compile: {refusal}"' in PAGE
