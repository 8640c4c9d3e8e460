"""Moves whose destinations the driver chooses: forewarn records what it reports."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import failures, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.model import VmState
from forewarn.instants import SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    Action,
    CallState,
    Operation,
    OperationState,
)
from forewarn.reporting import explanations
from forewarn.wording.operators import note
from tests.support.campaigns import campaign, start
from tests.support.worlds import LastingStore, World

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
capacity = 0
[[host]]
name = "h3"
capacity = 1
[[scope]]
name = "web"
kind = "availability-set"
[[vm]]
name = "v0"
host = "h1"
scope = "web"
fault_domain = 0
[[vm]]
name = "v1"
host = "h1"
[[vm]]
name = "other"
host = "h3"
scope = "web"
fault_domain = 1
"""
"""forewarn could choose no host: h2 has no capacity, and h3 another fault domain."""

CHOOSING = Policy(driver_chooses=True)


def made(
    *,
    targets: tuple[str, ...] = ("h2", "h3"),
    policy: Policy = CHOOSING,
    fleet: str = FLEET,
) -> tuple[World, SimulatedDriver]:
    driver, kept = SimulatedDriver(targets=targets), LastingStore()
    world = World(store=lambda: kept, driver=driver, fleet=fleet, policy=policy)
    return world, driver


def maintain(world: World, *hosts: str, action: Action = Action.LIVE_MIGRATE) -> None:
    options = OrderOptions(at_once=len(hosts))
    world.order(lambda work: verbs.maintain(work, list(hosts), action, options))
    world.settle()


def of_host(world: World, host: str, *, which: int = -1) -> Operation:
    return [operation for operation in world.operations() if operation.host == host][
        which
    ]


def hosts_of(world: World, *vms: str) -> list[str]:
    return [world.stored_vm(vm).host for vm in vms]


def wait_for(world: World, host: str, *states: OperationState) -> Operation:
    for _ in range(400):
        if of_host(world, host).state in states:
            break
        world.advance("10s")
    assert of_host(world, host).state in states, of_host(world, host)
    return of_host(world, host)


def wait_unknown(world: World) -> Operation:
    for _ in range(400):
        if of_host(world, "h1").call_state is CallState.UNKNOWN:
            break
        world.advance("10s")
    operation = of_host(world, "h1")
    assert operation.call_state is CallState.UNKNOWN
    return operation


ENDED = (OperationState.DONE, OperationState.FAILED)


@pytest.mark.parametrize("action", [Action.LIVE_MIGRATE, Action.REDEPLOY])
def test_driver_chooses_hosts_that_forewarn_would_not(action: Action) -> None:
    world, _ = made(targets=("h2",))
    maintain(world, "h1", action=action)
    announced = of_host(world, "h1")
    assert announced.driver_chooses
    # Nothing is reserved: the driver alone knows its hosts.
    assert [world.stored_vm(vm).moving_to for vm in ("v0", "v1")] == ["", ""]
    ended = wait_for(world, "h1", *ENDED)
    assert ended.state is OperationState.DONE
    assert hosts_of(world, "v0", "v1") == ["h2", "h2"]
    assert [move.to_host for move in ended.moves] == ["h2", "h2"]
    assert world.stored_vm("v0").state is VmState.RUNNING


def test_same_fleet_is_refused_if_forewarn_chooses() -> None:
    world, _ = made(policy=Policy())
    with pytest.raises(RefusedError, match="can be emptied"):
        maintain(world, "h1", "h3")


def test_vm_that_shares_its_new_host_is_recorded_as_observed() -> None:
    """The problem `shared-host` is found among observed VMs."""
    world, _ = made(targets=("h3",))
    maintain(world, "h1")
    wait_for(world, "h1", OperationState.DONE)
    assert hosts_of(world, "v0", "v1") == ["h3", "h3"]
    assert world.stored_vm("v0").is_observed
    assert not world.stored_vm("v1").is_observed
    with pytest.raises(RefusedError, match="h3"):
        maintain(world, "h3", action=Action.REBOOT)


