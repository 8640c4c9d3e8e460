"""Tenants decide when their part of a rollout is maintained: later, or now.

A choice is stored for a request and a scope, or one VM of it, so it follows a VM that
moves to another host. A deferral withdraws announced maintenance before it has any
impact, and plans the host again in the same rollout. `rules.holds` delays the host until
the chosen time. An expedited host comes first in its rollout, and its events are
approved at once.

A crash leaves nothing incomplete: all targets of a request are stored in one
transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from forewarn.control.execution import ending, replanning
from forewarn.control.requests import approvals, rollouts
from forewarn.control.rules import choices as counting
from forewarn.control.rules import deferring, steerable_hosts, waits
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Scope, Vm, VmState
from forewarn.instants import (
    DAY,
    HOUR,
    Micros,
    cut_to_second,
    describe_duration,
    format_instant,
    round_up_to_second,
)
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import Postponed
from forewarn.protocol.operations import (
    WAITING_STATES,
    Operation,
    OperationState,
    RequestState,
)
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import NOTHING, AuditKind, Choice, Facts, choice_key

DEFER_MAX: Micros = 7 * DAY
"""Maximum time for which maintenance is deferred at once: a week has each day of work and
of rest once."""

LEAD: Micros = HOUR
"""Time before NotBefore after which announced maintenance is not deferred: the operator and
other tenants prepare for it. In a short notice, this is its second half."""

SCOPE_VMS_MAX = 2_000
"""Maximum VMs of a scope that is deferred as a whole. Finding their hosts takes some tens
of milliseconds, in which no approval is taken."""

_NOUNS = {"vm": "VM", "scope": "scope"}

SHOW = "Run `forewarn deferrals` to see what is deferred, and until when."


@dataclass(frozen=True, kw_only=True)
class Target:
    """A VM or a scope, with the VMs that it consists of."""

    scope: str
    tenant: str
    vm: str
    """Empty: all VMs of the scope."""
    vms: tuple[Vm, ...]

    @cached_property
    def by_host(self) -> dict[str, list[Vm]]:
        """Return the VMs of each host."""
        by_host: dict[str, list[Vm]] = {}
        for vm in self.vms:
            by_host.setdefault(vm.host, []).append(vm)
        return by_host

    @property
    def text(self) -> str:
        """Return the target for messages."""
        return f"VM {self.vm}" if self.vm else f"scope {self.scope}"

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return the subjects of a history entry about it."""
        named = (f"vm:{self.vm}",) if self.vm else ()
        return (*named, f"scope:{self.scope}", f"tenant:{self.tenant}")


def target_of(work: Work, name: str, kind: str = "") -> Target:
    """Return the target with a name; raises NotFoundError and RefusedError.

    A VM without a scope has one of its own, with its name. For a tenant, the objects of
    others do not exist.
    """
    tenant = work.who.actor.tenant
    vm = work.tx.get(Vm, name) if kind != "scope" else None
    scope = work.tx.get(Scope, name) if kind != "vm" else None
    if vm is not None and (
        vm.state is VmState.DELETED or tenant not in {"", vm.tenant}
    ):
        vm = None
    if scope is not None and tenant not in {"", scope.tenant}:
        scope = None
    if vm is not None and scope is not None and vm.scope != name:
        raise RefusedError(
            f"{name!r} is the name of a VM and of a scope",
            hint="Add --kind vm or --kind scope.",
        )
    if vm is not None:
        return Target(scope=vm.scope, tenant=vm.tenant, vm=vm.name, vms=(vm,))
    if scope is None:
        raise NotFoundError(
            f"there is no {_NOUNS.get(kind, 'VM or scope')} {name!r}",
            hint="Names are case-sensitive. Run `forewarn fleet show --all` to list them.",
        )
    members = work.tx.select(kinds.VMS_OF_SCOPE, name, limit=SCOPE_VMS_MAX + 1)
    if len(members) > SCOPE_VMS_MAX:
        raise RefusedError(
            f"scope {name} has more than {SCOPE_VMS_MAX:,} VMs",
            hint="Name some of its VMs instead.",
        )
    return Target(scope=name, tenant=scope.tenant, vm="", vms=tuple(members))


