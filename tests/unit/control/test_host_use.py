"""The VMs that use a host, with their sums."""

from dataclasses import replace

import pytest

from forewarn.control.rules.host_use import HostUse, why_too_small
from forewarn.fleet.model import UNLIMITED, Capacity, Vm
from forewarn.protocol.no_place import Unfit


def vm(name: str, *, scope: str = "s", fault_domain: int = 0, size: int = 2) -> Vm:
    return Vm(
        name=name,
        wire_name=name,
        host="h1",
        scope=scope,
        tenant="t",
        view="s",
        fault_domain=fault_domain,
        vcpu=size,
        memory=None,
        vm_id="an id",
    )


def test_each_vm_counts_once_and_never_for_itself() -> None:
    a, b, c = vm("a"), vm("b", size=3, fault_domain=1), vm("c", scope="other")
    use = HostUse.of([a, b, a])
    use.add(c)
    assert use.beside(vm("new")) == (3, 7, 0)
    assert use.beside(b) == (2, 4, 0)
    assert list(use.vms) == ["a", "b", "c"]


def test_fault_domains_are_those_of_the_other_vms_of_the_scope() -> None:
    a, b = vm("a"), vm("b", fault_domain=1)
    use = HostUse.of([a, b])
    assert use.domains_beside(vm("new")) == {0, 1}
    assert use.domains_beside(a) == {1}
    assert use.domains_beside(vm("new", scope="other")) == frozenset()
    use.add(vm("a2"))
    assert use.domains_beside(a) == {0, 1}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"vcpu": UNLIMITED, "memory": UNLIMITED, "vcpu_used": 99}, None),
        ({"used": 4}, Unfit.FULL),
        ({"vcpu_used": 7}, Unfit.VCPU),
        ({"memory_used": 9}, Unfit.MEMORY),
    ],
)
def test_stored_capacity_tells_whether_a_vm_can_fit(
    changes: dict[str, int], why: Unfit | None
) -> None:
    room = Capacity(host="h1", zone="", places=4, vcpu=8, memory=8)
    assert why_too_small(replace(room, **changes), replace(vm("a"), memory=0)) is why
