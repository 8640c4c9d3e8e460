"""The two sources of a fleet: the file of an author, and the file of an inventory.

Each object has the values that each source gave it last: `applied` from the author,
`found` from the inventory. Together they are its base in a three-way merge. If both give a
value, the author's counts. A source that no longer names an object withdraws only its own
values; the object is removed when no source names it. An object that no source ever named
is left alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

from forewarn.fleet.errors import Kind
from forewarn.fleet.fields import FIELDS, Record, base_of, desired_values, value_of
from forewarn.fleet.file import WantedFleet
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.protocol.enumerations import Enumeration
from forewarn.settings.amounts import AMOUNT, Amount
from forewarn.settings.forms import Option, from_text

_Record = TypeVar("_Record", Tenant, Scope, Host, Vm)


REMOVALS_MAX = "2%"
"""Maximum hosts, and maximum VMs, that one run of an inventory removes unless the caller
says otherwise: 8 of 400 hosts are more than are taken out of a fleet between two runs."""

REMOVALS_LIMIT_MAX = 1_000_000
"""Maximum of this limit: more VMs than the largest fleet has."""

_REMOVALS = Option(form=AMOUNT, most=REMOVALS_LIMIT_MAX)


def removals_of(text: str) -> Amount:
    """Parse a limit: a number or a percentage; raises ValueError."""
    return from_text(_REMOVALS, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One of the two sources."""

    attribute: str
    other: str
    """Attribute of the other source."""


AUTHOR = Source(attribute="applied", other="found")
INVENTORY = Source(attribute="found", other="applied")


