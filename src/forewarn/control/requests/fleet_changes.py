"""Apply a fleet file to a running service, in one transaction.

`fleet.merge` plans the changes; this module carries them out during live events:

* A removed VM leaves every operation and the `Resources` of every event. An event or
  operation without VMs ends. While a driver call or a visit works on the VM, it is not
  removed, because the driver would continue without an event.
* A VM that the file moves leaves the operations that are bound to the old host.
* A VM is never placed on a host that is down or has an announced or running operation: it
  would be affected without notice. Such a file is refused.
* While an operation is open, a VM keeps its scope and wire name, and a scope keeps its
  tenant, because events with these names are published.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from forewarn.control import tokens
from forewarn.control.execution import downtime, ending, leaving, view_assignment
from forewarn.control.redaction import ownership_history
from forewarn.control.requests import (
    campaign_drift,
    fleet_conflicts,
    inventory_changes,
    relay_links,
    rollouts,
    told_abilities,
)
from forewarn.control.requests.idempotency import Once, first_time
from forewarn.control.transactions.work import Check, Work
from forewarn.fleet import merge
from forewarn.fleet.errors import Kind
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.fleet.merge import Action, Change, MergePlan
from forewarn.fleet.model import (
    AppliedFile,
    Capacity,
    Host,
    HostState,
    Scope,
    Tenant,
    Vm,
    VmState,
)
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import Change as Happened
from forewarn.protocol.notes import host_changed, vm_changed
from forewarn.protocol.operations import (
    UNSTARTED_STATES,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, Record, every, fetch, fetch_answers
from forewarn.store.records import NOTHING, AuditKind, Facts

R = TypeVar("R", bound=Record)

SUMMARY_LINES = 50
"""Maximum lines of a plan that are stored with an idempotency key: one screen."""

FLEET_SUBJECT = "fleet"
"""Subject of the history entry about the whole application."""


def plan(reader: Reader, wanted: WantedFleet) -> MergePlan:
    """Return the changes that applying the file would make.

    Raises FleetFileError. Raises RefusedError for an empty file that would remove a
    fleet, because it is probably truncated, and for an inventory that would remove more
    than it may.
    """
    if wanted.removals_max is not None:
        return inventory_changes.plan(reader, wanted, wanted.removals_max)
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
    """Return the changes that applying the file would make, if it can be applied now.

    Raises the errors of `apply`, as far as reading can find them.
    """
    planned = plan(reader, wanted)
    fleet_conflicts.check(reader, planned)
    return planned


def _check_removes_nothing(planned: MergePlan) -> None:
    gone = Counter(
        change.kind
        for change in planned.changes
        if change.action is Action.REMOVE
        # Implied scopes are not in the file, so they are not counted.
        and not (isinstance(change.before, Scope) and change.before.implied)
    )
    if gone:
        counts = ", ".join(
            f"{gone[kind]} {kind.value}{'' if gone[kind] == 1 else 's'}"
            for kind in Kind
            if gone[kind]
        )
        raise RefusedError(
            f"the fleet file is empty; applying it would remove everything ({counts})",
            hint="Check that the file is not truncated. To remove everything, use "
            "`fleet apply --allow-empty`.",
        )


def apply(
    work: Work,
    wanted: WantedFleet | MergePlan,
    *,
    digest: str | None = "",
    once: Once | None = None,
    check: Check | None = None,
) -> MergePlan:
    """Apply the file, or a plan for it; return the changes.

    `check` is called first. `digest` is the digest of the file's text, which is
    stored; None: that of the last file stays, since this is an inventory. An older plan is valid if `concerns_plans` was false for every write since
    it was made. If this raises
    FleetFileError, RefusedError or RepeatedError, nothing is changed.
    """

    if check is not None:
        check(work)

    def decide(work: Work) -> MergePlan:
        merged = wanted if isinstance(wanted, MergePlan) else plan(work.tx, wanted)
        return _carry_out(work, merged, digest)

    return first_time(work, once, decide, describe=_summary)


def _summary(merged: MergePlan) -> dict[str, Any]:
    """Return a short form of the plan, as the response to a repeated request."""
    lines = list(islice(merged.lines(), SUMMARY_LINES + 1))
    if len(lines) > SUMMARY_LINES:
        lines[-1] = "… the first response had more lines"
    return {"is_empty": merged.is_empty, "lines": lines}


def _carry_out(work: Work, merged: MergePlan, digest: str | None) -> MergePlan:
    writes = [_brought_up_to_date(work, change) for change in merged.writes()]
    work.lock_scopes(_scopes(work, writes))
    emptied: set[str] = set()
    _fetch(work, writes)
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
        facts = Facts(text="\n".join(merged.lines()))
        work.note(AuditKind.FLEET_APPLIED, (FLEET_SUBJECT,), facts)
    if digest is not None:
        _remember(work, digest)
    return merged


def _fetch(work: Work, writes: list[Change]) -> None:
    """Read together what each new VM and host needs: a fleet has a million of them."""
    vms = [write.after for write in writes if isinstance(write.after, Vm)]
    hosts = {vm.host for vm in vms}
    hosts.update(write.after.name for write in writes if isinstance(write.after, Host))
    fetch(work.tx, Capacity, hosts)
    fetch_answers(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, hosts)
    view_assignment.fetch_views(work, {vm.view for vm in vms if vm.view})


def has_fleet(reader: Reader) -> bool:
    """Return whether a fleet is stored."""
    return bool(
        reader.select(kinds.ALL_HOSTS, limit=1) or reader.select(kinds.ALL_VMS, limit=1)
    )


def is_applied(reader: Reader, text: FleetText) -> bool:
    """Return whether the last applied file is identical to this one."""
    applied = reader.get(AppliedFile, FLEET_SUBJECT)
    return applied is not None and applied.digest == text.digest()


def _remember(work: Work, digest: str) -> None:
    """Store the digest of the applied file; empty: values without a file."""
    before = work.tx.get(AppliedFile, FLEET_SUBJECT)
    after = AppliedFile(name=FLEET_SUBJECT, digest=digest)
    if before is None and digest:
        work.tx.add(after)
    elif before is not None and before.digest != digest:
        work.tx.replace(before, after)


def concerns_plans(before: Record | None, after: Record | None) -> bool:
    """Return whether an older plan can be wrong after this write.

    States of VMs, and operations that have started on them, do not affect plans.
    """
    if type(before or after) not in {Tenant, Scope, Host, Vm}:
        return False
    return (
        before is None
        or after is None
        or _as_planned_on(before) != _as_planned_on(after)
    )


def _as_planned_on(record: Record) -> Record:
    """Return the record without the fields that no plan depends on."""
    if isinstance(record, Host):
        return replace(record, revision=0, state=HostState.UP, cordons=(), drift_of="")
    if isinstance(record, Vm):
        is_deleted = record.state is VmState.DELETED
        return replace(
            record,
            revision=0,
            started=(),
            left_views=(),
            down_for="",
            is_off=False,
            state=VmState.DELETED if is_deleted else VmState.RUNNING,
        )
    return record


def _brought_up_to_date(work: Work, change: Change) -> Change:
    """Return the change with the current runtime state of the record."""
    before, after = change.before, change.after
    if before is None:
        return change
    now = _current(work, type(before), before.name)
    if now is before or now.revision == before.revision:
        return change
    if isinstance(now, Host) and isinstance(after, Host):
        after = replace(
            after,
            revision=now.revision,
            state=now.state,
            cordons=now.cordons,
            drift_of=now.drift_of,
        )
    elif isinstance(now, Vm) and isinstance(after, Vm):
        after = replace(
            after, revision=now.revision, state=now.state, started=now.started
        )
    return replace(change, before=now, after=after)


def _scopes(work: Work, writes: list[Change]) -> Iterator[str]:
    """Yield the scopes whose safety rows must be locked."""
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
        if isinstance(after, Host):
            after = campaign_drift.marked(work, after)
        work.tx.add(after)
    else:
        if isinstance(before, Scope) and isinstance(after, Scope):
            fleet_conflicts.check_scope(work.tx, before, after)
            if after.maintenance_window != before.maintenance_window:
                work.free_window(after.name)
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
        tokens.revoke_all_of_relay(work, before.name)
        told_abilities.forget(work, before.name)
        relay_links.forget(work, before.name)
    if isinstance(before, Tenant):
        tokens.revoke_all_of(work, before.name)
    if isinstance(before, Scope):
        for view in list(every(work.tx, kinds.VIEWS_OF_SCOPE, before.name)):
            work.forget_view(view)
    work.tx.remove(_current(work, type(before), before.name))
    _note(work, change)


def _close_host(work: Work, host: Host) -> None:
    """End the open operations of a removed host. It has no VMs left."""
    fleet_conflicts.check_removal(work.tx, host)
    rollouts.complete(work, [host.name])
    note = host_changed(Happened.REMOVED, host.name)
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host.name)):
        if operation.state in UNSTARTED_STATES:
            ending.cancel(work, operation, note=note)
        else:
            ending.finish(work, operation, note=note)


def _apply_vm(work: Work, change: Change) -> set[str]:
    """Carry out the change of one VM; return scopes with possibly empty views."""
    before, after = change.before, change.after
    assert before is None or isinstance(before, Vm), change
    assert after is None or isinstance(after, Vm), change
    if after is None:
        assert before is not None, change
        _remove_vm(work, before)
        _note(work, change)
        return {before.scope}
    if before is None:
        _add_vm(work, after)
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


def _add_vm(work: Work, vm: Vm) -> None:
    """Store a new VM, complete with its view: a new fleet has a million of them."""
    fleet_conflicts.check_destination(work.tx, vm, work.host(vm.host))
    alone = view_assignment.is_alone(vm.view)
    view = view_assignment.view_of(work, vm, work.scope(vm.scope), alone=alone)
    added = work.tx.add(vm if vm.view == view else changed(vm, view=view))
    work.rooms.add_vm(added)
    work.tell_guest(added)
    downtime.appear(work, added)


def _change_vm(work: Work, before: Vm, after: Vm) -> None:
    if before.host != after.host:
        host = work.host(after.host)
        fleet_conflicts.check_not_in_hand(work.tx, before)
        fleet_conflicts.check_destination(work.tx, after, host)
        before = leaving.move_vm(work, before, host)
        if before.state is VmState.DOWN:
            # A move to another host is one of the two ends of a failure (5.5).
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
            is_observed=current.is_observed,
            is_off=current.is_off,
            left_views=current.left_views,
            revision=current.revision,
        ),
    )
    work.free({current.scope, stored.scope}, [stored.name])
    if current.fault_domain != stored.fault_domain or current.scope != stored.scope:
        # A rollout can wait until the host has one fault domain of each scope.
        work.free_host(stored.host)
    if (current.scope, current.tenant) != (stored.scope, stored.tenant):
        downtime.change_scope(work, stored)
    _assign_view(work, stored, after)


def _assign_view(work: Work, stored: Vm, after: Vm) -> Vm:
    return view_assignment.assign_view(
        work,
        stored,
        work.scope(after.scope),
        alone=view_assignment.is_alone(after.view),
    )


def _remove_vm(work: Work, before: Vm) -> None:
    current = _current(work, Vm, before.name)
    if current.state is not VmState.DELETED:
        fleet_conflicts.check_vm_removal(work.tx, current)
        leaving.leave_all(
            work, current, note=vm_changed(Happened.REMOVED, current.name)
        )
    work.forget_guest(before.name)
    downtime.vanish(work, before.name)
    work.free([before.scope])
    work.free_host(before.host)
    current = _current(work, Vm, before.name)
    work.rooms.change_vm(current, None)
    work.tx.remove(current)


def _note(work: Work, change: Change) -> None:
    if change.action not in {Action.ADOPT, Action.MISS}:
        work.note(
            _KINDS[change.kind, change.action],
            (
                f"{change.kind.value}:{change.name}",
                *ownership_history.ending(change.before, change.after),
            ),
            changed(NOTHING, text="\n".join(change.lines())),
        )


_KINDS: Mapping[tuple[Kind, Action], AuditKind] = {
    (kind, action): AuditKind[f"{kind.name}_{action.name}"]
    for kind in Kind
    for action in (Action.ADD, Action.CHANGE, Action.REMOVE)
}
"""The kind of history entry about each change."""


def _current(work: Work, kind: type[R], name: str) -> R:
    record = work.tx.get(kind, name)
    assert record is not None, f"the plan names {name}, which is not stored"
    return record
