"""The document of the instance endpoint for a VM (clause 1.11).

Pure: values of the fleet in, a tree of strings out. The members are those of Azure's
instance endpoint that a fleet knows. Each appears from the version that introduced it in
Azure. Every leaf is a string, as in Azure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.fleet.model import Host, Scope, ScopeKind, Vm

Node: TypeAlias = str | dict[str, "Node"] | list["Node"]
"""A leaf, or a node with named or numbered children."""

VERSIONS = (
    "2017-03-01",
    "2017-04-02",
    "2017-08-01",
    "2017-10-01",
    "2017-12-01",
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-07-15",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
    "2023-11-15",
    "2024-03-15",
    "2024-07-17",
    "2025-04-07",
)
"""All versions of the instance endpoint, oldest first. scheduledevents has others."""

NEWEST_NAMES = tuple(reversed(VERSIONS[-3:]))

_SINCE = {
    "placementGroupId": "2017-08-01",
    "resourceGroupName": "2017-08-01",
    "subscriptionId": "2017-08-01",
    "tags": "2017-08-01",
    "vmScaleSetName": "2017-12-01",
    "zone": "2017-12-01",
    "provider": "2018-10-01",
    "resourceId": "2019-03-11",
    "tagsList": "2019-06-04",
    "evictionPolicy": "2020-12-01",
    "priority": "2020-12-01",
}
"""Members of `compute` that are newer than the first version. Dates sort as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """A VM with its scope and host, read in one transaction."""

    vm: Vm
    scope: Scope
    host: Host


def document(facts: InstanceFacts, *, version: str) -> Node:
    """Return the tree of `/metadata/instance` for a version."""
    compute = {
        name: value
        for name, value in _compute(facts).items()
        if _SINCE.get(name, "") <= version
    }
    return {"compute": compute, "network": _network(facts.vm.addresses)}


def find(tree: Node, path: Sequence[str]) -> Node | None:
    """Return the node at `path`, or None. Names are case-insensitive."""
    node = tree
    for step in path:
        child = children(node).get(step.lower())
        if child is None:
            return None
        node = child[1]
    return node


def listing(node: Node) -> str:
    """Return the names of the children, one per line; inner nodes end in `/`."""
    return "\n".join(
        name if isinstance(child, str) else f"{name}/"
        for name, child in children(node).values()
    )


def children(node: Node) -> dict[str, tuple[str, Node]]:
    """Return the children with their names, by lower-case name."""
    if isinstance(node, dict):
        return {name.lower(): (name, child) for name, child in node.items()}
    if isinstance(node, list):
        return {str(at): (str(at), child) for at, child in enumerate(node)}
    return {}


def _compute(facts: InstanceFacts) -> dict[str, Node]:
    vm, scope = facts.vm, facts.scope
    in_scale_set = scope.kind is ScopeKind.SCALE_SET
    return {
        "evictionPolicy": "Delete" if vm.spot else "",
        "location": vm.location,
        "name": vm.wire_name,
        "osType": "Linux",
        "placementGroupId": scope.name if in_scale_set else "",
        "platformFaultDomain": str(vm.fault_domain),
        "platformUpdateDomain": str(vm.update_domain),
        "priority": "Spot" if vm.spot else "Regular",
        "provider": "Microsoft.Compute",
        "resourceGroupName": vm.resource_group,
        "resourceId": _resource_id(facts),
        "subscriptionId": vm.subscription,
        "tags": ";".join(f"{name}:{value}" for name, value in vm.tags),
        "tagsList": [{"name": name, "value": value} for name, value in vm.tags],
        "vmId": vm.vm_id,
        "vmScaleSetName": _scale_set(scope),
        "vmSize": vm.size,
        "zone": facts.host.zone,
    }


def _scale_set(scope: Scope) -> str:
    if scope.kind is not ScopeKind.SCALE_SET:
        return ""
    return scope.scale_set or scope.name


def _resource_id(facts: InstanceFacts) -> str:
    vm = facts.vm
    compute = (
        f"/subscriptions/{vm.subscription}/resourceGroups/{vm.resource_group}"
        "/providers/Microsoft.Compute"
    )
    scale_set = _scale_set(facts.scope)
    # Instances of a uniform scale set are named {set}_{number}. Other VMs, and those of
    # a flexible set, are virtual machines of their own.
    name, underscore, number = vm.wire_name.rpartition("_")
    if underscore and name == scale_set and number.isdecimal():
        return f"{compute}/virtualMachineScaleSets/{scale_set}/virtualMachines/{number}"
    return f"{compute}/virtualMachines/{vm.wire_name}"


def _network(addresses: tuple[str, ...]) -> Node:
    # The fleet knows addresses but not interfaces or subnets. All addresses are on one
    # interface with empty subnet and MAC address.
    four: list[Node] = [
        {"privateIpAddress": address, "publicIpAddress": ""}
        for address in addresses
        if ":" not in address
    ]
    six: list[Node] = [
        {"privateIpAddress": address} for address in addresses if ":" in address
    ]
    ipv4: Node = {"ipAddress": four, "subnet": []}
    interface: Node = {"ipv4": ipv4, "ipv6": {"ipAddress": six}, "macAddress": ""}
    return {"interface": [interface]}
