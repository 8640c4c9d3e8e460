"""Visits: the host steps around the maintenance of a host."""

import pytest

from forewarn.control.requests import verbs
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind, parse_fault
from forewarn.fleet.model import Host
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.protocol.host_steps import NO_STEPS, StepKind, StepRule, StepRules
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.protocol.visits import SkipReason, StepOutcome, Visit, VisitState
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from forewarn.verbs.model import VerbRequest
from tests.support.worlds import World

FLEET = """\
[[host]]
name = "h0"

[[host]]
name = "h1"

[[host]]
name = "h2"

[[vm]]
name = "web_0"
host = "h0"
"""

ALL = {
    "needed": "check",
    "enter": "enter",
    "work": "flash:version=2.19",
    "verify": "flashed:version=2.19",
    "exit": "leave",
}


def world_of(*faults: str, rules: StepRules | None = None, fleet: str = FLEET) -> World:
    driver = SimulatedDriver() if rules is None else SimulatedDriver(steps=rules)
    for text in faults:
        driver.inject(parse_fault(text))
    return World(store=MemoryStore, driver=driver, fleet=fleet)


def maintain(
    world: World, *hosts: str, impact: str = "live-migrate", **values: str | int
) -> str:
    request = VerbRequest(targets=hosts, values={"impact": impact, **values})
    result = world.order(lambda work: verbs.DECISIONS["maintain"](work, request))
    assert isinstance(result, str)
    return result


def order(world: World, verb: str, *hosts: str) -> None:
    world.order(lambda work: verbs.DECISIONS[verb](work, VerbRequest(targets=hosts)))


def visits(world: World) -> dict[str, Visit]:
    found = world.read(lambda reader: list(every(reader, kinds.ALL_VISITS)))
    return {visit.host: visit for visit in found}


def visit_of(world: World, host: str = "h0") -> Visit:
    return visits(world)[host]


def host_of(world: World, name: str = "h0") -> Host:
    host = world.read(lambda reader: reader.get(Host, name))
    assert host is not None
    return host


def request_of(world: World, name: str) -> Request:
    request = world.read(lambda reader: reader.get(Request, name))
    assert request is not None
    return request


def operation_of(world: World, host: str = "h0") -> Operation:
    [found] = [operation for operation in world.operations() if operation.host == host]
    return found


def states_until_end(world: World, host: str = "h0") -> list[VisitState]:
    """Return the states that a visit is seen in, minute by minute."""
    states: list[VisitState] = []
    for _ in range(300):
        visit = visit_of(world, host)
        if visit.state not in states:
            states.append(visit.state)
        if visit.ended_at:
            return states
        world.advance("5s")
    return states


def test_host_is_checked_emptied_worked_on_verified_and_opened() -> None:
    world = world_of()
    request = maintain(world, "h0", **ALL)
    assert world.live_events() == [], "nobody is told before the host needs it"
    assert visit_of(world).state is VisitState.WAITING
    world.advance("70s")
    assert visit_of(world).state is VisitState.ANNOUNCED
    [event] = world.live_events()
    assert event.event_type.value == "Freeze"
    world.advance("14m")
    assert not host_of(world).cordons
    assert states_until_end(world) == [
        VisitState.ANNOUNCED,
        VisitState.ENTERING,
        VisitState.DRAINING,
        VisitState.WORKING,
        VisitState.VERIFYING,
        VisitState.EXITING,
        VisitState.DONE,
    ]
    assert world.stored_vm("web_0").host != "h0"
    assert not host_of(world).cordons
    visit = visit_of(world)
    assert [result.outcome for result in visit.results] == [StepOutcome.DONE] * 5
    world.advance("10m")
    assert request_of(world, request).state is RequestState.CLOSED
    assert request_of(world, request).in_flight == 0


def test_host_that_does_not_need_the_work_is_skipped_and_nobody_hears_of_it() -> None:
    world = world_of("needed not-needed")
    request = maintain(world, "h0", "h1", **ALL)
    world.advance("65s")
    visit = visit_of(world)
    assert (visit.state, visit.skipped) == (VisitState.SKIPPED, SkipReason.NOT_NEEDED)
    assert operation_of(world).state is OperationState.CANCELLED
    assert world.live_events() == []
    assert not host_of(world).cordons
    assert visit_of(world, "h1").state is VisitState.WAITING, "the next one is asked"
    assert states_until_end(world, "h1")[-1] is VisitState.DONE
    world.advance("20m")
    assert request_of(world, request).state is RequestState.CLOSED


