"""Visits whose VMs stay on the host: paused or stopped for the work, then run again."""

import pytest

from forewarn.control.requests import outcome
from forewarn.drivers.port import Observation, Sighting
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import SpanKind, VmState
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventStatus
from forewarn.protocol.host_steps import StepRule, StepRules
from forewarn.protocol.operations import (
    Action,
    CallPart,
    Operation,
    OperationState,
    RequestState,
)
from forewarn.protocol.visits import (
    STUCK_VISITS,
    SkipReason,
    StepOutcome,
    VisitState,
)
from forewarn.reporting import attention
from forewarn.reporting.explanations import explain
from forewarn.reporting.problem import ProblemKind
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from tests.support.worlds import LastingStore, World
from tests.unit.control.test_visits import (
    host_of,
    maintain,
    operation_of,
    order,
    request_of,
    retry_verify,
    states_until_end,
    visit_of,
    visits,
    world_of,
)

FLEET = """\
[[host]]
name = "h0"

[[host]]
name = "h1"

[[vm]]
name = "web_0"
host = "h0"

[[vm]]
name = "db_0"
host = "h0"
"""

FLEET_WITHOUT_WEB = FLEET.replace('[[vm]]\nname = "web_0"\nhost = "h0"\n', "")

IMPACTS = ["freeze", "reboot"]
DOWN = {"freeze": "pause", "reboot": "stop"}
UP = {"freeze": "resume", "reboot": "start"}


def in_place(impact: str, *faults: str, hosts: tuple[str, ...] = ("h0",)) -> World:
    """Return a world in which the work on h0 runs or has failed."""
    world = world_of(*faults, fleet=FLEET)
    maintain(world, *hosts, impact=impact, work="flash", verify="up", exit="leave")
    world.advance("15m")
    return world


def operation_of_visit(world: World) -> Operation:
    name = visit_of(world).operation
    [found] = [
        operation for operation in world.operations() if operation.operation_id == name
    ]
    return found


def failed_visits(world: World) -> list[attention.Problem]:
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    return [problem for problem in problems if problem.kind is ProblemKind.VISIT_FAILED]


def started_events(world: World) -> list[str]:
    live = world.live_events()
    assert all(event.status is EventStatus.STARTED for event in live)
    return sorted(vm.vm for event in live for vm in event.resources)


@pytest.mark.parametrize("impact", IMPACTS)
def test_vms_stand_still_during_the_work_and_run_before_it_is_verified(
    impact: str,
) -> None:
    world = in_place(impact)
    assert visit_of(world).state is VisitState.DRAINING
    world.advance("40s")
    assert visit_of(world).state is VisitState.WORKING
    operation = operation_of(world)
    assert operation.holds_vms
    assert (operation.state, operation.part) == (
        OperationState.IMPACTING,
        CallPart.DOWN,
    )
    assert started_events(world) == ["db_0", "web_0"]
    observation = world.driver.observe(["web_0"])["web_0"]
    assert observation.running is (impact == "freeze")
    *seen_states, ended = states_until_end(world)
    assert (seen_states[0], ended) == (VisitState.WORKING, VisitState.DONE)
    assert operation_of(world).part is CallPart.UP
    assert operation_of(world).impact_ended_at <= visit_of(world).results[1].at
    assert world.driver.observe(["web_0"]) == {
        "web_0": Observation(running=True, host="h0")
    }
    world.advance("10m")
    assert operation_of(world).state is OperationState.DONE
    assert world.live_events() == []
    assert not host_of(world).cordons
    assert world.stored_vm("web_0").state is VmState.RUNNING


@pytest.mark.parametrize("impact", IMPACTS)
@pytest.mark.parametrize("fault", ["fail", "refuse", "stall"])
def test_vms_run_again_after_work_that_failed_and_the_host_stays_cordoned(
    impact: str, fault: str
) -> None:
    world = in_place(impact, f"work {fault}", hosts=("h0", "h1"))
    request = operation_of(world).request
    world.advance("50m")
    visit = visit_of(world)
    assert (visit.state, visit.failed_in) == (VisitState.FAILED, VisitState.WORKING)
    assert operation_of(world).state is OperationState.DONE, "the VMs run again"
    assert world.driver.observe(["db_0"])["db_0"].running is True
    assert world.live_events() == []
    assert host_of(world).cordons
    assert request_of(world, request).state is RequestState.STOPPED
    assert request_of(world, request).in_flight == 1
    with pytest.raises(RefusedError, match="VMs of host h0 run again"):
        order(world, "visit-retry", "h0")
    with pytest.raises(RefusedError, match="cannot remove VM web_0: visit") as refused:
        world.apply_fleet(FLEET_WITHOUT_WEB)
    assert "visit skip" in refused.value.hint
    order(world, "visit-skip", "h0")
    assert visit_of(world).skipped is SkipReason.GIVEN_UP
    assert not host_of(world).cordons
    assert request_of(world, request).in_flight == 0


