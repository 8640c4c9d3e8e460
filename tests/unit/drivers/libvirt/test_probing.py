"""The outcome of work whose program was lost."""

from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers import programs, records
from forewarn.drivers.libvirt.worker import orders
from forewarn.drivers.libvirt.worker.orders import (
    ASKED,
    DONE,
    DONE_STATUS,
    DOWN_STATUS,
    FAILED,
    RUNS_STATUS,
    STILL_RUNNING_STATUS,
    STOPPED,
    UNKNOWN_STATUS,
)
from tests.support.fake_libvirt.libvirt import RUNNING
from tests.unit.drivers.libvirt.living import Living


@pytest.fixture
def living(tmp_path: Path) -> Living:
    living = Living(tmp_path)
    living.libvirts.start("web_0", "h1")
    return living


def test_exit_statuses_are_those_of_driver_programs() -> None:
    assert orders.DONE_STATUS == records.DONE_STATUS
    assert orders.RUNS_STATUS == records.RUNS_STATUS
    assert orders.UNKNOWN_STATUS == records.UNTOLD_STATUS
    assert orders.DOWN_STATUS == records.DOWN_STATUS
    assert orders.STILL_RUNNING_STATUS == programs.STILL_RUNNING_STATUS


@pytest.mark.parametrize(
    ("action", "mark", "event", "status"),
    [
        ("reboot", {"state": DONE}, "", DONE_STATUS),
        ("reboot", {"state": FAILED}, "", RUNS_STATUS),
        ("reboot", {"state": FAILED}, "destroy", DOWN_STATUS),
        ("reboot", {}, "", UNKNOWN_STATUS),
        ("reboot", {"stop": ASKED}, "", UNKNOWN_STATUS),
        ("reboot", {"stop": ASKED}, "shutdown", DOWN_STATUS),
        ("reboot", {"stop": STOPPED}, "", DONE_STATUS),
        ("start", {"stop": STOPPED}, "", DONE_STATUS),
        ("stop", {"stop": ASKED}, "", UNKNOWN_STATUS),
        ("stop", {"stop": ASKED}, "shutdown", DONE_STATUS),
        ("pause", {"stop": ASKED}, "suspend", DONE_STATUS),
        ("pause", {"stop": ASKED}, "managedSave", DONE_STATUS),
        ("resume", {"stop": STOPPED}, "suspend", UNKNOWN_STATUS),
        ("delete", {}, "", RUNS_STATUS),
    ],
)
def test_mark_and_state_tell_the_outcome(
    living: Living, action: str, mark: dict[str, Any], event: str, status: int
) -> None:
    living.leave(action, **mark)
    domain = living.libvirts.domain("web_0", "h1")
    if event == "managedSave":
        domain.managedSave(0)
    elif event:
        getattr(domain, event)()
    assert living.probe(action) == status


def test_frozen_guest_runs_again(living: Living) -> None:
    living.leave("freeze")
    living.libvirts.domain("web_0", "h1").suspend()
    assert living.probe("freeze") == RUNS_STATUS
    assert living.state()[0] == RUNNING


def test_another_mark_or_none_proves_nothing(living: Living) -> None:
    assert living.probe("reboot") == UNKNOWN_STATUS
    living.leave("reboot", operation="op-2.1")
    assert living.probe("reboot") == UNKNOWN_STATUS


def test_vm_that_is_gone_was_deleted(living: Living) -> None:
    living.do("delete")
    assert living.probe("delete") == DONE_STATUS
    assert living.probe("reboot") == UNKNOWN_STATUS


def test_host_that_is_away_tells_nothing(living: Living) -> None:
    living.libvirts.fault("h1", "down")
    for action in ("reboot", "live-migrate"):
        assert living.probe(action, to_host="h2") == UNKNOWN_STATUS


@pytest.mark.parametrize(
    ("story", "status"),
    [
        ("not moved", RUNS_STATUS),
        ("has a job", STILL_RUNNING_STATUS),
        ("moved", DONE_STATUS),
        ("moved while off", DONE_STATUS),
        ("gone", UNKNOWN_STATUS),
        ("off", UNKNOWN_STATUS),
    ],
)
def test_migration_is_where_the_vm_is(living: Living, story: str, status: int) -> None:
    if story in {"moved while off", "off"}:
        living.libvirts.domain("web_0", "h1").shutdown()
    if story.startswith("moved"):
        living.do("live-migrate", to_host="h2")
    if story == "has a job":
        living.libvirts.set("web_0", "h1", job=1)
    if story == "gone":
        living.do("delete")
    assert living.probe("live-migrate", to_host="h2") == status


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ((), RUNS_STATUS),
        (("stop",), DOWN_STATUS),
        (("redeploy",), DONE_STATUS),
        (("redeploy", "end"), DOWN_STATUS),
    ],
)
def test_redeployment_is_known_by_where_the_vm_runs(
    living: Living, steps: tuple[str, ...], status: int
) -> None:
    for step in steps:
        if step == "end":
            living.libvirts.domain("web_0", "h2").destroy()
        else:
            living.do(step, to_host="h2")
    assert living.probe("redeploy", to_host="h2") == status
