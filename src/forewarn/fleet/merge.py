"""The three-way merge of a fleet file, and its result as a plan.

For each field, the merge compares the value that was applied last (base), the value in
the file (desired) and the current value (actual). If the base and desired values differ,
the file wins. If they are equal, the actual value stays. A VM that a migration moved
therefore stays on its host until the file moves it. The merge does not change runtime
data: states, running moves, revisions.

In a plan for people, `+` marks a new object, `~` a changed one and `-` a removed one. A
line without a sign is a note: nothing is done, but the author should know. An adopted
object only stores that the file names it, and has no line.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from forewarn.fleet import checks, views
from forewarn.fleet.errors import FleetFileError, Kind
from forewarn.fleet.fields import FIELDS, Record, shown
from forewarn.fleet.file import WantedFleet
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.fleet.sources import (
    NOTHING_KEPT,
    Kept,
    Source,
    desired,
    is_deleted,
    merged,
    source_of,
)
from forewarn.problems import listed
from forewarn.protocol.enumerations import Enumeration


class Action(Enumeration):
    """Change of an object."""

    ADD = "add"
    CHANGE = "change"
    ADOPT = "adopt"
    """Store the values of the file; nothing visible changes."""
    MISS = "miss"
    """Store that an inventory lacks the object; the next one that lacks it removes it."""
    REMOVE = "remove"
    NOTE = "note"
    """Do nothing, but report a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs, as text for people."""

    name: str
    """Key in the file."""
    before: str
    """Value before; in a note: the value in the file."""
    after: str
    """Value after; in a note: the current value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of one object."""

    kind: Kind
    action: Action
    name: str
    before: Record | None
    """The object now; None: it is new."""
    after: Record | None
    """The object to store; None: it is removed."""
    fields: tuple[FieldChange, ...] = ()
    reason: str = ""
    """In a note: why the object is left as it is for now; empty: the fields differ."""

    def lines(self) -> Iterator[str]:
        """Yield its lines for people: mostly one, sometimes none."""
        subject = f"{self.kind.value} {self.name}"
        if self.action is Action.ADD and not _is_implied(self.after):
            yield f"+ {subject}{_described(self.after)}"
        elif self.action is Action.REMOVE and not _is_implied(self.before):
            yield f"- {subject}"
        elif self.action is Action.CHANGE:
            if not (_is_implied(self.before) and _is_implied(self.after)):
                differences = (f"{f.name} {f.before} → {f.after}" for f in self.fields)
                yield f"~ {subject}: {', '.join(differences)}"
        elif self.action is Action.MISS:
            yield f"{subject} is not in the inventory; the next run without it removes it"
        elif self.action is Action.NOTE:
            yield from self._notes(subject)

    def _notes(self, subject: str) -> Iterator[str]:
        if self.reason:
            yield f"{subject} is left as it is for now: {self.reason}"
            return
        if isinstance(self.before, Vm) and self.before.state is VmState.DELETED:
            yield f"{subject} was deleted by a request; remove it from the file"
            return
        for field in self.fields:
            if field.name == "host":
                yield (
                    f"{subject} stays on {field.after}, where a migration moved it"
                    f" (the file says {field.before})"
                )
            else:
                yield (
                    f"{subject} keeps {field.name} {field.after}"
                    f" (the file says {field.before})"
                )


def unread(host: Host, unknown_hosts: Collection[str]) -> Change:
    """Return the note about a host that an inventory lacks, and may not have read."""
    return Change(
        kind=Kind.HOST,
        action=Action.NOTE,
        name=host.name,
        before=host,
        after=host,
        reason=f"the inventory could not read {listed(unknown_hosts)}",
    )


def _is_implied(record: Record | None) -> bool:
    """Return whether the object is a scope that the file does not contain."""
    return isinstance(record, Scope) and record.implied


def _described(record: Record | None) -> str:
    if isinstance(record, Vm):
        own = record.scope == record.name
        scope = "its own scope" if own else f"scope {record.scope}"
        return f" on {record.host} ({scope})"
    if isinstance(record, Scope):
        return f" ({record.kind.value} of {record.tenant})"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """The changes that applying a file makes, in a valid order."""

    changes: tuple[Change, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether the plan has no visible change except notes."""
        changing = {Action.ADD, Action.CHANGE, Action.MISS, Action.REMOVE}
        return not any(change.action in changing for change in self.changes)

    def writes(self) -> Iterator[Change]:
        """Yield the changes to store, including those without a visible difference."""
        return (change for change in self.changes if change.action is not Action.NOTE)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the plan for people."""
        for change in self.changes:
            yield from change.lines()


_Record = TypeVar("_Record", Tenant, Scope, Host, Vm)
_Table: TypeAlias = Mapping[str, Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Combine:
    """Merges the objects of each kind."""

    source: Source
    kept: Kept

    def of(
        self, kind: Kind, wanted: Mapping[str, _Record], actual: Mapping[str, _Record]
    ) -> dict[str, _Record]:
        """Return the merged objects of one kind, by name."""
        kept_keys = self.kept.of(kind)
        return merged(kind, wanted, actual, source=self.source, kept=kept_keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """The objects of one kind: desired, actual and merged."""

    kind: Kind
    wanted: _Table
    actual: _Table
    merged: _Table
    agrees: bool
    """Whether the merged objects are the desired ones."""
    kept: Collection[str]
    """Names of objects that are left as they are, whatever the file says."""


def plan(
    wanted: WantedFleet,
    *,
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
    kept: Kept = NOTHING_KEPT,
) -> MergePlan:
    """Return the plan for applying `wanted` to the actual fleet, except to the `kept` objects.

    Raises FleetFileError if a valid file does not fit the actual fleet. For example, a
    host that it removes can have a VM that a migration moved there. A conflict that the
    actual fleet already has, because a hypervisor moved a VM, refuses no file.
    """
    actual_tenants = {tenant.name: tenant for tenant in tenants}
    actual_scopes = {scope.name: scope for scope in scopes}
    actual_hosts = {host.name: host for host in hosts}
    actual_vms = {vm.name: vm for vm in vms}
    combine = _Combine(source=source_of(wanted), kept=kept)
    new_tenants = combine.of(Kind.TENANT, wanted.tenants, actual_tenants)
    new_scopes = combine.of(Kind.SCOPE, wanted.scopes, actual_scopes)
    new_hosts = combine.of(Kind.HOST, wanted.hosts, actual_hosts)
    new_vms = combine.of(Kind.VM, wanted.vms, actual_vms)
    agrees = (
        wanted.is_sound
        and _agrees(Kind.SCOPE, wanted.scopes, new_scopes)
        and _agrees(Kind.HOST, wanted.hosts, new_hosts)
        and _agrees(Kind.VM, wanted.vms, new_vms)
    )
    if not agrees:
        problems = checks.find_problems(
            new_tenants.values(),
            new_scopes.values(),
            new_hosts.values(),
            new_vms.values(),
            wanted.place,
            checks.Current(hosts=actual_hosts, vms=actual_vms),
        )
        if first := next(problems, None):
            raise FleetFileError(chain((first,), problems))
        new_vms = views.settle(new_vms.values(), scopes=new_scopes, hosts=new_hosts)
    merges = [
        _Merge(
            kind=kind,
            wanted=want,
            actual=have,
            merged=new,
            agrees=agrees,
            kept=kept.of(kind),
        )
        for kind, want, have, new in (
            (Kind.TENANT, wanted.tenants, actual_tenants, new_tenants),
            (Kind.SCOPE, wanted.scopes, actual_scopes, new_scopes),
            (Kind.HOST, wanted.hosts, actual_hosts, new_hosts),
            (Kind.VM, wanted.vms, actual_vms, new_vms),
        )
    ]
    return MergePlan(
        changes=tuple(
            chain(
                chain.from_iterable(map(_writes, merges)),
                chain.from_iterable(map(_removals, reversed(merges))),
                chain.from_iterable(map(_notes, merges)),
            )
        )
    )


_SAYINGS: Mapping[Kind, Callable[[Any], object]] = {
    Kind.SCOPE: attrgetter(*(field.attribute for field in FIELDS[Kind.SCOPE])),
    Kind.HOST: attrgetter(*(field.attribute for field in FIELDS[Kind.HOST])),
    Kind.VM: attrgetter(
        *(field.attribute for field in FIELDS[Kind.VM]),
        *("tenant", "view", "moving_to"),
    ),
}
"""Everything in an object that the rules use or that is derived from it, except that a
VM is deleted: a deleted VM uses no capacity and no name, which cannot cause a problem."""


def _agrees(
    kind: Kind, wanted: Mapping[str, Record], merged: Mapping[str, Record]
) -> bool:
    """Return whether the merged objects are exactly those of the file.

    If so, a valid file is not checked again.
    """
    says = _SAYINGS[kind]
    return len(merged) == len(wanted) and all(
        name in merged and says(want) == says(merged[name])
        for name, want in wanted.items()
    )


def _writes(merge: _Merge) -> Iterator[Change]:
    for name, after in merge.merged.items():
        before = merge.actual.get(name)
        if before is after or before == after:
            continue
        fields: tuple[FieldChange, ...] = ()
        if before is None:
            action = Action.ADD
        else:
            action = Action.ADOPT
            if not is_deleted(before):
                fields = tuple(_differences(merge.kind, before, after))
                action = Action.CHANGE if fields else Action.ADOPT
        yield Change(
            kind=merge.kind,
            action=action,
            name=name,
            before=before,
            after=after,
            fields=fields,
        )


def _removals(merge: _Merge) -> Iterator[Change]:
    for name, before in merge.actual.items():
        if name not in merge.merged:
            yield Change(
                kind=merge.kind,
                action=Action.REMOVE,
                name=name,
                before=before,
                after=None,
            )


def _notes(merge: _Merge) -> Iterator[Change]:
    """Yield notes about values of the file that the fleet does not have."""
    for name, want in merge.wanted.items():
        before = merge.actual.get(name)
        if before is None or name in merge.kept:
            continue
        after = merge.merged[name]
        if merge.agrees and not is_deleted(after):
            continue
        combined = desired(merge.kind, want, after)
        ignored = tuple(_said_otherwise(merge.kind, combined, after))
        if ignored or is_deleted(after):
            yield Change(
                kind=merge.kind,
                action=Action.NOTE,
                name=name,
                before=before,
                after=after,
                fields=ignored,
            )


def _differences(kind: Kind, before: Record, after: Record) -> Iterator[FieldChange]:
    yield from _said_otherwise(kind, before, after)
    if isinstance(before, Vm) and isinstance(after, Vm):
        # These fields are derived from the scope and the host, and decide which events
        # the VM sees.
        for name, old, new in (
            ("tenant", before.tenant, after.tenant),
            ("view", before.view, after.view),
        ):
            if old != new:
                yield FieldChange(name=name, before=old, after=new)


def _said_otherwise(kind: Kind, one: Record, other: Record) -> Iterator[FieldChange]:
    """Yield the fields of the file in which two objects differ."""
    for field in FIELDS[kind]:
        old = getattr(one, field.attribute)
        new = getattr(other, field.attribute)
        if old != new:
            yield FieldChange(
                name=field.key,
                before=shown(field.option, old),
                after=shown(field.option, new),
            )
