"""Hosts whose VMs cannot be moved away are tried again last, and then skipped."""

from itertools import pairwise
from pathlib import Path

import pytest

from forewarn.campaigns import progress
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.control.requests import campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind, parse_fault
from forewarn.fleet.model import Host, VmState
from forewarn.instants import HOUR, format_instant
from forewarn.protocol.blockers import DrainFailed
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.reporting.campaign_reports import stage_of
from forewarn.reporting.campaigns import campaign_report
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.store.sqlite import SqliteStore
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    in_work,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import check_of, name_of, world_of
from tests.support.worlds import World

STEPS = """
[campaign.steps]
work = { step = "flash", version = "2.19" }
verify = { step = "flashed", version = "2.19" }
"""

ATTEMPTS = 3
"""Calls of the driver for one attempt to move a VM."""


def of(hosts: int, *, stuck: dict[int, int], faults: tuple[str, ...] = ()) -> World:
    """Return a world of hosts with a VM each, which the driver fails to migrate.

    `stuck` has the numbers of hosts, each with the number of failed drains.
    """
    driver = SimulatedDriver()
    for number, drains in stuck.items():
        driver.inject(
            Fault(
                kind=FaultKind.FAIL,
                action=Action.LIVE_MIGRATE,
                vm=f"s{number}-{number}",
                times=drains * ATTEMPTS,
            )
        )
    for text in faults:
        driver.inject(parse_fault(text))
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def planned(world: World, host: str) -> Operation:
    (found,) = [
        operation
        for operation in world.operations()
        if operation.host == host and operation.state is OperationState.PLANNED
    ]
    return found


def started(world: World) -> list[str]:
    """Return the hosts in the order of their starts."""
    operations = [operation for operation in world.operations() if operation.started_at]
    return [
        operation.host
        for operation in sorted(operations, key=lambda operation: operation.started_at)
    ]


def cordons(world: World, host: str) -> int:
    found = world.read(lambda reader: reader.get(Host, host))
    assert found is not None
    return len(found.cordons)


def details(world: World, kind: AuditKind) -> list[str]:
    """Return the details of the history entries of a kind."""
    entries = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    return [operators.detail_of(entry) for entry in entries if entry.kind is kind]


def until_deferred(world: World) -> None:
    while not campaign(world).deferred:
        world.advance("1m")


