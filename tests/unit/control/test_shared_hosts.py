"""A hypervisor put a VM on a host of another fault domain of its scope."""

from collections.abc import Sequence

import pytest

from forewarn.control.execution import leaving
from forewarn.control.execution.calls import current_moves
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.port import Observation, Observations
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR
from forewarn.protocol.blockers import DomainMember, HinderedError, SharedHost
from forewarn.protocol.operations import (
    STARTED_STATES,
    Action,
    Operation,
    OperationState,
)
from forewarn.reporting import attention, explanations
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader
from forewarn.wording.operators import refusal
from tests.support.worlds import World

FLEET = """
scope = [{ name = "web", tenant = "shop", kind = "availability-set" }]
tenant = [{ name = "shop" }]
host = [{ name = "h1" }, { name = "h2" }, { name = "h3" }]
vm = [
  { name = "web_0", host = "h1", scope = "web", fault_domain = 0 },
  { name = "web_1", host = "h2", scope = "web", fault_domain = 1 },
]
"""
SHARED = SharedHost(
    host="h2",
    scope="web",
    vms=(
        DomainMember(vm="web_0", fault_domain=0),
        DomainMember(vm="web_1", fault_domain=1),
    ),
)
AT_ONCE = sorted(
    {Action.FREEZE, Action.REBOOT, Action.REDEPLOY}, key=lambda action: action.value
)


