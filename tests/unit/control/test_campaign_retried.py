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
    it = world_of(
        [{f"s{number}": 0} for number in range(hosts)],
        store=MemoryStore if file is None else lambda: SqliteStore(file),
        driver=driver,
    )
    start(it, TERMS)
    while not campaign(it).failed:
        it.advance("1m")
    it.advance("1h")
    assert in_work(it) == []
    assert waits_for(it).startswith(FULL)
    return it


def retry(it: World) -> None:
    steer(it, lambda work: campaigns.retry(work, "bios", [name_of(0)]))


def test_a_retried_host_goes_on_and_the_others_follow() -> None:
    it = after_a_failure()
    retry(it)
    assert announced(it) == [name_of(0)]
    while campaign(it).done == 0:
        assert in_work(it) == [name_of(0)], "no other host is away meanwhile"
        it.advance("1m")
    it.advance("1d")
    assert (campaign(it).state, campaign(it).done) == (CampaignState.DONE, 3)


def test_a_retried_host_that_was_withdrawn_goes_on_too() -> None:
    it = after_a_failure()
    retry(it)
    steer(it, lambda work: campaigns.halt(work, "bios"))
    assert announced(it) == []
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert announced(it) == [name_of(0)]


def test_a_retried_host_that_was_opened_waits_for_the_budget_as_others() -> None:
    it = after_a_failure()
    it.order(lambda work: cordons.cordon(work, name_of(2)), actor="alice")
    steer(it, lambda work: campaigns.pause(work, "bios"))
    retry(it)
    it.order(lambda work: cordons.open_host(work, name_of(0), by_all=True))
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    it.advance("5m")
    assert in_work(it) == []
    (waiting,) = [
        each
        for each in it.operations()
        if each.host == name_of(0) and each.state is OperationState.PLANNED
    ]
    assert any(
        "away for any cause" in each for each in it.explain(waiting.operation_id)
    )
    it.order(lambda work: cordons.open_host(work, name_of(2), by_all=True))
    it.advance("1d")
    assert campaign(it).state is CampaignState.DONE


def test_a_used_up_budget_is_a_problem_after_a_day() -> None:
    it = after_a_failure()
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    it.advance("2d")
    assert campaign(it).state is CampaignState.RUNNING
    found = it.read(lambda reader: attention.problems(reader, now=it.now))
    (stalled,) = [each for each in found if each.kind.value == "campaign-stalled"]
    assert FULL in stalled.text
    it.order(lambda work: cordons.open_host(work, name_of(0), by_all=True))
    it.advance("1d")
    assert campaign(it).state is CampaignState.DONE


def test_a_retry_survives_a_crash_at_each_commit_publication_and_call(
    tmp_path: Path,
) -> None:
    at = 0
    for at in count(1):
        it = after_a_failure(file=tmp_path / f"{at}.db")
        passed = sum(it.passed.values())
        it.crash_at = lambda _place, _count, it=it, last=passed + at: (
            sum(it.passed.values()) == last
        )
        has_crashed = False
        try:
            retry(it)
        except CrashError:
            has_crashed = True
            it.crash_at = lambda _place, _count: False
            it.restart()
            it.settle()
            if campaign(it).failed:
                retry(it)
        assert announced(it) == [name_of(0)], f"after a crash at step {at}"
        assert rollout(it).in_flight == 1
        it.store.close()
        if not has_crashed:
            break
    assert at > 2
