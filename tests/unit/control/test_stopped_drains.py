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


def begin(world: World, steps: str = STEPS, *, impact: str = "live-migrate") -> None:
    text = file_of(steps + ONE_STAGE, impact=impact)
    start_text(world, text.replace("all = true", f'host = ["{HOST}"]'))


def visits(world: World) -> list[Visit]:
    request = campaign(world).request
    return world.read(
        lambda reader: list(every(reader, kinds.VISITS_OF_REQUEST, request))
    )


def vms_at(world: World, host: str) -> list[str]:
    return world.read(
        lambda reader: [vm.name for vm in every(reader, kinds.VMS_ON_HOST, host)]
    )


def wait(world: World, until: Callable[[], bool]) -> None:
    for _ in range(4_000):
        if until():
            return
        world.advance("1s")
    raise AssertionError("it does not come to that")


def moved_one(world: World) -> bool:
    return len(vms_at(world, HOST)) == 2


def halt(world: World) -> None:
    steer(world, lambda work: campaigns.halt(work, "bios"), reason="bad bios")


def abort(world: World) -> None:
    steer(world, lambda work: campaigns.abort(work, "bios"), reason="bad bios")


def resume(world: World) -> None:
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))


def has_worked(world: World) -> bool:
    return any(visit.result(StepKind.WORK) is not None for visit in visits(world))


def is_open(world: World, host: str) -> bool:
    record = world.read(lambda reader: reader.get(Host, host))
    return record is not None and not record.cordons


@pytest.mark.parametrize("steps", [STEPS, ""])
def test_a_halt_stops_a_drain_after_the_vm_under_way(steps: str) -> None:
    world = of()
    begin(world, steps)
    wait(world, lambda: moved_one(world))
    halt(world)
    world.advance("1d")
    # The second VM was under way, and its move is not undone.
    assert len(vms_at(world, HOST)) == 1
    assert not has_worked(world)
    assert is_open(world, HOST)
    assert world.live_events() == []
    # The host is the first one again.
    planned, stopped = world.operations()
    assert isinstance(stopped.note, DrainStopped)
    assert operators.note(stopped.note) == (
        "campaign bios was halted before the work on the host; VMs that moved stay "
        "where they are"
    )
    assert planned.state is OperationState.PLANNED
    record = campaign(world)
    assert (record.state, record.deferred, record.failed) == (
        CampaignState.HALTED,
        0,
        (),
    )
    resume(world)
    world.advance("1d")
    record = campaign(world)
    assert (record.state, record.done, record.skipped) == (CampaignState.DONE, 1, 0)
    assert vms_at(world, HOST) == []
    assert has_worked(world) is bool(steps)


def test_an_abort_stops_a_drain_and_leaves_the_host_out() -> None:
    world = of()
    begin(world)
    wait(world, lambda: moved_one(world))
    abort(world)
    world.advance("1d")
    assert len(vms_at(world, HOST)) == 1
    assert not has_worked(world)
    assert is_open(world, HOST)
    record = campaign(world)
    assert (record.state, record.done, record.skipped) == (CampaignState.ABORTED, 0, 1)


def test_a_brake_that_withdraws_stops_a_drain() -> None:
    world = of()
    begin(world)
    wait(world, lambda: moved_one(world))
    world.order(
        lambda work: brake.put_on(work, withdraw=True), actor="bob", reason="power"
    )
    world.advance("1d")
    assert len(vms_at(world, HOST)) == 1
    assert not has_worked(world)


@pytest.mark.parametrize("impact", ["none", "live-migrate", "reboot", "freeze"])
@pytest.mark.parametrize("vms", [3, 0])
def test_a_halt_while_the_host_is_entered_affects_no_vm(impact: str, vms: int) -> None:
    world = of(vms)
    begin(world, impact=impact)
    wait(world, lambda: any(v.state is VisitState.ENTERING for v in visits(world)))
    halt(world)
    world.advance("1h")
    assert len(vms_at(world, HOST)) == vms
    (visit,) = visits(world)
    assert (visit.state, visit.skipped) == (VisitState.DEFERRED, SkipReason.HALTED)
    assert standing(visit, now=world.now) == (
        "its campaign was halted or aborted before the work, so the host was opened "
        "without work"
    )
    assert not has_worked(world)
    assert is_open(world, HOST)
    resume(world)
    world.advance("1d")
    assert (campaign(world).state, campaign(world).done) == (CampaignState.DONE, 1)


@pytest.mark.parametrize("impact", ["reboot", "freeze"])
def test_vms_that_were_taken_down_run_again_without_work(impact: str) -> None:
    world = of()
    begin(world, impact=impact)
    wait(world, lambda: any(v.state is VisitState.DRAINING for v in visits(world)))
    halt(world)
    world.advance("1d")
    (visit,) = visits(world)
    assert (visit.state, visit.skipped) == (VisitState.DEFERRED, SkipReason.HALTED)
    assert not has_worked(world)
    vms = world.read(lambda reader: [reader.get(Vm, n) for n in vms_at(world, HOST)])
    assert [vm.state for vm in vms if vm] == [VmState.RUNNING] * 3
    resume(world)
    world.advance("1d")
    assert (campaign(world).state, campaign(world).done) == (CampaignState.DONE, 1)


def test_a_host_that_is_seen_clear_after_a_halt_gets_no_work() -> None:
    world = of()
    begin(world, impact="redeploy")
    wait(world, lambda: any(v.state is VisitState.DRAINING for v in visits(world)))
    halt(world)
    world.advance("1d")
    assert vms_at(world, HOST) == []
    assert not has_worked(world)
    assert visits(world)[0].skipped is SkipReason.HALTED


def test_work_that_has_begun_ends() -> None:
    world = of()
    begin(world)
    wait(world, lambda: any(v.state is VisitState.WORKING for v in visits(world)))
    halt(world)
    world.advance("1d")
    assert visits(world)[0].state is VisitState.DONE
    assert campaign(world).done == 1


def test_a_host_that_an_operator_retries_under_a_halt_is_worked_on() -> None:
    world = of(fault="work fail")
    begin(world)
    wait(world, lambda: bool(campaign(world).failed))
    halt(world)
    steer(world, lambda work: campaigns.retry(work, "bios", [HOST]))
    world.advance("1d")
    assert visits(world)[0].state is VisitState.DONE
