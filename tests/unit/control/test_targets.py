"""Where the VMs of a long list of hosts go: each VM moves once."""

from collections import Counter

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.operations import Action, OperationState
from forewarn.store.memory import MemoryStore
from tests.support.profiles import some
from tests.support.worlds import World

VMS = 8
"""VMs on each host but the spare ones."""


def fleet(hosts: int, spare: int, capacity: int) -> str:
    """Return a fleet whose first hosts have no VM."""
    lines = [f'[[host]]\nname = "h{n:03}"\ncapacity = {capacity}' for n in range(hosts)]
    lines += [
        f'[[vm]]\nname = "v{n:03}_{m}"\nhost = "h{n:03}"'
        for n in range(spare, hosts)
        for m in range(VMS)
    ]
    return "\n".join(lines)


@pytest.mark.timeout(900)  # 400 hosts take minutes on a busy machine
@pytest.mark.parametrize("hosts", some([60, 400], usual=[60]))
@pytest.mark.parametrize("capacity", [10, 16])
def test_each_vm_of_a_list_of_hosts_moves_once(hosts: int, capacity: int) -> None:
    """Random targets move a VM 1.2 to 1.6 times on average, and best fit up to twice."""
    world = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet(hosts, VMS, capacity),
        policy=Policy(freeze_notice=0, recovery=0),
    )
    names = [f"h{n:03}" for n in range(hosts)]
    options = OrderOptions(at_once=VMS)
    world.order(lambda work: verbs.maintain(work, names, Action.LIVE_MIGRATE, options))
    world.settle()
    world.advance("20h")
    operations = world.operations()
    assert {operation.state for operation in operations} == {OperationState.DONE}
    moves = Counter(
        move.vm for operation in operations for move in operation.moves if move.done
    )
    assert len(moves) == (hosts - VMS) * VMS
    assert set(moves.values()) == {1}
