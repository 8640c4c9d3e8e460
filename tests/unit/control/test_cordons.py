"""Cordoned hosts take no new VM, until no owner wants them closed."""

from collections import Counter

import pytest

from forewarn.control.requests import cordons, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Capacity, Host
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, OperationState, Verb
from forewarn.reporting import explanations
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader
from forewarn.store.records import AuditKind
from forewarn.verbs.model import VerbRequest
from tests.support.counted import Counted
from tests.support.worlds import World

FLEET = """\
[[host]]
name = "h0"

[[host]]
name = "h1"

[[host]]
name = "h2"

[[vm]]
name = "web_0"
host = "h0"
"""


@pytest.fixture
def world() -> World:
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=FLEET)


def close(world: World, *names: str, actor: str = "alice", reason: str = "") -> None:
    for name in names:
        world.order(
            lambda work, n=name: cordons.cordon(work, n), actor=actor, reason=reason
        )


def reopen(
    world: World, name: str, *, actor: str = "alice", by_all: bool = False
) -> Host:
    return world.order(
        lambda work: cordons.open_host(work, name, by_all=by_all), actor=actor
    )


def redeploy(world: World) -> str:
    """Let the user redeploy the VM, and wait for NotBefore; return the operation."""
    world.order(
        lambda work: verbs.change_vms(work, ["web_0"], Verb.REDEPLOY, OrderOptions())
    )
    world.advance("10m")
    (operation,) = world.operations()
    return operation.operation_id


def why(world: World, name: str) -> str:
    return world.read(lambda reader: explanations.explain(reader, name, now=world.now))[
        "status"
    ]


def test_redeploy_of_user_goes_around_cordoned_host(world: World) -> None:
    close(world, "h1")
    redeploy(world)
    world.advance("10m")
    assert world.stored_vm("web_0").host == "h2"


def test_redeploy_without_open_host_waits_with_reason_until_one_is_open(
    world: World,
) -> None:
    close(world, "h1", "h2", reason="bad DIMM")
    operation_id = redeploy(world)
    assert world.operation(operation_id).state is OperationState.READY
    assert world.explain(operation_id) == [
        "there is no host with capacity for web_0: it is on h0; cordoned: h1, h2"
    ]

    reopen(world, "h2")
    world.settle()
    assert world.operation(operation_id).state is OperationState.IMPACTING
    assert world.stored_vm("web_0").moving_to == "h2"


def test_maintenance_that_only_cordoned_hosts_could_take_is_refused(
    world: World,
) -> None:
    close(world, "h1", "h2")
    with pytest.raises(RefusedError, match="none of these 2 hosts can be emptied"):
        world.order(
            lambda work: verbs.maintain(
                work, ["h0", "h1"], Action.LIVE_MIGRATE, OrderOptions()
            )
        )


def test_host_is_open_when_no_owner_is_left(world: World) -> None:
    close(world, "h1", actor="alice", reason="bad DIMM")
    close(world, "h1", actor="bob")
    assert why(world, "h1") == (
        "it is up, with 0 VMs, and takes no new VM: it has been cordoned by alice since "
        "2030-01-01T00:00:00Z (bad DIMM) and by bob since 2030-01-01T00:00:00Z; "
        "no open operation concerns it"
    )
    assert [cordon.by.name for cordon in reopen(world, "h1").cordons] == ["bob"]
    assert not reopen(world, "h1", actor="carol", by_all=True).cordons


def test_owner_does_not_open_the_hosts_of_others_by_mistake(world: World) -> None:
    with pytest.raises(RefusedError, match="host h1 is not cordoned"):
        reopen(world, "h1")
    close(world, "h1", actor="bob")
    with pytest.raises(RefusedError, match="cordoned by bob, not by alice") as refused:
        reopen(world, "h1")
    assert "--all-owners" in refused.value.hint


def test_second_cordon_of_an_owner_is_refused_with_its_reason(world: World) -> None:
    close(world, "h1", reason="bad DIMM")
    with pytest.raises(
        RefusedError, match=r"host h1 is already cordoned by alice \(bad DIMM\)"
    ):
        close(world, "h1", reason="worse")


def test_fleet_file_does_not_undo_a_cordon(world: World) -> None:
    close(world, "h1")
    world.apply_fleet(FLEET.replace('name = "h1"', 'name = "h1"\ncapacity = 7'))
    host = world.read(lambda reader: reader.get(Host, "h1"))
    assert host is not None
    assert host.capacity == 7
    assert [cordon.by.name for cordon in host.cordons] == ["alice"]