def test_vm_that_has_not_left_its_host_is_moved_again() -> None:
    world, driver = made(targets=("h2",))
    driver.inject(Fault(kind=FaultKind.LAND, vm="v0", elsewhere="h1"))
    maintain(world, "h1")
    notes: set[str] = set()
    for _ in range(400):
        notes.add(note(of_host(world, "h1").note))
        if of_host(world, "h1").ended_at:
            break
        world.advance("5s")
    assert "the driver reported success, but vm v0 is still on h1" in notes
    assert of_host(world, "h1").state is OperationState.DONE
    assert hosts_of(world, "v0", "v1") == ["h2", "h2"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            Fault(kind=FaultKind.UNTOLD, vm="v0"),
            "did not say which host vm v0 is on",
        ),
        (
            Fault(kind=FaultKind.LAND, vm="v0", elsewhere="h9"),
            "vm v0 is on h9, which is not in the fleet",
        ),
    ],
)
def test_unknown_host_is_reported_by_an_operator(fault: Fault, told: str) -> None:
    world, driver = made(targets=("h2",))
    driver.inject(fault)
    maintain(world, "h1")
    unknown = wait_unknown(world)
    generation = unknown.generation
    name = unknown.operation_id
    said = world.read(lambda reader: explanations.explain(reader, name, now=world.now))
    assert told in str(said)
    world.advance("1h")
    # To move it again could do harm.
    assert of_host(world, "h1").generation == generation
    for moved, why in (
        ((), "the host that VM v0 is on now is not known"),
        (("v0",), "v0 is not a VM and its host"),
        (("v1=h2",), "v1=h2 is not a VM and its host"),
        (("v0=h1",), "VM v0 has not left host h1"),
    ):
        with pytest.raises(RefusedError, match=why):
            world.order(
                lambda work, moved=moved: outcome.resolve(
                    work, name, done=True, moved=moved
                )
            )
    with pytest.raises(RefusedError, match="need the outcome done"):
        world.order(
            lambda work: outcome.resolve(work, name, done=False, moved=("v0=h2",))
        )
    world.order(lambda work: outcome.resolve(work, name, done=True, moved=("v0=h3",)))
    world.settle()
    wait_for(world, "h1", OperationState.DONE)
    assert hosts_of(world, "v0", "v1") == ["h3", "h2"]


def test_failed_outcome_leaves_the_vm_where_it_was() -> None:
    world, driver = made(targets=("h2",))
    driver.inject(Fault(kind=FaultKind.UNTOLD, vm="v0"))
    maintain(world, "h1")
    name = wait_unknown(world).operation_id
    world.order(lambda work: outcome.resolve(work, name, done=False))
    world.settle()
    assert of_host(world, "h1").state is OperationState.FAILED
    assert hosts_of(world, "v0", "v1") == ["h1", "h1"]


def test_scheduler_without_a_host_fails_the_operation() -> None:
    world, _ = made(targets=("h1",))
    maintain(world, "h1")
    failed = wait_for(world, "h1", *ENDED)
    assert failed.state is OperationState.FAILED
    assert "no host can take v0" in note(failed.note)
    assert hosts_of(world, "v0", "v1") == ["h1", "h1"]


