"""Verdicts on the expectations of steps.

Only durable or observed facts count: the records of events and VMs, and the answered
requests. An expectation is decided as soon as nothing can change it. For example, a
started event can no longer be approved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros
from forewarn.problems import listed
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.views import View, sees
from forewarn.sim.scenario.client_log import Witness
from forewarn.sim.scenario.describe import counted, why_at_once
from forewarn.sim.scenario.model import (
    EventPhase,
    Expectation,
    Verdict,
    Wanted,
    bad,
    good,
    length,
)
from forewarn.store.port import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts by which an expectation is judged, at one instant."""

    now: Micros
    since: Micros
    """Requests from this time on count for the expectation."""
    start: Micros
    """Requests from this time on count for the scenario; clients ask before it starts."""
    begin: Micros
    """The start of the scenario."""
    events: Sequence[Event]
    """The events of the step."""
    reader: Reader
    witness: Witness
    is_over: bool
    """Whether the time has elapsed, so that the expectation must be decided."""


def judge(wanted: Expectation, facts: Facts) -> Verdict | None:
    """Return the verdict on the expectation, or None while it is undecided."""
    if wanted.event and not facts.events:
        return bad(f"{wanted.event} has no event")
    return _JUDGES[wanted.wanted](wanted, facts)


def _within(wanted: Expectation) -> str:
    return f"within {length(wanted.within)}"


# Approvals


def _approved(wanted: Expectation, facts: Facts) -> Verdict | None:
    open_events = [event for event in facts.events if not event.is_approved]
    if not open_events:
        return good(_who_approved(wanted.event, facts.events))
    waits = all(event.awaits_approval for event in open_events) and not facts.is_over
    return None if waits else bad(_unapproved("no client", wanted, open_events))


def _approved_by(wanted: Expectation, facts: Facts) -> Verdict | None:
    by = {event.approved_by: event for event in facts.events if event.is_approved}
    missing = [vm for vm in wanted.vms if vm not in by]
    if not missing:
        return good(_who_approved(wanted.event, [by[vm] for vm in wanted.vms]))
    waiting = [event for event in facts.events if event.awaits_approval]
    if waiting and not facts.is_over:
        return None
    others = [event for event in facts.events if event.is_approved]
    names = listed(missing)
    if others and not waiting:
        approver = _who_approved(wanted.event, others)
        by_vms = all(map(_by_a_vm, others))
        return bad(
            f"{approver}; expected {names if by_vms else f'an approval by {names}'}"
        )
    return bad(_unapproved(names, wanted, facts.events))


def _not_approved(wanted: Expectation, facts: Facts) -> Verdict | None:
    wrong = [
        event
        for event in facts.events
        if event.is_approved
        and (event.approved_by in wanted.vms if wanted.vms else _by_a_vm(event))
    ]
    if wrong:
        approver = _who_approved(wanted.event, wrong)
        return bad(
            f"{approver}; expected {'that it would not' if wanted.vms else 'none'}"
        )
    if any(event.awaits_approval for event in facts.events) and not facts.is_over:
        return None
    who = (
        f"{listed(wanted.vms)} did not approve" if wanted.vms else "no client approved"
    )
    return good(f"{who} {wanted.event}")


def _by_a_vm(event: Event) -> bool:
    return event.approver is not None and event.approver.kind is ActorKind.VM


def _who_approved(name: str, events: Sequence[Event]) -> str:
    parts = [
        why_at_once(event, name)
        or f"{event.approved_by} approved {name} after "
        f"{length(event.approved_at - event.created)}"
        for event in sorted(events, key=lambda event: event.approved_at)
    ]
    return ", ".join(dict.fromkeys(parts))


def _unapproved(who: str, wanted: Expectation, events: Sequence[Event]) -> str:
    name = wanted.event
    ended = next((event for event in events if not event.awaits_approval), None)
    if ended is None:
        verb = "approved" if who == "no client" else "did not approve"
        return f"{who} {verb} {name} {_within(wanted)}"
    had = "had" if who == "no client" else "had not"
    if ended.started_at:
        after = length(ended.started_at - ended.created)
        return f"{who} {had} approved {name} when it started, after {after}"
    after = length(ended.removed_at - ended.created)
    return f"{who} {had} approved {name} when it was cancelled, after {after}"


# Requests of clients


def _polled_by(wanted: Expectation, facts: Facts) -> Verdict | None:
    first = {
        vm: next(iter(facts.witness.polls(vm, since=facts.since)), None)
        for vm in wanted.vms
    }
    missing = [vm for vm, at in first.items() if at is None]
    if not missing:
        parts = [
            f"{vm} asked after {length(max(at - max(facts.since, facts.begin), 0))}"
            for vm, at in first.items()
            if at is not None
        ]
        return good(", ".join(parts))
    sentence = f"{listed(missing)} did not ask {_within(wanted)}"
    return bad(sentence) if facts.is_over else None


def _seen_by(wanted: Expectation, facts: Facts) -> Verdict | None:
    subject = f"{wanted.event} {wanted.status.value}" if wanted.status else wanted.event
    parts: list[str] = []
    may_come = True
    for vm in wanted.vms:
        seen_at = _first_sight(vm, wanted, facts)
        if seen_at is not None:
            parts.append(f"{vm} saw {subject} after {length(seen_at)}")
        else:
            may_come = may_come and _may_be_seen(wanted, facts)
    if len(parts) == len(wanted.vms):
        return good(", ".join(parts))
    if may_come and not facts.is_over:
        return None
    missing = [vm for vm in wanted.vms if _first_sight(vm, wanted, facts) is None]
    why = _within(wanted) if facts.is_over else "while it was shown"
    return bad(f"{listed(missing)} did not see {subject} {why}")


