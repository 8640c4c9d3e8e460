"""Section 6: scope."""

import itertools

import pytest

from forewarn.control.requests import failures
from forewarn.fleet.errors import FleetFileError
from forewarn.protocol.operations import Action, Operation
from tests.spec import support
from tests.spec.support import WEB, approve_all, fleet, make_world, only_event, seen
from tests.support.worlds import World

ROW = fleet(
    hosts=["h1", "h2", "h3", "h4", "h5", "h6"],
    scopes={"web": {**WEB, "terminate_notice": "5m"}},
    vms={
        f"web_{number}": {
            "host": f"h{number + 1}",
            "scope": "web",
            "fault_domain": number // 2,
            "spot": number == 4,
        }
        for number in range(5)
    },
)
"""Five VMs on a host each: domains 0, 0, 1, 1 and 2; and one spare host."""


def state(world: World, operation: Operation) -> str:
    return world.operation(operation.operation_id).state.value


def standing(world: World, operations: list[Operation]) -> dict[str, str]:
    return {operation.target: state(world, operation) for operation in operations}


# 6.1


@pytest.mark.clause("6.1")
@pytest.mark.parametrize("kind", ["cloud-service", "availability-set", "scale-set"])
def test_all_members_see_and_approve_events(kind: str) -> None:
    world = make_world(
        fleet(
            hosts=["h1", "h2"],
            zones=["1", "2"],
            scopes={"set": {"tenant": "shop", "kind": kind}},
            vms={
                "a": {"host": "h1", "scope": "set", "fault_domain": 0},
                "b": {"host": "h2", "scope": "set", "fault_domain": 1},
            },
        ),
        listening=["a", "b"],
    )
    support.reboot(world, "a")
    assert seen(world, "b") == seen(world, "a") == [("Scheduled", "Reboot", ["a"])]
    approve_all(world, "b")
    assert seen(world, "a") == [("Started", "Reboot", ["a"])]


@pytest.mark.clause("6.1")
def test_standalone_vm_has_its_own_scope() -> None:
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"one": {"tenant": "shop", "kind": "standalone"}},
            vms={"a": {"host": "h1", "scope": "one"}, "b": {"host": "h1"}},
        ),
        listening=["a", "b"],
    )
    support.maintain(world, "h1")
    assert seen(world, "a") == [("Scheduled", "Freeze", ["a"])]
    assert seen(world, "b") == [("Scheduled", "Freeze", ["b"])]


@pytest.mark.clause("6.1")
def test_placement_groups_of_one_scale_set_are_two_scopes() -> None:
    group = {"tenant": "shop", "kind": "scale-set", "scale_set": "pool"}
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"pool-1": group, "pool-2": group},
            vms={
                "a": {"host": "h1", "scope": "pool-1"},
                "b": {"host": "h1", "scope": "pool-2"},
            },
        ),
        listening=["a", "b"],
    )
    support.reboot(world, "a")
    assert seen(world, "b") == []


# 6.2

GPU = {"tenant": "shop", "kind": "scale-set", "gpu": True}


def gpu_world(*domains: int) -> World:
    return make_world(
        fleet(
            hosts=["h1", "h2"],
            scopes={"gpu": GPU},
            vms={
                f"g_{number}": {
                    "host": f"h{number + 1}",
                    "scope": "gpu",
                    "fault_domain": domain,
                }
                for number, domain in enumerate(domains)
            },
        ),
        listening=["g_0"],
    )


@pytest.mark.clause("6.2")
def test_a_gpu_vm_of_a_single_domain_sees_its_own_events_only() -> None:
    world = gpu_world(0, 0)
    support.reboot(world, "g_0")
    event_id = only_event(world, "g_0")["EventId"]
    assert seen(world, "g_1") == []
    assert world.vm("g_1").approve(event_id).status == 400
    assert world.vm("g_0").approve(event_id).status == 200
    assert (world.vm("g_0").get().incarnation, world.vm("g_1").get().incarnation) == (
        3,
        1,
    )


@pytest.mark.clause("6.2", "7.2")
def test_gpu_vms_are_enabled_together() -> None:
    world = gpu_world(0, 0)
    support.reboot(world, "g_1")
    assert seen(world, "g_1") == [("Scheduled", "Reboot", ["g_1"])]


@pytest.mark.clause("6.2")
def test_gpu_vms_of_several_domains_see_everything() -> None:
    world = gpu_world(0, 1)
    support.reboot(world, "g_0")
    assert seen(world, "g_1") == [("Scheduled", "Reboot", ["g_0"])]


@pytest.mark.clause("6.2")
def test_gpu_is_only_for_scale_sets() -> None:
    with pytest.raises(FleetFileError, match=r"clause 6\.2"):
        make_world(
            fleet(
                hosts=["h1"],
                scopes={"web": {**WEB, "gpu": True}},
                vms={"a": {"host": "h1", "scope": "web"}},
            )
        )


# 6.3


