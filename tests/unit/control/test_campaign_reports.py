"""The report of a campaign has what came of each attempt, and its sums."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from forewarn.cli import campaign_sums as shown
from forewarn.control.requests import campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.protocol.visits import VisitState
from forewarn.reporting import campaign_reports, campaign_sums
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader
from forewarn.store.questions import Query
from forewarn.store.snapshot import snapshots_of
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import world_of
from tests.support.worlds import World
from tests.unit.control.test_campaign_steps import STEPS, of, visits

TOLERANT = "[campaign.tolerance]\nfailures = 1\nin_a_row = 1\n" + ONE_STAGE


PHASES = {
    "waiting": "waited_seconds",
    "notice": "notice_used_seconds",
    "work": "work_seconds",
    "recovery": "recovery_seconds",
}


def attempts(world: World, *, limit: int = 100) -> list[dict[str, Any]]:
    """Return the attempts of all pages."""
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = world.read(
            lambda reader, after=after: campaign_reports.attempts(
                reader, campaign(world), after=after, limit=limit, now=world.now
            )
        )
        found += page["attempts"]
        after = page["next"]
    return found


def sums(world: World) -> dict[str, Any]:
    """Return the sums of the campaign, which are those of its attempts."""
    found = world.read(
        lambda reader: campaign_sums.campaign_sums(
            reader, campaign(world), now=world.now
        )
    )
    each = attempts(world)
    assert found["attempts"] == len(each)
    assert found["events"] == sum(one["events"] for one in each)
    assert found["approvals"] == sum(len(one["approvals"]) for one in each)
    assert found["vm_down_seconds"] == pytest.approx(
        sum(one["down_seconds"] for one in each)
    )
    states = Counter(
        "Deferred" if one["outcome"] == "deferred" else one["state"] for one in each
    )
    assert found["states"] == states
    for name, phase in PHASES.items():
        spent = sum(one[phase] or 0 for one in each)
        assert found["seconds"][name] == pytest.approx(spent)
    moved = Counter(vm for one in each for vm in one["moved"])
    assert found["moves_per_vm"] == {
        str(times): vms for times, vms in Counter(moved.values()).items()
    }
    begun = [one for one in each if one["started"]]
    assert found["started"] == len(begun)
    assert found["vms"] == len({vm for one in begun for vm in one["vms"]})
    assert found["notice_given_seconds"] == pytest.approx(
        sum(one["notice_seconds"] or 0 for one in begun)
    )
    return found


def figures(world: World) -> dict[str, Any]:
    """Return the hosts of each hour and the figures of each tenant."""
    both = world.read(
        lambda reader: campaign_sums.sums_and_figures(
            reader, campaign(world), now=world.now
        )
    )
    found = {name: both.pop(name) for name in ("hours", "tenants")}
    told = sums(world)
    assert both == told
    assert {
        each["tenant"]: each["approved"]
        for each in found["tenants"]
        if each["approved"]
    } == told["approvals_by_tenant"]
    assert sum(each["asked"] for each in found["tenants"]) == told["events"]
    assert sum(each["approved"] for each in found["tenants"]) == told["approvals"]
    down = sum(
        each["planned_down_seconds"] + each["unplanned_down_seconds"]
        for each in found["tenants"]
    )
    assert down == pytest.approx(told["vm_down_seconds"])
    assert sum(found["hours"].values()) == told["states"].get("Done", 0)
    return found


def test_figures_tell_who_approved_and_which_vm_was_down_the_longest() -> None:
    it = world_of([{f"s{number}": 0} for number in range(3)])
    vm = it.vm("s0-0")
    vm.get()
    start(it)
    it.advance("5m")
    (event,) = vm.get().events
    vm.approve(event["EventId"])
    it.advance("1d")
    (of_tenant,) = figures(it)["tenants"]
    assert (of_tenant["asked"], of_tenant["approved"]) == (3, 1)
    assert of_tenant["by_operator"] == 0
    assert of_tenant["median_seconds"] == pytest.approx(5 * 60, abs=5)
    assert of_tenant["vms_down"] == 3
    assert of_tenant["longest_down_vm"] in {"s0-0", "s1-0", "s2-0"}
    assert of_tenant["unplanned_down_seconds"] == 0


def test_sums_and_figures_read_each_kind_of_record_once() -> None:
    it = world_of([{f"s{number}": 0} for number in range(3)])
    start(it)
    it.advance("1d")
    reads = Counter[str]()

    def read(reader: Reader) -> dict[str, Any]:
        class Counted:
            """A reader of the same store that counts the questions."""

            def select(self, query: Query[Any], *args: Any, **asked: Any) -> list[Any]:
                reads[query.name] += 1
                return reader.select(query, *args, **asked)

            def __getattr__(self, name: str) -> Any:
                return getattr(reader, name)

        known = cast("Any", Counted())
        return campaign_sums.sums_and_figures(known, campaign(it), now=it.now)

    assert it.read(read)["events"] == 3
    assert reads
    assert set(reads.values()) == {1}


def test_figures_of_a_campaign_that_has_announced_nothing_are_empty() -> None:
    it = world_of([{"s": 0}])
    start(it, "[campaign.budget]\nin_flight = 1\n" + ONE_STAGE)
    assert set(figures(it)) == {"hours", "tenants"}
    assert figures(it)["hours"] == {}


def test_a_failed_and_retried_host_has_two_attempts() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    it = world_of([{f"s{number}": 0} for number in range(3)], driver=driver)
    start(it, TOLERANT)
    it.advance("4h")
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("4h")
    assert campaign(it).done == 3
    found = attempts(it, limit=2)
    assert found == attempts(it)
    of_first = [each["state"] for each in found if each["host"] == "h0000"]
    assert of_first == ["Failed", "Done"]
    told = sums(it)
    assert told["states"] == {"Done": 3, "Failed": 1}
    assert told["stages"] == {"1": {"Done": 3, "Failed": 1}}
    assert told["vms"] == 3
    (failure,) = told["failures"]
    lines = list(shown.lines(told))
    assert lines[0] == "4 attempts: 3 Done, 1 Failed"
    assert lines[-1].startswith(f"failed: h0000 ({failure['operation']}): ")
    assert failure["note"]


def test_the_time_of_an_attempt_is_the_sum_of_its_phases() -> None:
    it = world_of([{"s": 0}])
    start(it)
    it.advance("5h")
    (found,) = attempts(it)
    # Nobody has Scheduled Events enabled, so the whole notice passes.
    assert found["notice_used_seconds"] == pytest.approx(15 * 60, abs=1)
    assert found["notice_seconds"] == pytest.approx(15 * 60, abs=1)
    assert found["work_seconds"] > 0
    assert found["down_seconds"] > 0
    told = sums(it)
    assert told["vm_down_seconds"] == found["down_seconds"]
    assert (told["events"], told["approvals"]) == (1, 0)


def test_an_early_approval_saves_notice() -> None:
    it = world_of([{"s": 0}])
    vm = it.vm("s-0")
    vm.get()
    start(it)
    it.advance("5m")
    (event,) = vm.get().events
    vm.approve(event["EventId"])
    it.advance("5h")
    told = sums(it)
    assert (told["approvals"], told["approvals_early"]) == (1, 1)
    assert told["notice_used_seconds"] == pytest.approx(5 * 60, abs=5)
    assert told["notice_given_seconds"] == pytest.approx(15 * 60, abs=5)
    assert "approvals: 1 of 1 event, 1 before NotBefore" in list(shown.lines(sums(it)))


def test_moves_are_counted_per_vm_and_a_waiting_host_has_no_times() -> None:
    it = world_of([{f"s{number}": 0} for number in range(3)])
    start(it, impact="live-migrate")
    waiting = attempts(it)[-1]
    assert (waiting["announced"], waiting["events"]) == (None, 0)
    it.advance("1d")
    told = sums(it)
    assert sum(told["moves_per_vm"].values()) >= 2
    stages = {each["stage"] for each in attempts(it)}
    assert stages == {1}


def test_a_snapshot_of_the_file_gives_the_same_sums(tmp_path: Path) -> None:
    """The operator API reads single fields of a snapshot, also beside other work."""
    file = tmp_path / "sums.db"
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    it = world_of(
        [{f"s{number}": 0} for number in range(4)],
        driver=driver,
        store=lambda: SqliteStore(file),
    )
    start(it, TOLERANT)
    it.advance("4h")
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("4h")
    start(it, ONE_STAGE, name="another", impact="live-migrate")
    it.advance("4h")
    expected = {**sums(it), **figures(it)}
    snapshot = snapshots_of(file)
    found = snapshot.read(
        lambda reader: campaign_sums.sums_and_figures(reader, campaign(it), now=it.now)
    )
    snapshot.close()
    assert found == expected
    assert found["attempts"] == 5


def test_a_campaign_that_has_announced_nothing_has_empty_sums() -> None:
    it = world_of([{f"s{number}": 0} for number in range(3)], store=MemoryStore)
    start(it)
    steer(it, lambda work: campaigns.halt(work, "bios"))
    told = sums(it)
    assert told["started"] == 0
    assert told["moves_per_vm"] == {}
    assert list(shown.lines(told))[-1].startswith("time of all hosts: waiting")


def test_a_host_whose_step_failed_is_a_failure_also_after_it_was_skipped() -> None:
    it = of(2, "work fail")
    start(it, STEPS + TOLERANT, impact="none")
    it.advance("1d")
    assert campaign(it).failed_hosts == ("h0000",)
    for is_skipped in (False, True):
        if is_skipped:
            steer(it, lambda work: campaigns.skip(work, "bios", ["h0000"]))
        totals = sums(it)
        assert totals["states"] == {"Failed": 1, "Done": 1}
        (failure,) = totals["failures"]
        assert failure["note"] == "step work failed: a simulated fault"
        assert sum(figures(it)["hours"].values()) == 1
        assert [each["outcome"] for each in attempts(it)] == ["failed", "completed"]
        assert list(shown.lines(totals))[-1].startswith("failed: h0000 (")


def test_a_host_is_done_when_its_last_step_has_ended() -> None:
    it = of(2, "verify stall times=9")
    start(it, STEPS + ONE_STAGE, impact="none")
    while not any(each.state is VisitState.VERIFYING for each in visits(it)):
        it.advance("10s")
    assert sums(it)["states"] == {"Recovering": 1, "Planned": 1}
    assert figures(it)["hours"] == {}
    attempt = attempts(it)[0]
    assert (attempt["outcome"], attempt["ended"]) == (None, None)


def test_time_that_hosts_waited_is_kept_when_they_are_announced() -> None:
    it = world_of([{f"s{number}": 0} for number in range(3)])
    start(it)
    waited = [sums(it)["seconds"]["waiting"]]
    for _ in range(12):
        it.advance("10m")
        waited.append(sums(it)["seconds"]["waiting"])
    assert campaign(it).done == 3
    assert waited == sorted(waited)
    # The second host waited for the first one, and the third one for both.
    second, third = (each["waited_seconds"] for each in attempts(it)[1:])
    assert 15 * 60 < second < third


def test_another_attempt_waited_since_the_end_of_the_one_before() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    it = world_of([{f"s{number}": 0} for number in range(2)], driver=driver)
    start(it, TOLERANT)
    it.advance("4h")
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("4h")
    first, again = (each for each in attempts(it) if each["host"] == "h0000")
    assert first["waited_seconds"] == 0
    assert 3 * 3600 < again["waited_seconds"] < 4 * 3600
    assert sums(it)["seconds"]["waiting"] > 3 * 3600
