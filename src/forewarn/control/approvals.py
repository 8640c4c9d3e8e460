"""Approvals: from VMs all or nothing, from operators one at a time (section 3)."""

from collections.abc import Sequence
from typing import NamedTuple

from forewarn.control import release
from forewarn.control.work import Who, Work, need
from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.lifecycle import EventInput
from forewarn.protocol.views import View, sees
from forewarn.store.port import Reader


class Approval(NamedTuple):
    """What one POST asks for: all of its events, or nothing."""

    vm: str
    event_ids: tuple[str, ...]
    """GUIDs in upper case."""


def approve_together(
    work: Work, approvals: Sequence[Approval]
) -> tuple[str | None, ...]:
    """Apply the POSTs of several VMs in one transaction.

    Return for each None, or why it was refused; a refused one changes nothing
    and does not touch its neighbours (clause 3.3).
    """
    verdicts: list[str | None] = []
    waiting: list[tuple[str, Event]] = []
    for approval in approvals:
        events = _events_for(work.tx, approval, now=work.now)
        if isinstance(events, str):
            verdicts.append(events)
        else:
            verdicts.append(None)
            waiting += [
                (approval.vm, event) for event in events if event.awaits_approval
            ]
    if waiting:
        _apply(work, waiting)
    return tuple(verdicts)


def approve_for(work: Work, event_id: str, *, as_vm: str = "") -> Event:
    """Approve one event on an operator's word, or in the place of a VM.

    Raises NotFoundError or RefusedError.
    """
    event = need(work.tx, Event, event_id.upper())
    if as_vm:
        refusal = _events_for(
            work.tx, Approval(vm=as_vm, event_ids=(event.event_id,)), now=work.now
        )
        if isinstance(refusal, str):
            raise RefusedError(f"vm {as_vm} may not approve it: {refusal}")
    if event.awaits_approval:
        _apply(work, [(as_vm or f"({work.who.actor})", event)])
    return need(work.tx, Event, event.event_id)


def _apply(work: Work, waiting: Sequence[tuple[str, Event]]) -> None:
    """Approve the events, and let go the operations that waited for them."""
    operations = {event.operation: None for _, event in waiting}
    work.secure(
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
        work.who = speaker if by.startswith("(") else Who(actor=f"vm {by}")
        work.step_event(event, EventInput.APPROVE, by=by)
        last[event.operation] = work.who
    # Two last approvals cannot miss each other: who decides about an operation
    # holds the safety rows of all its scopes, and of those that go with it.
    for operation_id in operations:
        work.who = last[operation_id]
        release.let_go(work, operation_id)
    work.who = speaker


def _events_for(
    reader: Reader, approval: Approval, *, now: Micros
) -> list[Event] | str:
    """Return the events that the VM may approve, or why not (clause 3.3).

    The reason never says whether a foreign event exists.
    """
    vm = reader.get(Vm, approval.vm)
    if vm is None or vm.state is VmState.DELETED:
        return "this VM is not known"
    view = need(reader, View, vm.view)
    events: list[Event] = []
    for event_id in approval.event_ids:
        event = reader.get(Event, event_id)
        if event is None or not _was_shown(event, view, now=now):
            return f"EventId {event_id} is not in this VM's document"
        events.append(event)
    return events


def _was_shown(event: Event, view: View, *, now: Micros) -> bool:
    """Tell whether the event is, or was, in the view's document.

    What ended before the first enabling was in no document. Later it cannot be
    known any more, and an approval of what has gone does no harm (3.2).
    """
    if event.status is EventStatus.NEW or not sees(view, event):
        return False
    if event.is_live:
        return view.is_enabled and now >= view.events_from
    return view.epoch > 1 or (view.epoch == 1 and event.removed_at >= view.events_from)
