"""VMs that are off since before the driver looked: a problem for operators, and no failure."""

from forewarn.control.requests import failures
from forewarn.drivers.port import StopCause
from forewarn.reporting import attention
from forewarn.reporting.problem import ProblemKind
from tests.support.worlds import World
from tests.unit.control.test_sightings import MAX, down, see, world_of


def not_running(world: World) -> list[str]:
    around = attention.Surroundings(seen=world.plane.seen())
    problems = world.read(
        lambda reader: attention.problems(reader, around, now=world.now)
    )
    return [
        problem.name
        for problem in problems
        if problem.kind is ProblemKind.VM_NOT_RUNNING
    ]


def test_vm_that_was_off_before_the_driver_looked_is_a_problem_until_it_runs() -> None:
    world = world_of()
    see(world, "v0_0", host="h0", cause=StopCause.UNKNOWN)
    assert not_running(world) == []
    world.advance("30s")
    assert not_running(world) == ["v0_0"]
    world.advance("1h")
    assert not_running(world) == ["v0_0"]
    assert world.operations() == []
    see(world, "v0_0", host="h0", running=True)
    assert not_running(world) == []


def test_vm_that_was_off_before_the_driver_looked_and_is_failed_is_no_such_problem() -> (
    None
):
    world = world_of()
    see(world, "v0_0", host="h0", cause=StopCause.UNKNOWN)
    world.advance("30s")
    world.order(lambda work: failures.fail_vm(work, "v0_0"))
    assert not_running(world) == []


def test_many_vms_that_were_off_hide_no_failure() -> None:
    world = world_of()
    off = ["v0_0", "v0_1", "v0_2", "v1_0"]
    assert len(off) > MAX
    for vm in off:
        see(world, vm, cause=StopCause.UNKNOWN)
    see(world, "v1_1")
    world.advance("30s")
    assert not_running(world) == off
    assert down(world, "v1_1") == [True]


def test_vm_that_its_user_shut_down_is_no_problem_when_the_driver_forgets_why() -> None:
    world = world_of()
    see(world, "v0_0", host="h0", cause=StopCause.SHUT_DOWN)
    world.advance("30s")
    see(world, "v0_0", host="h0", cause=StopCause.UNKNOWN)
    world.advance("1h")
    assert not_running(world) == []


def test_old_definition_on_another_host_is_no_problem() -> None:
    world = world_of()
    see(world, "v0_0", host="h1", cause=StopCause.UNKNOWN)
    # The VM has moved to h1, whose word counts.
    see(world, "v0_1", host="h1", running=True)
    see(world, "v0_1", host="h0", cause=StopCause.UNKNOWN)
    world.advance("30s")
    assert not_running(world) == []
    assert world.stored_vm("v0_1").host == "h1"
