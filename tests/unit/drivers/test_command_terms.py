"""A replica that leads no more starts nothing of the calls that have begun."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.drivers.command import CommandDriver
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.unit.drivers.test_command_crashes import CALLS, VMS, begin_all, open_driver

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[CommandDriver]:
    command_driver = open_driver(tmp_path)
    yield command_driver
    command_driver.close()


def test_rest_of_a_call_starts_only_while_it_may(
    driver: CommandDriver, tmp_path: Path
) -> None:
    # This replica leads when the first program starts, and no longer leads after that.
    leads, asked = [True], threading.Event()

    def may_start() -> bool:
        if not leads:
            asked.set()
        return bool(leads and leads.pop())

    driver.start_only_while(may_start)
    begin_all(driver)
    assert asked.wait(PATIENCE_SECONDS)

    def lines() -> list[str]:
        log = tmp_path / "log"
        return log.read_text().splitlines() if log.exists() else []

    assert eventually(lines, bool, what="a program") == ["op-0 a"]
    asked.clear()
    # The watcher has looked at all calls again, and has started nothing.
    assert asked.wait(PATIENCE_SECONDS)
    assert lines() == ["op-0 a"]
    driver.start_only_while(lambda: True)
    eventually(lines, lambda all_lines: len(all_lines) == CALLS * len(VMS))