def _first_sight(vm: str, wanted: Expectation, facts: Facts) -> Micros | None:
    """Return the time from the appearance of an event until the VM first received it."""
    for event in facts.events:
        begin, end = _shown_from_to(event, wanted.status)
        if not begin:
            continue
        for at in facts.witness.polls(vm, since=begin):
            if not end or at < end:
                return at - begin
    return None


def _may_be_seen(wanted: Expectation, facts: Facts) -> bool:
    return any(not _shown_from_to(event, wanted.status)[1] for event in facts.events)


def _shown_from_to(event: Event, status: EventStatus | None) -> tuple[Micros, Micros]:
    """Return start and end of the time in a status; 0: not started, or not ended."""
    if status is EventStatus.STARTED:
        # A cancelled event never starts.
        return event.started_at, event.removed_at
    if status is EventStatus.SCHEDULED:
        return event.created, event.started_at or event.removed_at
    return event.created, event.removed_at


def _no_deviation(wanted: Expectation, facts: Facts) -> Verdict | None:
    deviations_found = [
        sentence
        for vm in wanted.vms or ("",)
        for sentence in facts.witness.deviations(vm, since=facts.start)
    ]
    if deviations_found:
        number = counted(len(deviations_found), "deviation")
        return bad(f"{number} from the protocol: {deviations_found[0]}")
    return good("no deviation from the protocol was seen") if facts.is_over else None


# State of the platform


def _status(wanted: Expectation, facts: Facts) -> Verdict | None:
    assert wanted.phase is not None, wanted
    reached = [_reached(event, wanted.phase) for event in facts.events]
    name, phase = wanted.event, wanted.phase.value
    if all(reached):
        first = min(event.created for event in facts.events)
        return good(f"{name} was {phase} after {length(max(reached) - first)}")
    never = [event for event in facts.events if _never(event, wanted.phase)]
    if never:
        ended = "was cancelled" if _is_cancelled(never[0]) else "started"
        return bad(f"{name} {ended}; expected it to be {phase}")
    late = facts.events[reached.index(0)].status.value
    sentence = f"{name} is {late}, not {phase}, {_within(wanted)}"
    return bad(sentence) if facts.is_over else None


def _reached(event: Event, phase: EventPhase) -> Micros:
    """Return when the event reached a phase; 0: not yet."""
    was_scheduled = event.started_at != event.created
    return {
        EventPhase.SCHEDULED: event.created if was_scheduled else 0,
        EventPhase.STARTED: event.started_at,
        EventPhase.REMOVED: event.removed_at,
        EventPhase.CANCELLED: event.removed_at if _is_cancelled(event) else 0,
    }[phase]


def _never(event: Event, phase: EventPhase) -> bool:
    """Return whether the event can no longer reach a phase."""
    return {
        EventPhase.SCHEDULED: event.started_at == event.created,
        EventPhase.STARTED: _is_cancelled(event),
        EventPhase.REMOVED: False,
        EventPhase.CANCELLED: event.started_at != 0,
    }[phase]


def _is_cancelled(event: Event) -> bool:
    return event.outcome is Outcome.CANCELLED and not event.started_at


def _recovered(wanted: Expectation, facts: Facts) -> Verdict | None:
    named = [resource.vm for event in facts.events for resource in event.resources]
    vms = wanted.vms or tuple(dict.fromkeys(named))
    down: list[str] = []
    for name in vms:
        vm = facts.reader.get(Vm, name)
        if vm is None or vm.state is VmState.DELETED:
            return bad(f"{name} was deleted; expected it to run again")
        if vm.state is not VmState.RUNNING or vm.started:
            down.append(name)
    live = [event for event in facts.events if event.is_live]
    if not down and not live:
        ended = max(event.removed_at for event in facts.events)
        first = min(event.created for event in facts.events)
        return good(f"{listed(vms)} runs again after {length(ended - first)}")
    why = f"{listed(down)} does not run" if down else f"{wanted.event} is still shown"
    return bad(f"{why} {_within(wanted)}") if facts.is_over else None


def _shown_to(wanted: Expectation, facts: Facts) -> Verdict | None:
    blind = [vm for vm in wanted.vms if not _sees(facts, vm)]
    if not blind:
        return good(f"{wanted.event} is shown to {listed(wanted.vms)}")
    sentence = f"{wanted.event} is not shown to {listed(blind)}"
    return bad(sentence) if facts.is_over else None


def _hidden_from(wanted: Expectation, facts: Facts) -> Verdict | None:
    seeing = [vm for vm in wanted.vms if _sees(facts, vm)]
    if seeing:
        return bad(f"{wanted.event} is shown to {listed(seeing)}; expected not")
    sentence = f"{wanted.event} is hidden from {listed(wanted.vms)}"
    return good(sentence) if facts.is_over else None


def _sees(facts: Facts, name: str) -> bool:
    """Return whether the document of the VM has any of the events."""
    vm = facts.reader.get(Vm, name)
    view = facts.reader.get(View, vm.view) if vm is not None else None
    return view is not None and any(
        event.is_live and sees(view, event) for event in facts.events
    )


_JUDGES: dict[Wanted, Callable[[Expectation, Facts], Verdict | None]] = {
    Wanted.APPROVED: _approved,
    Wanted.APPROVED_BY: _approved_by,
    Wanted.NOT_APPROVED: _not_approved,
    Wanted.SEEN_BY: _seen_by,
    Wanted.POLLED_BY: _polled_by,
    Wanted.NO_DEVIATION: _no_deviation,
    Wanted.STATUS: _status,
    Wanted.RECOVERED: _recovered,
    Wanted.SHOWN_TO: _shown_to,
    Wanted.HIDDEN_FROM: _hidden_from,
}
