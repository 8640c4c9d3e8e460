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
    parts: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = world.read(
            lambda reader, after=after: campaign_reports.attempts(
                reader, campaign(world), after=after, limit=limit, now=world.now
            )
        )
        parts += page["attempts"]
        after = page["next"]
    return parts


def sums(world: World) -> dict[str, Any]:
    """Return the sums of the campaign, which are those of its attempts."""
    parts = world.read(
        lambda reader: campaign_sums.campaign_sums(
            reader, campaign(world), now=world.now
        )
    )
    made_attempts = attempts(world)
    assert parts["attempts"] == len(made_attempts)
    assert parts["events"] == sum(one["events"] for one in made_attempts)
    assert parts["approvals"] == sum(len(one["approvals"]) for one in made_attempts)
    assert parts["vm_down_seconds"] == pytest.approx(
        sum(one["down_seconds"] for one in made_attempts)
    )
    states = Counter(
        "Deferred" if one["outcome"] == "deferred" else one["state"]
        for one in made_attempts
    )
    assert parts["states"] == states
    for name, phase in PHASES.items():
        spent = sum(one[phase] or 0 for one in made_attempts)
        assert parts["seconds"][name] == pytest.approx(spent)
    moved = Counter(vm for one in made_attempts for vm in one["moved"])
    assert parts["moves_per_vm"] == {
        str(times): vms for times, vms in Counter(moved.values()).items()
    }
    begun = [one for one in made_attempts if one["started"]]
    assert parts["started"] == len(begun)
    assert parts["noticed"] == sum(bool(one["notice_seconds"]) for one in begun)
    assert parts["vms"] == len({vm for one in begun for vm in one["vms"]})
    assert parts["notice_given_seconds"] == pytest.approx(
        sum(one["notice_seconds"] or 0 for one in begun)
    )
    return parts


def figures(world: World) -> dict[str, Any]:
    """Return the hosts of each hour and the figures of each tenant."""
    both = world.read(
        lambda reader: campaign_sums.sums_and_figures(
            reader, campaign(world), now=world.now
        )
    )
    parts = {name: both.pop(name) for name in ("hours", "tenants", "waiting_seconds")}
    parts["several"] = both.pop("several_domains_down")
    assert both.pop("several_domains_down_count") == len(parts["several"])
    totals = sums(world)
    parts["failures"] = [dict(failure) for failure in both["failures"]]
    for failure in both["failures"]:
        del failure["then"]
    assert both == totals
    # Failed hosts that were not retried wait, too.
    assert sum(parts["waiting_seconds"].values()) >= totals["seconds"]["waiting"] - 1
    assert {
        tenant["tenant"]: tenant["approved"]
        for tenant in parts["tenants"]
        if tenant["approved"]
    } == totals["approvals_by_tenant"]
    assert sum(tenant["asked"] for tenant in parts["tenants"]) == totals["events"]
    assert sum(tenant["approved"] for tenant in parts["tenants"]) == totals["approvals"]
    down = sum(
        tenant["planned_down_seconds"] + tenant["unplanned_down_seconds"]
        for tenant in parts["tenants"]
    )
    assert down == pytest.approx(totals["vm_down_seconds"])
    assert sum(parts["hours"].values()) == totals["states"].get("Done", 0)
    return parts


def test_figures_tell_who_approved_and_which_vm_was_down_the_longest() -> None:
    service = world_of([{f"s{number}": 0} for number in range(3)])
    vm = service.vm("s0-0")
    vm.get()
    start(service)
    service.advance("5m")
    (event,) = vm.get().events
    vm.approve(event["EventId"])
    service.advance("1d")
    (of_tenant,) = figures(service)["tenants"]
    assert (of_tenant["asked"], of_tenant["approved"]) == (3, 1)
    assert of_tenant["by_operator"] == 0
    assert of_tenant["median_seconds"] == pytest.approx(5 * 60, abs=5)
    assert of_tenant["vms_down"] == 3
    assert of_tenant["longest_down_vm"] in {"s0-0", "s1-0", "s2-0"}
    assert of_tenant["unplanned_down_seconds"] == 0


def test_sums_and_figures_read_each_kind_of_record_once() -> None:
    service = world_of([{f"s{number}": 0} for number in range(3)])
    start(service)
    service.advance("1d")
    reads = Counter[tuple[str, Any]]()

    def read(reader: Reader) -> dict[str, Any]:
        class Counted:
            """A reader of the same store that counts the questions."""

            def select(self, query: Query[Any], *args: Any, **asked: Any) -> list[Any]:
                reads[query.name, args] += 1
                return reader.select(query, *args, **asked)

            def __getattr__(self, name: str) -> Any:
                return getattr(reader, name)

        known = cast("Any", Counted())
        return campaign_sums.sums_and_figures(known, campaign(service), now=service.now)

    assert service.read(read)["events"] == 3
    assert reads
    assert set(reads.values()) == {1}


