"""Applying a fleet file to a running service: one transaction, all or nothing.

`fleet.merge` says what changes; this module carries it out under live events:

* A VM that is removed leaves every operation: its name goes from `Resources`,
  and an event or operation that then names nobody ends.
* A VM that its author moves leaves what is bound to the old host.
* A VM is never put on a host that is down or under, or before, an operation: it
  would meet an impact without notice. That is refused.
* While an operation is open, a VM keeps its scope and wire name, and a scope
  its tenant: events have been published under them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from forewarn.control import tokens
from forewarn.control.execution import downtime, ending, leaving, view_assignment
from forewarn.control.redaction import ownership_history
from forewarn.control.requests import fleet_conflicts, host_lists
from forewarn.control.requests.idempotency import Once, first_time
from forewarn.control.transactions.work import Work
from forewarn.fleet import merge
from forewarn.fleet.errors import Kind
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.fleet.merge import Action, Change, MergePlan
from forewarn.fleet.model import (
    AppliedFile,
    Host,
    HostState,
    Scope,
    Tenant,
    Vm,
    VmState,
)
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.notes import Change as Happened
from forewarn.protocol.notes import host_changed, vm_changed
from forewarn.protocol.operations import (
    UNSTARTED_STATES,
)
from forewarn.store import kinds
from forewarn.store.audit import AuditKind, Facts
from forewarn.store.port import Reader, Record, every

R = TypeVar("R", bound=Record)

SUMMARY_LINES = 50
"""Lines of a plan that are kept with the key of its request: a screen."""

FLEET_SUBJECT = "fleet"
"""What the trail's line about an application as a whole is found by."""


def plan(reader: Reader, wanted: WantedFleet) -> MergePlan:
    """Return what applying the file would change.

    Raises FleetFileError, and RefusedError for a file without anything in it that
    would remove a fleet: mostly it was cut short on its way.
    """
    planned = merge.plan(
        wanted,
        tenants=every(reader, kinds.ALL_TENANTS),
        scopes=every(reader, kinds.ALL_SCOPES),
        hosts=every(reader, kinds.ALL_HOSTS),
        vms=every(reader, kinds.ALL_VMS),
    )
    if not wanted.may_be_empty and not any(wanted.count().values()):
        _check_removes_nothing(planned)
    return planned


def preview(reader: Reader, wanted: WantedFleet) -> MergePlan:
    """Return what applying the file would change, if it can be applied now.

    Raises what `apply` would raise, as far as reading tells.
    """
    planned = plan(reader, wanted)
    fleet_conflicts.check(reader, planned)
    return planned


def _check_removes_nothing(planned: MergePlan) -> None:
    gone = Counter(
        change.kind
        for change in planned.changes
        if change.action is Action.REMOVE
        # A scope that its author did not write is none to who reads this.
        and not (isinstance(change.before, Scope) and change.before.implied)
    )
    if gone:
        counts = ", ".join(
            f"{gone[kind]} {kind.value}{'' if gone[kind] == 1 else 's'}"
            for kind in Kind
            if gone[kind]
        )
        raise RefusedError(
            f"the fleet file is empty: it would remove everything ({counts})",
            hint="was it cut short? `fleet apply --allow-empty` does it all the same",
        )


def apply(
    work: Work,
    wanted: WantedFleet | MergePlan,
    *,
    digest: str = "",
    once: Once | None = None,
) -> MergePlan:
    """Apply the file, or do what was planned for it; return what was changed.

    `digest` is that of its text, to be remembered. A plan may have been made on an
    earlier moment, if nothing was written since that `concerns_plans`. Raises
    FleetFileError, RefusedError, or RepeatedError, and then nothing is changed.
    """

    def decide(work: Work) -> MergePlan:
        merged = wanted if isinstance(wanted, MergePlan) else plan(work.tx, wanted)
        return _carry_out(work, merged, digest)

    return first_time(work, once, decide, describe=_summary)


def _summary(merged: MergePlan) -> dict[str, Any]:
    """Return what a repeated request is answered: a plan of any size, in short."""
    lines = list(islice(merged.lines(), SUMMARY_LINES + 1))
    if len(lines) > SUMMARY_LINES:
        lines[-1] = "… the first answer had more lines"
    return {"is_empty": merged.is_empty, "lines": lines}