def vm_of(work: Work, name: str) -> Target:
    """Return the VM with a name; raises NotFoundError, and RefusedError for a scope.

    For a tenant, the objects of others do not exist.
    """
    tenant = work.who.actor.tenant
    scope = work.tx.get(Scope, name)
    is_seen = scope is not None and tenant in {"", scope.tenant}
    if scope is None or not is_seen or work.tx.get(Vm, name) is not None:
        return target_of(work, name, "vm")
    raise RefusedError(
        f"{name} is a scope, whose VMs are expedited one by one",
        hint=f"Run `forewarn upcoming --scope {name}"
        + ("" if tenant else f" --tenant {scope.tenant}")
        + "` to see when their work begins, and name the VMs that are drained.",
    )


def defer(work: Work, target: Target, until: Micros) -> list[str]:
    """Defer the maintenance of a target; return the keys of the choices.

    Raises RefusedError if none of it can be deferred. Maintenance that waits until then
    already is not deferred again.
    """
    _check_time(work, until)
    # A duration ends at any microsecond; people and tenants read whole seconds.
    until = round_up_to_second(until)
    operations = _maintenance_of(work, target)
    refused: list[RefusedError] = []
    deferred: list[Operation] = []
    news = [
        operation
        for operation in operations
        if not _is_deferred(work, target, operation, until)
    ]
    if not news:
        return _give_reason(work, target, operations, until)
    # A choice about a scope counts for all its hosts in a request.
    used_up = {
        operation.request: operation
        for operation in news
        if not deferring.is_left(operation, target.tenant, until)
    }
    for operation in news:
        try:
            _check_is_left(target, used_up.get(operation.request))
            _check_can_wait(work, target, operation)
        except RefusedError as error:
            refused.append(error)
        else:
            deferred.append(operation)
    if not deferred:
        raise refused[0]
    work.lock_scopes(scope for operation in deferred for scope in operation.scopes)
    _note(work, AuditKind.MAINTENANCE_DEFERRED, target, until, deferred)
    choice_ids = _choose(work, target, deferred, until)
    for operation in deferred:
        _wait(work, work.operation(operation.operation_id), target.tenant, until)
    chosen = {operation.request for operation in news}
    already_deferred = [
        operation for operation in operations if operation.request not in chosen
    ]
    choice_ids += _give_reason(work, target, already_deferred, until)
    work.free_window(target.scope)
    return choice_ids


def _give_reason(
    work: Work, target: Target, operations: Sequence[Operation], until: Micros
) -> list[str]:
    """Store another reason for a deferral that lasts as long as before."""
    keys = _keys(target, operations)
    choices = [
        deferral for key in keys if (deferral := work.tx.get(Choice, key)) is not None
    ]
    others = [choice for choice in choices if choice.reason != work.who.reason]
    if others:
        _note(work, AuditKind.MAINTENANCE_DEFERRED, target, until, operations)
    for deferral in others:
        new = replace(deferral, by=work.who.actor, reason=work.who.reason)
        work.tx.replace(deferral, new)
    return keys


def clear(work: Work, target: Target) -> list[str]:
    """End the deferrals of a target now; return the keys of the choices.

    Those of a scope end with those of its VMs. The deferral of a scope ends for one VM of
    it. Raises RefusedError if nothing is deferred.
    """
    choice_ids: list[str] = []
    operations = _maintenance_of(work, target)
    for request in dict.fromkeys(operation.request for operation in operations):
        choice_ids += _end_deferrals(work, target, request)
    if not choice_ids:
        raise RefusedError(
            f"the maintenance of {target.text} is not deferred", hint=SHOW
        )
    _note(work, AuditKind.DEFERRAL_CLEARED, target, 0, operations)
    work.free_window(target.scope)
    return choice_ids