def test_vm_on_an_announced_host_gets_a_notice_of_its_own() -> None:
    """The maintenance of h2 is withdrawn, and announced again with the new VMs."""
    fleet = (
        FLEET.replace("capacity = 0", "", 1) + '[[vm]]\nname = "mine"\nhost = "h2"\n'
    )
    world, driver = made(targets=("h2",), fleet=fleet)
    # This scheduler does not heed the hosts to avoid.
    driver.inject(Fault(kind=FaultKind.LAND, elsewhere="h2", times=2))
    maintain(world, "h1")
    world.advance("14m")
    maintain(world, "h2", action=Action.REBOOT)
    first = of_host(world, "h2")
    assert (first.state, first.vms) == (OperationState.ANNOUNCED, ("mine",))
    wait_for(world, "h1", OperationState.RECOVERING, OperationState.DONE)
    withdrawn = world.operation(first.operation_id)
    assert withdrawn.state is OperationState.CANCELLED
    assert not withdrawn.started_at
    assert note(withdrawn.note).startswith(
        "vm v0 came to the host without a notice; op-"
    )
    [again] = [
        operation
        for operation in world.operations()
        if operation.host == "h2" and not operation.ended_at
    ]
    assert again.state is OperationState.ANNOUNCED
    assert set(again.vms) == {"mine", "v0", "v1"}
    assert again.not_before - world.now >= world.policy.reboot_notice - SECOND * 30
    # No VM comes any more, so this one is carried out.
    world.advance("1h")
    assert world.operation(again.operation_id).state is OperationState.DONE
    assert world.stored_vm("v0").state is VmState.RUNNING


def test_host_that_waits_gets_vms_and_moves_them_on() -> None:
    """A VM can land on a host of the same list that is still to be done."""
    world, driver = made(targets=("h3",), fleet=FLEET.replace('scope = "web"\n', ""))
    driver.inject(Fault(kind=FaultKind.LAND, elsewhere="h2", times=2))
    options = OrderOptions(at_once=1)
    world.order(
        lambda work: verbs.maintain(work, ["h1", "h2"], Action.LIVE_MIGRATE, options)
    )
    world.settle()
    wait_for(world, "h1", OperationState.DONE)
    assert hosts_of(world, "v0", "v1") == ["h2", "h2"]
    last = wait_for(world, "h2", OperationState.DONE)
    assert last.vms == ("v0", "v1")
    assert hosts_of(world, "v0", "v1") == ["h3", "h3"]


def test_host_that_failed_takes_its_new_vm_down() -> None:
    world, driver = made(targets=("h2",))
    driver.inject(Fault(kind=FaultKind.LAND, elsewhere="h2", times=2))
    maintain(world, "h1")
    world.order(lambda work: failures.fail_host(work, "h2"))
    wait_for(world, "h1", *ENDED)
    assert hosts_of(world, "v0") == ["h2"]
    assert world.stored_vm("v0").state is VmState.DOWN


def test_setting_that_changes_over_a_restart_applies_to_the_next_calls() -> None:
    fleet = FLEET.replace("capacity = 0", "", 1)
    world, _ = made(fleet=fleet, policy=Policy())
    maintain(world, "h1")
    assert world.stored_vm("v0").moving_to == "h2"
    world.policy = CHOOSING
    world.restart()
    wait_for(world, "h1", OperationState.IMPACTING)
    assert world.stored_vm("v1").moving_to == ""
    world.policy = Policy()
    world.restart()
    done = wait_for(world, "h1", OperationState.DONE)
    assert not done.driver_chooses
    assert {world.stored_vm(vm).moving_to for vm in ("v0", "v1")} == {""}
    assert "h1" not in hosts_of(world, "v0", "v1")


def test_campaign_of_a_full_fleet_is_planned_and_done_by_the_scheduler() -> None:
    fleet = "".join(
        f'[[host]]\nname = "h{n}"\ncapacity = 1\n[[vm]]\nname = "v{n}"\nhost = "h{n}"\n'
        for n in range(3)
    )
    usual, _ = made(fleet=fleet, policy=Policy())
    with pytest.raises(RefusedError):
        start(usual, impact="live-migrate")
    world, _ = made(targets=("h0", "h1", "h2"), fleet=fleet)
    assert start(world, impact="live-migrate").hosts == 3
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE
    moves = [move for operation in world.operations() for move in operation.moves]
    # Forewarn cannot prefer hosts that are done, so a VM may have moved twice.
    assert len(moves) >= 3
    assert all(move.done and move.to_host for move in moves)
