"""Options and settings that all tests share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

pytest_plugins = ["pytester", "tests.support.profiles"]


TESTS = Path(__file__).parent

UNMEASURED = frozenset({"fuzz", "property", "real", "search", "system"})
"""Folders whose tests are not there to go through every line, and go through some of
them a million times: coverage would make them twice as slow, and their programs too."""


LONGEST = ("test_soak", "test_demo", "test_search", "test_kills", "test_operating")
"""Files with tests of a quarter of a minute and more. They begin first: one that is
left over would be waited for at the end, with nothing to do beside it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, and leave all else in its order."""
    place = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


@pytest.fixture(autouse=True, scope="module")
def measured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure coverage where that is what a test is for."""
    measuring = coverage.Coverage.current()
    folder = request.path.relative_to(TESTS).parts[0]
    if measuring is None or folder not in UNMEASURED:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        measuring.stop()
        yield
        measuring.start()


@pytest.fixture(autouse=True)
def no_secrets() -> Iterator[None]:
    """Have each test begin as a new agent does, which holds no other's secrets."""
    yield
    # Most tests need nothing of the agent.
    if (secrets := sys.modules.get("forewarn.agent.secrets")) is not None:
        secrets.forget()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write what the transcripts gave back into their files",
    )
    parser.addoption(
        "--long",
        action="store_true",
        default=False,
        help="run what takes minutes too, as `make real` does",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") and not item.config.getoption("--long"):
        pytest.skip(f"{item.path.name} takes minutes: make real")
