"""Approvals: all or nothing from VMs, one event at a time from operators (section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from forewarn.control.execution import release
from forewarn.control.rules import choices
from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.model import Vm, VmState
from forewarn.protocol.actors import Actor, vm_actor
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.lifecycle import EventInput
from forewarn.protocol.operations import Operation
from forewarn.protocol.views import View, has_mark, sees, was_shown_before
from forewarn.store.port import Reader


class Approval(NamedTuple):
    """The approval of one POST: all of its events, or none."""

    vm: str
    event_ids: tuple[str, ...]
    """GUIDs in upper case."""


def approve_together(
    work: Work, approvals: Sequence[Approval]
) -> tuple[str | None, ...]:
    """Apply the POSTs of several VMs in one transaction.

    Return for each POST None or the reason of the refusal. A refused POST changes nothing
    and does not affect the others (clause 3.3).
    """
    verdicts: list[str | None] = []
    waiting: list[tuple[Actor, Event]] = []
    for approval in approvals:
        events = _events_for(work.tx, approval)
        if isinstance(events, str):
            verdicts.append(events)
        else:
            verdicts.append(None)
            waiting += [(vm_actor(approval.vm), event) for event in events]
    if waiting:
        _apply(work, waiting)
    return tuple(verdicts)


def approve_for(work: Work, event_id: str, *, as_vm: str = "") -> Event:
    """Approve one event as an operator, or on behalf of a VM.

    Raises NotFoundError or RefusedError.
    """
    event = need(work.tx, Event, event_id.upper(), said=event_id)
    if as_vm:
        refusal = _events_for(work.tx, Approval(vm=as_vm, event_ids=(event.event_id,)))
        if isinstance(refusal, str):
            raise RefusedError(f"VM {as_vm} cannot approve it: {refusal}")
    if event.awaits_approval:
        _apply(work, [(_approver(work.who.actor, as_vm), event)])
    return need(work.tx, Event, event.event_id)


def approve_scopes(
    work: Work, operation_id: str, by_scope: Mapping[str, Actor]
) -> None:
    """Approve the events of an operation in these scopes, each by an actor."""
    waiting = [
        (by_scope[event.scope], event)
        for event in work.events_of(work.operation(operation_id))
        if event.scope in by_scope and event.awaits_approval
    ]
    if waiting:
        _apply(work, waiting)


def approve_expedited(work: Work, operation: Operation, vms: Sequence[Vm]) -> None:
    """Approve the events of the scopes in which a tenant has expedited a VM."""
    by_scope = {
        choice.scope: choice.by
        for choice in choices.of_request(work.tx, operation.request, vms)
        if not choice.until
    }
    if by_scope:
        approve_scopes(work, operation.operation_id, by_scope)


def _approver(actor: Actor, as_vm: str) -> Actor:
    """Return the approver: the caller, or a VM with the token of the caller."""
    if not as_vm:
        return actor
    return replace(vm_actor(as_vm), token=actor.token, peer=actor.peer)


def _apply(work: Work, waiting: Sequence[tuple[Actor, Event]]) -> None:
    """Approve the events, and start the operations that waited for them."""
    operations = {event.operation: None for _, event in waiting}
    work.lock_scopes(
        scope
        for operation_id in operations
        for scope in release.scopes_of(work, operation_id)
    )
    speaker = work.who
    last: dict[str, Who] = {}
    approved: set[str] = set()
    for by, event in waiting:
        if event.event_id in approved:  # by an earlier POST of this transaction
            continue
        approved.add(event.event_id)
        work.who = speaker if by == speaker.actor else Who(actor=by)
        work.step_event(event, EventInput.APPROVE, by=by)
        last[event.operation] = work.who
    # Two last approvals cannot miss each other: a decision about an operation locks the
    # safety rows of all its scopes, and of the operations that start with it.
    for operation_id in sorted(operations):
        work.who = last[operation_id]
        release.start_if_ready(work, operation_id)
    work.who = speaker


def _events_for(reader: Reader, approval: Approval) -> list[Event] | str:
    """Return the events for which the approval counts, or the reason to refuse it (3.3).

    The reason never reveals whether an event of another tenant exists.
    """
    vm = reader.get(Vm, approval.vm)
    if vm is None or vm.state is VmState.DELETED:
        return "this VM is not known"
    view = need(reader, View, vm.view)
    events: list[Event] = []
    for event_id in approval.event_ids:
        event = reader.get(Event, event_id)
        if event is None:
            return _not_shown(event_id)
        # An event counts if the document shows it, or showed it until the view of the VM
        # changed (3.2, 3.4). A VM that moved to another scope cannot approve in the old.
        counts = _is_shown(event, view)
        if not counts:
            was_shown = was_shown_before(event, vm.left_views)
            if not was_shown and not _has_gone(event, view):
                return _not_shown(event_id)
            counts = was_shown and event.scope == vm.scope
        if counts and event.awaits_approval:
            events.append(event)
    return events


def _not_shown(event_id: str) -> str:
    return f"EventId {event_id} is not in this VM's document"


def _is_shown(event: Event, view: View) -> bool:
    """Return whether the document of the view shows the event now."""
    return event.is_live and view.shows_events and sees(view, event)


def _has_gone(event: Event, view: View) -> bool:
    """Return whether the document of the view showed the event earlier (3.2).

    It is unknown whether the VM was in the view at that time. An approval of a removed
    event has no effect.
    """
    if not view.was_enabled or not has_mark(event, view):
        return False
    return event.status is EventStatus.REMOVED or (
        view.shows_events and not sees(view, event)
    )
