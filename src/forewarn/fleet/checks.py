"""Rules for a whole fleet.

The rules apply to the content of a file and to the result of a merge, which has the
current placement. They therefore use plain values, and a `Place` for the line numbers.
`validators` has the rules for single values; this module has the rules between objects.
Rules yield problems lazily, because only the first ones are shown. Names can be
duplicated and references can be broken; a reference means the first object of a name.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Generic, TypeVar

from forewarn.fleet import fields, validators
from forewarn.fleet.errors import Kind, Place, nowhere
from forewarn.fleet.fields import Record
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm, VmState
from forewarn.fleet.resources import RESOURCES, Resource
from forewarn.problems import PROBLEMS_MAX, Problem, did_you_mean, listed, quoted

_Named = TypeVar("_Named", Tenant, Scope, Host, Vm)


class Group(Generic[_Named]):
    """All objects of one kind, and the first one of each name."""

    def __init__(self, kind: Kind, records: Iterable[_Named]) -> None:
        self.kind = kind
        self.records: Sequence[_Named] = tuple(records)
        self.named: dict[str, _Named] = {}
        for record in self.records:
            self.named.setdefault(record.name, record)

    def unknown(self, name: str, *, note: str = "") -> str:
        """Return the message about a name that no object of this kind has."""
        kind = self.kind.value
        names = [
            record.name
            for record in self.named.values()
            if not (isinstance(record, Scope) and record.implied)
        ]
        there = f"{kind}s are {listed(names)}" if names else f"there are no {kind}s"
        return (
            f"there is no {kind} {quoted(name)}{note}; {there}"
            f"{did_you_mean(name, names)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The fleet before a file is applied.

    A hypervisor can have put VMs of two fault domains, or too many VMs, on a host. A file
    that neither makes nor worsens such a conflict is valid.
    """

    hosts: Mapping[str, Host] = field(default_factory=dict[str, Host])
    vms: Mapping[str, Vm] = field(default_factory=dict[str, Vm])

    def has(self, vm: Vm, host: str) -> bool:
        """Return whether the VM is on the host, or moves there, in its fault domain."""
        now = self.vms.get(vm.name)
        return (
            now is not None
            and now.state is not VmState.DELETED
            and host in _hosts_of(now)
            and (now.scope, now.fault_domain) == (vm.scope, vm.fault_domain)
        )

    def is_as_full(self, host: Host, resource: Resource) -> bool:
        """Return whether the host has no less of a resource than now."""
        now, limit = self.hosts.get(host.name), resource.limit(host)
        if now is None or limit is None:
            return False
        before = resource.limit(now)
        return before is not None and limit >= before

    def needs_no_more(self, vm: Vm, resource: Resource) -> bool:
        """Return whether the VM uses no more of a resource than now."""
        now = self.vms.get(vm.name)
        return now is not None and resource.need(vm) <= resource.need(now)


NOTHING = Current()
"""No current fleet: every conflict is a problem."""


class Fleet:
    """A fleet that is checked."""

    def __init__(
        self,
        *,
        tenants: Group[Tenant],
        scopes: Group[Scope],
        hosts: Group[Host],
        vms: Group[Vm],
        place: Place,
        current: Current,
    ) -> None:
        self.tenants = tenants
        self.scopes = scopes
        self.hosts = hosts
        self.vms = vms
        self.place = place
        self.current = current
        self.live = tuple(
            vm for vm in vms.named.values() if vm.state is not VmState.DELETED
        )
        """VMs that are not deleted. A deleted VM uses no capacity and no address."""

    def problem(
        self, kind: Kind, record: Record, key: str, message: str, *, occurrence: int = 0
    ) -> Problem:
        """Return a problem with its place in the file."""
        name = record.name
        if isinstance(record, Scope) and record.implied:
            kind = Kind.VM
        spot = self.place(kind, name, key, occurrence=occurrence)
        return Problem(
            file=spot.file,
            line=spot.line,
            key=f"{kind.value}.{key}",
            message=message,
            name=name,
        )

    def line_of(self, kind: Kind, record: Record, key: str) -> str:
        """Return ` of line 12`, or an empty string if there is no line."""
        line = self.place(kind, record.name, key).line
        return f" of line {line}" if line else ""

    def unique(
        self,
        key: str,
        keys_of: Callable[[Vm], Iterable[tuple[str, ...]]],
        message: str,
    ) -> Iterator[Problem]:
        """Yield a problem for each VM with a value that another VM has."""
        # Fast path: nearly always there are no duplicates.
        values = list(chain.from_iterable(map(keys_of, self.live)))
        if len(set(values)) == len(values):
            return
        owners: dict[tuple[str, ...], Vm] = {}
        for vm in self.live:
            for value in keys_of(vm):
                owner = owners.setdefault(value, vm)
                if owner is not vm:
                    whose = f"vm {owner.name}{self.line_of(Kind.VM, owner, key)}"
                    sentence = message.format(*value, whose=whose)
                    yield self.problem(Kind.VM, vm, key, sentence)


