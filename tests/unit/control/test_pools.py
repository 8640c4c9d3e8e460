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


def world(text: str = FLEET) -> World:
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)


def maintain(it: World, *hosts: str, action: Action = Action.LIVE_MIGRATE) -> Request:
    made = it.order(
        lambda work: verbs.maintain(work, list(hosts), action, OrderOptions())
    )
    it.settle()
    return made


def host_of(it: World, name: str) -> str:
    vm = it.read(lambda reader: reader.get(Vm, name))
    assert vm is not None
    return vm.host


def test_vms_move_to_hosts_of_their_pool_that_have_their_size_free() -> None:
    it = world()
    maintain(it, "h1")
    it.advance("1h")
    # h2 has too little memory for the first, and both together fit on h3 only.
    assert [host_of(it, name) for name in ("a", "b")] == ["h3", "h3"]


def test_host_whose_pool_has_too_little_memory_is_held_with_the_reason() -> None:
    it = world(FLEET.replace('vcpu = 16, memory = "16GiB"', "capacity = 0"))
    maintain(it, "h1")
    it.advance("1h")
    [operation] = it.operations()
    assert operation.state is OperationState.READY
    said = it.read(lambda reader: obstacles.why_waiting(reader, operation, now=it.now))
    assert reasons(said)[0] == (
        "there is no host with capacity for a: it is on h1; full: h3; in another pool: "
        "i1; with too little free memory: h2"
    )
    # A VM on the other host shrinks, so both fit in turn.
    it.apply_fleet(
        FLEET.replace('vcpu = 16, memory = "16GiB"', "capacity = 2, vcpu = 4").replace(
            "9GiB", "1GiB"
        )
    )
    it.advance("1h")
    assert [host_of(it, name) for name in ("a", "b")] == ["h3", "h2"]


def test_reserved_vcpus_are_not_given_to_another_vm() -> None:
    """Both VMs want the last four vCPUs of the only other host of the pool."""
    it = world(
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
    it.order(
        lambda work: verbs.change_vms(work, ["a", "b"], Verb.REDEPLOY, OrderOptions())
    )
    it.settle()
    it.advance("12m")
    assert sorted(host_of(it, name) for name in ("a", "b")).count("h3") <= 1
    it.advance("1h")
    assert {host_of(it, "a"), host_of(it, "b")} in ({"h3", "h2"}, {"h1", "h3"})


def test_host_with_a_vm_that_cannot_move_is_not_emptied() -> None:
    it = world()
    for action in (Action.LIVE_MIGRATE, Action.REDEPLOY):
        with pytest.raises(RefusedError) as refused:
            maintain(it, "i1", action=action)
        assert refusal(refused.value) == (
            "host i1 cannot be emptied: VM gpu cannot be moved"
        )
    # It stays on its host during the other impacts.
    maintain(it, "i1", action=Action.REBOOT)
    it.advance("1h")
    assert host_of(it, "gpu") == "i1"
    with pytest.raises(RefusedError, match="VM gpu cannot be moved to another host"):
        it.order(
            lambda work: verbs.change_vms(work, ["gpu"], Verb.REDEPLOY, OrderOptions())
        )


def test_other_hosts_of_the_request_are_emptied() -> None:
    it = world()

    def order(work: Work) -> list[str]:
        work.parts = Parts(is_whole=False)
        verbs.maintain(work, ["i1", "h2"], Action.LIVE_MIGRATE, OrderOptions())
        return [each.name for each in work.parts.refused]

    assert it.order(order) == ["i1"]
    assert [each.host for each in it.operations()] == ["h2"]


def test_vm_that_can_no_longer_move_holds_its_operation() -> None:
    it = world()
    maintain(it, "h2")
    it.apply_fleet(FLEET.replace('"9GiB"', '"9GiB", movable = false'))
    it.advance("1h")
    [operation] = it.operations()
    assert operation.state is OperationState.READY
    said = it.read(lambda reader: obstacles.why_waiting(reader, operation, now=it.now))
    assert reasons(said)[0].endswith(
        "for c: it cannot be moved (movable = false in the fleet file)"
    )
    it.apply_fleet(FLEET)
    it.advance("1h")
    assert host_of(it, "c") == "h3"


def test_predicted_failure_announces_vms_that_cannot_move() -> None:
    it = world()
    it.order(lambda work: verbs.predict_failure(work, ["i1"], 2 * HOUR, OrderOptions()))
    it.settle()
    assert [each.target for each in it.operations()] == ["gpu"]
    assert len(it.live_events()) == 1
