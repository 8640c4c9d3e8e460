"""Results per VM: what was done to one VM is believed, whatever became of others."""

from dataclasses import replace

import pytest

from forewarn.control.requests import failures, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.port import Observation, Report, Verdict, VmResult, VmVerdict
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.availability import Period
from forewarn.fleet.model import VmState
from forewarn.instants import MINUTE
from forewarn.protocol.operations import (
    Action,
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.reporting import accounts, explanations, reports, uptime
from forewarn.store.memory import MemoryStore
from forewarn.wording.operators import note
from tests.support.worlds import World

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
[[scope]]
name = "web"
kind = "availability-set"
""" + "".join(
    f"""
[[vm]]
name = "v{number}"
host = "h1"
scope = "web"
"""
    for number in (1, 2, 3)
)


class Blind(SimulatedDriver):
    """Reports what the test says, and sees nothing."""

    def observe(self, vms: object, _expected: object = None) -> dict[str, Observation]:
        return {}


@pytest.fixture
def world() -> World:
    journal = MemoryJournal()
    store = MemoryStore()
    return World(store=lambda: store, driver=Blind(journal=journal), fleet=FLEET)


def started(world: World) -> Operation:
    """Order that the host is emptied, and return its operation when it has begun."""
    world.order(
        lambda work: verbs.maintain(work, ["h1"], Action.REDEPLOY, OrderOptions())
    )
    [operation] = [
        operation for operation in world.operations() if operation.verb is Verb.MAINTAIN
    ]
    while world.operation(operation.operation_id).state is not OperationState.IMPACTING:
        world.advance("10s")
    return world.operation(operation.operation_id)


def wait_called_again(world: World, operation: Operation) -> Operation:
    generation = world.operation(operation.operation_id).generation
    while world.operation(operation.operation_id).generation == generation:
        world.advance("1s")
    return world.operation(operation.operation_id)


def result(
    vm: str, verdict: VmVerdict, note: str = "", *, down: bool = False
) -> VmResult:
    return VmResult(vm=vm, verdict=verdict, note=note, running=not down)


DONE, FAILED, UNKNOWN = VmVerdict.DONE, VmVerdict.FAILED, VmVerdict.UNKNOWN


def report(world: World, operation: Operation, *results: VmResult) -> Operation:
    """Take over a report of the present call."""
    current = world.operation(operation.operation_id)
    said = Report(
        operation_id=current.operation_id,
        generation=current.generation,
        verdict=Verdict.DONE
        if all(vm_result.verdict is DONE for vm_result in results)
        else Verdict.FAILED,
        results=results,
    )
    world.order(lambda work: outcome.take_report(work, said, {}))
    return world.operation(operation.operation_id)


def test_partial_success_is_recorded_and_only_the_rest_is_retried(
    world: World,
) -> None:
    operation = started(world)
    after = report(
        world,
        operation,
        result("v1", DONE),
        result("v2", DONE),
        result("v3", FAILED, "no route"),
    )
    assert [world.stored_vm(f"v{n}").host for n in (1, 2, 3)] == ["h2", "h2", "h1"]
    assert after.call_state is CallState.RETRY
    assert note(after.note) == "2 of 3 VMs are done; vm v3: no route"
    again = wait_called_again(world, operation)
    assert [move.vm for move in again.moves if not move.done] == ["v3"]


def test_abandoned_call_keeps_moved_vms_on_their_new_host(
    world: World,
) -> None:
    operation = started(world)
    results = result("v1", DONE), result("v2", DONE), result("v3", FAILED, "no")
    while report(world, operation, *results).state is OperationState.IMPACTING:
        results = (result("v3", FAILED, "no"),)
        wait_called_again(world, operation)
    assert world.operation(operation.operation_id).state is OperationState.FAILED
    failure = world.order(lambda work: failures.fail_host(work, "h2"))
    assert failure.vms == ("v1", "v2")
    assert {event.scope for event in world.live_events()} == {"web"}


def test_vm_moved_to_a_failed_host_is_down_there(
    world: World,
) -> None:
    operation = started(world)
    world.order(lambda work: failures.fail_host(work, "h2"))
    after = report(world, operation, *(result(f"v{n}", DONE) for n in (1, 2, 3)))
    assert after.state is OperationState.RECOVERING
    for name in ("v1", "v2", "v3"):
        vm = world.stored_vm(name)
        assert (vm.host, vm.state) == ("h2", VmState.DOWN)
    operations = [
        operation
        for operation in world.operations()
        if operation.verb is Verb.FAIL
        and operation.state is OperationState.IMPACTING
        and operation.vms
    ]
    assert sorted(operation.vms[0] for operation in operations) == ["v1", "v2", "v3"]
    asked = uptime.SpanSelection(
        period=Period(since=world.now - 60 * MINUTE, until=world.now)
    )
    world.read(lambda reader: uptime.page(reader, asked, after="", limit=9))


def test_only_vms_with_unknown_outcome_wait_for_an_operator(world: World) -> None:
    operation = started(world)
    after = report(
        world, operation, result("v1", DONE), result("v2", DONE), result("v3", UNKNOWN)
    )
    assert after.call_state is CallState.UNKNOWN
    assert note(after.note) == "2 of 3 VMs are done; vm v3: unknown"
    assert [world.stored_vm(f"v{n}").host for n in (1, 2, 3)] == ["h2", "h2", "h1"]
    world.order(lambda work: outcome.resolve(work, operation.operation_id, done=False))
    assert [world.stored_vm(f"v{n}").host for n in (1, 2, 3)] == ["h2", "h2", "h1"]
    assert world.operation(operation.operation_id).state is OperationState.FAILED


def test_operator_outcome_applies_where_the_result_is_unknown(
    world: World,
) -> None:
    operation = started(world)
    after = report(
        world,
        operation,
        result("v1", DONE),
        result("v2", FAILED, "no route"),
        result("v3", UNKNOWN),
    )
    assert after.call_state is CallState.UNKNOWN
    world.order(lambda work: outcome.resolve(work, operation.operation_id, done=True))
    assert [world.stored_vm(f"v{n}").host for n in (1, 2, 3)] == ["h2", "h1", "h2"]
    after = world.operation(operation.operation_id)
    assert (after.state, after.call_state) == (
        OperationState.IMPACTING,
        CallState.RETRY,
    )
    assert "it failed for v2" in note(after.note)
    again = wait_called_again(world, operation)
    assert [move.vm for move in again.moves if not move.done] == ["v2"]
    assert not any(move.has_failed for move in again.moves)
    report(world, operation, result("v2", DONE))
    assert world.stored_vm("v2").host == "h2"
    after = world.operation(operation.operation_id)
    assert after.state is OperationState.RECOVERING


def test_vm_reported_down_stays_down_after_resolve(
    world: World,
) -> None:
    operation = started(world)
    report(
        world,
        operation,
        result("v1", UNKNOWN),
        result("v2", FAILED, "no boot", down=True),
        result("v3", FAILED, "no route"),
    )
    world.order(lambda work: outcome.resolve(work, operation.operation_id, done=False))
    assert world.operation(operation.operation_id).state is OperationState.FAILED
    states = [world.stored_vm(f"v{n}").state for n in (1, 2, 3)]
    assert states == [VmState.RUNNING, VmState.DOWN, VmState.RUNNING]


def test_report_that_names_another_host_is_not_accepted(
    world: World,
) -> None:
    operation = started(world)
    elsewhere = replace(result("v3", DONE), host="h1")
    after = report(world, operation, result("v1", DONE), result("v2", DONE), elsewhere)
    assert "vm v3 is on h1, not on h2" in note(after.note)
    assert world.stored_vm("v1").host == "h2"


def test_failed_vm_is_recorded_on_the_host_that_the_report_names(
    world: World,
) -> None:
    operation = started(world)
    moved = replace(result("v3", FAILED, "no disk"), host="h2")
    results = result("v1", DONE), result("v2", DONE), moved
    while report(world, operation, *results).state is OperationState.IMPACTING:
        # While it is tried again, nothing is settled.
        assert world.stored_vm("v3").host == "h1"
        results = (moved,)
        wait_called_again(world, operation)
    assert world.operation(operation.operation_id).state is OperationState.FAILED
    assert world.stored_vm("v3").host == "h2"


def test_late_report_of_an_earlier_call_changes_nothing(world: World) -> None:
    operation = started(world)
    early = operation.generation
    report(world, operation, *(result(f"v{n}", FAILED) for n in (1, 2, 3)))
    wait_called_again(world, operation)
    late = Report(
        operation_id=operation.operation_id,
        generation=early,
        verdict=Verdict.DONE,
        results=(result("v1", DONE),),
    )
    world.order(lambda work: outcome.take_report(work, late, {}))
    assert world.stored_vm("v1").host == "h1"


def test_simulated_driver_can_succeed_for_some_vms(world: World) -> None:
    driver = world.driver
    assert isinstance(driver, SimulatedDriver)
    driver.inject(Fault(kind=FaultKind.FAIL, vm="v3", reason="no", spares_others=True))
    operation = started(world)
    world.advance(2 * MINUTE)
    assert world.stored_vm("v1").host == "h2"
    world.advance(30 * MINUTE)
    assert world.operation(operation.operation_id).state is OperationState.DONE
    assert world.stored_vm("v3").host == "h2"


def test_vm_failure_remains_after_its_host_is_restored(world: World) -> None:
    world.order(lambda work: failures.fail_vm(work, "v1"))
    [before] = [
        operation for operation in world.operations() if operation.vms == ("v1",)
    ]
    failure = world.order(lambda work: failures.fail_host(work, "h1"))
    assert failure.vms == ("v2", "v3")
    world.order(lambda work: failures.restore_host(work, "h1"))
    assert world.stored_vm("v1").state is VmState.DOWN
    assert world.stored_vm("v2").state is VmState.RUNNING
    assert world.operation(before.operation_id).state is OperationState.IMPACTING
    world.order(lambda work: failures.restore_vm(work, "v1"))
    assert world.stored_vm("v1").state is VmState.RUNNING
    assert world.operation(before.operation_id).state is OperationState.DONE


def test_operation_without_a_driver_call_reports_it(world: World) -> None:
    world.order(
        lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, OrderOptions())
    )
    world.advance(MINUTE)
    [operation] = world.operations()
    assert operation.called_no_driver
    told = world.read(
        lambda reader: reports.operation_report(reader, operation, now=world.now)
    )
    assert told["no_driver_call"] is True
    assert "the driver was not called" in told["note"]
    why = world.read(
        lambda reader: explanations.of_operation(reader, operation, now=world.now)
    )
    assert "the driver was not called" in why["status"]
    world.advance(30 * MINUTE)
    [operation] = world.operations()
    assert operation.state is OperationState.DONE
    assert "the driver was not called" in note(operation.note)
    account = world.read(
        lambda reader: accounts.account(reader, operation, now=world.now)
    )
    assert account["no_driver_call"] is True


def test_called_no_driver_is_false_after_a_driver_call(world: World) -> None:
    operation = started(world)
    assert not operation.called_no_driver
    failure = world.order(lambda work: failures.fail_host(work, "h2"))
    assert not failure.called_no_driver