def check_fleet(
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
    place: Place = nowhere,
) -> list[Problem]:
    """Return the first problems of the fleet; empty: it is valid."""
    return list(islice(find_problems(tenants, scopes, hosts, vms, place), PROBLEMS_MAX))


def find_problems(
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
    place: Place,
    current: Current = NOTHING,
) -> Iterator[Problem]:
    """Yield all problems of the fleet, rule by rule, except conflicts in `current`."""
    fleet = Fleet(
        tenants=Group(Kind.TENANT, tenants),
        scopes=Group(Kind.SCOPE, scopes),
        hosts=Group(Kind.HOST, hosts),
        vms=Group(Kind.VM, vms),
        place=place,
        current=current,
    )
    rules = (
        _names,
        _values,
        _tenants_of_scopes,
        _references_of_vms,
        _standalone,
        _unique,
        _unique_listeners,
        _capacity,
        _fault_domains,
    )
    return chain.from_iterable(rule(fleet) for rule in rules)


def _names(fleet: Fleet) -> Iterator[Problem]:
    groups: tuple[Group[Tenant] | Group[Scope] | Group[Host] | Group[Vm], ...] = (
        fleet.tenants,
        fleet.scopes,
        fleet.hosts,
        fleet.vms,
    )
    for group in groups:
        if len(group.named) == len(group.records) and not any(
            map(validators.name_fault, group.named)
        ):
            continue
        counts: defaultdict[str, int] = defaultdict(int)
        for record in group.records:
            occurrence = counts[record.name]
            counts[record.name] += 1
            first = group.named[record.name]
            if occurrence:
                message = _taken(fleet, group.kind, record, first)
                # If a scope is implied, the problem is reported at its VM, which is the
                # only one of its name.
                implied = isinstance(record, Scope) and record.implied
                yield fleet.problem(
                    group.kind,
                    record,
                    "name",
                    message,
                    occurrence=0 if implied else occurrence,
                )
            elif fault := validators.name_fault(record.name):
                yield fleet.problem(group.kind, record, "name", fault)


def _taken(fleet: Fleet, kind: Kind, record: Record, first: Record) -> str:
    owner = f"{kind.value}{fleet.line_of(kind, first, 'name')}"
    if isinstance(record, Scope) and record.implied:
        return (
            f"this VM has no scope and would get its own, named {quoted(record.name)},"
            f" but the {owner} has that name; give the VM a scope, or rename one of"
            " them"
        )
    return f"the name {quoted(record.name)} is taken by the {owner}"


def _values(fleet: Fleet) -> Iterator[Problem]:
    for scope in fleet.scopes.records:
        for key, fault in validators.scope_faults(scope):
            yield fleet.problem(Kind.SCOPE, scope, key, fault)
    for host in fleet.hosts.records:
        for key, fault in validators.host_faults(host):
            yield fleet.problem(Kind.HOST, host, key, fault)
    for vm in fleet.vms.records:
        for key, fault in validators.vm_faults(vm):
            yield fleet.problem(Kind.VM, vm, key, fault)


def _tenants_of_scopes(fleet: Fleet) -> Iterator[Problem]:
    for scope in fleet.scopes.records:
        if scope.tenant not in fleet.tenants.named:
            yield fleet.problem(
                Kind.SCOPE, scope, "tenant", fleet.tenants.unknown(scope.tenant)
            )


def _references_of_vms(fleet: Fleet) -> Iterator[Problem]:
    for vm in fleet.vms.records:
        if vm.host not in fleet.hosts.named:
            message = fleet.hosts.unknown(vm.host, note=_moved(vm))
            yield fleet.problem(Kind.VM, vm, "host", message)
        if vm.moving_to and vm.moving_to not in fleet.hosts.named:
            note = f", to which {vm.name} is moving"
            message = fleet.hosts.unknown(vm.moving_to, note=note)
            yield fleet.problem(Kind.VM, vm, "host", message)
        scope = fleet.scopes.named.get(vm.scope)
        # The implied scope of a VM is for this VM only.
        if scope is None or (scope.implied and scope.name != vm.name):
            message = fleet.scopes.unknown(vm.scope)
            yield fleet.problem(Kind.VM, vm, "scope", message)


def _moved(vm: Vm) -> str:
    """Return the note about a VM that a migration moved; empty: it was not moved."""
    wanted_host = fields.base_of(vm).get("host", vm.host)
    if wanted_host == vm.host:
        return ""
    return f", to which a migration moved {vm.name} (the file says {wanted_host})"


def _on(vm: Vm, host: str) -> str:
    """Return the name of a VM on `host`, with the reason if the file differs."""
    if vm.host != host:
        return f"{vm.name} (moving there)"
    return f"{vm.name} (moved there)" if _moved(vm) else vm.name


