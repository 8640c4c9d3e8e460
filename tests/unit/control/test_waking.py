"""Wake-ups: the work for a freed scope does not grow with the number that wait."""

from collections.abc import Callable

import pytest

from forewarn.control.plane import STEPS_PER_TURN
from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.who import CLOCK
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.operations import Action, Operation, OperationState, Verb
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from tests.support.worlds import World

DOMAINS = 5
NAMES_DIGITS = 4


def fleet(hosts: int, *, domains: int = DOMAINS) -> str:
    """Return a fleet with one VM on each host, all of one scale set."""
    lines = ['[[tenant]]\nname = "shop"']
    lines.append('[[scope]]\nname = "web"\ntenant = "shop"\nkind = "scale-set"')
    for number in range(hosts):
        name = f"{number:0{NAMES_DIGITS}}"
        lines.append(f'[[host]]\nname = "h{name}"')
        lines.append(
            f'[[vm]]\nname = "v{name}"\nhost = "h{name}"\nscope = "web"\n'
            f"fault_domain = {number % domains}"
        )
    return "\n".join(lines)


def new_world(hosts: int, *, domains: int = DOMAINS) -> World:
    return World(
        store=MemoryStore, driver=SimulatedDriver(), fleet=fleet(hosts, domains=domains)
    )


def upgrade(world: World, hosts: int, *, first: int = 0) -> None:
    """Request an OS upgrade of VMs.

    It has no event, and all operations wait for the guard.
    """
    names = [f"v{number:0{NAMES_DIGITS}}" for number in range(first, hosts)]
    world.order(
        lambda work: verbs.change_vms(work, names, Verb.UPGRADE_OS, OrderOptions())
    )


def count_transactions(world: World) -> Callable[[], int]:
    """Return a function that counts the transactions committed after this call."""
    before = world.passed["committed"]
    return lambda: world.passed["committed"] - before


def in_state(world: World, state: OperationState) -> list[Operation]:
    return world.read(
        lambda reader: list(every(reader, kinds.OPERATIONS_IN_STATE, state.value))
    )


@pytest.mark.parametrize("hosts", [50, 200])
def test_freed_scope_wakes_only_operations_that_can_start(hosts: int) -> None:
    world = new_world(hosts)
    world.order(lambda work: failures.fail_vm(work, "v0000"))
    world.order(lambda work: failures.fail_vm(work, "v0001"))
    upgrade(world, hosts, first=2)
    world.settle()
    waiting = len(in_state(world, OperationState.READY))
    assert waiting == hosts - 2
    committed = count_transactions(world)
    # Fault domain 1 is still down, so only VMs of that domain may start.
    world.order(lambda work: failures.restore_vm(work, "v0000"))
    world.settle()
    started = waiting - len(in_state(world, OperationState.READY))
    assert started == hosts // DOMAINS - 1
    assert committed() <= started + 3


def test_all_operations_complete() -> None:
    world = new_world(60)
    upgrade(world, 60)
    world.advance("24h")
    assert {operation.state for operation in world.operations()} == {
        OperationState.DONE
    }


def test_turn_is_short_even_if_many_operations_may_start() -> None:
    world = new_world(200)
    world.order(lambda work: failures.fail_vm(work, "v0000"))
    world.order(lambda work: failures.fail_vm(work, "v0001"))
    upgrade(world, 200, first=2)
    world.settle()
    committed = count_transactions(world)
    world.plane.order(
        CLOCK,
        lambda work: failures.restore_vm(work, "v0000"),
        now=world.now,
    )
    assert committed() <= 1 + STEPS_PER_TURN
    assert world.plane.next_due() == world.now
    while world.plane.advance(now=world.now):
        assert committed() <= 1 + 2 * STEPS_PER_TURN
        committed = count_transactions(world)


def test_waiting_operation_is_found_after_a_crash() -> None:
    world = new_world(10)
    world.order(lambda work: failures.fail_vm(work, "v0000"))
    world.order(lambda work: failures.fail_vm(work, "v0001"))
    upgrade(world, 10, first=2)
    world.settle()
    ready = len(in_state(world, OperationState.READY))
    # Commit only the transaction. Its side effects are lost, as in a crash.
    world.plane._run(
        CLOCK, lambda work: failures.restore_vm(work, "v0000"), now=world.now
    )
    world.restart()
    world.settle()
    assert len(in_state(world, OperationState.READY)) < ready


def test_migration_in_the_down_domain_is_woken_before_other_waiters() -> None:
    """The first who waits in the scope is of another domain, and goes on to wait."""
    names = {"h0": 0, "h1": 0, "h2": 1, "h3": 0}
    lines = ['[[tenant]]\nname = "shop"']
    lines.append('[[scope]]\nname = "s"\ntenant = "shop"\nkind = "availability-set"')
    lines += [f'[[host]]\nname = "{name}"' for name in (*names, "x1", "x2", "x3")]
    lines += [
        f'[[vm]]\nname = "v{name}"\nhost = "{name}"\nscope = "s"\n'
        f"fault_domain = {domain}"
        for name, domain in names.items()
    ]
    world = World(
        store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines), seed=0
    )
    for host, action in (
        ("h0", Action.LIVE_MIGRATE),
        ("h1", Action.LIVE_MIGRATE),
        ("h2", Action.REBOOT),
    ):
        world.order(
            lambda work, h=host, a=action: verbs.maintain(work, [h], a, OrderOptions())
        )
        world.settle()
        world.advance("1s")
    world.order(lambda work: failures.fail_vm(work, "vh3"))

    def of(host: str) -> Operation:
        (found,) = [
            operation
            for operation in world.operations()
            if operation.target == host and operation.verb is Verb.MAINTAIN
        ]
        return found

    while of("h0").state is not OperationState.DONE:
        world.advance("1s")
    assert of("h1").state is OperationState.IMPACTING
    assert of("h2").state is OperationState.READY