@pytest.mark.clause("6.3")
def test_routine_maintenance_takes_one_domain_at_a_time() -> None:
    world = make_world(ROW, listening=["web_0"])
    # The order of requests that are released at one instant is arbitrary.
    operations = support.maintain(world, "h1", "h2")
    approve_all(world, "web_0")
    operations += support.maintain(world, "h3", "h4")
    approve_all(world, "web_0")
    operations += support.maintain(world, "h5")
    approve_all(world, "web_0")
    assert standing(world, operations) == {
        "h1": "Impacting",
        "h2": "Impacting",
        "h3": "Ready",
        "h4": "Ready",
        "h5": "Ready",
    }
    world.advance("10m6s")
    assert standing(world, operations)["h3"] == "Ready"
    world.advance("1s")
    after = standing(world, operations)
    domains = [{after["h3"], after["h4"]}, {after["h5"]}]
    assert (after["h1"], after["h2"]) == ("Done", "Done")
    assert sorted(domains, key=min) == [{"Impacting"}, {"Ready"}]
    world.advance("10m7s")
    after = standing(world, operations)
    domains = [{after["h3"], after["h4"]}, {after["h5"]}]
    assert sorted(domains, key=min) == [{"Done"}, {"Impacting"}]


@pytest.mark.clause("6.3")
def test_not_before_is_not_a_deadline() -> None:
    world = make_world(ROW, listening=["web_0"])
    support.fail_host(world, "h5")
    (operation,) = support.maintain(world, "h1")
    world.advance("3h")
    assert ("Scheduled", "Freeze", ["web_0"]) in seen(world, "web_0")
    (why,) = world.explain(operation.operation_id)
    assert why == (
        "scope web has fault domain 2 down because host h5 failed (down until "
        "`forewarn restore h5`)"
    )
    support.restore_host(world, "h5")
    assert seen(world, "web_0") == [("Started", "Freeze", ["web_0"])]


@pytest.mark.clause("6.3")
def test_maintenance_can_start_in_a_domain_that_is_already_down() -> None:
    world = make_world(ROW, listening=["web_0"])
    support.fail_host(world, "h2")
    (operation,) = support.maintain(world, "h1")
    world.advance("15m")
    assert state(world, operation) == "Impacting"


HOLDERS = {
    "a user's restart": lambda world: support.reboot(world, "web_4"),
    "a user's redeploy": lambda world: support.redeploy(world, "web_4"),
    "an eviction": lambda world: support.evict(world, "web_4"),
    "a deletion": lambda world: support.terminate(world, "web_3"),
    "a failed host": lambda world: support.fail_host(world, "h5"),
    "a failed vm": lambda world: world.order(
        lambda work: failures.fail_vm(work, "web_4")
    ),
}


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("holder", HOLDERS)
def test_non_routine_operations_hold_routine_ones_and_are_not_held(holder: str) -> None:
    world = make_world(ROW, listening=["web_0"])
    (routine,) = support.maintain(world, "h1")
    approve_all(world, "web_0")
    assert state(world, routine) == "Impacting"
    HOLDERS[holder](world)
    approve_all(world, "web_0")
    assert {status for status, _, _ in seen(world, "web_0")} == {"Started"}

    other = make_world(ROW, listening=["web_0"])
    HOLDERS[holder](other)
    approve_all(other, "web_0")
    (held,) = support.maintain(other, "h1")
    approve_all(other, "web_0")
    assert state(other, held) == "Ready"


@pytest.mark.clause("6.3")
def test_failure_in_another_scope_does_not_delay_maintenance() -> None:
    world = make_world(
        ROW + '\n[[tenant]]\nname = "bank"\n[[vm]]\nname = "x"\nhost = "h5"\n'
        'tenant = "bank"\n',
        listening=["web_0"],
    )
    world.order(lambda work: failures.fail_vm(work, "x"))
    (operation,) = support.maintain(world, "h1")
    approve_all(world, "web_0")
    assert state(world, operation) == "Impacting"


@pytest.mark.clause("6.3")
def test_scope_has_at_most_one_live_migration_at_a_time() -> None:
    world = make_world(ROW, listening=["web_0"])
    operations = support.maintain(world, "h1", "h2", action=Action.LIVE_MIGRATE)
    approve_all(world, "web_0")
    assert sorted(standing(world, operations).values()) == ["Impacting", "Ready"]
    (held,) = (op for op in operations if state(world, op) == "Ready")
    assert "and only one at a time is allowed" in world.explain(held.operation_id)[0]
    world.advance("10m5s")
    assert sorted(standing(world, operations).values()) == ["Done", "Impacting"]


@pytest.mark.clause("6.3")
def test_vms_of_one_migration_move_one_after_another() -> None:
    world = make_world(
        fleet(
            hosts=["h1", "h2"],
            scopes={"web": WEB},
            vms={name: {"host": "h1", "scope": "web"} for name in ("a", "b", "c")},
        ),
        listening=["a"],
    )
    support.maintain(world, "h1", action=Action.LIVE_MIGRATE)
    approve_all(world, "a")
    moved: list[list[str]] = []
    for _ in range(4):
        moved.append([n for n in "abc" if world.stored_vm(n).host == "h2"])
        assert seen(world, "a") == [("Started", "Freeze", ["a", "b", "c"])]
        world.advance("5s")
    assert moved == [[], ["a"], ["a", "b"], ["a", "b", "c"]]


@pytest.mark.clause("6.3")
@pytest.mark.parametrize(
    "order", list(itertools.permutations(["h1", "h3", "h5"])), ids="-".join
)
def test_no_two_domains_are_ever_down_together(order: tuple[str, ...]) -> None:
    world = make_world(ROW, listening=["web_0"])
    for host in order:
        support.maintain(world, host, action=Action.REBOOT)
        world.advance("1m")
    for _ in range(60):
        started = [
            resource.fault_domain
            for event in world.live_events()
            if event.status.value == "Started"
            for resource in event.resources
        ]
        assert len(set(started)) <= 1
        world.advance("1m")
    assert {op.state.value for op in world.operations()} == {"Done"}