@pytest.mark.parametrize("impact", IMPACTS)
@pytest.mark.parametrize("fault", ["unknown", "forget"])
def test_vms_wait_for_an_operator_if_the_work_may_still_run(
    impact: str, fault: str
) -> None:
    world = in_place(impact, f"work {fault}")
    world.advance("3h")
    visit = visit_of(world)
    assert (visit.state, visit.failed_in) == (VisitState.UNKNOWN, VisitState.WORKING)
    assert operation_of(world).holds_vms
    assert started_events(world) == ["db_0", "web_0"], "they are still affected"
    [problem] = failed_visits(world)
    assert problem.vms == ("db_0", "web_0")
    stay, runs = ("paused", "resume") if impact == "freeze" else ("stopped", "start")
    assert problem.text.endswith(
        f"; 2 VMs stay {stay} (db_0, web_0): `retry` lets them {runs} after the work, "
        "and `skip` at once"
    )
    order(world, "visit-retry", "h0")
    assert visit_of(world).state is VisitState.WORKING
    assert states_until_end(world)[-1] is VisitState.DONE
    assert operation_of(world).state in {
        OperationState.RECOVERING,
        OperationState.DONE,
    }


@pytest.mark.parametrize("impact", IMPACTS)
def test_work_that_lied_is_not_repeated_under_running_vms(impact: str) -> None:
    world = in_place(impact, "work lie")
    world.advance("3h")
    assert visit_of(world).failed_in is VisitState.VERIFYING
    with pytest.raises(RefusedError, match="VMs of host h0 run again") as refused:
        order(world, "visit-retry", "h0")
    assert "--only-verify" in refused.value.hint
    retry_verify(world, "h0")
    assert visit_of(world).state is VisitState.VERIFYING


@pytest.mark.parametrize("impact", IMPACTS)
def test_vms_run_again_when_an_operator_gives_up_work_with_an_unknown_outcome(
    impact: str,
) -> None:
    world = in_place(impact, "work unknown")
    request = operation_of(world).request
    world.advance("3h")
    order(world, "visit-skip", "h0")
    assert visit_of(world).state is VisitState.RESTORING
    assert host_of(world).cordons, "it is opened when the VMs run"
    assert states_until_end(world)[-1] is VisitState.SKIPPED
    assert world.driver.observe(["web_0"])["web_0"].running is True
    assert not host_of(world).cordons
    world.advance("10m")
    assert operation_of(world).state is OperationState.DONE
    assert world.live_events() == []
    assert request_of(world, request).in_flight == 0


@pytest.mark.parametrize("impact", IMPACTS)
def test_all_vms_run_again_without_work_if_one_cannot_be_taken_down(
    impact: str,
) -> None:
    world = in_place(
        impact, f"{DOWN[impact]} fail vm=db_0 others=done times=always", hosts=("h0",)
    )
    request = operation_of(world).request
    states = states_until_end(world)
    assert VisitState.WORKING not in states
    assert states[-1] is VisitState.DEFERRED
    visit = visit_of(world)
    assert [result.kind.value for result in visit.results] == ["exit"], (
        "no work was done"
    )
    for vm in ("web_0", "db_0"):
        assert world.driver.observe([vm])[vm].running is True
        assert world.stored_vm(vm).state is VmState.RUNNING
    world.advance("10m")
    operation = operation_of(world)
    assert operation.state is OperationState.DONE
    assert operation.note is not None, "it says why nothing was done"
    assert not host_of(world).cordons
    assert request_of(world, request).state is RequestState.STOPPED


@pytest.mark.parametrize("impact", IMPACTS)
@pytest.mark.parametrize("half", [DOWN, UP])
@pytest.mark.parametrize("fault", ["fail", "refuse"])
def test_failed_half_is_repeated(impact: str, half: dict[str, str], fault: str) -> None:
    world = in_place(impact, f"{half[impact]} {fault}")
    assert states_until_end(world)[-1] is VisitState.DONE
    # Two halves, and one of them twice.
    assert operation_of(world).generation == 3


def test_stop_that_is_reported_and_not_done_is_repeated() -> None:
    world = in_place("reboot", "stop lie")
    assert states_until_end(world)[-1] is VisitState.DONE
    assert operation_of(world).generation == 3


def test_start_that_is_reported_and_not_done_is_repeated() -> None:
    world = in_place("reboot", "start lie left=down")
    assert states_until_end(world)[-1] is VisitState.DONE
    assert operation_of(world).generation == 3


