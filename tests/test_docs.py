"""The site builds without a warning, documents every public name, and its examples run and print what they show."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

import toolkit
import toolkit_gateway
from tests import limits_table
from tests.browser.lab_page import CHROMIUM, CHROMIUM_FLAGS
from tests.conftest import ROOT, required_program
from tests.endpoint_examples import EXAMPLES, RECORDED, answers
from toolkit.endpoint import Endpoint

pytestmark = pytest.mark.timeout(420)  # the first test builds the site
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "endpoints")]
BLOCK = re.compile(r"(<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>[a-z]+)\n(?P<code>.*?)```\n", re.DOTALL)
OUTPUT = re.compile(r"\s*```text\n(.*?)```", re.DOTALL)
# The words that reach over the right edge of the window, apart from what scrolls: code blocks, tables and outputs.
CUT_OFF = """() => [...document.querySelectorAll(".bd-article *")]
  .filter((one) => one.children.length === 0 && one.textContent.trim() && !one.matches(".headerlink"))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest("pre, table, .output"))
  .map((one) => one.textContent)"""
SERVICES = ("dweets", "handwriting", "rewards", "identity", "operator")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sphinx.cmd.build import build_main

    folder, complaints = tmp_path_factory.mktemp("site"), io.StringIO()
    # In this process, which has imported most of it; Python's own warnings about Sphinx's extensions are not ours.
    with contextlib.redirect_stderr(complaints), warnings.catch_warnings(action="ignore"):
        arguments = ["-W", "--keep-going", "-q", "-d", folder / "doctrees", DOCS, folder / "html"]
        code = build_main([str(argument) for argument in arguments])
    assert code == 0, complaints.getvalue()
    return folder / "html"


def test_every_public_name_has_a_reference_page(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    documented = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    missing = sorted(name for name in public_names() if name not in documented)
    assert not missing


def public_names() -> Iterator[str]:
    for package in (toolkit, toolkit.dweets, toolkit.rewards, toolkit.identity, toolkit_gateway):
        for name in package.__all__:
            value = getattr(package, name)
            if not isinstance(value, ModuleType) and (package is toolkit or name not in toolkit.__all__):
                yield f"{package.__name__}.{name}"
    classes = [value for value in vars(toolkit.errors).values() if inspect.isclass(value)]
    yield from (f"toolkit.errors.{kind.__name__}" for kind in classes if kind.__module__ == "toolkit.errors")
    with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        for client in (getattr(tk, service) for service in SERVICES):
            kind = type(client)
            yield from (f"{kind.__module__}.{kind.__name__}.{name}" for name in dir(client) if name in vars(kind))


class _Resources(HTMLParser):
    """Collects the addresses that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.found.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") != "canonical":
            self.found.append(values.get("href") or "")


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    foreign = []
    for page in pages:
        parser = _Resources()
        parser.feed(page.read_text("utf-8"))
        foreign += [f"{page.name}: {address}" for address in parser.found if re.match(r"(https?:)?//", address)]
    assert not foreign
    assert (site / "searchindex.js").exists(), "the search works without a network"


@pytest.mark.browser
def test_pages_fit_their_window_and_charts_are_alive(site: Path) -> None:
    program = required_program(*CHROMIUM)
    pages = ("gallery", "how-to/operate", "reference/endpoints/identity", "reference/python/widgets")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 375, "height": 800})
        for name in pages:
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate(CUT_OFF) == [], name
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto((site / "explanation/decisions.html").as_uri())
        assert page.evaluate("[...document.querySelectorAll('table')].every(one => one.scrollWidth <= one.clientWidth)")
        page.goto((site / "tutorials/2-dweet-history.html").as_uri())
        page.locator(".toolkit-saved .u-over").hover()
        expect(page.locator(".toolkit-chart-tip")).to_contain_text("temp_max")  # a chart of a tutorial is alive
        browser.close()


def test_endpoint_examples_give_the_recorded_answers(demo: toolkit.Gateway) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    answered = answers(demo)
    different = {
        name: (recorded.get(service, {}).get(name), printed)
        for service, examples in answered.items()
        for name, printed in examples.items()
        if recorded.get(service, {}).get(name) != printed
    }
    assert not different, "python -m tests.endpoint_examples records the answers"


def test_security_has_the_limits_of_the_code() -> None:
    assert limits_table.PAGE.read_text("utf-8") == limits_table.page_with_table(), "python -m tests.limits_table"


@pytest.mark.parametrize("service", SERVICES)
def test_every_endpoint_has_an_example(service: str) -> None:
    values = vars(importlib.import_module(f"toolkit.{service}.wire")).values()
    parts = [part for value in values for part in (value.values() if isinstance(value, dict) else [value])]
    endpoints = [getattr(part, "endpoint", part) for part in parts if not isinstance(part, type)]
    names = {f"{each.method} {each.template}" for each in endpoints if isinstance(each, Endpoint)}
    assert names == {example["endpoint"] for example in EXAMPLES[service]}


def blocks() -> Iterator[tuple[Path, re.Match[str], str | None]]:
    """Yield each block of code of README and docs, with the output that is shown behind it."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            shown = OUTPUT.match(text, block.end())
            yield page, block, shown and shown[1]


def test_python_blocks_run_and_print_what_they_show(
    demo: toolkit.Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLKIT_URL", demo.base_url)
    ran = 0
    names: dict[Path, dict[str, object]] = {}
    with contextlib.ExitStack() as opened:
        for page, block, shown in blocks():
            if block["language"] != "python" or block["reason"]:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block["code"], str(page), "exec"), names.setdefault(page, {}))
            for value in names[page].values():
                if isinstance(value, toolkit.Connection | toolkit.Gateway):
                    opened.callback(value.close)
            assert shown is None or printed.getvalue().rstrip() == shown.rstrip(), page.name
            ran += 1
    assert ran >= 6


def test_gallery_code_runs_and_has_pictures(demo: toolkit.Gateway, tmp_path: Path) -> None:
    from matplotlib import pyplot

    from tests import gallery_pictures

    results = {}
    with toolkit.connect(demo) as tk, gallery_pictures.in_empty_folder(tmp_path):
        for name, entry in gallery_pictures.ENTRIES.items():
            assert len(entry["code"].strip().splitlines()) <= 5, name
            results[name] = gallery_pictures.result_of(entry, demo, tk)
            pyplot.close("all")
        assert not [name for name, result in results.items() if result is None]
        shown = gallery_pictures.picture_of(results["note"])
    committed = {path.name: path.read_bytes() for path in gallery_pictures.FOLDER.iterdir()}
    assert committed.keys() == {entry["picture"] for entry in gallery_pictures.ENTRIES.values() if "picture" in entry}
    assert max(map(len, committed.values())) <= gallery_pictures.MOST_BYTES
    pictures = [Image.open(io.BytesIO(data)).convert("L") for data in (shown, committed["note.png"])]
    assert pictures[0].tobytes() == pictures[1].tobytes(), "python -m tests.gallery_pictures note"


def test_shell_blocks_run(demo: toolkit.Gateway, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TOOLKIT_URL": demo.base_url,
        "OPERATOR_KEY": demo.operator_key.reveal(),
    }
    for page, block, _ in blocks():
        if block["language"] == "sh" and not block["reason"]:
            command = ["bash", "-euo", "pipefail", "-c", block["code"]]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{page.name}: {block['code']}\n{done.stderr}"
