"""A host that waits because something of its scope is down names the command that helps."""

from collections.abc import Callable

import pytest

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import obstacles
from forewarn.control.rules.remedies import Remedy, actionable_first, remedy_of
from forewarn.protocol.operations import Action
from forewarn.protocol.verbs import Verb
from tests.support.rollouts import DONE, of_host, world_of
from tests.support.worlds import World

FAILED = 0
WAITING = 1


def of() -> World:
    """Return a world with two hosts of a scope, in other fault domains, and spare ones."""
    return world_of([{"s": 0}, {"s": 1}, {}, {}])


def fail_host(world: World) -> None:
    world.order(lambda work: failures.fail_host(work, "h0000"))


def fail_vm(world: World) -> None:
    world.order(lambda work: failures.fail_vm(work, "s-0"))


def fail_both(world: World) -> None:
    fail_vm(world)
    fail_host(world)


def roll_out(world: World) -> None:
    """Order the maintenance of the waiting host and of a spare one, one at a time."""
    wishes = OrderOptions(at_once=1)
    hosts = ["h0001", "h0003"]
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, wishes))
    world.settle()


def first_reason(world: World) -> tuple[str, Remedy]:
    """Return the first reason why the host waits, and who can end it."""
    operation = of_host(world, WAITING)
    blockers = world.read(
        lambda reader: obstacles.why_waiting(reader, operation, now=world.now)
    )
    return world.explain(operation.operation_id)[0], remedy_of(
        actionable_first(blockers)[0]
    )


@pytest.mark.parametrize(
    ("failure", "commands"),
    [
        (fail_host, ["h0000"]),
        (fail_vm, ["s-0"]),
        # A VM cannot run before its host.
        (fail_both, ["h0000", "s-0"]),
    ],
)
def test_host_in_a_scope_that_is_down_names_the_command_that_helps(
    failure: Callable[[World], None], commands: list[str]
) -> None:
    world = of()
    failure(world)
    roll_out(world)
    for name in commands:
        reason, remedy = first_reason(world)
        assert f"is down until `forewarn restore {name}`" in reason
        assert remedy is Remedy.OPERATOR
        restore = failures.restore_host if name[0] == "h" else failures.restore_vm
        world.order(lambda work, name=name, restore=restore: restore(work, name))
        world.settle()
    world.advance("2h")
    assert of_host(world, WAITING).state is DONE


def test_host_waits_for_work_that_runs_a_failed_vm_again() -> None:
    world = of()
    fail_host(world)
    world.order(
        lambda work: verbs.change_vms(work, ["s-0"], Verb.REDEPLOY, OrderOptions())
    )
    world.settle()
    roll_out(world)
    reasons = " ".join(world.explain(of_host(world, WAITING).operation_id))
    assert "announced, in maintenance or down by op" in reasons
    assert "forewarn restore" not in reasons
    assert first_reason(world)[1] is Remedy.SERVICE
    world.advance("2h")
    assert of_host(world, WAITING).state is DONE
