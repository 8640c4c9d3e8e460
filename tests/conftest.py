"""Options and settings that all tests share."""

import gc
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester", "tests.support.profiles"]


LONGEST = (
    *("test_campaign_tutorial", "test_campaign_simulation", "test_packages"),
    *("test_alert_servers", "test_soak", "test_demo", "test_search", "test_kills"),
    *("test_operating", "test_replica_kills", "test_campaign_failover"),
    *("test_agent_examples", "test_visit_search"),
)
"""Files with tests of a quarter of a minute and more, in this order. They begin first: one
that is left over would be waited for at the end, with nothing to do beside it."""


WAITING = {"browser", "system", "real"}
"""Directories with tests that mostly wait for processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, and spread the files that wait among those that work.

    Each worker gets a part of the list, and works while another one waits.
    """
    place = {name: at for at, name in enumerate(LONGEST)}
    count = {True: 0, False: 0}
    begins: dict[Path, int] = {}
    for item in items:
        waits = item.path.parent.name in WAITING
        begins.setdefault(item.path, count[waits])
        count[waits] += 1

    def key(item: pytest.Item) -> tuple[int, float]:
        waits = item.path.parent.name in WAITING
        share = begins[item.path] / count[waits]
        return place.get(item.path.stem, len(LONGEST)), share

    items.sort(key=key)


def pytest_collection_finish() -> None:
    """Share the schema of stores, and exclude everything from garbage collection.

    Twelve thousand tests and their modules stay until the end of the run. Each full
    collection would visit all of their objects.
    """
    # Most tests of the agent need no store, and its oldest Python has none.
    if "forewarn.store.sqlite" in sys.modules:
        from tests.support import fresh_stores  # noqa: PLC0415

        fresh_stores.share()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_secrets() -> Iterator[None]:
    """Forget the agent's secrets after each test, so that the next test has none."""
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
        help="write generated pages, tables and transcripts again, instead of comparing",
    )
    parser.addoption(
        "--long",
        action="store_true",
        default=False,
        help="run everything, with larger amounts, as `make real` does",
    )
    parser.addoption(
        "--must-run",
        action="store_true",
        default=False,
        help="a test that cannot run here fails, instead of being skipped",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_left_out = item.get_closest_marker("long") and not item.config.getoption(
        "--long"
    )
    if (
        report.skipped
        and item.config.getoption("--must-run")
        and not (is_left_out or hasattr(report, "wasxfail"))
    ):
        why = report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
        report.outcome, report.longrepr = "failed", f"must run, but was skipped: {why}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") and not item.config.getoption("--long"):
        pytest.skip("tests of the long kind, which `make real` runs")