class Elsewhere(SimulatedDriver):
    """Observes VMs where the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, str] = {}

    def observe(self, vms: Sequence[str], _expected: object = None) -> Observations:
        return {
            vm: Observation(running=True, host=self.seen[vm])
            for vm in vms
            if vm in self.seen
        }


@pytest.fixture
def world() -> World:
    store = MemoryStore()
    return World(store=lambda: store, driver=Elsewhere(), fleet=FLEET)


def move(world: World, vm: str, host: str) -> None:
    """Move a VM as an observation does, which no rule can refuse."""
    world.order(
        lambda work: leaving.move_vm(
            work, work.vm(vm), work.host(host), is_observed=True
        )
    )


def maintain(world: World, action: Action, *hosts: str) -> None:
    world.order(lambda work: verbs.maintain(work, list(hosts), action, OrderOptions()))


def of_host(world: World, host: str) -> Operation:
    [found] = [
        operation for operation in world.operations() if operation.target == host
    ]
    return found


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("action", AT_ONCE)
def test_maintenance_of_a_host_with_two_fault_domains_is_refused(
    world: World, action: Action
) -> None:
    move(world, "web_0", "h2")
    with pytest.raises(HinderedError) as caught:
        maintain(world, action, "h2")
    assert refusal(caught.value) == (
        "host h2 cannot be maintained this way; host h2 has fault domains 0 (VM web_0) and "
        "1 (VM web_1) of scope web, and maintenance of the host would affect them together"
    )
    assert caught.value.because == (SHARED,)
    assert world.operations() == []


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("action", AT_ONCE)
def test_vm_that_arrives_after_the_announcement_holds_the_maintenance(
    world: World, action: Action
) -> None:
    maintain(world, action, "h2")
    move(world, "web_0", "h2")
    world.advance("16m")
    held = of_host(world, "h2")
    assert held.state is OperationState.READY
    assert held.held_by == (SHARED,)
    move(world, "web_0", "h1")
    world.settle()
    assert of_host(world, "h2").state is OperationState.IMPACTING


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("action", AT_ONCE)
def test_rollout_announces_a_host_after_its_fault_domains_are_apart(
    world: World, action: Action
) -> None:
    move(world, "web_0", "h2")
    maintain(world, action, "h2", "h1")
    world.settle()
    waiting = of_host(world, "h2")
    assert waiting.state is OperationState.PLANNED
    assert waiting.held_by == (SHARED,)
    assert world.live_events() == []
    assert of_host(world, "h1").state is not OperationState.PLANNED
    world.advance("20m")
    move(world, "web_0", "h1")
    world.settle()
    assert of_host(world, "h2").state is OperationState.ANNOUNCED


@pytest.mark.clause("6.3")
def test_live_migration_separates_the_fault_domains_one_vm_after_the_other(
    world: World,
) -> None:
    move(world, "web_0", "h2")
    maintain(world, Action.LIVE_MIGRATE, "h2")
    running: set[frozenset[str]] = set()
    for _ in range(240):
        world.advance("10s")
        current = of_host(world, "h2")
        if current.state is OperationState.IMPACTING:
            running.add(frozenset(operation.vm for operation in current_moves(current)))
    assert running <= {frozenset({"web_0"}), frozenset({"web_1"})}
    assert of_host(world, "h2").state is OperationState.DONE
    hosts = {world.stored_vm(name).host for name in ("web_0", "web_1")}
    assert hosts == {"h1", "h3"}


@pytest.mark.clause("6.3", "5.4")
def test_predicted_failure_moves_the_fault_domains_in_turn(world: World) -> None:
    move(world, "web_0", "h2")
    world.order(lambda work: verbs.predict_failure(work, ["h2"], HOUR, OrderOptions()))
    for _ in range(300):
        world.advance("30s")
        started = [
            operation
            for operation in world.operations()
            if operation.state in STARTED_STATES
        ]
        assert len(started) <= 1
    assert {operation.state for operation in world.operations()} == {
        OperationState.DONE
    }


@pytest.mark.clause("5.5")
def test_failure_of_a_host_with_two_fault_domains_is_announced(world: World) -> None:
    move(world, "web_0", "h2")
    world.order(lambda work: failures.fail_host(work, "h2"))
    [event] = world.live_events()
    assert [resource.vm for resource in event.resources] == ["web_0", "web_1"]


def observed(world: World) -> None:
    """Let a live migration of h1 fail, and observe web_0 on h2."""
    driver = world.driver
    assert isinstance(driver, Elsewhere)
    driver.seen["web_0"] = "h2"
    driver.inject(Fault(kind=FaultKind.FAIL, times=None))
    maintain(world, Action.LIVE_MIGRATE, "h1")
    world.advance("2h")
    assert of_host(world, "h1").state is OperationState.FAILED
    assert world.stored_vm("web_0").host == "h2"


def test_observed_conflict_is_a_problem_until_a_vm_leaves(world: World) -> None:
    assert world.read(lambda reader: attention.problems(reader, now=world.now)) == []
    observed(world)
    [problem] = world.read(lambda reader: attention.problems(reader, now=world.now))
    text = (
        "host h2 has fault domains 0 (VM web_0) and 1 (VM web_1) of scope web, and "
        "maintenance of the host would affect them together: run `forewarn maintain h2 "
        "--impact live-migrate`, or redeploy one of the VMs"
    )
    assert problem.kind is attention.ProblemKind.SHARED_HOST
    assert problem.text == text
    assert (problem.hosts, problem.scopes, problem.vms, problem.tenants) == (
        ("h2",),
        ("web",),
        ("web_0", "web_1"),
        ("shop",),
    )
    for name in ("h2", "web_0", "web_1"):
        assert text in str(explained(world, name)["status"])
    move(world, "web_0", "h3")
    assert world.read(lambda reader: attention.problems(reader, now=world.now)) == []
    assert text not in str(explained(world, "h2")["status"])


def test_problem_names_each_vm_of_the_scope_on_the_host(world: World) -> None:
    more = '  { name = "web_2", host = "h2", scope = "web", fault_domain = 1 },\n]'
    world.apply_fleet(FLEET.rstrip().removesuffix("]") + more)
    move(world, "web_0", "h2")
    [problem] = world.read(lambda reader: attention.problems(reader, now=world.now))
    assert problem.vms == ("web_0", "web_1", "web_2")
    # The ID is one part of the path of `explain`.
    assert attention.report(problem)["problem"] == "shared-host:h2:web"


def test_vm_that_forewarn_moves_is_where_forewarn_placed_it(world: World) -> None:
    observed(world)
    assert world.stored_vm("web_0").is_observed
    world.apply_fleet(FLEET.replace('"h1", scope', '"h3", scope'))
    assert not world.stored_vm("web_0").is_observed


def test_changed_vm_stays_observed(world: World) -> None:
    observed(world)
    world.apply_fleet(
        FLEET.replace("fault_domain = 0", "fault_domain = 0, spot = true")
    )
    vm = world.stored_vm("web_0")
    assert (vm.spot, vm.host, vm.is_observed) == (True, "h2", True)


def test_tenant_does_not_learn_of_the_host(world: World) -> None:
    observed(world)

    def read(reader: Reader) -> tuple[list[attention.Problem], object]:
        shown = TenantReader(reader, "shop")
        explanation = explanations.explain(shown, "web_0", now=world.now)
        return attention.problems(shown, now=world.now), explanation["status"]

    assert world.read(read) == ([], "it runs; no open operation concerns it")


def explained(world: World, name: str) -> dict[str, object]:
    return world.read(lambda reader: explanations.explain(reader, name, now=world.now))
