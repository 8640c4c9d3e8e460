"""A halt, an abort and the brake stop a drain after the VM under way, before any work."""

from collections.abc import Callable

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import brake, campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import parse_fault
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.notes import DrainStopped
from forewarn.protocol.operations import OperationState
from forewarn.protocol.visits import SkipReason, Visit, VisitState
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from forewarn.wording import operators
from forewarn.wording.visits import standing
from tests.support.campaigns import ONE_STAGE, campaign, file_of, start_text, steer
from tests.support.worlds import World

STEPS = """
[campaign.steps]
enter = { step = "enter" }
work = { step = "flash", version = "2.19" }
verify = { step = "flashed", version = "2.19" }
exit = { step = "leave" }
"""

HOST = "h1"


def of(vms: int = 3, *, fault: str = "") -> World:
    """Return a world of a host with VMs, and of another one with room for them."""
    driver = SimulatedDriver()
    if fault:
        driver.inject(parse_fault(fault))
    lines = [f'[[host]]\nname = "{name}"\ncapacity = 3' for name in (HOST, "free")]
    lines += [f'[[vm]]\nname = "v{n}"\nhost = "{HOST}"' for n in range(vms)]
    return World(store=MemoryStore, driver=driver, fleet="\n".join(lines))


def begin(it: World, steps: str = STEPS, *, impact: str = "live-migrate") -> None:
    text = file_of(steps + ONE_STAGE, impact=impact)
    start_text(it, text.replace("all = true", f'host = ["{HOST}"]'))


def visits(it: World) -> list[Visit]:
    request = campaign(it).request
    return it.read(lambda reader: list(every(reader, kinds.VISITS_OF_REQUEST, request)))


def vms_at(it: World, host: str) -> list[str]:
    return it.read(
        lambda reader: [vm.name for vm in every(reader, kinds.VMS_ON_HOST, host)]
    )


def wait(it: World, until: Callable[[], bool]) -> None:
    for _ in range(4_000):
        if until():
            return
        it.advance("1s")
    raise AssertionError("it does not come to that")


def moved_one(it: World) -> bool:
    return len(vms_at(it, HOST)) == 2


def halt(it: World) -> None:
    steer(it, lambda work: campaigns.halt(work, "bios"), reason="bad bios")


def abort(it: World) -> None:
    steer(it, lambda work: campaigns.abort(work, "bios"), reason="bad bios")


def resume(it: World) -> None:
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))


def has_worked(it: World) -> bool:
    return any(each.result(StepKind.WORK) is not None for each in visits(it))


def is_open(it: World, host: str) -> bool:
    found = it.read(lambda reader: reader.get(Host, host))
    return found is not None and not found.cordons


@pytest.mark.parametrize("steps", [STEPS, ""])
def test_a_halt_stops_a_drain_after_the_vm_under_way(steps: str) -> None:
    it = of()
    begin(it, steps)
    wait(it, lambda: moved_one(it))
    halt(it)
    it.advance("1d")
    # The second VM was under way, and its move is not undone.
    assert len(vms_at(it, HOST)) == 1
    assert not has_worked(it)
    assert is_open(it, HOST)
    assert it.live_events() == []
    # The host is the first one again.
    planned, stopped = it.operations()
    assert isinstance(stopped.note, DrainStopped)
    assert operators.note(stopped.note) == (
        "campaign bios was halted before the work on the host; VMs that moved stay "
        "where they are"
    )
    assert planned.state is OperationState.PLANNED
    found = campaign(it)
    assert (found.state, found.deferred, found.failed) == (CampaignState.HALTED, 0, ())
    resume(it)
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 1, 0)
    assert vms_at(it, HOST) == []
    assert has_worked(it) is bool(steps)


def test_an_abort_stops_a_drain_and_leaves_the_host_out() -> None:
    it = of()
    begin(it)
    wait(it, lambda: moved_one(it))
    abort(it)
    it.advance("1d")
    assert len(vms_at(it, HOST)) == 1
    assert not has_worked(it)
    assert is_open(it, HOST)
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.ABORTED, 0, 1)


def test_a_brake_that_withdraws_stops_a_drain() -> None:
    it = of()
    begin(it)
    wait(it, lambda: moved_one(it))
    it.order(
        lambda work: brake.put_on(work, withdraw=True), actor="bob", reason="power"
    )
    it.advance("1d")
    assert len(vms_at(it, HOST)) == 1
    assert not has_worked(it)


@pytest.mark.parametrize("impact", ["none", "live-migrate", "reboot", "freeze"])
@pytest.mark.parametrize("vms", [3, 0])
def test_a_halt_while_the_host_is_entered_affects_no_vm(impact: str, vms: int) -> None:
    it = of(vms)
    begin(it, impact=impact)
    wait(it, lambda: any(v.state is VisitState.ENTERING for v in visits(it)))
    halt(it)
    it.advance("1h")
    assert len(vms_at(it, HOST)) == vms
    (visit,) = visits(it)
    assert (visit.state, visit.skipped) == (VisitState.DEFERRED, SkipReason.HALTED)
    assert standing(visit, now=it.now) == (
        "its campaign was halted or aborted before the work, so the host was opened "
        "without work"
    )
    assert not has_worked(it)
    assert is_open(it, HOST)
    resume(it)
    it.advance("1d")
    assert (campaign(it).state, campaign(it).done) == (CampaignState.DONE, 1)


@pytest.mark.parametrize("impact", ["reboot", "freeze"])
def test_vms_that_were_taken_down_run_again_without_work(impact: str) -> None:
    it = of()
    begin(it, impact=impact)
    wait(it, lambda: any(v.state is VisitState.DRAINING for v in visits(it)))
    halt(it)
    it.advance("1d")
    (visit,) = visits(it)
    assert (visit.state, visit.skipped) == (VisitState.DEFERRED, SkipReason.HALTED)
    assert not has_worked(it)
    vms = it.read(lambda reader: [reader.get(Vm, n) for n in vms_at(it, HOST)])
    assert [each.state for each in vms if each] == [VmState.RUNNING] * 3
    resume(it)
    it.advance("1d")
    assert (campaign(it).state, campaign(it).done) == (CampaignState.DONE, 1)


def test_a_host_that_is_seen_clear_after_a_halt_gets_no_work() -> None:
    it = of()
    begin(it, impact="redeploy")
    wait(it, lambda: any(v.state is VisitState.DRAINING for v in visits(it)))
    halt(it)
    it.advance("1d")
    assert vms_at(it, HOST) == []
    assert not has_worked(it)
    assert visits(it)[0].skipped is SkipReason.HALTED


def test_work_that_has_begun_ends() -> None:
    it = of()
    begin(it)
    wait(it, lambda: any(v.state is VisitState.WORKING for v in visits(it)))
    halt(it)
    it.advance("1d")
    assert visits(it)[0].state is VisitState.DONE
    assert campaign(it).done == 1


def test_a_host_that_an_operator_retries_under_a_halt_is_worked_on() -> None:
    it = of(fault="work fail")
    begin(it)
    wait(it, lambda: bool(campaign(it).failed))
    halt(it)
    steer(it, lambda work: campaigns.retry(work, "bios", [HOST]))
    it.advance("1d")
    assert visits(it)[0].state is VisitState.DONE
