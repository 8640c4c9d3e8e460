"""Failed hosts that are tried again go on, although they use up `unavailable`."""

from itertools import count
from pathlib import Path

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns, cordons
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action, OperationState
from forewarn.reporting import attention
from forewarn.store.memory import MemoryStore
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    in_work,
    rollout,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import CrashError, World

TERMS = (
    "[campaign.budget]\nin_flight = 3\nunavailable = 1\n"
    "[campaign.tolerance]\nfailures = 2\nin_a_row = 2\n" + ONE_STAGE
)
FULL = "campaign bios: 1 of 1 hosts are away for any cause"


def after_a_failure(hosts: int = 3, file: Path | None = None) -> World:
    """Return a world in which the first host has failed, and uses up the budget."""
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    world = world_of(
        [{f"s{number}": 0} for number in range(hosts)],
        store=MemoryStore if file is None else lambda: SqliteStore(file),
        driver=driver,
    )
    start(world, TERMS)
    while not campaign(world).failed:
        world.advance("1m")
    world.advance("1h")
    assert in_work(world) == []
    assert waits_for(world).startswith(FULL)
    return world


def retry(it: World) -> None:
    steer(it, lambda work: campaigns.retry(work, "bios", [name_of(0)]))


def test_a_retried_host_goes_on_and_the_others_follow() -> None:
    world = after_a_failure()
    retry(world)
    assert announced(world) == [name_of(0)]
    while campaign(world).done == 0:
        assert in_work(world) == [name_of(0)], "no other host is away meanwhile"
        world.advance("1m")
    world.advance("1d")
    assert (campaign(world).state, campaign(world).done) == (CampaignState.DONE, 3)


def test_a_retried_host_that_was_withdrawn_goes_on_too() -> None:
    world = after_a_failure()
    retry(world)
    steer(world, lambda work: campaigns.halt(work, "bios"))
    assert announced(world) == []
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert announced(world) == [name_of(0)]


def test_a_retried_host_that_was_opened_waits_for_the_budget_as_others() -> None:
    world = after_a_failure()
    world.order(lambda work: cordons.cordon(work, name_of(2)), actor="alice")
    steer(world, lambda work: campaigns.pause(work, "bios"))
    retry(world)
    world.order(lambda work: cordons.open_host(work, name_of(0), by_all=True))
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    world.advance("5m")
    assert in_work(world) == []
    (waiting,) = [
        operation
        for operation in world.operations()
        if operation.host == name_of(0) and operation.state is OperationState.PLANNED
    ]
    assert any(
        "away for any cause" in reason for reason in world.explain(waiting.operation_id)
    )
    world.order(lambda work: cordons.open_host(work, name_of(2), by_all=True))
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE


def test_a_used_up_budget_is_a_problem_after_a_day() -> None:
    world = after_a_failure()
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    world.advance("2d")
    assert campaign(world).state is CampaignState.RUNNING
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    (stalled,) = [
        problem for problem in problems if problem.kind.value == "campaign-stalled"
    ]
    assert FULL in stalled.text
    world.order(lambda work: cordons.open_host(work, name_of(0), by_all=True))
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE


def test_a_retry_survives_a_crash_at_each_commit_publication_and_call(
    tmp_path: Path,
) -> None:
    at = 0
    for at in count(1):
        world = after_a_failure(file=tmp_path / f"{at}.db")
        passed = sum(world.passed.values())
        world.crash_at = lambda _place, _count, it=world, last=passed + at: (
            sum(it.passed.values()) == last
        )
        has_crashed = False
        try:
            retry(world)
        except CrashError:
            has_crashed = True
            world.crash_at = lambda _place, _count: False
            world.restart()
            world.settle()
            if campaign(world).failed:
                retry(world)
        assert announced(world) == [name_of(0)], f"after a crash at step {at}"
        assert rollout(world).in_flight == 1
        world.store.close()
        if not has_crashed:
            break
    assert at > 2
