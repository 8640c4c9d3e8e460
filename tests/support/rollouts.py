"""Rollouts on the virtual clock: fleets by fault domains, orders, and what came of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.named import need
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.operations import Action, Operation, OperationState, Request
from forewarn.store import kinds
from forewarn.store.backup import backup
from forewarn.store.check import check
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store, every
from tests.support.worlds import World

PLANNED = OperationState.PLANNED
DONE = OperationState.DONE


def fleet(hosts: Sequence[dict[str, int]]) -> str:
    """Return a fleet: each host has a VM of each scope, with this fault domain."""
    lines = ['[[tenant]]\nname = "shop"']
    for scope in sorted({scope for host in hosts for scope in host}):
        lines += [
            f'[[scope]]\nname = "{scope}"\ntenant = "shop"\nkind = "availability-set"'
        ]
    for number, host in enumerate(hosts):
        lines.append(f'[[host]]\nname = "{name_of(number)}"')
        for scope, domain in host.items():
            lines.append(
                f'[[vm]]\nname = "{scope}-{number}"\nhost = "{name_of(number)}"\n'
                f'scope = "{scope}"\nfault_domain = {domain}'
            )
    return "\n".join(lines)


def name_of(number: int) -> str:
    return f"h{number:04}"


def world_of(
    hosts: Sequence[dict[str, int]],
    *,
    store: Callable[[], Store] = MemoryStore,
    driver: SimulatedDriver | None = None,
) -> World:
    return World(store=store, driver=driver or SimulatedDriver(), fleet=fleet(hosts))


def roll_out(
    world: World,
    count: int,
    *,
    at_once: int = 1,
    action: Action = Action.FREEZE,
    ahead: int = 0,
) -> Request:
    names = [name_of(number) for number in range(count)]
    not_before = world.now + ahead if ahead else None
    wishes = OrderOptions(at_once=at_once, not_before=not_before)
    order = world.order(lambda work: verbs.maintain(work, names, action, wishes))
    world.settle()
    return order


def states(world: World) -> dict[str, OperationState]:
    return {operation.host: operation.state for operation in world.operations()}


def of_host(world: World, number: int) -> Operation:
    (operation,) = [
        operation
        for operation in world.operations()
        if operation.host == name_of(number)
    ]
    return operation


def in_flight(world: World) -> list[Operation]:
    operations = world.read(lambda reader: list(every(reader, kinds.OPEN_OPERATIONS)))
    return [operation for operation in operations if operation.state is not PLANNED]


def request(world: World) -> Request:
    """Return the request of all operations."""
    (name,) = {operation.request for operation in world.operations()}
    return world.read(lambda reader: need(reader, Request, name))


def check_of(world: World, file: Path) -> list[str]:
    """Return what `store check` finds in a copy of the file of a running world."""
    copy = file.with_suffix(".copy")
    copy.unlink(missing_ok=True)
    backup(file, copy)
    return list(check(copy))