@pytest.mark.parametrize("impact", IMPACTS)
def test_vms_that_cannot_run_again_fail_and_so_does_the_visit(impact: str) -> None:
    world = in_place(impact, f"{UP[impact]} fail left=down times=always")
    world.advance("1h")
    visit = visit_of(world)
    assert (visit.state, visit.failed_in) == (VisitState.FAILED, VisitState.RESTORING)
    assert operation_of_visit(world).state is OperationState.FAILED
    assert world.stored_vm("web_0").state is VmState.DOWN
    assert started_events(world) == ["db_0", "web_0"], "their own failures"
    [problem] = failed_visits(world)
    assert problem.vms == ("db_0", "web_0")
    assert problem.text.endswith(
        "; 2 VMs of it are down (db_0, web_0): start what does not run, then run "
        "`forewarn restore db_0 web_0`"
    )
    with pytest.raises(RefusedError, match="could not be resumed or started"):
        order(world, "visit-retry", "h0")
    order(world, "visit-skip", "h0")
    assert visit_of(world).state is VisitState.SKIPPED


@pytest.mark.parametrize("impact", IMPACTS)
@pytest.mark.parametrize("is_done", [True, False])
def test_half_with_an_unknown_outcome_waits_for_an_operator(
    impact: str, is_done: bool
) -> None:
    world = in_place(impact, f"{DOWN[impact]} unknown")
    world.advance("1h")
    assert visit_of(world).state is VisitState.DRAINING
    name = operation_of(world).operation_id
    world.order(lambda work: outcome.resolve(work, name, done=is_done))
    ended = VisitState.DONE if is_done else VisitState.DEFERRED
    assert states_until_end(world)[-1] is ended
    assert world.driver.observe(["web_0"])["web_0"].running is True


@pytest.mark.parametrize("impact", IMPACTS)
@pytest.mark.parametrize("passed", ["0s", "40s", "95s", "100s"])
def test_crash_changes_nothing(impact: str, passed: str) -> None:
    kept = LastingStore()
    world = World(store=lambda: kept, driver=SimulatedDriver(), fleet=FLEET)
    maintain(world, "h0", impact=impact, work="flash", verify="up", exit="leave")
    world.advance("15m")
    world.advance(passed)
    before = visit_of(world).state
    world.restart()
    assert visit_of(world).state is before
    assert states_until_end(world)[-1] is VisitState.DONE
    assert operation_of(world).generation == 2
    assert [result.outcome for result in visit_of(world).results] == [
        StepOutcome.DONE
    ] * 3


def test_freeze_around_work_announces_no_duration_unless_it_is_given() -> None:
    for given, announced in ({}, -1), ({"duration": 600}, 600):
        world = world_of(fleet=FLEET)
        maintain(world, "h0", impact="freeze", work="flash", **given)
        assert {event.duration_seconds for event in world.live_events()} == {announced}


def test_interruption_lasts_from_the_first_half_to_the_end_of_the_second() -> None:
    world = in_place("reboot")
    assert states_until_end(world)[-1] is VisitState.DONE
    spans = world.read(lambda reader: reader.select(kinds.SPANS_OF_VM, "web_0"))
    [span] = [span for span in spans if span.kind is SpanKind.REBOOT]
    assert span.ended - span.began >= 120_000_000, "30 s + 60 s of work + 30 s"


def test_stopped_vm_that_is_sighted_has_not_failed() -> None:
    world = in_place("reboot", "work stall")
    world.advance("40s")
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.see(Sighting(vm="web_0", running=False, at=world.now))
    world.advance("5m")
    assert world.stored_vm("web_0").state is VmState.RUNNING


def test_empty_host_is_worked_on_at_once() -> None:
    world = world_of(fleet=FLEET)
    maintain(world, "h1", impact="reboot", work="flash")
    assert visit_of(world, "h1").state is VisitState.WORKING
    assert states_until_end(world, "h1")[-1] is VisitState.DONE


REBOOTING = StepRules(
    rules=(("reboot-host", StepRule()), ("up", StepRule()), ("flash", StepRule()))
)


@pytest.mark.parametrize("steps", [{}, {"verify": "up"}])
def test_reboot_without_work_reboots_the_host_if_the_driver_can(
    steps: dict[str, str],
) -> None:
    world = world_of(fleet=FLEET, rules=REBOOTING)
    maintain(world, "h0", impact="reboot", **steps)
    names = [(step.kind.value, step.name) for step in visit_of(world).steps]
    assert names == [("work", "reboot-host"), *steps.items()]
    world.advance("15m")
    world.advance("40s")
    assert visit_of(world).state is VisitState.WORKING
    assert world.driver.observe(["web_0"])["web_0"].running is False
    status = world.read(lambda reader: explain(reader, "h0", now=world.now))["status"]
    assert "step work (reboot-host) runs" in status
    assert states_until_end(world)[-1] is VisitState.DONE
    assert world.driver.observe(["web_0"])["web_0"].running is True