def _carry_out(work: Work, merged: MergePlan, digest: str) -> MergePlan:
    writes = [_brought_up_to_date(work, change) for change in merged.writes()]
    work.lock_scopes(_scopes(work, writes))
    emptied: set[str] = set()
    for change in writes:
        if isinstance(change.before or change.after, Vm):
            emptied |= _apply_vm(work, change)
        elif change.action is Action.REMOVE:
            _remove(work, change)
        else:
            _write(work, change)
    for scope in emptied:
        view_assignment.drop_empty_views(work, scope)
    if any(isinstance(change.after or change.before, Host | Vm) for change in writes):
        work.free_room()
    if not merged.is_empty:
        said = Facts(text="\n".join(merged.lines()))
        work.note(AuditKind.FLEET_APPLIED, (FLEET_SUBJECT,), said)
    _remember(work, digest)
    return merged


def has_fleet(reader: Reader) -> bool:
    """Tell whether a fleet is stored, so that there is something to serve."""
    return bool(
        reader.select(kinds.ALL_HOSTS, limit=1) or reader.select(kinds.ALL_VMS, limit=1)
    )


def is_applied(reader: Reader, text: FleetText) -> bool:
    """Tell whether this very file was applied last, so that nothing is to be done."""
    applied = reader.get(AppliedFile, FLEET_SUBJECT)
    return applied is not None and applied.digest == text.digest()


def _remember(work: Work, digest: str) -> None:
    """Remember which file was applied; values without a file are none."""
    before = work.tx.get(AppliedFile, FLEET_SUBJECT)
    after = AppliedFile(name=FLEET_SUBJECT, digest=digest)
    if before is None and digest:
        work.tx.add(after)
    elif before is not None and before.digest != digest:
        work.tx.replace(before, after)


def concerns_plans(before: Record | None, after: Record | None) -> bool:
    """Tell whether a plan that was made before this write may be wrong after it.

    What runs, and what has started on it, is not the file's to say.
    """
    kind = type(before or after)
    if kind not in {Tenant, Scope, Host, Vm}:
        return False
    return (
        before is None
        or after is None
        or _as_planned_on(before) != _as_planned_on(after)
    )


def _as_planned_on(record: Record) -> Record:
    """Return the record without what no plan depends on."""
    if isinstance(record, Host):
        return replace(record, revision=0, state=HostState.UP)
    if isinstance(record, Vm):
        is_deleted = record.state is VmState.DELETED
        return replace(
            record,
            revision=0,
            started=(),
            left_views=(),
            state=VmState.DELETED if is_deleted else VmState.RUNNING,
        )
    return record


def _brought_up_to_date(work: Work, change: Change) -> Change:
    """Return the change with what has happened beside the plan."""
    before, after = change.before, change.after
    if before is None:
        return change
    now = _current(work, type(before), before.name)
    if now is before or now.revision == before.revision:
        return change
    if isinstance(now, Host) and isinstance(after, Host):
        after = replace(after, revision=now.revision, state=now.state)
    elif isinstance(now, Vm) and isinstance(after, Vm):
        after = replace(
            after, revision=now.revision, state=now.state, started=now.started
        )
    return replace(change, before=now, after=after)


def _scopes(work: Work, writes: list[Change]) -> Iterator[str]:
    """Yield the scopes whose safety the application concerns."""
    for change in writes:
        for record in (change.before, change.after):
            if isinstance(record, Scope):
                yield record.name
            elif isinstance(record, Vm):
                yield record.scope
        if isinstance(change.before, Vm):
            yield from leaving.scopes_of_vm(work, change.before)


def _write(work: Work, change: Change) -> None:
    before, after = change.before, change.after
    assert after is not None, change
    if before is None:
        work.tx.add(after)
    else:
        if isinstance(before, Scope) and isinstance(after, Scope):
            fleet_conflicts.check_scope(work.tx, before, after)
        work.tx.replace(before, after)
    if isinstance(after, Host):
        work.rooms.change_host(after.name)
    _note(work, change)


