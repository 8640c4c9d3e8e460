"""What operators are told about visits: in `explain` and in `problems`."""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.protocol.operations import CallState
from forewarn.protocol.visits import VisitState
from forewarn.reporting import attention, visited
from forewarn.reporting.explanations import explain
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.reporting.visit_problems import is_late
from forewarn.store.port import Reader
from tests.support.worlds import World
from tests.unit.control.test_visits import (
    maintain,
    operation_of,
    order,
    states_until_end,
    visit_of,
    world_of,
)

TENANTS = """\
[[tenant]]
name = "shop"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"

[[host]]
name = "h0"

[[host]]
name = "h1"

[[vm]]
name = "web_0"
host = "h0"
scope = "web"
fault_domain = 0
"""


def told(world: World, name: str) -> dict[str, Any]:
    return world.read(lambda reader: explain(reader, name, now=world.now))


def late(world: World) -> list[Problem]:
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    return [problem for problem in problems if problem.kind is ProblemKind.VISIT_LATE]


def test_explained_operation_tells_that_its_visit_failed_later() -> None:
    world = world_of("work fail")
    maintain(world, "h0", work="flash")
    world.advance("3h")
    operation = operation_of(world)
    found = told(world, operation.operation_id)
    assert found["state"] == "Done"
    assert found["status"].startswith("it has ended: done")
    visit = visit_of(world)
    assert f"visit {visit.visit_id} is Failed: step work failed" in found["status"]
    assert "`forewarn visit retry h0`" in found["status"]
    order(world, "visit-retry", "h0")
    assert states_until_end(world)[-1] is VisitState.DONE
    standing = told(world, operation.operation_id)["status"]
    assert f"visit {visit.visit_id} is Done: the work is done" in standing


def test_tenant_hears_of_no_visit() -> None:
    world = world_of("work fail", fleet=TENANTS)
    maintain(world, "h0", work="flash")
    world.advance("3h")
    operation = operation_of(world)

    def read(reader: Reader) -> str:
        return visited.of_operation(
            TenantReader(reader, "shop"), operation, now=world.now
        )

    assert world.read(read) == ""


def test_operation_without_host_steps_has_no_visit_to_tell_of() -> None:
    world = world_of()
    maintain(world, "h0")
    assert "visit" not in str(told(world, operation_of(world).operation_id))


def test_step_is_late_in_the_last_quarter_of_its_time_until_it_fails() -> None:
    world = world_of("work stall")
    maintain(world, "h1", work="flash")
    # The timeout is 30 minutes, and the driver has one more.
    world.advance("23m")
    assert late(world) == []
    world.advance("20s")
    visit = visit_of(world, "h1")
    [problem] = late(world)
    assert (problem.name, problem.hosts) == (visit.visit_id, ("h1",))
    assert problem.since == visit.since
    assert "the visit of host h1 is late in Working: step work (flash)" in problem.text
    world.advance("8m")
    assert late(world) == []
    assert visit_of(world, "h1").state is VisitState.FAILED


def test_step_that_the_driver_is_asked_about_is_late() -> None:
    world = world_of("work stall")
    maintain(world, "h1", work="flash")
    world.advance("1m")
    visit = replace(visit_of(world, "h1"), call_state=CallState.OVERDUE)
    assert is_late(visit, now=world.now)


def test_visit_that_entered_its_state_before_an_upgrade_is_not_late() -> None:
    world = world_of("work stall")
    maintain(world, "h1", work="flash")
    world.advance("25m")
    visit = visit_of(world, "h1")
    assert is_late(visit, now=world.now)
    assert not is_late(replace(visit, since=0), now=world.now)


def test_verify_without_a_success_is_late_in_its_last_quarter() -> None:
    world = world_of("verify fail times=always")
    maintain(world, "h1", work="flash", verify="flashed")
    world.advance("60s")
    assert visit_of(world, "h1").state is VisitState.VERIFYING
    world.advance("22m")
    assert late(world) == []
    world.advance("1m")
    [problem] = late(world)
    assert "late in Verifying" in problem.text
    assert problem.actions == ("explain",)
    world.advance("1h")
    assert late(world) == [], "it has failed"


def test_verify_that_has_begun_to_succeed_is_not_late() -> None:
    world = world_of("verify fail times=12")
    maintain(world, "h1", work="flash", verify="flashed")
    was_late = False
    for _ in range(60):
        world.advance("30s")
        was_late |= bool(late(world))
        if visit_of(world, "h1").verified:
            break
    assert was_late
    assert late(world) == []
    assert states_until_end(world, "h1")[-1] is VisitState.DONE


@pytest.mark.parametrize("is_back", [True, False])
def test_step_of_the_clock_makes_no_visit_late(is_back: bool) -> None:
    world = world_of("verify fail times=10")
    maintain(world, "h1", work="flash", verify="flashed")
    world.advance("2m")
    world.step_clock("1d", back=is_back)
    assert late(world) == []