def _standalone(fleet: Fleet) -> Iterator[Problem]:
    alone = [
        scope
        for scope in fleet.scopes.named.values()
        if scope.kind is ScopeKind.STANDALONE and not scope.implied
    ]
    if not alone:
        return
    members: defaultdict[str, list[str]] = defaultdict(list)
    for vm in fleet.live:
        members[vm.scope].append(vm.name)
    for scope in alone:
        names = members.get(scope.name, [])
        if len(names) > 1:
            message = f"a standalone scope can have one VM, and this has {len(names)}: "
            yield fleet.problem(Kind.SCOPE, scope, "kind", message + listed(names))


def _unique(fleet: Fleet) -> Iterator[Problem]:
    for key, keys_of, message in _UNIQUE:
        yield from fleet.unique(key, keys_of, message)


_UNIQUE: tuple[tuple[str, Callable[[Vm], Iterable[tuple[str, ...]]], str], ...] = (
    (
        "wire_name",
        lambda vm: ((vm.wire_name, vm.scope),),
        '"{0}" is also the wire name of {whose} in scope {1}',
    ),
    ("id", lambda vm: ((vm.vm_id,),), "{0} is also the id of {whose}"),
    (
        "address",
        lambda vm: ((address,) for address in vm.addresses),
        "{0} is also an address of {whose}; an address identifies one VM",
    ),
)


def _unique_listeners(fleet: Fleet) -> Iterator[Problem]:
    by_port: defaultdict[int, list[tuple[str, Vm]]] = defaultdict(list)
    for vm in fleet.live:
        listener = validators.split_listener(vm.listen) if vm.listen else None
        if listener is None or listener[1] == 0:
            continue
        host, port = listener
        for other_host, other in by_port[port]:
            if validators.listeners_overlap(host, other_host):
                line = fleet.line_of(Kind.VM, other, "listen")
                message = (
                    f"{quoted(vm.listen)} is taken: vm {other.name}{line} listens on"
                    f" {quoted(other.listen)}"
                )
                yield fleet.problem(Kind.VM, vm, "listen", message)
                break
        by_port[port].append((host, vm))


def _capacity(fleet: Fleet) -> Iterator[Problem]:
    limited = [
        (host, resource, limit)
        for host in fleet.hosts.named.values()
        for resource in RESOURCES
        # Invalid numbers are reported by `validators`.
        if (limit := resource.limit(host)) is not None and limit >= 0
    ]
    if not limited:
        return
    guests: defaultdict[str, list[Vm]] = defaultdict(list)
    for vm in fleet.live:
        for host in _hosts_of(vm):
            guests[host].append(vm)
    for host, resource, limit in limited:
        vms = guests.get(host.name, [])
        need = sum(map(resource.need, vms))
        if need <= limit or _is_no_fuller(fleet.current, host, resource, vms):
            continue
        names = listed([_on(vm, host.name) for vm in vms])
        if resource.key == "capacity":
            message = f"the host has a capacity of {limit} and {need} VMs: {names}"
        else:
            has, uses = resource.show(limit), resource.show(need)
            message = (
                f"the host has {has} {resource.noun}, and its VMs need {uses}: {names}"
            )
        yield fleet.problem(Kind.HOST, host, resource.key, message)


def _is_no_fuller(
    current: Current, host: Host, resource: Resource, vms: Iterable[Vm]
) -> bool:
    """Return whether the VMs use no more of the host than in the current fleet."""
    return current.is_as_full(host, resource) and all(
        current.has(vm, host.name) and current.needs_no_more(vm, resource) for vm in vms
    )


def _fault_domains(fleet: Fleet) -> Iterator[Problem]:
    # Fast path: nearly always a scope has one fault domain on a host.
    there = {
        (host, vm.scope, vm.fault_domain) for vm in fleet.live for host in _hosts_of(vm)
    }
    if len({(host, scope) for host, scope, _ in there}) == len(there):
        return
    first: dict[tuple[str, str], Vm] = {}
    changed = {
        (host, vm.scope)
        for vm in fleet.live
        for host in _hosts_of(vm)
        if not fleet.current.has(vm, host)
    }
    for vm in fleet.live:
        for host in _hosts_of(vm):
            other = first.setdefault((host, vm.scope), vm)
            if other.fault_domain != vm.fault_domain and (host, vm.scope) in changed:
                message = (
                    f"host {host} would hold two fault domains of scope {vm.scope}:"
                    f" {vm.fault_domain} of {_on(vm, host)} and {other.fault_domain}"
                    f" of {_on(other, host)}"
                )
                yield fleet.problem(Kind.VM, vm, "fault_domain", message)


def _hosts_of(vm: Vm) -> tuple[str, ...]:
    """Return the host of the VM, and the host that it is moving to."""
    return (vm.host, vm.moving_to) if vm.moving_to else (vm.host,)
