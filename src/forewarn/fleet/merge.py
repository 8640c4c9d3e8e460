"""Applying a fleet file: a three-way merge, declarative but not blind.

Three voices speak about each field: the wish that was applied last, the wish
that the file has now, and what is. Where the two wishes differ, the author has
spoken and is obeyed; where they agree, what is stays. So a VM that a migration
moved stays where it is, until its author moves it. Nothing here touches what
is not the author's: states, moves under way, revisions.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from forewarn.fleet import checks, views
from forewarn.fleet.errors import FleetFileError, Kind
from forewarn.fleet.fields import FIELDS, Record, shown, wished
from forewarn.fleet.file import WantedFleet
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState


class Action(enum.Enum):
    """What becomes of an object."""

    ADD = "add"
    CHANGE = "change"
    ADOPT = "adopt"
    """Write it, though nobody sees a difference: the remembered wish is new."""
    REMOVE = "remove"
    NOTE = "note"
    """Do nothing, but say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs, as a person reads it."""

    name: str
    """Its key in the file."""
    before: str
    """Of a note: what the file says."""
    after: str
    """Of a note: what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one object."""

    kind: Kind
    action: Action
    name: str
    before: Record | None
    """As it is now; None if it is new."""
    after: Record | None
    """As it is to be written; None if it goes."""
    fields: tuple[FieldChange, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what a person is told of it: mostly one line, sometimes none."""
        subject = f"{self.kind.value} {self.name}"
        if self.action is Action.ADD and not _is_implied(self.after):
            yield f"+ {subject}{_described(self.after)}"
        elif self.action is Action.REMOVE and not _is_implied(self.before):
            yield f"- {subject}"
        elif self.action is Action.CHANGE:
            if not (_is_implied(self.before) and _is_implied(self.after)):
                differences = (f"{f.name} {f.before} → {f.after}" for f in self.fields)
                yield f"~ {subject}: {', '.join(differences)}"
        elif self.action is Action.NOTE:
            yield from self._notes(subject)

    def _notes(self, subject: str) -> Iterator[str]:
        if isinstance(self.before, Vm) and self.before.state is VmState.DELETED:
            yield f"{subject} was deleted by a request; drop it from the file"
            return
        for each in self.fields:
            if each.name == "host":
                yield (
                    f"{subject} stays on {each.after}, where a migration moved it"
                    f" (the file says {each.before})"
                )
            else:
                yield (
                    f"{subject} keeps {each.name} {each.after}"
                    f" (the file says {each.before})"
                )


def _is_implied(record: Record | None) -> bool:
    """Tell whether it is a scope that its author did not write."""
    return isinstance(record, Scope) and record.implied


def _described(record: Record | None) -> str:
    if isinstance(record, Vm):
        own = record.scope == record.name
        scope = "a scope of its own" if own else f"scope {record.scope}"
        return f" on {record.host} ({scope})"
    if isinstance(record, Scope):
        return f" ({record.kind.value} of {record.tenant})"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What applying a file does, in an order in which it can be done."""

    changes: tuple[Change, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether the fleet is as the file wants it, but for notes."""
        seen = {Action.ADD, Action.CHANGE, Action.REMOVE}
        return not any(change.action in seen for change in self.changes)

    def writes(self) -> Iterator[Change]:
        """Yield what has to be written, also what nobody sees."""
        return (each for each in self.changes if each.action is not Action.NOTE)

    def lines(self) -> Iterator[str]:
        """Yield the plan for a person, a line each."""
        for change in self.changes:
            yield from change.lines()


