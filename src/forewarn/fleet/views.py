"""Compute the view of each VM.

A view is a scope, one zone of a zonal scale set (clause 7.2), or one VM of a GPU scale
set with one fault domain (clause 6.2). Names contain neither `@` nor `/`, so view IDs
are unique.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from forewarn.fleet.model import Host, Scope, ScopeKind, Vm
from forewarn.protocol.frozen import changed
from forewarn.protocol.views import View


def enabling_key(scope: Scope, *, zone: str) -> str:
    """Return the key of the views that one request enables together (7.2)."""
    if scope.kind is ScopeKind.SCALE_SET and zone:
        return f"{scope.name}@{zone}"
    return scope.name


def view_id(vm: str, *, scope: Scope, zone: str, single_fault_domain: bool) -> str:
    """Return the view ID of the VM with key `vm`.

    `zone` is the zone of its host. `single_fault_domain` says whether all VMs of the
    scope are in one fault domain.
    """
    key = enabling_key(scope, zone=zone)
    if _is_alone(scope, single_fault_domain=single_fault_domain):
        return f"{key}/{vm}"
    return key


def view_for(vm: Vm, *, scope: Scope, zone: str, single_fault_domain: bool) -> View:
    """Return the initial, disabled view of the VM."""
    alone = _is_alone(scope, single_fault_domain=single_fault_domain)
    return changed(
        _VIEW,
        view_id=view_id(
            vm.name, scope=scope, zone=zone, single_fault_domain=single_fault_domain
        ),
        scope=scope.name,
        enabling=enabling_key(scope, zone=zone),
        vm=vm.name if alone else "",
    )


_VIEW = View(view_id="", scope="", enabling="")
"""Template view: a copy takes a part of the time of a new one."""


def _is_alone(scope: Scope, *, single_fault_domain: bool) -> bool:
    """Return whether each VM of the scope sees only its own events (6.2)."""
    return scope.kind is ScopeKind.SCALE_SET and scope.gpu and single_fault_domain


def single_fault_domain_scopes(domains: Iterable[tuple[str, int]]) -> frozenset[str]:
    """Return the names of the scopes whose VMs are all in one fault domain.

    `domains` has the scope and the fault domain of each VM. Deleted VMs that are still
    in the file count: the file decides how many fault domains a scope has, and an
    eviction must not change which events a VM sees.
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
    """Return the VMs by name, with their derived tenant and view."""
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