def _end_deferrals(work: Work, target: Target, request: str) -> list[str]:
    """End the deferrals of a target in a request; return their keys."""
    now = cut_to_second(work.now)
    chosen = counting.of_request(work.tx, request, target.vms)
    choice_ids: list[str] = []
    for choice in (deferral for deferral in chosen if deferral.until > now):
        # Its place among the choices stays: it decides which of them counts.
        ended = replace(choice, until=now, by=work.who.actor, reason=work.who.reason)
        if choice.vm != target.vm and target.vm:
            key = choice_key(request, target.scope, target.vm)
            own = work.tx.get(Choice, key)
            ended = replace(
                ended,
                choice_id=key,
                vm=target.vm,
                at=work.now,
                # The scope keeps its own number.
                deferrals=own.deferrals if own else 0,
            )
        stored = work.tx.get(Choice, ended.choice_id)
        if stored is None:
            work.tx.add(replace(ended, revision=0))
        else:
            work.tx.replace(stored, replace(ended, revision=stored.revision))
        choice_ids.append(ended.choice_id)
    return choice_ids


def expedite(work: Work, target: Target) -> list[str]:
    """Let the maintenance of a VM come next, and approve it at once.

    Return the keys of the choices; raises RefusedError. Maintenance that is expedited
    already is not expedited again.
    """
    operations = _maintenance_of(work, target)
    choice_ids = _keys(target, operations)
    operations = [
        operation
        for operation in operations
        if not _is_expedited(work, target, operation)
    ]
    if not operations:
        return choice_ids
    work.lock_scopes(scope for operation in operations for scope in operation.scopes)
    _note(work, AuditKind.MAINTENANCE_EXPEDITED, target, 0, operations)
    _choose(work, target, operations, 0)
    for operation in operations:
        if operation.state is OperationState.PLANNED:
            _come_first(work, operation)
        else:
            approver = {target.scope: work.who.actor}
            approvals.approve_scopes(work, operation.operation_id, approver)
    work.free_window(target.scope)
    return choice_ids


def _keys(target: Target, operations: Iterable[Operation]) -> list[str]:
    """Return the keys of the choices of a target about some operations."""
    requests = dict.fromkeys(operation.request for operation in operations)
    return [choice_key(request, target.scope, target.vm) for request in requests]


def _is_deferred(
    work: Work, target: Target, operation: Operation, until: Micros
) -> bool:
    """Return whether the target has deferred an operation until this time already."""
    latest = _latest(work, target, operation)
    is_kept = operation.state not in WAITING_STATES or operation.not_before >= until
    return latest is not None and latest.until == until and is_kept


def _is_expedited(work: Work, target: Target, operation: Operation) -> bool:
    """Return whether the target has expedited an operation already."""
    latest = _latest(work, target, operation)
    return (
        latest is not None
        and not latest.until
        and not any(
            event.scope == target.scope and event.awaits_approval
            for event in work.events_of(operation)
        )
    )


def _latest(work: Work, target: Target, operation: Operation) -> Choice | None:
    """Return the choice of the target about an operation, if no other has replaced it."""
    here = target.by_host.get(operation.host, [])
    choices = counting.of_request(work.tx, operation.request, here)
    own = [
        choice
        for choice in choices
        if (choice.scope, choice.vm) == (target.scope, target.vm)
    ]
    return own[0] if choices == own and own else None


def _check_time(work: Work, until: Micros) -> None:
    if until <= work.now:
        raise RefusedError(
            f"{format_instant(until)} has passed", hint="Use a later time."
        )
    if until > work.now + DEFER_MAX:
        raise RefusedError(
            f"maintenance is deferred by at most {describe_duration(DEFER_MAX)}",
            hint="Use an earlier time, and defer it again then.",
        )


def _maintenance_of(work: Work, target: Target) -> list[Operation]:
    """Return the maintenance that affects the target and has not started."""
    rollouts.complete(work, target.by_host)
    operations = [
        operation
        for host in target.by_host
        for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host)
        if steerable_hosts.can_be_chosen(operation)
    ]
    if not operations:
        raise steerable_hosts.nothing_to_choose(target.text)
    return operations


