"""Drivers that choose the hosts of VMs, and get the hosts to avoid."""

import pytest

from forewarn.drivers.port import Call, CallVm, Report, VmVerdict
from forewarn.protocol.operations import Action
from tests.contract.drivers.worlds import World


def moved(
    world: World, *, closed: tuple[str, ...] = (), waiting: tuple[str, ...] = ()
) -> Report:
    """Return the report about a VM of h1 that can move to h3 and h4."""
    if not world.can_choose:
        pytest.skip("the driver chooses no host")
    call = Call(
        operation_id="op-1",
        generation=1,
        action=Action.LIVE_MIGRATE,
        host="h1",
        vms=(CallVm(vm="web_0"),),
        duration_seconds=-1,
        closed=closed,
        waiting=waiting,
    )
    world.begin(call)
    [report] = world.pass_until_reported()
    return report


@pytest.mark.parametrize(
    ("closed", "waiting", "chosen"),
    [
        ((), (), "h3"),
        (("h2", "h3"), (), "h4"),
        (("h4",), (), "h3"),
        ((), ("h3", "h2"), "h4"),
        ((), ("h3", "h4"), "h4"),
        ((), ("h4", "h3"), "h3"),
        (("h4",), ("h3",), "h3"),
    ],
)
def test_driver_chooses_no_closed_host_and_prefers_one_that_does_not_wait(
    world: World, closed: tuple[str, ...], waiting: tuple[str, ...], chosen: str
) -> None:
    result = moved(world, closed=closed, waiting=waiting).result_of("web_0")
    assert (result.verdict, result.host) == (VmVerdict.DONE, chosen)
    assert world.driver.observe(["web_0"])["web_0"].host in {None, chosen}


def test_vm_stays_if_all_other_hosts_are_closed(world: World) -> None:
    report = moved(world, closed=("h3", "h4"))
    assert report.result_of("web_0").verdict is VmVerdict.FAILED
    assert "no host can take web_0" in report.reason
    assert world.driver.observe(["web_0"])["web_0"].host in {None, "h1"}
