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


def world(text: str = FLEET) -> World:
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)


def maintain(
    it: World,
    *hosts: str,
    action: Action = Action.LIVE_MIGRATE,
    emergency: bool = False,
) -> Request:
    options = OrderOptions(at_once=2, emergency=emergency)
    made = it.order(lambda work: verbs.maintain(work, list(hosts), action, options))
    it.settle()
    return made


def places(it: World) -> dict[str, str]:
    return {
        vm.name: vm.moving_to
        for name in "abcd"
        if (vm := it.read(lambda r, name=name: r.get(Vm, name))) and vm.moving_to
    }


def used(it: World, host: str) -> int:
    room = it.read(lambda reader: reader.get(Capacity, host))
    assert room is not None
    return room.used


def states(it: World) -> list[OperationState]:
    return [each.state for each in it.operations()]


def test_two_hosts_never_count_on_the_same_places() -> None:
    """The spare host has capacity for one of them, and the second waits unannounced."""
    it = world()
    maintain(it, "h1", "h2")
    assert states(it) == [OperationState.ANNOUNCED, OperationState.PLANNED]
    assert places(it) == {"a": "spare", "b": "spare"}
    assert used(it, "spare") == 2
    planned = it.operations()[1]
    [why] = it.read(lambda reader: obstacles.why_waiting(reader, planned, now=it.now))
    assert "no host with capacity for d" in reasons([why])[0]
    it.advance("2h")
    assert states(it) == [OperationState.DONE] * 2
    assert places(it) == {}


def test_single_hosts_do_not_share_places_either() -> None:
    it = world()
    maintain(it, "h1")
    maintain(it, "h2")
    it.advance("16m")
    first, second = it.operations()
    assert first.started_at
    assert not second.started_at
    assert used(it, "spare") <= 3


@pytest.mark.parametrize("how", ["cancel", "brake", "vm fails"])
def test_places_are_free_again_when_the_work_does_not_start(how: str) -> None:
    it = world()
    request = maintain(it, "h1")
    assert used(it, "spare") == 2
    if how == "cancel":
        it.order(lambda work: verbs.cancel(work, request.request_id, note=CANCELLED))
    elif how == "brake":
        it.order(lambda work: brake.put_on(work, withdraw=True), reason="power")
    else:
        it.order(lambda work: failures.fail_host(work, "h1"))
    it.settle()
    assert places(it) == {}
    assert used(it, "spare") == 0


def test_waiting_host_follows_when_a_reservation_ends() -> None:
    it = world()
    first = maintain(it, "h1")
    maintain(it, "h2", "spare")
    it.order(lambda work: verbs.cancel(work, first.request_id, note=CANCELLED))
    it.settle()
    assert it.operations()[1].state is OperationState.ANNOUNCED
    assert places(it) == {"c": "spare", "d": "spare"}


def test_reservation_survives_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "forewarn.db"
    it = World(store=lambda: SqliteStore(file), driver=SimulatedDriver(), fleet=FLEET)
    maintain(it, "h1", "h2")
    it.restart()
    assert places(it) == {"a": "spare", "b": "spare"}
    it.advance("2h")
    assert states(it) == [OperationState.DONE] * 2


def test_reserved_host_that_fails_is_replaced_at_the_start() -> None:
    it = world(
        FLEET.replace('name = "spare"', 'name = "z", capacity = 2 }, { name = "spare"')
    )
    maintain(it, "h1")
    assert places(it) == {"a": "spare", "b": "z"}
    it.order(lambda work: failures.fail_host(work, "spare"))
    it.settle()
    it.advance("1h")
    assert {vm: it.stored_vm(vm).host for vm in "ab"} == {"a": "z", "b": "z"}
    assert places(it) == {}


def test_host_that_keeps_places_is_announced_after_they_are_free() -> None:
    it = world()
    maintain(it, "h1")
    maintain(it, "spare", action=Action.FREEZE)
    second = it.operations()[1]
    assert second.state is OperationState.PLANNED
    said = it.read(lambda reader: obstacles.why_waiting(reader, second, now=it.now))
    assert reasons(said) == ["host spare keeps a place for vm a"]
    it.advance("2h")
    assert states(it) == [OperationState.DONE] * 2