@pytest.mark.parametrize("kind", ["fail", "refuse", "unknown", "stall"])
def test_host_that_cannot_tell_whether_it_needs_the_work_is_skipped(kind: str) -> None:
    world = world_of(f"needed {kind}")
    maintain(world, "h0", "h1", **ALL)
    world.advance("3h")
    visit = visit_of(world)
    assert (visit.state, visit.skipped) == (
        VisitState.SKIPPED,
        SkipReason.NEEDED_FAILED,
    )
    assert visit_of(world, "h1").state is VisitState.DONE, "the rollout goes on"


def test_only_one_host_is_in_flight_until_its_visit_has_ended() -> None:
    world = world_of()
    request = maintain(world, "h0", "h1", work="flash:version=2", verify="flashed")
    world.advance("16m")
    # The operation of h0 has ended its impact; its host is still worked on.
    assert operation_of(world).state is OperationState.RECOVERING
    assert visit_of(world).state is VisitState.WORKING
    assert "h1" not in visits(world)
    assert request_of(world, request).in_flight == 1
    assert states_until_end(world)[-1] is VisitState.DONE
    assert "h1" in visits(world)


def test_empty_host_is_visited_too() -> None:
    world = world_of()
    maintain(world, "h1", work="flash")
    assert visit_of(world, "h1").state is VisitState.WORKING
    assert states_until_end(world, "h1")[-1] is VisitState.DONE


def test_maintenance_without_impact_has_no_event_and_moves_no_vm() -> None:
    world = world_of()
    maintain(world, "h0", impact="none", enter="enter", work="flash", exit="leave")
    assert visit_of(world).state is VisitState.ENTERING
    [cordon] = host_of(world).cordons
    assert cordon.by.name == visit_of(world).visit_id
    assert states_until_end(world)[-1] is VisitState.DONE
    assert world.stored_vm("web_0").host == "h0"
    work = operation_of(world).operation_id
    assert not world.read(lambda r: r.select(kinds.EVENTS_OF_OPERATION, work, limit=1))
    assert not host_of(world).cordons


@pytest.mark.parametrize("impact", ["reboot", "freeze"])
def test_host_is_verified_after_its_vms_were_affected_in_place(impact: str) -> None:
    world = world_of()
    maintain(world, "h0", impact=impact, enter="enter", verify="up", exit="leave")
    world.advance("15m")
    assert visit_of(world).state is VisitState.ENTERING
    assert operation_of(world).state is OperationState.IMPACTING
    assert states_until_end(world)[-1] is VisitState.DONE
    assert world.stored_vm("web_0").host == "h0"


@pytest.mark.parametrize(
    ("step", "state"),
    [("work", VisitState.WORKING), ("exit", VisitState.EXITING)],
)
@pytest.mark.parametrize(
    ("fault", "ended"),
    [
        ("fail", VisitState.FAILED),
        ("refuse", VisitState.FAILED),
        ("stall", VisitState.FAILED),
        ("unknown", VisitState.UNKNOWN),
        ("forget", VisitState.UNKNOWN),
    ],
)
def test_failed_step_leaves_the_host_cordoned_until_it_is_retried(
    step: str, state: VisitState, fault: str, ended: VisitState
) -> None:
    world = world_of(f"{step} {fault}")
    request = maintain(world, "h0", "h1", **ALL)
    world.advance("3h")
    visit = visit_of(world)
    assert (visit.state, visit.failed_in) == (ended, state)
    assert host_of(world).cordons, "a failed host takes no VM"
    assert request_of(world, request).state is RequestState.STOPPED
    assert request_of(world, request).in_flight == 1, "it keeps its place"
    assert operation_of(world, "h1").state is OperationState.CANCELLED
    order(world, "visit-retry", "h0")
    assert visit_of(world).state is state
    assert states_until_end(world)[-1] is VisitState.DONE
    assert not host_of(world).cordons
    assert request_of(world, request).in_flight == 0


def test_failed_visit_can_be_given_up() -> None:
    world = world_of("work fail")
    request = maintain(world, "h0", **ALL)
    world.advance("1h")
    order(world, "visit-skip", "h0")
    visit = visit_of(world)
    assert (visit.state, visit.skipped) == (VisitState.SKIPPED, SkipReason.GIVEN_UP)
    assert not host_of(world).cordons
    assert request_of(world, request).in_flight == 0
    maintain(world, "h0", work="flash")
    assert visit_of(world).state is not VisitState.FAILED


