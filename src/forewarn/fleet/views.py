"""Who shares a list of events: the views of a fleet.

A view is a scope; of a zonal scale set, one zone of it (clause 7.2); of a scale
set of GPU sizes with one fault domain, one VM (clause 6.2). Names contain
neither `@` nor `/`, so no two views have one id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from forewarn.fleet.model import Host, Scope, ScopeKind, Vm
from forewarn.protocol.views import View


def enabling_key(scope: Scope, *, zone: str) -> str:
    """Return the key of the views that one request enables together (7.2)."""
    if scope.kind is ScopeKind.SCALE_SET and zone:
        return f"{scope.name}@{zone}"
    return scope.name


def view_id(vm: str, *, scope: Scope, zone: str, single_fault_domain: bool) -> str:
    """Return the id of the view that the VM with key `vm` is served.

    `zone` is that of its host; `single_fault_domain` says whether all VMs of
    the scope are in one.
    """
    key = enabling_key(scope, zone=zone)
    if _is_alone(scope, single_fault_domain=single_fault_domain):
        return f"{key}/{vm}"
    return key


def view_for(vm: Vm, *, scope: Scope, zone: str, single_fault_domain: bool) -> View:
    """Return the VM's view as it is before anybody has asked: disabled."""
    alone = _is_alone(scope, single_fault_domain=single_fault_domain)
    return View(
        view_id=view_id(
            vm.name, scope=scope, zone=zone, single_fault_domain=single_fault_domain
        ),
        scope=scope.name,
        enabling=enabling_key(scope, zone=zone),
        vm=vm.name if alone else "",
    )


def _is_alone(scope: Scope, *, single_fault_domain: bool) -> bool:
    """Tell whether each VM of the scope sees its own events only (6.2)."""
    return scope.kind is ScopeKind.SCALE_SET and scope.gpu and single_fault_domain


def single_fault_domain_scopes(domains: Iterable[tuple[str, int]]) -> frozenset[str]:
    """Return the names of the scopes whose VMs are all in one fault domain.

    `domains` has the scope and the fault domain of each VM.

    Deleted VMs that the file still names count: how many fault domains a scope
    has is its author's choice, and an eviction must not change who sees what.
    """
    first: dict[str, int] = {}
    several: set[str] = set()
    for scope, domain in domains:
        if first.setdefault(scope, domain) != domain:
            several.add(scope)
    return frozenset(first.keys() - several)


def settle(
    vms: Iterable[Vm], *, scopes: Mapping[str, Scope], hosts: Mapping[str, Host]
) -> dict[str, Vm]:
    """Return the VMs by name, with the tenant and view that follow from the rest."""
    every = tuple(vms)
    single = single_fault_domain_scopes((vm.scope, vm.fault_domain) for vm in every)
    settled: dict[str, Vm] = {}
    for vm in every:
        scope = scopes[vm.scope]
        view = view_id(
            vm.name,
            scope=scope,
            zone=hosts[vm.host].zone,
            single_fault_domain=vm.scope in single,
        )
        follows = (vm.tenant, vm.view) == (scope.tenant, view)
        settled[vm.name] = (
            vm if follows else replace(vm, tenant=scope.tenant, view=view)
        )
    return settled
