"""All places of a host are reserved together, before its VMs get notice of their moves."""

import itertools
from pathlib import Path

import pytest

from forewarn.control.requests import brake, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import obstacles
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Capacity, Vm
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.notes import Cancelled
from forewarn.protocol.operations import Action, OperationState, Request, Verb
from forewarn.store.memory import MemoryStore
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import reasons
from tests.support.worlds import World

CANCELLED = Cancelled(by=operator("alice"))

FLEET = """
host = [
  { name = "h1", capacity = 2 }, { name = "h2", capacity = 2 },
  { name = "spare", capacity = 3 },
]
vm = [
  { name = "a", host = "h1" }, { name = "b", host = "h1" },
  { name = "c", host = "h2" }, { name = "d", host = "h2" },
]
"""


def new_world(text: str = FLEET) -> World:
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)


def maintain(
    world: World,
    *hosts: str,
    action: Action = Action.LIVE_MIGRATE,
    emergency: bool = False,
) -> Request:
    options = OrderOptions(at_once=2, emergency=emergency)
    result = world.order(
        lambda work: verbs.maintain(work, list(hosts), action, options)
    )
    world.settle()
    return result


def places(world: World) -> dict[str, str]:
    return {
        vm.name: vm.moving_to
        for name in "abcd"
        if (vm := world.read(lambda r, name=name: r.get(Vm, name))) and vm.moving_to
    }


def used(world: World, host: str) -> int:
    room = world.read(lambda reader: reader.get(Capacity, host))
    assert room is not None
    return room.used


def states(world: World) -> list[OperationState]:
    return [operation.state for operation in world.operations()]


def test_two_hosts_never_count_on_the_same_places() -> None:
    """The spare host has capacity for one of them, and the second waits unannounced."""
    world = new_world()
    maintain(world, "h1", "h2")
    assert states(world) == [OperationState.ANNOUNCED, OperationState.PLANNED]
    assert places(world) == {"a": "spare", "b": "spare"}
    assert used(world, "spare") == 2
    planned = world.operations()[1]
    [why] = world.read(
        lambda reader: obstacles.why_waiting(reader, planned, now=world.now)
    )
    assert "no host with capacity for d" in reasons([why])[0]
    world.advance("2h")
    assert states(world) == [OperationState.DONE] * 2
    assert places(world) == {}


def test_single_hosts_do_not_share_places_either() -> None:
    world = new_world()
    maintain(world, "h1")
    maintain(world, "h2")
    world.advance("16m")
    first, second = world.operations()
    assert first.started_at
    assert not second.started_at
    assert used(world, "spare") <= 3


@pytest.mark.parametrize("how", ["cancel", "brake", "vm fails"])
def test_places_are_free_again_when_the_work_does_not_start(how: str) -> None:
    world = new_world()
    request = maintain(world, "h1")
    assert used(world, "spare") == 2
    if how == "cancel":
        world.order(lambda work: verbs.cancel(work, request.request_id, note=CANCELLED))
    elif how == "brake":
        world.order(lambda work: brake.put_on(work, withdraw=True), reason="power")
    else:
        world.order(lambda work: failures.fail_host(work, "h1"))
    world.settle()
    assert places(world) == {}
    assert used(world, "spare") == 0


def test_waiting_host_follows_when_a_reservation_ends() -> None:
    world = new_world()
    first = maintain(world, "h1")
    maintain(world, "h2", "spare")
    world.order(lambda work: verbs.cancel(work, first.request_id, note=CANCELLED))
    world.settle()
    assert world.operations()[1].state is OperationState.ANNOUNCED
    assert places(world) == {"c": "spare", "d": "spare"}


def test_reservation_survives_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "forewarn.db"
    world = World(
        store=lambda: SqliteStore(file), driver=SimulatedDriver(), fleet=FLEET
    )
    maintain(world, "h1", "h2")
    world.restart()
    assert places(world) == {"a": "spare", "b": "spare"}
    world.advance("2h")
    assert states(world) == [OperationState.DONE] * 2


def test_reserved_host_that_fails_is_replaced_at_the_start() -> None:
    world = new_world(
        FLEET.replace('name = "spare"', 'name = "z", capacity = 2 }, { name = "spare"')
    )
    maintain(world, "h1")
    assert places(world) == {"a": "spare", "b": "z"}
    world.order(lambda work: failures.fail_host(work, "spare"))
    world.settle()
    world.advance("1h")
    assert {vm: world.stored_vm(vm).host for vm in "ab"} == {"a": "z", "b": "z"}
    assert places(world) == {}