_Record = TypeVar("_Record", Tenant, Scope, Host, Vm)
_Table: TypeAlias = Mapping[str, Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """The objects of one kind: wanted, actual, and what becomes of them."""

    kind: Kind
    wanted: _Table
    actual: _Table
    merged: _Table
    agrees: bool
    """What is merged is what is wanted."""


def plan(
    wanted: WantedFleet,
    *,
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
) -> MergePlan:
    """Return what applying `wanted` to the actual fleet does.

    Raises FleetFileError where the file, sound by itself, does not fit what is:
    a host that it drops may hold a VM that a migration moved there.
    """
    actual_tenants = {each.name: each for each in tenants}
    actual_scopes = {each.name: each for each in scopes}
    actual_hosts = {each.name: each for each in hosts}
    actual_vms = {each.name: each for each in vms}
    new_tenants = _merged(Kind.TENANT, wanted.tenants, actual_tenants)
    new_scopes = _merged(Kind.SCOPE, wanted.scopes, actual_scopes)
    new_hosts = _merged(Kind.HOST, wanted.hosts, actual_hosts)
    new_vms = _merged(Kind.VM, wanted.vms, actual_vms)
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
        )
        if first := next(problems, None):
            raise FleetFileError(chain((first,), problems))
        new_vms = views.settle(new_vms.values(), scopes=new_scopes, hosts=new_hosts)
    merges = [
        _Merge(kind=kind, wanted=want, actual=have, merged=new, agrees=agrees)
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


def _merged(
    kind: Kind, wanted: Mapping[str, _Record], actual: Mapping[str, _Record]
) -> dict[str, _Record]:
    """Return the objects of one kind as they will be, by name.

    What the file does not name goes if a file once named it, else it stays.
    """
    named = {name: _one(kind, want, actual.get(name)) for name, want in wanted.items()}
    others = {
        name: have
        for name, have in actual.items()
        if name not in wanted and not have.applied
    }
    return {**named, **others}


def _one(kind: Kind, want: _Record, have: _Record | None) -> _Record:
    if have is None:
        return want
    if want.applied == have.applied and not _is_deleted(have):
        return have
    last, wish = wished(have.applied), wished(want.applied)
    spoken = {
        field.attribute: getattr(want, field.attribute)
        for field in FIELDS[kind]
        # Of a deleted VM only a tombstone is left, with nothing to keep.
        if _is_deleted(have) or last.get(field.key) != wish.get(field.key)
    }
    return replace(have, applied=want.applied, **spoken)


_SAYINGS: Mapping[Kind, Callable[[Any], object]] = {
    Kind.SCOPE: attrgetter(*(field.attribute for field in FIELDS[Kind.SCOPE])),
    Kind.HOST: attrgetter(*(field.attribute for field in FIELDS[Kind.HOST])),
    Kind.VM: attrgetter(
        *(field.attribute for field in FIELDS[Kind.VM]),
        *("tenant", "view", "moving_to"),
    ),
}
"""All that the rules look at in an object, and that follows from it, but for one
thing: a deleted VM takes no place and no name, which can only mend a fleet."""


def _agrees(
    kind: Kind, wanted: Mapping[str, Record], merged: Mapping[str, Record]
) -> bool:
    """Tell whether what will be is what the file says, and nothing else.

    Then a sound file need not be checked anew.
    """
    says = _SAYINGS[kind]
    return len(merged) == len(wanted) and all(
        says(want) == says(merged[name]) for name, want in wanted.items()
    )


def _is_deleted(record: Record) -> bool:
    return isinstance(record, Vm) and record.state is VmState.DELETED


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
            if not _is_deleted(before):
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
    """Yield what the file says and the fleet does not do."""
    for name, want in merge.wanted.items():
        before = merge.actual.get(name)
        after = merge.merged[name]
        if before is None or (merge.agrees and not _is_deleted(after)):
            continue
        ignored = tuple(_said_otherwise(merge.kind, want, after))
        if ignored or _is_deleted(after):
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
        # These follow from the scope and the host, and decide who sees what.
        for name, old, new in (
            ("tenant", before.tenant, after.tenant),
            ("view", before.view, after.view),
        ):
            if old != new:
                yield FieldChange(name=name, before=old, after=new)


def _said_otherwise(kind: Kind, one: Record, other: Record) -> Iterator[FieldChange]:
    """Yield the fields of the file in which two records differ."""
    for field in FIELDS[kind]:
        old = getattr(one, field.attribute)
        new = getattr(other, field.attribute)
        if old != new:
            yield FieldChange(
                name=field.key,
                before=shown(field.option, old),
                after=shown(field.option, new),
            )
