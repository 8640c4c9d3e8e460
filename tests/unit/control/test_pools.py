"""Moves within a pool, to hosts with enough vCPUs and memory, and VMs that cannot move."""

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import obstacles
from forewarn.control.transactions.parts import Parts
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Vm
from forewarn.instants import HOUR
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, OperationState, Request, Verb
from forewarn.reporting import explanations
from forewarn.store.memory import MemoryStore
from forewarn.wording.operators import reasons, refusal
from tests.support.worlds import World

FLEET = """
host = [
  { name = "h1", pool = "amd", vcpu = 8, memory = "16GiB" },
  { name = "h2", pool = "amd", vcpu = 8, memory = "16GiB" },
  { name = "h3", pool = "amd", vcpu = 16, memory = "16GiB" },
  { name = "i1", pool = "intel" },
]
vm = [
  { name = "a", host = "h1", vcpu = 4, memory = "8GiB" },
  { name = "b", host = "h1", vcpu = 4, memory = "4GiB" },
  { name = "c", host = "h2", vcpu = 2, memory = "9GiB" },
  { name = "gpu", host = "i1", movable = false },
]
"""


def new_world(text: str = FLEET) -> World:
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)


def maintain(
    world: World, *hosts: str, action: Action = Action.LIVE_MIGRATE
) -> Request:
    result = world.order(
        lambda work: verbs.maintain(work, list(hosts), action, OrderOptions())
    )
    world.settle()
    return result


def host_of(world: World, name: str) -> str:
    vm = world.read(lambda reader: reader.get(Vm, name))
    assert vm is not None
    return vm.host


def test_vms_move_to_hosts_of_their_pool_that_have_their_size_free() -> None:
    world = new_world()
    maintain(world, "h1")
    world.advance("1h")
    # h2 has too little memory for the first, and both together fit on h3 only.
    assert [host_of(world, name) for name in ("a", "b")] == ["h3", "h3"]


def test_host_whose_pool_has_too_little_memory_is_held_with_the_reason() -> None:
    world = new_world(FLEET.replace('vcpu = 16, memory = "16GiB"', "capacity = 0"))
    maintain(world, "h1")
    world.advance("1h")
    [operation] = world.operations()
    assert operation.state is OperationState.READY
    blockers = world.read(
        lambda reader: obstacles.why_waiting(reader, operation, now=world.now)
    )
    assert reasons(blockers)[0] == (
        "there is no host with capacity for a: it is on h1; full: h3; in another pool: "
        "i1; with too little free memory: h2"
    )
    # A VM on the other host shrinks, so both fit in turn.
    world.apply_fleet(
        FLEET.replace('vcpu = 16, memory = "16GiB"', "capacity = 2, vcpu = 4").replace(
            "9GiB", "1GiB"
        )
    )
    world.advance("1h")
    assert [host_of(world, name) for name in ("a", "b")] == ["h3", "h2"]


def test_reserved_vcpus_are_not_given_to_another_vm() -> None:
    """Both VMs want the last four vCPUs of the only other host of the pool."""
    world = new_world(
        """
        host = [{ name = "h1" }, { name = "h2" }, { name = "h3", vcpu = 4 }]
        vm = [
          { name = "a", host = "h1", vcpu = 3 }, { name = "b", host = "h2", vcpu = 3 },
          { name = "c", host = "h1", movable = false },
          { name = "d", host = "h2", movable = false },
        ]
        """.replace('"h1" }', '"h1", capacity = 2 }').replace(
            '"h2" },', '"h2", capacity = 2 },'
        )
    )
    world.order(
        lambda work: verbs.change_vms(work, ["a", "b"], Verb.REDEPLOY, OrderOptions())
    )
    world.settle()
    world.advance("12m")
    assert sorted(host_of(world, name) for name in ("a", "b")).count("h3") <= 1
    world.advance("1h")
    assert {host_of(world, "a"), host_of(world, "b")} in ({"h3", "h2"}, {"h1", "h3"})


def test_host_with_a_vm_that_cannot_move_is_not_emptied() -> None:
    world = new_world()
    for action in (Action.LIVE_MIGRATE, Action.REDEPLOY):
        with pytest.raises(RefusedError) as refused:
            maintain(world, "i1", action=action)
        assert refusal(refused.value) == (
            "host i1 cannot be emptied: VM gpu cannot be moved"
        )
    # It stays on its host during the other impacts.
    maintain(world, "i1", action=Action.REBOOT)
    world.advance("1h")
    assert host_of(world, "gpu") == "i1"
    with pytest.raises(RefusedError, match="VM gpu cannot be moved to another host"):
        world.order(
            lambda work: verbs.change_vms(work, ["gpu"], Verb.REDEPLOY, OrderOptions())
        )


def test_other_hosts_of_the_request_are_emptied() -> None:
    world = new_world()

    def order(work: Work) -> list[str]:
        work.parts = Parts(is_whole=False)
        verbs.maintain(work, ["i1", "h2"], Action.LIVE_MIGRATE, OrderOptions())
        return [error.name for error in work.parts.refused]

    assert world.order(order) == ["i1"]
    assert [operation.host for operation in world.operations()] == ["h2"]


def test_vm_that_can_no_longer_move_holds_its_operation() -> None:
    world = new_world()
    maintain(world, "h2")
    world.apply_fleet(FLEET.replace('"9GiB"', '"9GiB", movable = false'))
    world.advance("1h")
    [operation] = world.operations()
    assert operation.state is OperationState.READY
    blockers = world.read(
        lambda reader: obstacles.why_waiting(reader, operation, now=world.now)
    )
    assert reasons(blockers)[0].endswith(
        "for c: it cannot be moved (movable = false in the fleet file)"
    )
    world.apply_fleet(FLEET)
    world.advance("1h")
    assert host_of(world, "c") == "h3"


def test_predicted_failure_announces_vms_that_cannot_move() -> None:
    world = new_world()
    world.order(
        lambda work: verbs.predict_failure(work, ["i1"], 2 * HOUR, OrderOptions())
    )
    world.settle()
    assert [operation.target for operation in world.operations()] == ["gpu"]
    assert len(world.live_events()) == 1


def standing_of(place: World, host: str) -> str:
    """Return the sentence of `forewarn explain` about a host."""
    answer = place.read(
        lambda reader: explanations.explain(reader, host, now=place.now)
    )
    return str(answer["status"])


def test_explanation_of_a_host_names_those_with_which_it_exchanges_vms() -> None:
    place = new_world()
    other_two = "it exchanges VMs with 2 other hosts of pool amd: h2, h3"
    assert other_two in standing_of(place, "h1")
    none = "no other host is in pool intel, so its VMs cannot move"
    assert none in standing_of(place, "i1")
    place = new_world('host = [{ name = "h1" }, { name = "h2" }]')
    assert "exchanges" not in standing_of(place, "h1")


def test_hosts_of_a_large_pool_are_counted_up_to_a_limit() -> None:
    most = explanations.PARTNERS_MAX
    hosts = [f'{{ name = "h{number}", pool = "amd" }}' for number in range(most + 2)]
    place = new_world(f"host = [{', '.join(hosts)}]")
    assert f"with more than {most} other hosts of pool amd: " in standing_of(
        place, "h0"
    )
    place = new_world(f"host = [{', '.join(hosts[:-1])}]")
    assert f"with {most} other hosts of pool amd: " in standing_of(place, "h0")