def _check_can_wait(work: Work, target: Target, operation: Operation) -> None:
    """Refuse to defer an operation that must not wait; raises RefusedError."""
    request = work.request(operation.request)
    if operation.is_emergency:
        raise RefusedError(
            f"the maintenance of {target.text} is an emergency repair",
            hint="Ask the operator.",
        )
    if request.state is not RequestState.OPEN or not request.at_once:
        raise RefusedError(
            f"the maintenance of {target.text} cannot be announced again",
            hint="Ask the operator.",
        )
    if operation.state in WAITING_STATES:
        _check_is_early(work, target, operation)


def _check_is_left(target: Target, used_up: Operation | None) -> None:
    """Refuse to defer a host that the tenant has deferred often enough."""
    if used_up is None:
        return
    vm = target.by_host[used_up.host][0].name
    raise RefusedError(
        f"the maintenance of VM {vm} was deferred {deferring.DEFERRALS_MAX} times",
        hint=SHOW if target.vm else f"Name the other VMs of the scope instead. {SHOW}",
    )


def _check_is_early(work: Work, target: Target, operation: Operation) -> None:
    """Refuse to defer announced work that begins soon."""
    notice = operation.not_before - operation.created
    begins = deferring.begins_at(work.tx, operation, target.tenant, now=work.now)
    if begins is None or work.now <= begins - min(LEAD, notice // 2):
        return
    if begins <= work.now:
        raise RefusedError(
            f"the maintenance of {target.text} can begin at any moment",
            hint="Prepare for it, or ask the operator.",
        )
    raise RefusedError(
        f"the maintenance of {target.text} begins too soon to defer it: at "
        f"{format_instant(cut_to_second(begins))}",
        hint="Prepare for it, or ask the operator.",
    )


def _choose(
    work: Work, target: Target, operations: Iterable[Operation], until: Micros
) -> list[str]:
    """Store the choice of a tenant for each request of the operations."""
    choice_ids: list[str] = []
    for request_id in dict.fromkeys(operation.request for operation in operations):
        request = work.request(request_id)
        if not request.has_choices:
            work.tx.replace(request, changed(request, has_choices=True))
        key = choice_key(request_id, target.scope, target.vm)
        stored = work.tx.get(Choice, key)
        choice = Choice(
            choice_id=key,
            request=request_id,
            tenant=target.tenant,
            scope=target.scope,
            vm=target.vm,
            until=until,
            by=work.who.actor,
            reason=work.who.reason,
            at=work.now,
            deferrals=(stored.deferrals if stored else 0) + (1 if until else 0),
        )
        if stored is None:
            work.tx.add(choice)
        else:
            work.tx.replace(stored, replace(choice, revision=stored.revision))
        choice_ids.append(key)
    return choice_ids


def _wait(work: Work, operation: Operation, tenant: str, until: Micros) -> None:
    """Count the deferral of a host. An announced one is withdrawn without impact, and
    planned again in its rollout."""
    counted = deferring.counted(operation, tenant, until)
    if operation.state not in WAITING_STATES:
        work.save_operation(operation, counted)
        return
    replanning.plan_first(work, counted)
    by = work.who.actor
    ending.cancel(work, operation, note=Postponed(by=by, until=until), by=by)


def _come_first(work: Work, operation: Operation) -> None:
    """Check a Planned host again, before the others of its rollout."""
    reservations = filter(waits.is_reservation, operation.waits_for)
    names = (*replanning.turns_of(work, operation), *reservations)
    work.save_operation(
        operation, replace(operation, waits_for=names, held_by=(), due_at=0)
    )
    work.take_turn(operation.request)


def _note(
    work: Work,
    kind: AuditKind,
    target: Target,
    until: Micros,
    operations: Sequence[Operation],
) -> None:
    requests = dict.fromkeys(f"request:{operation.request}" for operation in operations)
    facts = Facts(text=format_instant(until)) if until else NOTHING
    work.note(kind, (*target.subjects, *requests), facts)