def test_named_work_replaces_the_reboot_of_the_host() -> None:
    world = world_of(fleet=FLEET, rules=REBOOTING)
    maintain(world, "h0", impact="reboot", work="flash")
    assert [step.name for step in visit_of(world).steps] == ["flash"]


@pytest.mark.parametrize("impact", ["freeze", "live-migrate", "redeploy"])
def test_other_impacts_reboot_no_host(impact: str) -> None:
    world = world_of(fleet=FLEET, rules=REBOOTING)
    maintain(world, "h0", impact=impact)
    assert visits(world) == {}


def test_reboot_of_the_host_that_needs_arguments_must_be_named() -> None:
    rule = StepRule(arguments=(("force", "yes|no"),))
    rules = StepRules(rules=(("reboot-host", rule), ("up", StepRule())))
    world = world_of(fleet=FLEET, rules=rules)
    maintain(world, "h0", impact="reboot", verify="up")
    assert [step.name for step in visit_of(world).steps] == ["up"]
    name = visit_of(world).visit_id
    status = world.read(lambda reader: explain(reader, name, now=world.now))["status"]
    assert "the VMs are restarted and the host is not" in status


@pytest.mark.parametrize("fault", ["lie", "fail", "forget"])
def test_reboot_of_the_host_that_is_not_done_leaves_it_cordoned(fault: str) -> None:
    world = world_of(f"work {fault}", fleet=FLEET, rules=REBOOTING)
    maintain(world, "h0", impact="reboot", verify="up")
    world.advance("3h")
    assert visit_of(world).state in STUCK_VISITS
    assert host_of(world).cordons


class WholeDriver(SimulatedDriver):
    """A driver that cannot do the halves of an action separately."""

    def actions(self) -> frozenset[Action]:
        return super().actions() - {Action.RESUME, Action.STOP}


@pytest.mark.parametrize("impact", IMPACTS)
def test_driver_without_halves_refuses_work_and_reboots_as_before(impact: str) -> None:
    world = World(store=MemoryStore, driver=WholeDriver(), fleet=FLEET)
    with pytest.raises(RefusedError, match=r"cannot (pause|stop) and") as refused:
        maintain(world, "h0", impact=impact, work="flash")
    assert "live-migrate" in refused.value.hint
    maintain(world, "h0", impact=impact, verify="up")
    world.advance("15m")
    assert states_until_end(world)[-1] is VisitState.DONE


def test_driver_that_reboots_hosts_and_stops_no_vms_refuses_a_reboot() -> None:
    driver = WholeDriver(steps=REBOOTING)
    world = World(store=MemoryStore, driver=driver, fleet=FLEET)
    with pytest.raises(RefusedError, match="cannot stop and start VMs"):
        maintain(world, "h0", impact="reboot")


def test_driver_with_halves_only_can_do_work_and_nothing_else() -> None:
    class HalvesDriver(SimulatedDriver):
        def actions(self) -> frozenset[Action]:
            return super().actions() - {Action.REBOOT}

    world = World(store=MemoryStore, driver=HalvesDriver(), fleet=FLEET)
    with pytest.raises(RefusedError, match="does not support reboot"):
        maintain(world, "h0", impact="reboot", verify="up")
    maintain(world, "h0", impact="reboot", work="flash")
    world.advance("15m")
    assert states_until_end(world)[-1] is VisitState.DONE


def test_vm_that_stands_still_is_not_moved_or_removed_by_a_fleet_file() -> None:
    world = in_place("reboot")
    world.advance("40s")
    assert operation_of(world).holds_vms
    with pytest.raises(RefusedError, match="cannot remove VM web_0: operation"):
        world.apply_fleet(FLEET_WITHOUT_WEB)
    moved = FLEET.replace('name = "web_0"\nhost = "h0"', 'name = "web_0"\nhost = "h1"')
    with pytest.raises(RefusedError, match="cannot move VM web_0"):
        world.apply_fleet(moved)
    assert states_until_end(world)[-1] is VisitState.DONE


@pytest.mark.parametrize(
    ("fault", "state"), [("fail", "Failed"), ("forget", "Unknown")]
)
def test_visit_that_waits_for_an_operator_is_a_problem(fault: str, state: str) -> None:
    world = in_place("reboot", f"work {fault}")
    assert failed_visits(world) == []
    world.advance("3h")
    [problem] = failed_visits(world)
    assert (problem.name, problem.target) == (visit_of(world).visit_id, "h0")
    assert f"the visit of host h0 is {state}" in problem.text
    assert problem.actions == ("visit retry", "visit skip")
    order(world, "visit-skip", "h0")
    world.advance("10m")
    assert failed_visits(world) == []