def _remove(work: Work, change: Change) -> None:
    before = change.before
    assert before is not None, change
    if isinstance(before, Host):
        _close_host(work, before)
        work.rooms.change_host(before.name)
    if isinstance(before, Tenant):
        tokens.revoke_all_of(work, before.name)
    if isinstance(before, Scope):
        for view in list(every(work.tx, kinds.VIEWS_OF_SCOPE, before.name)):
            work.forget_view(view)
    work.tx.remove(_current(work, type(before), before.name))
    _note(work, change)


def _close_host(work: Work, host: Host) -> None:
    """End what is open on a host that goes: nobody is on it any more."""
    fleet_conflicts.check_removal(work.tx, host)
    host_lists.complete(work, [host.name])
    note = host_changed(Happened.REMOVED, host.name)
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host.name)):
        if operation.state in UNSTARTED_STATES:
            ending.cancel(work, operation, note=note)
        else:
            ending.finish(work, operation, note=note)


def _apply_vm(work: Work, change: Change) -> set[str]:
    """Carry out one VM's change; return the scopes that it may have emptied."""
    before, after = change.before, change.after
    assert before is None or isinstance(before, Vm), change
    assert after is None or isinstance(after, Vm), change
    if after is None:
        assert before is not None, change
        _remove_vm(work, before)
        _note(work, change)
        return {before.scope}
    if before is None:
        fleet_conflicts.check_destination(work.tx, after, work.host(after.host))
        added = work.tx.add(replace(after, view=""))
        work.rooms.change_vm(None, added)
        work.tell_guest(_seat(work, added, after))
        downtime.appear(work, added)
        _note(work, change)
        return set()
    if after.state is VmState.DELETED:
        work.tx.replace(before, replace(after, view=before.view))
        work.rooms.change_vm(before, after)
        return set()
    _change_vm(work, before, after)
    if change.action is Action.CHANGE:
        _note(work, change)
    return {before.scope, after.scope} if before.view != after.view else set()


def _change_vm(work: Work, before: Vm, after: Vm) -> None:
    if before.host != after.host:
        host = work.host(after.host)
        fleet_conflicts.check_not_in_hand(work.tx, before)
        fleet_conflicts.check_destination(work.tx, after, host)
        before = leaving.move_vm(work, before, host)
        if before.state is VmState.DOWN:
            # Moved elsewhere is one of the two ends of a failure (5.5).
            before = leaving.vm_runs_again(work, before)
    fleet_conflicts.check_names(work.tx, before, after)
    current = work.vm(before.name)
    stored = work.save_vm(
        current,
        replace(
            after,
            view=current.view,
            state=current.state,
            started=current.started,
            moving_to=current.moving_to,
            left_views=current.left_views,
            revision=current.revision,
        ),
    )
    work.free({current.scope, stored.scope}, [stored.name])
    if (current.scope, current.tenant) != (stored.scope, stored.tenant):
        downtime.change_scope(work, stored)
    _seat(work, stored, after)


def _seat(work: Work, stored: Vm, after: Vm) -> Vm:
    return view_assignment.seat(
        work,
        stored,
        work.scope(after.scope),
        alone=view_assignment.is_alone(after.view),
    )


def _remove_vm(work: Work, before: Vm) -> None:
    current = _current(work, Vm, before.name)
    if current.state is not VmState.DELETED:
        leaving.leave_all(
            work, current, note=vm_changed(Happened.REMOVED, current.name)
        )
    work.forget_guest(before.name)
    downtime.vanish(work, before.name)
    work.free([before.scope])
    current = _current(work, Vm, before.name)
    work.rooms.change_vm(current, None)
    work.tx.remove(current)


def _note(work: Work, change: Change) -> None:
    if change.action is not Action.ADOPT:
        work.note(
            AuditKind[f"{change.kind.name}_{change.action.name}"],
            (
                f"{change.kind.value}:{change.name}",
                *ownership_history.ending(change.before, change.after),
            ),
            Facts(text="\n".join(change.lines())),
        )


def _current(work: Work, kind: type[R], name: str) -> R:
    record = work.tx.get(kind, name)
    assert record is not None, f"the plan removes {name}, which is not stored"
    return record