def test_host_that_keeps_places_is_announced_after_they_are_free() -> None:
    world = new_world()
    maintain(world, "h1")
    maintain(world, "spare", action=Action.FREEZE)
    second = world.operations()[1]
    assert second.state is OperationState.PLANNED
    blockers = world.read(
        lambda reader: obstacles.why_waiting(reader, second, now=world.now)
    )
    assert reasons(blockers) == ["host spare keeps a place for VM a"]
    world.advance("2h")
    assert states(world) == [OperationState.DONE] * 2


def test_maintenance_of_a_host_reserves_its_places_elsewhere() -> None:
    world = new_world(
        FLEET.replace('name = "spare"', 'name = "z", capacity = 3 }, { name = "spare"')
    )
    maintain(world, "h1")
    assert set(places(world).values()) == {"spare", "z"}
    maintain(world, "z", action=Action.FREEZE)
    assert OperationState.PLANNED not in states(world)
    assert places(world) == {"a": "spare", "b": "spare"}
    assert used(world, "z") == 0
    world.advance("1h")
    assert states(world) == [OperationState.DONE] * 2


def occupy(world: World, how: str) -> None:
    """Have an operation start on VM `a` that does not move it."""
    if how == "fails":
        world.order(lambda work: failures.fail_vm(work, "a"))
    else:
        wishes = OrderOptions()
        world.order(lambda work: verbs.change_vms(work, ["a"], Verb.REBOOT, wishes))
    world.settle()
    assert world.stored_vm("a").started


@pytest.mark.parametrize("how", ["fails", "is rebooted"])
def test_vm_under_other_work_has_its_place_reserved_too(how: str) -> None:
    """The random walks found that it was left out, and the other VM had a place."""
    world = new_world()
    occupy(world, how)
    maintain(world, "h1")
    assert places(world) == {"a": "spare", "b": "spare"}
    assert used(world, "spare") == 2


@pytest.mark.parametrize("how", ["fails", "is rebooted"])
def test_host_waits_for_a_reserved_vm_under_other_work(how: str) -> None:
    """Its move has not started: the maintenance is no reason to refuse the request."""
    world = new_world()
    maintain(world, "h1")
    occupy(world, how)
    maintain(world, "spare", action=Action.FREEZE)
    assert states(world)[-1] is OperationState.PLANNED


def test_host_of_a_move_under_way_is_refused() -> None:
    world = new_world()
    world.order(
        lambda work: verbs.change_vms(work, ["a"], Verb.REDEPLOY, OrderOptions())
    )
    assert places(world) == {"a": "spare"}
    with pytest.raises(RefusedError, match="VM a is moving to host spare"):
        maintain(world, "spare", action=Action.FREEZE)


def test_emergency_repair_does_not_wait_for_reserved_places() -> None:
    world = new_world()
    maintain(world, "h1")
    maintain(world, "spare", action=Action.REBOOT, emergency=True)
    assert OperationState.PLANNED not in states(world)
    world.advance("3h")
    assert states(world) == [OperationState.DONE] * 2


def test_redeploy_of_a_vm_replaces_its_reservation() -> None:
    world = new_world()
    maintain(world, "h1")
    world.order(
        lambda work: verbs.change_vms(work, ["a"], Verb.REDEPLOY, OrderOptions())
    )
    world.settle()
    # Nobody listens in the scope, so the redeploy starts at once and keeps one place.
    assert used(world, "spare") == 2
    maintenance = world.operations()[0]
    assert [move.to_host for move in maintenance.moves][-1] == "spare"
    world.advance("1h")
    assert {world.stored_vm(name).host for name in "ab"} == {"spare"}
    assert used(world, "spare") == 2
    assert used(world, "h1") == 0


def test_each_end_leaves_the_capacity_correct() -> None:
    """Cancel at every point between announcement and end."""
    for minutes in itertools.count(0, 5):
        world = new_world()
        request = maintain(world, "h1")
        world.advance(f"{minutes}m")
        done = states(world) == [OperationState.DONE]
        if not done and not world.operations()[0].started_at:
            world.order(
                lambda work, r=request: verbs.cancel(work, r.request_id, note=CANCELLED)
            )
            world.settle()
        world.advance("1h")
        assert places(world) == {}
        assert used(world, "spare") + used(world, "h1") == 2
        if done:
            break
