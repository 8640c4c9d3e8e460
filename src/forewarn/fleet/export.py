"""Write the current fleet as a fleet file that gives the same values when read.

The file omits defaults, implied scopes and tenants, and deleted VMs. A hypervisor can have
put VMs on hosts where a file may not place them: two fault domains of a scope on one host,
or VMs that need more than the host has. Such a VM has the host of its last fleet file, so
that the file can be applied, and a comment with its current host.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from forewarn import toml
from forewarn.fleet.errors import Kind
from forewarn.fleet.fields import Record, base_of, said, toml_value
from forewarn.fleet.file import DEFAULT_TENANT
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.fleet.resources import is_overfull

_BY_NAME = attrgetter("name")


def export_fleet(
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
) -> str:
    """Return a fleet file with these objects, sorted by kind and name."""
    by_name = {host.name: host for host in hosts}
    current = {vm.name: vm for vm in vms if vm.state is not VmState.DELETED}
    allowed = allowed_places(by_name, current)
    notes = {
        name: f"# It is on host {current[name].host} now, where a file cannot place it.\n"
        for name, vm in allowed.items()
        if vm.host != current[name].host
    }
    members = sorted(allowed.values(), key=_BY_NAME)
    return "".join(
        export_tables(tenants, scopes, by_name.values(), members, notes=notes)
    )


def allowed_places(
    hosts: Mapping[str, Host], vms: Mapping[str, Vm]
) -> Mapping[str, Vm]:
    """Return the VMs with places that a file may give them.

    VMs in a conflict go back to the hosts of their last file until there is no conflict.
    That file was valid, so this ends.
    """
    places = dict(vms)
    while True:
        back = {
            vm.name: replace(vm, host=home)
            for vm in _in_conflict(hosts, places.values())
            if (home := base_of(vm).get("host", vm.host)) != vm.host and home in hosts
        }
        if not back:
            return places
        places |= back


def _in_conflict(hosts: Mapping[str, Host], vms: Iterable[Vm]) -> Iterator[Vm]:
    """Yield the VMs on hosts that have several fault domains of a scope, or whose VMs need
    more than the host has."""
    there: defaultdict[str, list[Vm]] = defaultdict(list)
    for vm in vms:
        there[vm.host].append(vm)
    for name, members in there.items():
        host = hosts.get(name)
        domains = {(vm.scope, vm.fault_domain) for vm in members}
        is_shared = len({scope for scope, _ in domains}) < len(domains)
        if is_shared or (host is not None and is_overfull(host, members)):
            yield from members


def export_tables(
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
    *,
    notes: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Yield the text in parts, one per object. `notes` has comments before VMs, of which
    none is deleted.

    VMs keep the given order, because there can be too many to hold in memory. The other
    objects are sorted by kind and name.
    """
    by_name = {scope.name: scope for scope in scopes}
    every = sorted(tenants, key=_BY_NAME)
    unsaid = _follow_by_themselves(every, by_name.values())
    blank = ""
    for tenant in () if unsaid else every:
        yield blank + _table(Kind.TENANT, tenant, ())
        blank = "\n"
    for scope in sorted(by_name.values(), key=_BY_NAME):
        if not scope.implied:
            yield blank + _table(Kind.SCOPE, scope, {"tenant"} if unsaid else ())
            blank = "\n"
    for host in sorted(hosts, key=_BY_NAME):
        yield blank + _table(Kind.HOST, host, ())
        blank = "\n"
    for vm in vms:
        scope = by_name[vm.scope]
        text = _table(Kind.VM, vm, {"scope"} if scope.implied else ())
        if scope.implied and not unsaid:
            text += f"tenant = {toml.text(scope.tenant)}\n"
        yield blank + (notes or {}).get(vm.name, "") + text
        blank = "\n"


def _follow_by_themselves(tenants: list[Tenant], scopes: Collection[Scope]) -> bool:
    """Return whether a file without tenants would give these tenants."""
    return [tenant.name for tenant in tenants] == [DEFAULT_TENANT] and bool(scopes)


def _table(kind: Kind, record: Record, unsaid: Collection[str]) -> str:
    """Return the entry of one object, without the keys in `unsaid`."""
    lines = [f"[[{kind.value}]]", f"name = {toml.text(record.name)}"]
    for field, value in said(kind, record):
        if field.written and field.key not in unsaid:
            lines.append(f"{field.key} = {toml_value(field.option, value)}")
    return "\n".join(lines) + "\n"