def test_figures_of_a_campaign_that_has_announced_nothing_are_empty() -> None:
    service = world_of([{"s": 0}])
    start(service, "[campaign.budget]\nin_flight = 1\n" + ONE_STAGE)
    assert set(figures(service)) == {
        *("hours", "tenants", "failures", "waiting_seconds", "several")
    }
    assert figures(service)["hours"] == {}


def test_a_failed_and_retried_host_has_two_attempts() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    service = world_of([{f"s{number}": 0} for number in range(3)], driver=driver)
    start(service, TOLERANT)
    service.advance("4h")
    steer(service, lambda work: campaigns.retry(work, "bios", []))
    service.advance("4h")
    assert campaign(service).done == 3
    parts = attempts(service, limit=2)
    assert parts == attempts(service)
    of_first = [part["state"] for part in parts if part["host"] == "h0000"]
    assert of_first == ["Failed", "Done"]
    totals = sums(service)
    assert totals["states"] == {"Done": 3, "Failed": 1}
    assert totals["stages"] == {"1": {"Done": 3, "Failed": 1}}
    assert totals["vms"] == 3
    (failure,) = totals["failures"]
    lines = list(shown.lines(totals))
    assert lines[0] == "4 attempts: 3 Done, 1 Failed"
    assert lines[-1].startswith(f"failed: h0000 ({failure['operation']}): ")
    assert failure["note"]


def test_the_time_of_an_attempt_is_the_sum_of_its_phases() -> None:
    service = world_of([{"s": 0}])
    start(service)
    service.advance("5h")
    (parts,) = attempts(service)
    # Nobody has Scheduled Events enabled, so the whole notice passes.
    assert parts["notice_used_seconds"] == pytest.approx(15 * 60, abs=1)
    assert parts["notice_seconds"] == pytest.approx(15 * 60, abs=1)
    assert parts["work_seconds"] > 0
    assert parts["down_seconds"] > 0
    totals = sums(service)
    assert totals["vm_down_seconds"] == parts["down_seconds"]
    assert (totals["events"], totals["approvals"]) == (1, 0)


def test_hosts_without_vms_do_not_shorten_the_average_notice() -> None:
    service = world_of([{"s0": 0}, {}])
    start(service, STEPS + ONE_STAGE)
    service.advance("9h")
    totals = sums(service)
    assert (totals["started"], totals["noticed"]) == (2, 1)
    assert "notice: 15 m given on average, 15 m used" in list(shown.lines(totals))


def test_an_early_approval_saves_notice() -> None:
    service = world_of([{"s": 0}])
    vm = service.vm("s-0")
    vm.get()
    start(service)
    service.advance("5m")
    (event,) = vm.get().events
    vm.approve(event["EventId"])
    service.advance("5h")
    totals = sums(service)
    assert (totals["approvals"], totals["approvals_early"]) == (1, 1)
    assert totals["notice_used_seconds"] == pytest.approx(5 * 60, abs=5)
    assert totals["notice_given_seconds"] == pytest.approx(15 * 60, abs=5)
    assert "approvals: 1 of 1 event, 1 before NotBefore" in list(
        shown.lines(sums(service))
    )


def test_moves_are_counted_per_vm_and_a_waiting_host_has_no_times() -> None:
    service = world_of([{f"s{number}": 0} for number in range(3)])
    start(service, impact="live-migrate")
    waiting = attempts(service)[-1]
    assert (waiting["announced"], waiting["events"]) == (None, 0)
    service.advance("1d")
    totals = sums(service)
    assert sum(totals["moves_per_vm"].values()) >= 2
    stages = {attempt["stage"] for attempt in attempts(service)}
    assert stages == {1}


def test_a_snapshot_of_the_file_gives_the_same_sums(tmp_path: Path) -> None:
    """The operator API reads single fields of a snapshot, also beside other work."""
    file = tmp_path / "sums.db"
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    service = world_of(
        [{f"s{number}": 0} for number in range(4)],
        driver=driver,
        store=lambda: SqliteStore(file),
    )
    start(service, TOLERANT)
    service.advance("4h")
    steer(service, lambda work: campaigns.retry(work, "bios", []))
    service.advance("4h")
    start(service, ONE_STAGE, name="another", impact="live-migrate")
    service.advance("4h")
    expected = {**sums(service), **figures(service)}
    several = expected.pop("several")
    expected["several_domains_down"] = several
    expected["several_domains_down_count"] = len(several)
    snapshot = snapshots_of(file)
    parts = snapshot.read(
        lambda reader: campaign_sums.sums_and_figures(
            reader, campaign(service), now=service.now
        )
    )
    snapshot.close()
    assert parts == expected
    assert parts["attempts"] == 5


