"""Options and settings that all tests share."""

import gc
import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["pytester", "tests.support.profiles"]


LONGEST = ("test_soak", "test_demo", "test_search", "test_kills", "test_operating")
"""Files with tests of a quarter of a minute and more. They begin first: one that is
left over would be waited for at the end, with nothing to do beside it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, and leave all else in its order."""
    place = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish() -> None:
    """Exclude everything collected so far from garbage collection.

    Twelve thousand tests and their modules stay until the end of the run. Each full
    collection would visit all of their objects.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_secrets() -> Iterator[None]:
    """Have each test begin as a new agent does, which holds no other's secrets."""
    yield
    # Most tests need nothing of the agent.
    if (secrets := sys.modules.get("forewarn.agent.secrets")) is not None:
        secrets._held.clear()
        vars(secrets)["_forms"] = ()


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