def test_maintenance_of_a_host_reserves_its_places_elsewhere() -> None:
    it = world(
        FLEET.replace('name = "spare"', 'name = "z", capacity = 3 }, { name = "spare"')
    )
    maintain(it, "h1")
    assert set(places(it).values()) == {"spare", "z"}
    maintain(it, "z", action=Action.FREEZE)
    assert OperationState.PLANNED not in states(it)
    assert places(it) == {"a": "spare", "b": "spare"}
    assert used(it, "z") == 0
    it.advance("1h")
    assert states(it) == [OperationState.DONE] * 2


def occupy(it: World, how: str) -> None:
    """Have an operation start on VM `a` that does not move it."""
    if how == "fails":
        it.order(lambda work: failures.fail_vm(work, "a"))
    else:
        wishes = OrderOptions()
        it.order(lambda work: verbs.change_vms(work, ["a"], Verb.REBOOT, wishes))
    it.settle()
    assert it.stored_vm("a").started


@pytest.mark.parametrize("how", ["fails", "is rebooted"])
def test_vm_under_other_work_has_its_place_reserved_too(how: str) -> None:
    """The random walks found that it was left out, and the other VM had a place."""
    it = world()
    occupy(it, how)
    maintain(it, "h1")
    assert places(it) == {"a": "spare", "b": "spare"}
    assert used(it, "spare") == 2


@pytest.mark.parametrize("how", ["fails", "is rebooted"])
def test_host_waits_for_a_reserved_vm_under_other_work(how: str) -> None:
    """Its move has not started: the maintenance is no reason to refuse the request."""
    it = world()
    maintain(it, "h1")
    occupy(it, how)
    maintain(it, "spare", action=Action.FREEZE)
    assert states(it)[-1] is OperationState.PLANNED


def test_host_of_a_move_under_way_is_refused() -> None:
    it = world()
    it.order(lambda work: verbs.change_vms(work, ["a"], Verb.REDEPLOY, OrderOptions()))
    assert places(it) == {"a": "spare"}
    with pytest.raises(RefusedError, match="VM a is moving to host spare"):
        maintain(it, "spare", action=Action.FREEZE)


def test_emergency_repair_does_not_wait_for_reserved_places() -> None:
    it = world()
    maintain(it, "h1")
    maintain(it, "spare", action=Action.REBOOT, emergency=True)
    assert OperationState.PLANNED not in states(it)
    it.advance("3h")
    assert states(it) == [OperationState.DONE] * 2


def test_redeploy_of_a_vm_replaces_its_reservation() -> None:
    it = world()
    maintain(it, "h1")
    it.order(lambda work: verbs.change_vms(work, ["a"], Verb.REDEPLOY, OrderOptions()))
    it.settle()
    # Nobody listens in the scope, so the redeploy starts at once and keeps one place.
    assert used(it, "spare") == 2
    maintenance = it.operations()[0]
    assert [move.to_host for move in maintenance.moves][-1] == "spare"
    it.advance("1h")
    assert {it.stored_vm(name).host for name in "ab"} == {"spare"}
    assert used(it, "spare") == 2
    assert used(it, "h1") == 0


def test_each_end_leaves_the_capacity_correct() -> None:
    """Cancel at every point between announcement and end."""
    for minutes in itertools.count(0, 5):
        it = world()
        request = maintain(it, "h1")
        it.advance(f"{minutes}m")
        done = states(it) == [OperationState.DONE]
        if not done and not it.operations()[0].started_at:
            it.order(
                lambda work, r=request: verbs.cancel(work, r.request_id, note=CANCELLED)
            )
            it.settle()
        it.advance("1h")
        assert places(it) == {}
        assert used(it, "spare") + used(it, "h1") == 2
        if done:
            break