def test_failed_enter_ends_the_operation_and_moves_no_vm() -> None:
    world = world_of("enter fail")
    maintain(world, "h0", **ALL)
    world.advance("20m")
    assert visit_of(world).state is VisitState.FAILED
    assert operation_of(world).state is OperationState.FAILED
    assert world.live_events() == []
    assert world.stored_vm("web_0").host == "h0"
    with pytest.raises(RefusedError, match="failed before its work"):
        order(world, "visit-retry", "h0")
    order(world, "visit-skip", "h0")
    assert not host_of(world).cordons


def test_verify_must_succeed_several_times_in_a_row() -> None:
    world = world_of("verify fail times=2")
    maintain(world, "h1", work="flash", verify="flashed")
    assert states_until_end(world, "h1")[-1] is VisitState.DONE
    # Two failures, then three successes in a row.
    assert visit_of(world, "h1").generation == 1 + 2 + 3


def test_visit_fails_if_verify_never_succeeds() -> None:
    world = world_of("verify fail times=always")
    maintain(world, "h1", work="flash", verify="flashed")
    world.advance("2h")
    visit = visit_of(world, "h1")
    assert (visit.state, visit.failed_in) == (VisitState.FAILED, VisitState.VERIFYING)
    assert host_of(world, "h1").cordons


def test_verify_finds_work_that_was_reported_and_not_done() -> None:
    world = world_of("work lie")
    maintain(world, "h1", work="flash", verify="flashed")
    world.advance("2h")
    assert visit_of(world, "h1").state is VisitState.FAILED
    order(world, "visit-retry", "h1")
    assert visit_of(world, "h1").state is VisitState.WORKING, "the work is done again"
    assert states_until_end(world, "h1")[-1] is VisitState.DONE


def test_work_is_not_repeated_if_an_operator_did_it_by_hand() -> None:
    world = world_of("work lie", "verify fail times=30")
    maintain(world, "h1", work="flash", verify="flashed")
    world.advance("2h")
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.clear()
    retry_verify(world, "h1")
    assert visit_of(world, "h1").state is VisitState.VERIFYING
    world.advance("2h")
    visit = visit_of(world, "h1")
    assert (visit.state, visit.failed_in) == (VisitState.FAILED, VisitState.VERIFYING)
    order(world, "visit-retry", "h1")
    assert states_until_end(world, "h1")[-1] is VisitState.DONE


def test_verify_without_work_is_repeated_alone() -> None:
    world = world_of("verify fail times=always")
    maintain(world, "h1", verify="up")
    world.advance("2h")
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.clear()
    order(world, "visit-retry", "h1")
    assert visit_of(world, "h1").state is VisitState.VERIFYING
    assert states_until_end(world, "h1")[-1] is VisitState.DONE


@pytest.mark.parametrize("kind", ["unknown", "forget"])
def test_verify_with_an_unknown_outcome_does_not_doubt_the_work(kind: str) -> None:
    world = world_of(f"verify {kind}")
    maintain(world, "h1", work="flash", verify="flashed")
    world.advance("2h")
    assert visit_of(world, "h1").state is VisitState.UNKNOWN
    order(world, "visit-retry", "h1")
    assert visit_of(world, "h1").state is VisitState.VERIFYING


@pytest.mark.parametrize("step", ["work", "exit"])
def test_only_a_failed_verify_can_be_repeated_alone(step: str) -> None:
    world = world_of(f"{step} fail")
    maintain(world, "h1", work="flash", verify="flashed", exit="leave")
    world.advance("2h")
    with pytest.raises(RefusedError, match="step verify of host h1 has not failed"):
        retry_verify(world, "h1")


def retry_verify(world: World, host: str) -> None:
    request = VerbRequest(targets=(host,), values={"only_verify": True})
    world.order(lambda work: verbs.DECISIONS["visit-retry"](work, request))


def test_vms_that_cannot_be_moved_away_defer_the_host() -> None:
    world = world_of("live_migrate fail times=always")
    maintain(world, "h0", **ALL)
    world.advance("1h")
    visit = visit_of(world)
    assert visit.state is VisitState.DEFERRED
    assert operation_of(world).state is OperationState.FAILED
    assert visit.step(StepKind.WORK) is not None
    assert StepKind.WORK not in {result.kind for result in visit.results}
    assert StepKind.EXIT in {result.kind for result in visit.results}, "enter is undone"
    assert not host_of(world).cordons


