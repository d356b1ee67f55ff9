"""One JupyterLab and one Chromium for all tests of the browser in a worker.

The fixtures end with this folder, not with the session: Playwright keeps an event loop in the main thread, and
tests that come later start loops of their own there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect, sync_playwright

from tests.browser.lab_page import (
    CHROMIUM,
    CHROMIUM_FLAGS,
    EXPOSED,
    RunningLab,
    running_lab,
    shut_down_kernels,
    watch_foreign_requests,
)
from tests.conftest import required_program

WINDOW: ViewportSize = {"width": 1200, "height": 900}
# Waits end with what they wait for; these only say when to give up, on a machine that is slow and busy.
_GIVE_UP_MS = 60_000
_TEST_SECONDS = 300
# For what is not in the page yet the tests use `wait_for`: each look of `expect` that fails describes the whole page to
# itself first, and in a notebook with many widgets that takes a fifth of a second.
expect.set_options(timeout=_GIVE_UP_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker("browser")
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    required_program(*CHROMIUM)
    with running_lab(tmp_path_factory.mktemp("lab"), *EXPOSED) as lab:
        yield lab


@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A Chromium with an empty profile that reaches this machine only."""
    program = required_program(*CHROMIUM)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"),
            executable_path=program,
            headless=True,
            args=CHROMIUM_FLAGS,
            viewport=WINDOW,
            # Without windows nobody can be asked whether a page may copy.
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(_GIVE_UP_MS)
        yield context
        context.close()


@pytest.fixture(scope="package")
def foreign_requests(chromium: BrowserContext) -> list[str]:
    """What the browser asked of other machines, in all tests so far."""
    return watch_foreign_requests(chromium)


@pytest.fixture(scope="package")
def shared_page(lab: RunningLab, chromium: BrowserContext) -> Page:
    """One page for all tests of notebooks: JupyterLab takes seconds to load."""
    return chromium.new_page()


@contextmanager
def kernels_shut_down(page: Page, foreign_requests: list[str]) -> Iterator[Page]:
    """Give the page in its usual size; at the end no kernel runs, and no request may have left this machine."""
    page.set_viewport_size(WINDOW)
    yield page
    shut_down_kernels(page)
    assert foreign_requests == []


@pytest.fixture
def page(shared_page: Page, foreign_requests: list[str]) -> Iterator[Page]:
    with kernels_shut_down(shared_page, foreign_requests) as page:
        yield page


@pytest.fixture(scope="module")
def page_of_module(shared_page: Page, foreign_requests: list[str]) -> Iterator[Page]:
    """The page that all share, for all tests of a file: a kernel takes seconds to start too."""
    with kernels_shut_down(shared_page, foreign_requests) as page:
        yield page