def test_cordon_survives_a_restart_and_is_in_the_history(world: World) -> None:
    close(world, "h1", reason="bad DIMM")
    reopen(world, "h1")
    close(world, "h1")
    entries = world.read(
        lambda reader: reader.select(kinds.AUDIT_OF_SUBJECT, "host:h1")
    )
    told = [(entry.kind, entry.actor.name, entry.why) for entry in entries[1:]]
    assert told == [
        (AuditKind.HOST_CORDONED, "alice", "bad DIMM"),
        (AuditKind.HOST_OPENED, "alice", ""),
        (AuditKind.HOST_CORDONED, "alice", ""),
    ]
    assert why(world, "h1").startswith("it is up, with 0 VMs, and takes no new VM")


def drain(world: World, *names: str, **values: str) -> str:
    return str(
        world.order(
            lambda work: verbs.DECISIONS["host-drain"](
                work, VerbRequest(targets=names, values=values)
            ),
            actor="alice",
            reason="bad DIMM",
        )
    )


def where(world: World, name: str) -> Host:
    host = world.read(lambda reader: reader.get(Host, name))
    assert host is not None
    return host


def test_drained_host_is_empty_and_cordoned_after_notice(world: World) -> None:
    (event,) = world.vm("web_0").get().events or [{}]
    assert event == {}
    drain(world, "h0")
    (event,) = world.vm("web_0").get().events
    assert event["EventType"] == "Freeze"
    assert [cordon.reason for cordon in where(world, "h0").cordons] == ["bad DIMM"]
    world.vm("web_0").approve(event["EventId"])
    world.advance("20m")
    assert world.stored_vm("web_0").host == "h1"
    (operation,) = world.operations()
    assert operation.state is OperationState.DONE
    assert where(world, "h0").cordons


def test_hosts_that_are_drained_together_take_no_vm_of_each_other(
    world: World,
) -> None:
    drain(world, "h0", "h1", impact="redeploy")
    world.advance("2h")
    assert world.stored_vm("web_0").host == "h2"
    assert {operation.state for operation in world.operations()} == {
        OperationState.DONE
    }


def test_drain_without_destination_waits_and_says_why(world: World) -> None:
    close(world, "h1", "h2")
    drain(world, "h0")
    world.advance("16m")
    (operation,) = world.operations()
    assert operation.state is OperationState.READY
    assert world.explain(operation.operation_id) == [
        "there is no host with capacity for web_0: it is on h0; cordoned: h1, h2"
    ]
    reopen(world, "h1")
    world.advance("10m")
    assert world.stored_vm("web_0").host == "h1"


def test_drain_keeps_the_cordon_that_its_requester_has(world: World) -> None:
    close(world, "h0", reason="old reason")
    drain(world, "h0")
    assert [cordon.reason for cordon in where(world, "h0").cordons] == ["old reason"]


def test_drain_of_a_vm_that_cannot_be_moved_is_refused_and_cordons_nothing() -> None:
    fleet = FLEET.replace('name = "web_0"', 'name = "web_0"\nmovable = false')
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=fleet)
    with pytest.raises(
        RefusedError, match="h0 cannot be emptied: VM web_0 cannot be moved"
    ):
        drain(world, "h0")
    assert not where(world, "h0").cordons


def test_refused_drain_cordons_nothing(world: World) -> None:
    world.order(lambda work: failures.fail_host(work, "h0"))
    with pytest.raises(RefusedError, match="host h0 is down"):
        drain(world, "h0")
    assert not where(world, "h0").cordons


def test_search_for_destinations_does_not_read_cordoned_hosts() -> None:
    """The index has no cordoned hosts: 400 of them cost nothing."""
    lines = ['[[vm]]\nname = "web_0"\nhost = "h000"']
    lines += [f'[[host]]\nname = "h{number:03}"' for number in range(402)]
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines))
    close(world, *(f"h{number:03}" for number in range(1, 401)))

    def ask(reader: Reader) -> tuple[list[Capacity], int]:
        counted = Counted(reader, Counter())
        return (
            counted.reader.ranked(kinds.ROOMS_OPEN, "", limit=64),
            counted.rows.total(),
        )

    rooms, rows = world.read(ask)
    assert {room.host for room in rooms} == {"h000", "h401"}
    # The question, and a row for each open host.
    assert rows == 3
    redeploy(world)
    assert world.stored_vm("web_0").host == "h401"
