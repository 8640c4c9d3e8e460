"""One Chromium for all tests of a module, and services with consoles.

Without Chromium, the tests are skipped.
"""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.support.consoles import WIDE, Place, Tab, chromium

PATIENCE_MS = 30_000
"""For what a page shows within a second on an idle machine."""


UNEXPECTED = re.compile(r"status of (400|404|405|415|422|5\d\d)")
"""Answers to what a page must not ask, and failures of the service."""


def is_expected(message: str, statuses: Collection[int]) -> bool:
    """Return whether Chromium only reports that a request of the API was not answered well.

    What the page makes of it is for the test. A missing file of the console is a
    mistake, and so is an answer of `UNEXPECTED`, unless a test says that it comes.
    """
    if "Failed to load resource" not in message or "/v1/" not in message:
        return False
    found = UNEXPECTED.search(message)
    return found is None or int(found[1]) in statuses


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # While it runs, this thread has a running event loop, and the tests of other modules
    # can begin none.
    program = chromium()
    if not program:
        pytest.skip("no Chromium here: apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, as whom CI runs.
        found = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        yield found
        found.close()


@pytest.fixture
def new_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    made: list[BrowserContext] = []

    def new(**options: Any) -> BrowserContext:
        wanted: dict[str, Any] = {"viewport": WIDE, **options}
        context = browser.new_context(**wanted)
        context.set_default_timeout(PATIENCE_MS)
        made.append(context)
        return context

    yield new
    for context in made:
        context.close()


@pytest.fixture
def new_tab(
    new_context: Callable[..., BrowserContext],
) -> Iterator[Callable[..., Tab]]:
    """Return what opens a tab; at the end, no tab may have complained."""
    tabs: list[Tab] = []

    def new(
        place: Place,
        context: BrowserContext | None = None,
        statuses: Collection[int] = (),
        **options: Any,
    ) -> Tab:
        tab = Tab(
            context or new_context(**options),
            place.url,
            expected=lambda message: is_expected(message, statuses),
        )
        tabs.append(tab)
        return tab

    yield new
    for tab in tabs:
        # An answer that a test changes can still be on its way.
        if not tab.page.is_closed():
            tab.page.unroute_all(behavior="ignoreErrors")
    for tab in tabs:
        assert tab.said == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a service that tests of a file share."""
    place = Place(tmp_path_factory.mktemp("console"))
    yield place
    place.kill()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a service for one test."""
    found = Place(tmp_path / "service")
    yield found
    found.kill()
