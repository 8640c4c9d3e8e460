"""Visits that wait until the host answers after its work."""

import pytest

from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import parse_fault
from forewarn.fleet.model import VmState
from forewarn.instants import DAY, MINUTE, SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import StepKind, StepRule, StepRules
from forewarn.protocol.operations import CallState, OperationState
from forewarn.protocol.visits import SkipReason, StepOutcome, VisitState
from forewarn.reporting.explanations import explain
from tests.support.worlds import LastingStore, World
from tests.unit.control.test_visits import (
    host_of,
    maintain,
    operation_of,
    order,
    states_until_end,
    visit_of,
    world_of,
)
from tests.unit.control.test_visits_in_place import FLEET

NAMES = ("reboot-host", "host-answers", "flash", "up")
QUICK = StepRule(timeout=2 * MINUTE)
RULES = StepRules(rules=tuple((name, QUICK) for name in NAMES))


def rebooting(*faults: str, **steps: str) -> World:
    """Return a world in which h0 is rebooted, and its VMs are being stopped."""
    world = world_of(*faults, fleet=FLEET, rules=RULES)
    maintain(world, "h0", impact="reboot", **steps)
    world.advance("15m")
    return world


def until(world: World, state: VisitState) -> None:
    for _ in range(400):
        if visit_of(world).state is state:
            return
        world.advance("10s")
    raise AssertionError(f"{visit_of(world)} is never {state}")


def is_running(world: World) -> bool | None:
    return world.driver.observe(["web_0"])["web_0"].running


def standing(world: World) -> str:
    return str(
        world.read(lambda reader: explain(reader, "h0", now=world.now))["status"]
    )


@pytest.mark.parametrize("steps", [{}, {"work": "flash"}, {"verify": "up"}])
def test_vms_start_when_the_host_answers_after_its_work(steps: dict[str, str]) -> None:
    world = rebooting("answers fail times=5", **steps)
    assert visit_of(world).step(StepKind.ANSWERS) is not None
    until(world, VisitState.ANSWERING)
    world.advance("4m")
    assert visit_of(world).state is VisitState.ANSWERING, "it does not answer yet"
    assert is_running(world) is False
    assert "it waits until the host answers, at most" in standing(world)
    states = states_until_end(world)
    assert states[:2] == [VisitState.ANSWERING, VisitState.RESTORING]
    assert states[-1] is VisitState.DONE
    assert is_running(world) is True
    done = {result.kind: result.outcome for result in visit_of(world).results}
    assert done[StepKind.ANSWERS] is StepOutcome.DONE


def test_host_that_never_answers_fails_and_its_vms_wait_for_an_operator() -> None:
    world = rebooting("answers fail times=always", verify="up")
    until(world, VisitState.FAILED)
    visit = visit_of(world)
    assert visit.failed_in is VisitState.ANSWERING
    assert host_of(world).cordons
    assert operation_of(world).holds_vms
    assert is_running(world) is False
    assert world.live_events(), "the VMs are told that they are down"
    assert "step answers failed: a simulated fault" in standing(world)
    assert (
        "2 VMs stay stopped (db_0, web_0): `retry` lets them start when the host "
        "answers, and `skip` at once"
    ) in standing(world)
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.clear()
    order(world, "visit-retry", "h0")
    assert visit_of(world).state is VisitState.ANSWERING, "the reboot is not repeated"
    assert states_until_end(world)[-1] is VisitState.DONE
    world.advance("10m")
    assert operation_of(world).state is OperationState.DONE
    assert world.live_events() == []


def test_vms_of_a_host_that_is_given_up_are_started() -> None:
    world = rebooting("answers fail times=always")
    until(world, VisitState.FAILED)
    order(world, "visit-skip", "h0")
    assert visit_of(world).state is VisitState.RESTORING
    assert states_until_end(world)[-1] is VisitState.SKIPPED
    assert visit_of(world).skipped is SkipReason.GIVEN_UP
    assert is_running(world) is True
    assert world.stored_vm("web_0").state is VmState.RUNNING
    assert not host_of(world).cordons


@pytest.mark.parametrize("fault", ["unknown", "forget", "refuse"])
def test_host_is_asked_again_if_its_answer_is_lost(fault: str) -> None:
    world = rebooting(f"answers {fault}")
    until(world, VisitState.DONE)


def test_failed_work_lets_the_vms_start_without_a_wait() -> None:
    world = rebooting("work fail")
    until(world, VisitState.FAILED)
    assert visit_of(world).failed_in is VisitState.WORKING
    assert is_running(world) is True


def test_impact_without_work_on_the_host_waits_for_no_answer() -> None:
    rules = StepRules(rules=(("host-answers", StepRule()), ("up", StepRule())))
    world = world_of(fleet=FLEET, rules=rules)
    maintain(world, "h0", impact="reboot", verify="up")
    assert [step.kind for step in visit_of(world).steps] == [StepKind.VERIFY]


@pytest.mark.parametrize("passed", ["0s", "45s", "65s", "75s"])
def test_crash_changes_nothing_while_a_host_does_not_answer(passed: str) -> None:
    kept = LastingStore()
    driver = SimulatedDriver(steps=RULES)
    world = World(store=lambda: kept, driver=driver, fleet=FLEET)
    maintain(world, "h0", impact="reboot", work="flash")
    world.advance("15m")
    until(world, VisitState.ANSWERING)
    world.advance(passed)
    before = visit_of(world).state
    world.restart()
    assert visit_of(world).state is before
    assert states_until_end(world)[-1] is VisitState.DONE
    assert [result.outcome for result in visit_of(world).results] == [
        StepOutcome.DONE
    ] * 2


def test_clock_that_was_set_back_while_the_service_was_down_delays_no_question() -> (
    None
):
    kept = LastingStore()
    driver = SimulatedDriver(steps=RULES)
    driver.inject(parse_fault("answers fail"))
    world = World(store=lambda: kept, driver=driver, fleet=FLEET)
    maintain(world, "h0", impact="reboot", work="flash")
    world.advance("15m")
    until(world, VisitState.ANSWERING)
    while visit_of(world).call_state is not CallState.NONE:
        world.advance("1s")
    world.clock.step(-DAY)
    world.restart()
    assert visit_of(world).due_at <= world.now + 10 * SECOND
    assert states_until_end(world)[-1] is VisitState.DONE


def test_another_step_answers_after_the_work_of_any_impact() -> None:
    world = world_of("answers fail times=2", fleet=FLEET, rules=RULES)
    maintain(world, "h0", impact="none", work="flash", answers="up")
    until(world, VisitState.ANSWERING)
    assert states_until_end(world)[-1] is VisitState.DONE
    kinds = [result.kind for result in visit_of(world).results]
    assert kinds == [StepKind.WORK, StepKind.ANSWERS]


def test_step_answers_without_work_is_refused() -> None:
    world = world_of(fleet=FLEET, rules=RULES)
    with pytest.raises(RefusedError, match="answers needs a step work") as refused:
        maintain(world, "h0", impact="freeze", answers="up")
    assert "--work STEP" in refused.value.hint
