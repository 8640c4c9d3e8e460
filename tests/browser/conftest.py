"""One Chromium for all tests of a run, and services with consoles.

A run of these tests alone (`make browser`) starts Chromium once; another starts it for
each module. Without Chromium, the tests are skipped.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    expect,
    sync_playwright,
)

from tests.support.consoles import WIDE, Place, Tab, chromium

PATIENCE_MS = 30_000
"""Maximum wait until a page shows a change, which takes a second on an idle machine."""


UNEXPECTED = re.compile(r"status of (400|404|405|415|422|5\d\d)")
"""Answers to what a page must not ask, and failures of the service."""


def is_expected(message: str, statuses: Collection[int]) -> bool:
    """Return whether Chromium only reports that a request of the API was not answered well.

    What the page makes of it is for the test. A missing file of the console is a
    mistake, and so is an answer of `UNEXPECTED`, unless a test says that it comes.
    """
    if "Failed to load resource" not in message or "/v1/" not in message:
        return False
    if "/v1/campaigns/progress/" in message:
        return True  # the plan is ready, or the service has not begun it
    match = UNEXPECTED.search(message)
    return match is None or int(match[1]) in statuses


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.slow)


def lifetime(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """Return how long Chromium runs: while it does, this thread has a running event
    loop, so that tests of other directories could begin none.
    """
    del fixture_name
    here, base = Path(__file__).parent, config.invocation_params.dir
    paths = [(base / text.partition("::")[0]).resolve() for text in config.args]
    alone = all(here == path or here in path.parents for path in paths)
    return "session" if alone else "module"


@pytest.fixture(scope=lifetime)
def browser() -> Iterator[Browser]:
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


def begun(browser: Browser, **options: Any) -> BrowserContext:
    # A dot that pulses makes Chromium paint all the time.
    usual: dict[str, Any] = {"viewport": WIDE, "reduced_motion": "reduce"}
    wanted = {**usual, **options}
    context = browser.new_context(**wanted)
    context.set_default_timeout(PATIENCE_MS)
    return context


CHANGEABLE = {"viewport", "color_scheme", "extra_http_headers"}
"""Options that a page can have without a context of its own."""


class SparePage:
    """An empty page, which tests use one after the other.

    A new page begins a process, and a new context loads and compiles each module of the
    console again. That takes four times as long as to open a page of the console.
    """

    def __init__(self, browser: Browser) -> None:
        """Begin without a page."""
        self._browser = browser
        self._page: Page | None = None

    def take(self, options: Mapping[str, Any]) -> Page:
        """Return the page, or a new one if it is in use, with some `CHANGEABLE` options."""
        page, self._page = self._page, None
        page = page or begun(self._browser).new_page()
        if "viewport" in options:
            page.set_viewport_size(options["viewport"])
        if "color_scheme" in options:
            page.emulate_media(color_scheme=options["color_scheme"])
        page.set_extra_http_headers(options.get("extra_http_headers", {}))
        return page

    def give_back(self, page: Page) -> None:
        """Take a page as it is, and empty it for the next test."""
        try:
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
            page.goto("about:blank")
            assert page.evaluate(IS_CLOCK_REAL), "a page with a clock is for one test"
            page.context.clear_cookies()
            page.set_viewport_size(WIDE)
            page.emulate_media(
                media="null",
                color_scheme="null",
                reduced_motion="reduce",
                forced_colors="null",
            )
        except Error:
            # It was closed, or shows that its service has ended.
            page.context.close()
            return
        for other in page.context.pages:
            if other is not page:
                other.close()
        if self._page is None:
            self._page = page
        else:
            page.context.close()


IS_CLOCK_REAL = "setTimeout.toString().includes('native code')"
"""Whether a script finds the clock of the browser, and not one that a test sets."""


@pytest.fixture(scope=lifetime)
def spare_page(browser: Browser) -> SparePage:
    return SparePage(browser)


@pytest.fixture
def new_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    made: list[BrowserContext] = []

    def new(**options: Any) -> BrowserContext:
        made.append(begun(browser, **options))
        return made[-1]

    yield new
    for context in made:
        context.close()


@pytest.fixture
def new_tab(
    new_context: Callable[..., BrowserContext], spare_page: SparePage
) -> Iterator[Callable[..., Tab]]:
    """Return what opens a tab; at the end, no tab may have complained.

    A tab that gets a clock or scripts must be `alone`: nothing removes them from it.
    """
    tabs: list[Tab] = []
    spare: list[Tab] = []

    def new(
        place: Place,
        context: BrowserContext | None = None,
        statuses: Collection[int] = (),
        *,
        alone: bool = False,
        **options: Any,
    ) -> Tab:
        is_spare = not (context or alone) and options.keys() <= CHANGEABLE
        page = (
            spare_page.take(options)
            if is_spare
            else (context or new_context(**options)).new_page()
        )
        tab = Tab(
            page,
            place.url,
            expected=lambda message: is_expected(message, statuses),
        )
        tabs.append(tab)
        spare.extend([tab] * is_spare)
        return tab

    yield new
    for tab in tabs:
        # An answer that a test changes can still be on its way.
        if not tab.page.is_closed():
            tab.page.unroute_all(behavior="ignoreErrors")
    for tab in spare:
        tab.leave()
        spare_page.give_back(tab.page)
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
