"""Sightings: confirmed, contradicted, expected, and withheld in a mass."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import failures, sighted, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.rules.sightings import Confirmations, SightingAct, Withheld
from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import VmState
from forewarn.instants import SECOND, Micros
from forewarn.protocol.operations import Action, OperationState, Verb
from forewarn.reporting.explanations import explain
from forewarn.store.kinds import AUDIT_OF_SUBJECT
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind
from tests.support.worlds import World

CONFIRM: Micros = 30 * SECOND
MAX = 3


def fleet(hosts: int, vms_of_each: int) -> str:
    """Return a fleet of hosts with VMs `v<host>_<number>`, and a spare host."""
    lines = ['[[scope]]\nname = "web"\nkind = "availability-set"\n']
    for host in range(hosts):
        lines.append(f'[[host]]\nname = "h{host}"\n')
        lines += [
            f'[[vm]]\nname = "v{host}_{number}"\nhost = "h{host}"\nscope = "web"\n'
            for number in range(vms_of_each)
        ]
    lines.append('[[host]]\nname = "spare"\n')
    return "".join(lines)


def world_of(policy: Policy | None = None, *, hosts: int = 2, vms: int = 3) -> World:
    store = MemoryStore()
    return World(
        store=lambda: store,
        driver=SimulatedDriver(),
        fleet=fleet(hosts, vms),
        policy=policy or Policy(sighting_confirm=CONFIRM, sightings_max=MAX),
    )


def see(
    world: World,
    vm: str,
    *,
    running: bool = False,
    host: str = "",
    cause: StopCause = StopCause.FAILED,
) -> None:
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.see(
        Sighting(vm=vm, running=running, host=host, cause=cause, at=world.now)
    )
    world.settle()


def down(world: World, *vms: str) -> list[bool]:
    return [world.stored_vm(vm).state is VmState.DOWN for vm in vms]


def test_vm_that_stopped_fails_after_the_confirmation_time() -> None:
    world = world_of()
    see(world, "v0_0")
    world.advance("29s")
    assert down(world, "v0_0") == [False]
    world.advance("1s")
    assert down(world, "v0_0", "v0_1") == [True, False]
    [failure] = world.operations()
    assert (failure.verb, failure.vms) == (Verb.FAIL, ("v0_0",))


def test_repeated_sighting_does_not_extend_the_confirmation_time() -> None:
    world = world_of()
    see(world, "v0_0")
    world.advance("20s")
    see(world, "v0_0")
    world.advance("10s")
    assert down(world, "v0_0") == [True]


def test_vm_that_runs_again_in_time_does_not_fail() -> None:
    world = world_of()
    see(world, "v0_0")
    world.advance("29s")
    see(world, "v0_0", running=True)
    world.advance("10m")
    assert world.operations() == []


def test_vm_that_its_user_shut_down_does_not_fail() -> None:
    world = world_of()
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("10m")
    assert world.operations() == []
    # An earlier sighting was wrong about the cause.
    see(world, "v0_1")
    see(world, "v0_1", cause=StopCause.SHUT_DOWN)
    world.advance("10m")
    assert world.operations() == []


def told_of(world: World, vm: str) -> list[tuple[AuditKind, str]]:
    """Return what the history has of a VM since the fleet was created."""
    kinds = {AuditKind.VM_SHUT_DOWN, AuditKind.VM_RUNS_AGAIN, AuditKind.VM_STOPPED}
    entries = world.store.read(
        lambda reader: list(every(reader, AUDIT_OF_SUBJECT, f"vm:{vm}"))
    )
    return [(entry.kind, entry.facts.text) for entry in entries if entry.kind in kinds]


def test_shutdown_by_the_user_is_recorded_once_until_the_vm_runs_again() -> None:
    world = world_of()
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("29s")
    assert not world.stored_vm("v0_0").is_off
    world.advance("1s")
    off = world.stored_vm("v0_0")
    assert (off.is_off, off.state) == (True, VmState.RUNNING)
    # A driver that starts again repeats it.
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("10m")
    assert told_of(world, "v0_0") == [(AuditKind.VM_SHUT_DOWN, "")]
    assert world.operations() == []
    see(world, "v0_0", running=True)
    world.advance("30s")
    assert not world.stored_vm("v0_0").is_off
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("30s")
    assert [kind for kind, _ in told_of(world, "v0_0")] == [
        AuditKind.VM_SHUT_DOWN,
        AuditKind.VM_RUNS_AGAIN,
        AuditKind.VM_SHUT_DOWN,
    ]


def test_vm_that_is_off_does_not_fail_if_it_is_seen_without_that_cause() -> None:
    """As by a driver that starts again and no longer knows who shut it down."""
    world = world_of()
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("30s")
    see(world, "v0_0", cause=StopCause.FAILED)
    world.advance("10m")
    off = world.stored_vm("v0_0")
    assert (off.is_off, off.state) == (True, VmState.RUNNING)
    assert world.operations() == []
    assert told_of(world, "v0_0") == [(AuditKind.VM_SHUT_DOWN, "")]


def test_vm_that_is_off_is_explained_and_its_tenant_may_know_it() -> None:
    world = world_of()
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("30s")

    def read(reader: Reader) -> list[dict[str, Any]]:
        own = TenantReader(reader, world.stored_vm("v0_0").tenant)
        return [explain(reader_, "v0_0", now=world.now) for reader_ in (reader, own)]

    whole, own = world.store.read(read)
    assert whole["status"].startswith("it was shut down by its user on host h0; ")
    assert own["status"].startswith("it was shut down by its user; ")
    assert not own["operations"]


def test_vm_that_is_off_can_still_fail_with_its_host() -> None:
    world = world_of()
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("30s")
    world.order(lambda work: failures.fail_host(work, "h0"))
    assert down(world, "v0_0") == [True]
    assert not world.stored_vm("v0_0").is_off


def test_shutdown_in_the_work_of_the_driver_is_not_recorded() -> None:
    world = world_of()
    world.order(
        lambda work: verbs.maintain(work, ["h0"], Action.REBOOT, OrderOptions())
    )
    world.advance("15m")
    assert world.operations()[0].state is OperationState.IMPACTING
    see(world, "v0_0", cause=StopCause.SHUT_DOWN)
    world.advance("31s")
    see(world, "v0_0", running=True)
    world.advance("10m")
    assert told_of(world, "v0_0") == []


def test_copy_that_does_not_run_on_another_host_is_no_failure() -> None:
    world = world_of()
    see(world, "v0_0", host="spare")
    see(world, "v0_1", host="h0")
    world.advance("1m")
    assert down(world, "v0_0", "v0_1") == [False, True]


def test_sightings_of_unknown_vms_and_hosts_change_nothing() -> None:
    world = world_of()
    see(world, "stranger")
    see(world, "v0_0", running=True, host="nowhere")
    world.advance("10m")
    assert world.operations() == []
    assert world.stored_vm("v0_0").host == "h0"


def test_vm_that_runs_elsewhere_is_recorded_there_after_confirmation() -> None:
    world = world_of()
    see(world, "v0_0", running=True, host="spare")
    world.advance("29s")
    assert world.stored_vm("v0_0").host == "h0"
    world.advance("1s")
    assert world.stored_vm("v0_0").host == "spare"
    # forewarn did not place it there, so a conflict there is the hypervisor's.
    assert world.stored_vm("v0_0").is_observed


def test_vm_that_came_to_an_announced_host_is_recorded_there_afterwards() -> None:
    world = world_of()
    world.order(
        lambda work: verbs.maintain(work, ["h0"], Action.FREEZE, OrderOptions())
    )
    see(world, "v1_0", running=True, host="h0")
    world.advance("10m")
    assert world.stored_vm("v1_0").host == "h1"
    world.advance("1h")
    assert world.stored_vm("v1_0").host == "h0"


def test_vm_of_a_failed_host_that_runs_elsewhere_is_moved_and_restored() -> None:
    world = world_of()
    world.order(lambda work: failures.fail_host(work, "h0"))
    see(world, "v0_0", running=True, host="spare")
    # It cannot run on the failed host, whatever the driver sees.
    see(world, "v0_1", running=True, host="h0")
    world.advance("31s")
    vm = world.stored_vm("v0_0")
    assert (vm.host, vm.state) == ("spare", VmState.RUNNING)
    assert down(world, "v0_1", "v0_2") == [True, True]


def test_failure_by_an_operator_ends_only_by_an_operator() -> None:
    world = world_of()
    world.order(lambda work: failures.fail_vm(work, "v0_0"))
    see(world, "v0_0", running=True, host="spare")
    world.advance("10m")
    assert down(world, "v0_0") == [True]
    # Where it is, is no question of whether it works.
    assert world.stored_vm("v0_0").host == "spare"


def test_failure_by_a_sighting_ends_by_one() -> None:
    world = world_of()
    see(world, "v0_0")
    world.advance("1m")
    see(world, "v0_0", running=True)
    world.advance("1m")
    assert down(world, "v0_0") == [False]
    assert [operation.state for operation in world.operations()] == [
        OperationState.DONE
    ]


@pytest.mark.parametrize("act", list(SightingAct))
def test_only_allowed_acts_happen(act: SightingAct) -> None:
    acts = frozenset(SightingAct) - {act}
    world = world_of(
        Policy(sighting_confirm=CONFIRM, sightings_max=MAX, sighting_acts=acts)
    )
    see(world, "v0_0")
    see(world, "v1_0", running=True, host="spare")
    world.advance("1m")
    assert down(world, "v0_0") == [act is not SightingAct.FAIL]
    assert (world.stored_vm("v1_0").host == "h1") is (act is SightingAct.MOVE)
    see(world, "v0_0", running=True)
    world.advance("1m")
    assert down(world, "v0_0") == [act is SightingAct.RESTORE]


def test_stop_during_a_call_is_expected_until_the_call_ends() -> None:
    world = world_of()
    world.order(
        lambda work: verbs.maintain(work, ["h0"], Action.REBOOT, OrderOptions())
    )
    [operation] = world.operations()
    while world.operation(operation.operation_id).state is not OperationState.IMPACTING:
        world.advance("10s")
    for vm in ("v0_0", "v0_1", "v0_2", "v1_0"):
        see(world, vm)
    # Expected stops are not a mass: the fourth VM fails as usual.
    assert world.plane.seen().withheld is None
    # Operators see them beside the operation while they are not recorded.
    assert [row.vm for row in world.plane.seen().early] == ["v0_0", "v0_1", "v0_2"]
    world.advance("30s")
    assert down(world, "v0_0", "v1_0") == [False, True]
    see(world, "v0_1", running=True)
    see(world, "v0_2", running=True)
    world.advance("5m")
    # The call has ended, and v0_0 was never seen running.
    assert down(world, "v0_0", "v0_1", "v0_2") == [True, False, False]


def test_mass_of_stopped_vms_fails_none_until_few_are_left() -> None:
    world = world_of()
    stopped = ["v0_0", "v0_1", "v0_2", "v1_0"]
    for vm in stopped:
        see(world, vm)
    began = world.now
    world.advance("1h")
    assert down(world, *stopped) == [False] * 4
    withheld = world.plane.seen().withheld
    assert withheld is not None
    assert (withheld.vms, withheld.since) == (4, began)
    see(world, "v1_0", running=True)
    assert world.plane.seen().withheld is None
    world.advance("29s")
    assert down(world, *stopped) == [False] * 4
    world.advance("1s")
    assert down(world, *stopped) == [True, True, True, False]


def test_mass_on_one_host_leaves_the_failures_of_other_hosts_alone() -> None:
    world = world_of(hosts=3, vms=5)
    lost = [f"v0_{number}" for number in range(4)]
    for vm in lost:
        see(world, vm, host="h0")
    began = world.now
    see(world, "v1_0", host="h1")
    world.advance("30s")
    assert down(world, *lost, "v1_0") == [False] * 4 + [True]
    assert world.plane.seen().withheld == Withheld(vms=4, since=began, host="h0")
    # Many VMs of other hosts, or a second host with many, are a fault of the network.
    for vm in ("v1_1", "v1_2", "v2_0"):
        see(world, vm, host=f"h{vm[1]}")
    assert world.plane.seen().withheld == Withheld(vms=4, since=began, host="h0")
    see(world, "v2_1", host="h2")
    assert world.plane.seen().withheld == Withheld(vms=8, since=began)
    world.advance("1h")
    assert down(world, *lost, "v1_1", "v1_2", "v2_0", "v2_1") == [False] * 8
    # When it is one host again, the VMs of the others get the whole time again.
    see(world, "v2_1", host="h2", running=True)
    world.advance("29s")
    assert down(world, "v1_1", "v1_2", "v2_0") == [False] * 3
    world.advance("1s")
    assert down(world, *lost, "v1_1", "v1_2", "v2_0") == [False] * 4 + [True] * 3


def test_operator_ends_a_mass_by_failing_what_has_failed() -> None:
    world = world_of()
    for vm in ("v0_0", "v0_1", "v0_2", "v1_0"):
        see(world, vm)
    world.advance("1m")
    world.order(lambda work: failures.fail_host(work, "h0"))
    world.advance("2m")
    assert world.plane.seen().withheld is None
    assert down(world, "v1_0") == [True]


def test_restart_forgets_no_sighting_and_repeats_no_failure() -> None:
    world = world_of()
    see(world, "v0_0")
    world.advance("20s")
    driver = world.driver
    assert isinstance(driver, SimulatedDriver)
    journal = driver._journal
    world.driver = SimulatedDriver(journal=journal)
    world.begin()
    world.advance("29s")
    assert down(world, "v0_0") == [False]
    world.advance("1s")
    assert down(world, "v0_0") == [True]
    world.driver = SimulatedDriver(journal=journal)
    world.begin()
    world.advance("1h")
    assert len(world.operations()) == 1


def test_mass_of_a_large_fleet_costs_no_transaction() -> None:
    world = world_of(
        Policy(sighting_confirm=CONFIRM, sightings_max=20), hosts=400, vms=15
    )
    driver = world.driver
    assert isinstance(driver, SimulatedDriver)
    for host in range(400):
        for number in range(15):
            driver.see(Sighting(vm=f"v{host}_{number}", running=False, at=world.now))
    before = Counter(world.passed)
    world.advance("5m")
    withheld = world.plane.seen().withheld
    assert withheld is not None
    assert withheld.vms == 6_000
    assert Counter(world.passed) == before


# The rule alone


NAMES = st.integers(0, 5).map(lambda number: f"v{number}")
TAKEN = st.tuples(
    st.just("take"),
    NAMES,
    st.booleans(),
    st.sampled_from(StopCause),
    st.booleans(),
    st.sampled_from(["", "h1", "h2"]),
)
STEPS = st.lists(
    st.one_of(
        TAKEN,
        st.tuples(st.just("drop"), NAMES),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=60,
)


def mass_of(stopped: Counter[str]) -> tuple[int, str] | None:
    """Return how many VMs are not failed, and their host, with a limit of 2."""
    if stopped.total() <= 2:
        return None
    for host in ("h1", "h2"):
        if stopped[host] > 2 >= stopped.total() - stopped[host]:
            return stopped[host], host
    return stopped.total(), ""


@given(steps=STEPS)
def test_sightings_wait_their_time_and_are_counted_once(
    steps: list[tuple[Any, ...]],
) -> None:
    rule = Confirmations(confirm=CONFIRM, stopped_max=2)
    now: Micros = 0
    model: dict[str, tuple[Sighting, bool]] = {}
    taken_at: dict[str, Micros] = {}
    for step in steps:
        match step:
            case ("take", vm, running, cause, is_expected, host):
                sighting = Sighting(
                    vm=vm, running=running, cause=cause, at=now, host=host
                )
                known = model.get(vm)
                same = known is not None and (
                    known[0].running,
                    known[0].cause,
                    known[0].host,
                    known[1],
                ) == (running, cause, host, is_expected)
                says_less = (
                    known is not None
                    and sighting.is_without_reason
                    and not known[0].is_without_reason
                )
                if not same and not says_less:
                    model[vm], taken_at[vm] = (sighting, is_expected), now
                rule.take(sighting, is_expected=is_expected, now=now)
            case ("drop", vm):
                model.pop(vm, None)
                rule.drop(vm, now=now)
            case (_, seconds):
                now += int(seconds) * SECOND
                due = rule.due(now=now, limit=100)
                assert len({sighting.vm for sighting in due}) == len(due)
                for sighting in due:
                    assert sighting == model[sighting.vm][0]
                    assert now - taken_at[sighting.vm] >= CONFIRM
                    assert rule.is_expected(sighting.vm) is model[sighting.vm][1]
            case _:
                raise AssertionError(step)
        stopped = Counter(
            sighting.host
            for sighting, is_expected in model.values()
            if not sighting.running
            and sighting.cause is StopCause.FAILED
            and not is_expected
        )
        withheld = rule.withheld()
        assert (withheld and (withheld.vms, withheld.host)) == mass_of(stopped)
        early = {sighting for sighting, is_expected in model.values() if is_expected}
        assert {*rule.seen().early} == early
        assert (rule.next_due() is None) is (not model)


def test_meaning_is_judged_again_when_it_is_acted_on() -> None:
    world = world_of()
    sighting = Sighting(vm="v0_0", running=False, at=world.now)
    world.order(lambda work: failures.fail_vm(work, "v0_0"))
    commits = len(world.operations())
    world.order(lambda work: sighted.act(work, sighting, frozenset(SightingAct)))
    assert len(world.operations()) == commits
