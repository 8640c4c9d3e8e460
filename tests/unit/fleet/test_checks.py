"""Test the checks of a fleet as a whole."""

import pickle
from dataclasses import replace

from forewarn.fleet.checks import check_fleet
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm, VmState
from forewarn.problems import PROBLEMS_MAX, Problem

SHOP = Tenant(name="shop")
WEB = Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET)
H1 = Host(name="h1")
FIRST = Vm(
    name="web_0",
    wire_name="web_0",
    host="h1",
    scope="web",
    tenant="shop",
    view="web",
    vm_id="01234567-89ab-8cde-8f01-23456789abcd",
    addresses=("192.0.2.4",),
)
SECOND = replace(
    FIRST,
    name="web_1",
    wire_name="web_1",
    vm_id="11234567-89ab-8cde-8f01-23456789abcd",
    addresses=("192.0.2.5",),
)


def told(*vms: Vm, scope: Scope = WEB, host: Host = H1) -> list[str]:
    return [str(problem) for problem in check_fleet([SHOP], [scope], [host], vms)]


def test_single_invalid_name_is_reported_among_valid_ones() -> None:
    [problem] = check_fleet([SHOP], [], [H1, Host(name="h 2")], [])
    assert (problem.key, problem.name) == ("host.name", "h 2")


def test_second_vm_of_a_standalone_scope_is_refused() -> None:
    alone = replace(WEB, kind=ScopeKind.STANDALONE)
    assert told(FIRST, scope=alone) == []
    [problem] = told(FIRST, SECOND, scope=alone)
    assert problem.endswith("and this has 2: web_0, web_1")


def test_deleted_vm_does_not_conflict_with_others() -> None:
    full = replace(H1, capacity=1)
    taken = replace(SECOND, addresses=FIRST.addresses, fault_domain=1)
    assert len(told(FIRST, taken, host=full)) == 3
    assert told(FIRST, replace(taken, state=VmState.DELETED), host=full) == []


def test_address_owner_without_a_line_is_reported_by_name() -> None:
    [problem] = told(FIRST, replace(SECOND, addresses=FIRST.addresses))
    assert "192.0.2.4 is also an address of vm web_0; an address identifies" in problem


def test_message_mentions_more_problems_only_above_the_limit() -> None:
    all_problems = [
        Problem(file="f", line=number, key="", message="is wrong")
        for number in range(PROBLEMS_MAX + 1, 0, -1)
    ]
    all_of_them = FleetFileError(all_problems[1:])
    assert all_of_them.message.endswith(f"\nf:{PROBLEMS_MAX}: is wrong")
    assert FleetFileError(all_problems).message.endswith("these are the first 50")
    # It goes from the process that reads large files to the service.
    again = pickle.loads(pickle.dumps(FleetFileError(all_problems)))
    assert again.message == FleetFileError(all_problems).message
    assert again.problems == FleetFileError(all_problems).problems


def test_vms_must_fit_into_the_vcpus_and_the_memory_of_their_host() -> None:
    big = replace(H1, vcpu=4, memory=4 << 10)
    vms = [replace(vm, vcpu=2, memory=2 << 10) for vm in (FIRST, SECOND)]
    assert told(*vms, host=big) == []
    assert told(*vms, host=replace(big, vcpu=3)) == [
        "host.vcpu of h1: the host has 3 vCPUs, and its VMs need 4: web_0, web_1"
    ]
    [problem] = told(*vms, host=replace(big, memory=3 << 10))
    assert problem.endswith("has 3GiB memory, and its VMs need 4GiB: web_0, web_1")


def test_host_of_capacity_zero_takes_no_vm() -> None:
    closed = replace(H1, capacity=0)
    assert told(host=closed) == []
    [problem] = told(FIRST, host=closed)
    assert problem.endswith("the host has a capacity of 0 and 1 VMs: web_0")
