"""Places are checked again before each later call: a destination may be lost."""

import pytest

from forewarn.control.requests import failures, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.port import Observation, Report, Verdict
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import VmState
from forewarn.protocol.operations import (
    Action,
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.wording.operators import note
from tests.support.worlds import World


def fleet(*vms: str, hosts: str = "h1 h2 h3", capacity: str = "") -> str:
    return "".join(
        f'[[host]]\nname = "{host}"\n{capacity}\n' for host in hosts.split()
    ) + "".join(
        f'[[scope]]\nname = "{vm}"\nkind = "availability-set"\n'
        f'[[vm]]\nname = "{vm}"\nhost = "h1"\nscope = "{vm}"\n'
        for vm in vms
    )


class Blind(SimulatedDriver):
    """Reports what the test says, and sees what the test says."""

    seen: dict[str, Observation]

    def observe(self, vms: object, _expected: object = None) -> dict[str, Observation]:
        return getattr(self, "seen", {})


def world_of(text: str) -> World:
    store = MemoryStore()
    return World(store=lambda: store, driver=Blind(journal=MemoryJournal()), fleet=text)


def started(world: World, action: Action = Action.REDEPLOY) -> Operation:
    world.order(lambda work: verbs.maintain(work, ["h1"], action, OrderOptions()))
    [operation] = [
        operation for operation in world.operations() if operation.verb is Verb.MAINTAIN
    ]
    while world.operation(operation.operation_id).state is not OperationState.IMPACTING:
        world.advance("10s")
    return world.operation(operation.operation_id)


def fails(world: World, operation: Operation, *down: str, seen: str = "") -> Operation:
    current = world.operation(operation.operation_id)
    report = Report(
        operation_id=current.operation_id,
        generation=current.generation,
        verdict=Verdict.FAILED,
        reason="no route to the host",
        down=down,
    )
    observed = {vm: Observation(host=seen) for vm in current.vms} if seen else {}
    world.order(lambda work: outcome.take_report(work, report, observed))
    return world.operation(operation.operation_id)


def called_again(world: World, operation: Operation) -> Operation:
    generation = world.operation(operation.operation_id).generation
    for _ in range(60):
        if world.operation(operation.operation_id).generation != generation:
            return world.operation(operation.operation_id)
        world.advance("1s")
    pytest.fail("the driver was not called again")


def fail_host(world: World, host: str) -> None:
    world.order(lambda work: failures.fail_host(work, host))


def destinations(operation: Operation) -> dict[str, str]:
    return {move.vm: move.to_host for move in operation.moves}


@pytest.mark.parametrize("action", [Action.REDEPLOY, Action.LIVE_MIGRATE])
def test_failed_destination_is_replaced(action: Action) -> None:
    world = world_of(fleet("a"))
    operation = started(world, action)
    assert destinations(operation) == {"a": "h2"}
    fail_host(world, "h2")
    after = fails(world, operation)
    assert after.call_state is CallState.RETRY
    again = called_again(world, operation)
    assert (destinations(again), again.attempts) == ({"a": "h3"}, 2)
    assert world.stored_vm("a").moving_to == "h3"
    world.advance("5m")
    assert world.stored_vm("a").host == "h3"


def test_valid_destinations_are_kept() -> None:
    world = world_of(fleet("a", "b", "c", capacity="capacity = 3"))
    operation = started(world)
    places = destinations(operation)
    assert sorted(places.values()) != ["h2"] * 3, "the VMs go to two hosts"
    lost = places["a"]
    fail_host(world, lost)
    fails(world, operation)
    again = destinations(called_again(world, operation))
    kept = {vm for vm, host in places.items() if host != lost}
    assert {vm: again[vm] for vm in kept} == {vm: places[vm] for vm in kept}
    assert lost not in again.values()


def test_next_vm_is_planned_again_if_its_destination_failed() -> None:
    world = world_of(fleet("a", "b"))
    operation = started(world, Action.LIVE_MIGRATE)
    places = destinations(operation)
    lost = places["b"]
    fail_host(world, lost)
    world.advance("1m")
    assert world.stored_vm("b").host not in {"h1", lost}
    assert world.operation(operation.operation_id).state is OperationState.RECOVERING


def test_call_without_a_destination_waits_until_a_host_is_available() -> None:
    world = world_of(fleet("a", hosts="h1 h2"))
    operation = started(world)
    fail_host(world, "h2")
    fails(world, operation)
    while world.operation(operation.operation_id).attempts == 1:
        world.advance("1s")
    waiting = world.operation(operation.operation_id)
    assert waiting.call_state is CallState.RETRY
    assert (waiting.attempts, waiting.generation) == (2, operation.generation)
    assert destinations(waiting) == {"a": ""}
    assert world.stored_vm("a").moving_to == ""
    why = world.explain(operation.operation_id)
    assert [reason.partition(":")[0] for reason in why[-2:]] == [
        "there is no host with capacity for a",
        "the next search for a host is in 10 s",
    ]
    world.order(lambda work: failures.restore_host(work, "h2"))
    assert destinations(called_again(world, operation)) == {"a": "h2"}
    world.advance("5m")
    assert world.stored_vm("a").host == "h2"


def test_call_without_a_destination_ends_as_failed() -> None:
    world = world_of(fleet("a", hosts="h1 h2"))
    operation = started(world)
    fail_host(world, "h2")
    fails(world, operation, "a")
    world.advance("5m")
    ended = world.operation(operation.operation_id)
    assert ended.state is OperationState.FAILED
    assert note(ended.note).startswith("there is no host with capacity for a:")
    vm = world.stored_vm("a")
    assert (vm.host, vm.state, vm.moving_to) == ("h1", VmState.DOWN, "")
    [failure] = [
        operation
        for operation in world.operations()
        if operation.verb is Verb.FAIL and operation.target == "a"
    ]
    assert failure.vms == ("a",)
    trail = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    held = [entry for entry in trail if entry.kind is AuditKind.OPERATION_HELD]
    assert len(held) == 1, "the history has an entry for each change, not each look"


def test_vm_still_running_on_its_source_host_has_no_failure() -> None:
    world = world_of(fleet("a", hosts="h1 h2"))
    operation = started(world)
    fail_host(world, "h2")
    fails(world, operation)
    world.advance("5m")
    assert world.operation(operation.operation_id).state is OperationState.FAILED
    assert world.stored_vm("a").state is VmState.RUNNING


def test_vm_observed_on_the_lost_host_is_recorded_there() -> None:
    world = world_of(fleet("a"))
    operation = started(world)
    fail_host(world, "h2")
    after = fails(world, operation, seen="h2")
    assert after.state is OperationState.FAILED
    vm = world.stored_vm("a")
    assert (vm.host, vm.state) == ("h2", VmState.DOWN)
