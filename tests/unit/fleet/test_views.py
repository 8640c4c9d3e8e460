"""Test which VMs share a list of events."""

from dataclasses import replace

import pytest

from forewarn.fleet import views
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm, VmState
from forewarn.protocol.lifecycle import ViewState
from forewarn.protocol.views import View

VM = Vm(name="v", wire_name="w", host="h", scope="s", tenant="", view="", vm_id="an id")


def scope(kind: ScopeKind = ScopeKind.SCALE_SET, *, gpu: bool = False) -> Scope:
    return Scope(name="s", tenant="t", kind=kind, gpu=gpu)


@pytest.mark.clause("6.1", "6.2", "7.2")
@pytest.mark.parametrize(
    ("kind", "gpu", "zone", "single", "expected", "enabling"),
    [
        (ScopeKind.STANDALONE, False, "1", True, "s", "s"),
        (ScopeKind.CLOUD_SERVICE, False, "1", True, "s", "s"),
        (ScopeKind.AVAILABILITY_SET, False, "1", False, "s", "s"),
        (ScopeKind.AVAILABILITY_SET, True, "1", True, "s", "s"),
        (ScopeKind.SCALE_SET, False, "", True, "s", "s"),
        (ScopeKind.SCALE_SET, False, "1", True, "s@1", "s@1"),
        (ScopeKind.SCALE_SET, True, "", True, "s/v", "s"),
        (ScopeKind.SCALE_SET, True, "1", True, "s@1/v", "s@1"),
        (ScopeKind.SCALE_SET, True, "1", False, "s@1", "s@1"),
    ],
)
def test_scope_is_split_into_views_by_client_visibility(
    kind: ScopeKind, gpu: bool, zone: str, single: bool, expected: str, enabling: str
) -> None:
    group = scope(kind, gpu=gpu)
    assert (
        views.view_id("v", scope=group, zone=zone, single_fault_domain=single)
        == expected
    )
    assert views.enabling_key(group, zone=zone) == enabling
    view = views.view_for(VM, scope=group, zone=zone, single_fault_domain=single)
    assert view == View(
        view_id=expected,
        scope="s",
        enabling=enabling,
        vm="v" if "/" in expected else "",
    )
    assert view.state is ViewState.DISABLED


def test_scope_has_one_fault_domain_unless_a_vm_sets_another() -> None:
    vms = [
        VM,
        replace(VM, name="v2"),
        replace(VM, name="x", scope="t"),
        replace(VM, name="y", scope="t", fault_domain=1, state=VmState.DELETED),
    ]
    assert views.single_fault_domain_scopes(
        (vm.scope, vm.fault_domain) for vm in vms
    ) == {"s"}


def test_tenant_and_view_are_derived_from_scope_and_host() -> None:
    hosts = {"h": Host(name="h", zone="1")}
    scopes = {"s": scope()}
    settled = views.settle([VM], scopes=scopes, hosts=hosts)
    assert settled == {"v": replace(VM, tenant="t", view="s@1")}
    again = views.settle(settled.values(), scopes=scopes, hosts=hosts)
    assert again["v"] is settled["v"]