@pytest.mark.parametrize("steps", [STEPS, ""])
def test_a_host_that_cannot_be_drained_is_opened_and_tried_again_last(
    steps: str,
) -> None:
    world = of(6, stuck={1: 1})
    start(world, steps + ONE_STAGE, impact="live-migrate")
    until_deferred(world)
    host = name_of(1)
    row = campaign(world)
    assert (row.state, row.failed, row.done) == (CampaignState.RUNNING, (), 1)
    assert cordons(world, host) == 0
    vm = world.stored_vm("s1-1")
    assert (vm.host, vm.state) == (host, VmState.RUNNING)
    waiting = planned(world, host)
    (blocker,) = waiting.held_by
    assert isinstance(blocker, DrainFailed)
    assert (blocker.drains, blocker.until) == (1, waiting.due_at)
    (why,) = world.explain(waiting.operation_id)
    assert why == (
        "its VMs could not be moved away in 1 of at most 3 attempts; campaign bios tries "
        f"it again after its other hosts, from {format_instant(blocker.until)} on"
    )
    world.advance("2d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 6, 0)
    order = started(world)
    assert order[1] == host
    assert order[-1] == host


def test_a_host_is_skipped_after_its_last_attempt() -> None:
    world = of(4, stuck={2: 99})
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    world.advance("3d")
    row = campaign(world)
    assert row.state is CampaignState.DONE
    assert (row.done, row.skipped, row.failed) == (3, 1, ())
    host = name_of(2)
    attempts = [operation for operation in world.operations() if operation.host == host]
    assert len(attempts) == progress.DRAINS_MAX
    assert [attempt.drains for attempt in attempts] == [0, 1, 2]
    gaps = [after.created - before.ended_at for before, after in pairwise(attempts)]
    assert min(gaps) >= HOUR, "tenants are not told again at once"
    assert cordons(world, host) == 0
    messages = details(world, AuditKind.CAMPAIGN_HOSTS_SKIPPED)
    assert messages == ["its VMs could not be moved away in 3 attempts"]
    assert details(world, AuditKind.CAMPAIGN_HOST_DEFERRED) == [
        "its VMs could not be moved away, attempt 1",
        "its VMs could not be moved away, attempt 2",
    ]


def test_the_next_host_becomes_the_canary_when_the_canary_cannot_be_drained() -> None:
    world = of(8, stuck={0: 99})
    start(
        world,
        STEPS + "[[campaign.stage]]\nhosts = 1\n[[campaign.stage]]\nhosts = 3\n",
        impact="live-migrate",
    )
    until_deferred(world)
    assert campaign(world).stage == 1
    assert in_work(world) == [name_of(1)], "one host proves the work before the others"
    world.advance("3d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 7, 1)
    done = [
        operation
        for operation in world.operations()
        if operation.state is OperationState.DONE
    ]
    stages = {
        number: [
            operation.host
            for operation in done
            if stage_of(row, operation.position) == number
        ]
        for number in (1, 2, 3)
    }
    assert {number: sorted(hosts) for number, hosts in stages.items()} == {
        1: [name_of(1)],
        2: [name_of(2), name_of(3)],
        3: [name_of(number) for number in range(4, 8)],
    }


def test_a_move_that_leaves_a_vm_down_is_a_failure() -> None:
    world = of(3, stuck={}, faults=("live_migrate fail vm=s0-0 left=down times=3",))
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    world.advance("1d")
    row = campaign(world)
    assert row.failed_hosts == (name_of(0),)
    assert (row.deferred, row.done) == (0, 2)
    assert cordons(world, name_of(0)) == 1


def test_too_many_hosts_that_cannot_be_drained_halt_the_campaign() -> None:
    world = of(10, stuck={0: 9, 1: 9, 2: 9})
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    world.advance("1d")
    row = campaign(world)
    assert row.halt is not None
    assert (row.halt.cause, row.halt.count, row.halt.host) == (
        HaltCause.DEFERRED,
        3,
        name_of(2),
    )
    assert row.done == 0
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    world.advance("3d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 7, 3)


def test_an_operator_can_try_a_deferred_host_at_once_or_skip_it() -> None:
    world = of(3, stuck={0: 1, 1: 1})
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    until_deferred(world)
    while campaign(world).deferred < 2:
        world.advance("1m")
    steer(world, lambda work: campaigns.pause(work, "bios"))
    steer(world, lambda work: campaigns.retry(work, "bios", [name_of(0)]))
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    assert not planned(world, name_of(0)).due_at
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    world.advance("20m")
    assert name_of(1) not in in_work(world)
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 2, 1)


def test_a_campaign_with_deferred_hosts_only_says_so() -> None:
    world = of(2, stuck={0: 1})
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    until_deferred(world)
    row = campaign(world)
    told = world.read(lambda reader: campaign_report(reader, row, now=world.now))
    (host,) = told["deferred"]
    assert (host["host"], host["attempts"], host["attempts_max"]) == (name_of(0), 1, 3)
    assert (told["waiting"], told["deferred_count"]) == (0, 1)
    assert waits_for(world) == (
        "campaign bios has only 1 deferred host left, and tries again from "
        f"{host['until']} on"
    )


def test_skipping_hosts_of_a_later_stage_does_not_end_the_canary_stage() -> None:
    world = of(5, stuck={})
    start(world, "[[campaign.stage]]\nhosts = 1\n[[campaign.stage]]\nhosts = 3\n")
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1), name_of(4)]))
    row = campaign(world)
    assert (row.stage, row.stage_left, row.skipped) == (1, 1, 2)
    assert in_work(world) == [name_of(0)]
    world.advance("40m")
    assert (campaign(world).stage, campaign(world).stage_left) == (2, 1)
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 3, 2)


def test_a_deferral_survives_a_restart_and_passes_the_check(tmp_path: Path) -> None:
    file = tmp_path / "forewarn.db"
    driver = SimulatedDriver()
    driver.inject(
        Fault(kind=FaultKind.FAIL, action=Action.LIVE_MIGRATE, vm="s0-0", times=3)
    )
    world = world_of(
        [{f"s{number}": 0} for number in range(3)],
        store=lambda: SqliteStore(file),
        driver=driver,
    )
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    until_deferred(world)
    until = planned(world, name_of(0)).due_at
    world.restart()
    assert planned(world, name_of(0)).due_at == until, (
        "a restart is not a reason to try again"
    )
    assert check_of(world, file) == []
    world.advance("1d")
    assert campaign(world).done == 3
    visits = world.read(
        lambda reader: list(
            every(reader, kinds.VISITS_OF_REQUEST, campaign(world).request)
        )
    )
    states = sorted(visit.state.value for visit in visits)
    assert states == ["Deferred", "Done", "Done", "Done"]