def test_a_campaign_that_has_announced_nothing_has_empty_sums() -> None:
    service = world_of([{f"s{number}": 0} for number in range(3)], store=MemoryStore)
    start(service)
    steer(service, lambda work: campaigns.halt(work, "bios"))
    totals = sums(service)
    assert totals["started"] == 0
    assert totals["moves_per_vm"] == {}
    assert list(shown.lines(totals))[-1].startswith("time of all hosts: waiting")


def test_a_host_whose_step_failed_is_a_failure_also_after_it_was_skipped() -> None:
    service = of(2, "work fail")
    start(service, STEPS + TOLERANT, impact="none")
    service.advance("1d")
    assert campaign(service).failed_hosts == ("h0000",)
    for is_skipped in (False, True):
        if is_skipped:
            steer(service, lambda work: campaigns.skip(work, "bios", ["h0000"]))
        totals = sums(service)
        assert totals["states"] == {"Failed": 1, "Done": 1}
        (failure,) = totals["failures"]
        assert failure["note"] == "step work failed: a simulated fault"
        assert sum(figures(service)["hours"].values()) == 1
        assert [attempt["outcome"] for attempt in attempts(service)] == [
            "failed",
            "completed",
        ]
        assert list(shown.lines(totals))[-1].startswith("failed: h0000 (")


def test_a_host_is_done_when_its_last_step_has_ended() -> None:
    service = of(2, "verify stall times=9")
    start(service, STEPS + ONE_STAGE, impact="none")
    while not any(visit.state is VisitState.VERIFYING for visit in visits(service)):
        service.advance("10s")
    assert sums(service)["states"] == {"Recovering": 1, "Planned": 1}
    assert figures(service)["hours"] == {}
    attempt = attempts(service)[0]
    assert (attempt["outcome"], attempt["ended"]) == (None, None)


def test_time_that_hosts_waited_is_kept_when_they_are_announced() -> None:
    service = world_of([{f"s{number}": 0} for number in range(3)])
    start(service)
    waited = [sums(service)["seconds"]["waiting"]]
    for _ in range(12):
        service.advance("10m")
        waited.append(sums(service)["seconds"]["waiting"])
    assert campaign(service).done == 3
    assert waited == sorted(waited)
    # The second host waited for the first one, and the third one for both.
    second, third = (attempt["waited_seconds"] for attempt in attempts(service)[1:])
    assert 15 * 60 < second < third


def test_another_attempt_waited_since_the_end_of_the_one_before() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    service = world_of([{f"s{number}": 0} for number in range(2)], driver=driver)
    start(service, TOLERANT)
    service.advance("4h")
    steer(service, lambda work: campaigns.retry(work, "bios", []))
    service.advance("4h")
    first, again = (
        attempt for attempt in attempts(service) if attempt["host"] == "h0000"
    )
    assert first["waited_seconds"] == 0
    assert 3 * 3600 < again["waited_seconds"] < 4 * 3600
    assert sums(service)["seconds"]["waiting"] > 3 * 3600


def test_waiting_is_split_by_its_causes() -> None:
    service = world_of([{f"s{number}": 0} for number in range(4)])
    start(
        service,
        '[[campaign.stage]]\nhosts = 1\nsoak = "1h"\n[[campaign.stage]]\nhosts = "100%"\n',
    )
    while not campaign(service).soaks_until:
        service.advance("1m")
    service.advance("1h")
    soaked = figures(service)["waiting_seconds"]
    # Three hosts waited for the soak.
    assert soaked["soak"] == pytest.approx(3 * 3600, abs=3 * 120)
    assert soaked["halted"] == soaked["paused"] == soaked["closed"] == 0
    steer(service, lambda work: campaigns.pause(work, "bios"))
    service.advance("2h")
    waiting = campaign(service).hosts - campaign(service).done
    paused = figures(service)["waiting_seconds"]["paused"]
    assert 0 < paused <= waiting * 2 * 3600
    steer(service, lambda work: campaigns.resume(work, "bios", by_all=True))
    service.advance("1d")
    assert figures(service)["waiting_seconds"]["paused"] == pytest.approx(
        paused, abs=60
    )


def test_failure_says_what_was_done() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    service = world_of([{f"s{number}": 0} for number in range(3)], driver=driver)
    start(service, TOLERANT)
    while not campaign(service).failed:
        service.advance("1m")
    [failure] = figures(service)["failures"]
    assert failure["then"] is None
    service.advance("1h")
    (host,) = campaign(service).failed_hosts
    before = figures(service)["waiting_seconds"]["failed"]
    assert before >= 3600
    steer(
        service, lambda work: campaigns.skip(work, "bios", [host]), reason="broken DIMM"
    )
    then = figures(service)["failures"][0]["then"]
    assert (then["what"], then["by"]) == ("skipped", "alice")
    assert then["reason"] == "broken DIMM"