def test_vm_that_is_deleted_before_the_start_leaves_a_host_to_visit() -> None:
    world = world_of()
    maintain(world, "h0", work="flash")
    assert visit_of(world).state is VisitState.ANNOUNCED
    world.order(
        lambda work: verbs.DECISIONS["terminate"](work, VerbRequest(targets=("web_0",)))
    )
    assert states_until_end(world)[-1] is VisitState.DONE


def test_cancelled_host_is_skipped() -> None:
    world = world_of()
    request = maintain(world, "h0", work="flash")
    order(world, "cancel", request)
    visit = visit_of(world)
    assert (visit.state, visit.skipped) == (VisitState.SKIPPED, SkipReason.CANCELLED)
    assert request_of(world, request).in_flight == 0


def test_cancelled_host_is_skipped_while_it_is_asked() -> None:
    world = world_of()
    request = maintain(world, "h0", "h1", **ALL)
    order(world, "cancel", request)
    world.advance("5m")
    assert visit_of(world).state is VisitState.SKIPPED
    assert request_of(world, request).in_flight == 0
    assert world.live_events() == []


def test_host_of_a_visit_is_in_use() -> None:
    world = world_of("work stall")
    maintain(world, "h0", work="flash")
    world.advance("27m")
    assert operation_of(world).state is OperationState.DONE
    with pytest.raises(RefusedError, match=r"host h0 has visit vi-\w+ \(Working\)"):
        maintain(world, "h0", impact="freeze")
    with pytest.raises(RefusedError, match="has not failed: it is Working"):
        order(world, "visit-retry", "h0")
    with pytest.raises(RefusedError, match="host h1 has no open visit"):
        order(world, "visit-skip", "h1")


RULES = StepRules(
    rules=(("flash", StepRule(arguments=(("version", "[0-9.]+"),))), ("ok", StepRule()))
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"work": "flahs:version=1"}, "there is no host step flahs"),
        ({"work": "flash"}, "host step flash needs the argument version"),
        ({"work": "flash:version=x"}, "must match '[0-9.]+', not 'x'"),
        ({"work": "Flash"}, "work: 'Flash' is not the name of a host step"),
        ({"impact": "none"}, "maintenance without impact needs a step work"),
    ],
)
def test_wrong_steps_are_refused(values: dict[str, str], message: str) -> None:
    world = world_of(rules=RULES)
    with pytest.raises(ForewarnError) as refused:
        maintain(world, "h0", **{"impact": "live-migrate", **values})
    assert message in refused.value.message
    assert refused.value.hint
    assert world.operations() == []


def test_driver_without_host_steps_refuses_them_and_works_as_before() -> None:
    world = world_of(rules=NO_STEPS)
    with pytest.raises(RefusedError, match="this service has no host steps"):
        maintain(world, "h0", work="flash")
    maintain(world, "h0")
    world.advance("30m")
    assert operation_of(world).state is OperationState.DONE
    assert visits(world) == {}


def test_step_that_was_removed_from_the_settings_fails_its_visit() -> None:
    world = world_of(rules=RULES)
    maintain(world, "h1", enter="ok", work="flash:version=2")
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.inject(Fault(kind=FaultKind.REFUSE, step=StepKind.WORK))
    world.advance("5m")
    assert visit_of(world, "h1").state is VisitState.FAILED


FLEET_WITHOUT_H0 = """\
[[host]]
name = "h1"

[[host]]
name = "h2"

[[vm]]
name = "web_0"
host = "h1"
"""


@pytest.mark.parametrize("fault", ["stall", "fail"])
def test_visited_host_cannot_be_removed_from_the_fleet(fault: str) -> None:
    world = world_of(f"work {fault}")
    maintain(world, "h0", work="flash")
    world.advance("25m")
    state = visit_of(world).state
    assert state in {VisitState.WORKING, VisitState.FAILED}
    with pytest.raises(
        RefusedError, match=rf"visit vi-\w+ works on it \({state.value}\)"
    ) as refused:
        world.apply_fleet(FLEET_WITHOUT_H0)
    assert ("visit skip h0" in refused.value.hint) is (fault == "fail")
    if fault == "fail":
        order(world, "visit-skip", "h0")
        world.advance("10m")
        world.apply_fleet(FLEET_WITHOUT_H0)