def source_of(wanted: WantedFleet) -> Source:
    """Return the source of a file."""
    return AUTHOR if wanted.removals_max is None else INVENTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The objects that a merge leaves as they are, although the file changes them.

    Running work needs them as they are. With a VM, its host, scope and tenant are kept.
    """

    names: Mapping[Kind, Collection[str]] = field(
        default_factory=dict[Kind, Collection[str]]
    )

    def of(self, kind: Kind) -> Collection[str]:
        """Return the names of the kept objects of one kind."""
        return self.names.get(kind, ())


NOTHING_KEPT = Kept()


def kept_with(
    names: Mapping[Kind, Collection[str]], vms: Mapping[str, Vm], wanted: WantedFleet
) -> Kept:
    """Return the objects with these names, and those that kept VMs need."""
    held = [vms[name] for name in names.get(Kind.VM, ()) if name in vms]
    new = [name for name in names.get(Kind.VM, ()) if name not in vms]
    # The scope of a new VM that is left out would have no VM.
    implied = {name for name in new if wanted.vms[name].scope == name}
    needed: Mapping[Kind, set[str]] = {
        Kind.TENANT: {vm.tenant for vm in held},
        Kind.SCOPE: {vm.scope for vm in held} | implied,
        Kind.HOST: {host for vm in held for host in (vm.host, vm.moving_to)},
        Kind.VM: set(),
    }
    return Kept(names={kind: {*names.get(kind, ()), *needed[kind]} for kind in Kind})


def merged(
    kind: Kind,
    wanted: Mapping[str, _Record],
    actual: Mapping[str, _Record],
    *,
    source: Source,
    kept: Collection[str] = (),
) -> dict[str, _Record]:
    """Return the merged objects of one kind, by name."""
    objects: dict[str, _Record] = {}
    for name, want in wanted.items():
        have = actual.get(name)
        if name in kept:
            if have is not None:
                objects[name] = have
        else:
            objects[name] = _named(kind, want, have, source)
    for name, have in actual.items():
        if name not in wanted:
            left = have if name in kept else _unnamed(kind, have, source)
            if left is not None:
                objects[name] = left
    return objects


def _named(kind: Kind, want: _Record, have: _Record | None, source: Source) -> _Record:
    """Return an object that the file names; the reader put its values in `applied`."""
    values = want.applied
    if have is None:
        return want if source is AUTHOR else replace(want, applied="", found=values)
    is_back = source is INVENTORY and is_missing(have)
    is_same = getattr(have, source.attribute) == values
    if is_same and not is_deleted(have) and not is_back:
        return have
    return _with_values(kind, have, source, values)


def _unnamed(kind: Kind, have: _Record, source: Source) -> _Record | None:
    """Return an object that the file does not name; None: it is removed."""
    if not getattr(have, source.attribute):
        return have
    return _with_values(kind, have, source, "") if getattr(have, source.other) else None


def _with_values(kind: Kind, have: _Record, source: Source, values: str) -> _Record:
    """Return an object to which a source gives other values than before."""
    after = replace(have, **{source.attribute: values})
    if source is INVENTORY and isinstance(after, Vm):
        after = replace(after, is_missing=False)
    old_values, new_values = base_of(have), base_of(after)
    changed = {
        column.attribute: value_of(kind, have, column.key, new_values)
        for column in FIELDS[kind]
        # The record of a deleted VM has no values to keep.
        if is_deleted(have) or old_values.get(column.key) != new_values.get(column.key)
    }
    return replace(after, **changed)


def desired(kind: Kind, want: Record, have: Record) -> Record:
    """Return an object as its sources want it together; `want` is of one of them."""
    if not (have.applied and have.found):
        return want
    values = base_of(have)
    return replace(
        want,
        **{
            column.attribute: value_of(kind, have, column.key, values)
            for column in FIELDS[kind]
        },
    )


class Authority(Enumeration):
    """A source that said that something cannot be done; the value is for messages."""

    FILE = "fleet file"
    INVENTORY = "inventory"
    DRIVER = "driver"


def fixing_source(vm: Vm) -> Authority:
    """Return the source that said that a VM cannot be moved: a person counts first."""
    is_found = "movable" in desired_values(
        vm.found
    ) and "movable" not in desired_values(vm.applied)
    return Authority.INVENTORY if is_found else Authority.FILE


def is_missing(record: Record) -> bool:
    """Return whether an object is a VM that the last inventory lacked."""
    return isinstance(record, Vm) and record.is_missing


def unread(
    hosts: Iterable[Host], vms: Iterable[Vm], wanted: WantedFleet
) -> Mapping[Kind, Collection[str]]:
    """Return the objects that an inventory knows nothing about, because of hosts it lacks.

    A definition of a VM of such a host can be left on another host, where it does not run.
    """
    if not wanted.unknown_hosts:
        return {Kind.HOST: (), Kind.VM: ()}
    unread_hosts = {
        host.name for host in hosts if host.found and host.name not in wanted.hosts
    }
    unread_vms = {
        vm.name
        for vm in vms
        if not is_deleted(vm) and not unread_hosts.isdisjoint({vm.host, vm.moving_to})
    }
    return {Kind.HOST: unread_hosts, Kind.VM: unread_vms}


def first_misses(vms: Iterable[Vm], wanted: WantedFleet) -> list[Vm]:
    """Return the VMs that an inventory lacks, would remove, and lacks for the first time.

    A program can read a VM that moves on neither of its hosts, so one run proves nothing.
    A VM whose name was changed, or whose address another VM has now, is certainly gone.
    """
    missed = [vm for vm in vms if _is_first_miss(vm, wanted)]
    if not missed:
        return []
    taken = set(chain.from_iterable(map(_identities, wanted.vms.values())))
    return [vm for vm in missed if taken.isdisjoint(_identities(vm))]


def _is_first_miss(vm: Vm, wanted: WantedFleet) -> bool:
    is_only_found = bool(vm.found) and not vm.applied
    is_present = vm.name in wanted.vms or is_deleted(vm)
    return is_only_found and not is_present and not vm.is_missing


def _identities(vm: Vm) -> Iterator[object]:
    """Yield the values of a VM that no other VM can have."""
    yield vm.vm_id
    yield vm.scope, vm.wire_name
    yield from vm.addresses
    if vm.listen:
        yield vm.listen


def is_deleted(record: Record) -> bool:
    """Return whether an object is a VM that was evicted or terminated."""
    return isinstance(record, Vm) and record.state is VmState.DELETED
