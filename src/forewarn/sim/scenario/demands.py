"""Verdicts on the demands on a client for a whole scenario.

A verdict names the VM and the event, the expectation, and what was seen at which time. A
demand that could not fail is not judged: for example, a client that saw no event of other
VMs cannot ignore one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forewarn.instants import MINUTE, Micros, format_to_the_millisecond
from forewarn.problems import listed
from forewarn.protocol.actors import DOWN_ALREADY, NO_NOTICE, POLICY, ActorKind
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.views import View, sees
from forewarn.sim.scenario.client_log import ClientActions
from forewarn.sim.scenario.describe import why_at_once
from forewarn.sim.scenario.model import (
    OTHERS,
    Client,
    Demand,
    Expected,
    Verdict,
    bad,
    good,
    length,
    skipped,
)

_NOT_TO_BE_APPROVED = frozenset({DOWN_ALREADY, POLICY, NO_NOTICE})
"""Actors that approve an event without any client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An event of a scenario, with the name of the step that created it."""

    name: str
    event: Event

    def __str__(self) -> str:
        """Return the event for a sentence: `e1 (Freeze of web_0)`."""
        return f"{self.name} ({self._about})"

    @property
    def exactly(self) -> str:
        """Return the event for a failure message, with its EventId so that readers can
        find it elsewhere."""
        return f"{self.name} ({self._about}, EventId {self.event.event_id})"

    @property
    def _about(self) -> str:
        names = listed([resource.vm for resource in self.event.resources])
        return f"{self.event.event_type.value} of {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts by which a client is judged, at one instant."""

    client: Client
    events: Sequence[Named]
    """All events of the scenario, in order."""
    actions_of: Callable[[str], ClientActions]
    """Returns the actions of the program in a VM."""
    view: View | None
    """The view of the client's VM; None: it no longer exists."""
    is_deleted: bool
    """Whether the client's VM is deleted."""
    is_over: bool
    """Whether the scenario has ended, so that everything must be decided."""
    is_explicit: bool = True
    """Whether the scenario itself has the demand, so that there must be a matching event."""

    @property
    def actions(self) -> ClientActions:
        """Return the actions of the client."""
        return self.actions_of(self.client.vm)

    @property
    def own(self) -> Sequence[Named]:
        """Return the events that name the client's VM and by which it is judged."""
        since = self.actions.asked_first if self.client.is_optional else 0
        return [
            event
            for event in self.events
            if event.event.names(self.client.vm) and event.event.created >= since
        ]


def demanded(client: Client, expected: Expected) -> tuple[Demand, ...]:
    """Return the demands on a client."""
    of_scenario = {
        Demand.ASKS: True,
        Demand.APPROVES: client.approves,
        Demand.SEES: client.sees is not None,
        Demand.IGNORES_OTHERS: client.ignores_others,
        Demand.COMES_BACK: client.comes_back != 0,
    }
    return {
        Expected.NONE: (),
        Expected.ASKED: (Demand.ASKS,),
        Expected.APPROVED: (Demand.ASKS, Demand.APPROVES),
        Expected.SCENARIO: tuple(demand for demand in Demand if of_scenario[demand]),
    }[expected]


def text_of(demand: Demand, client: Client) -> str:
    """Return a demand as text."""
    return f"client {client.vm} {_words(demand, client)}"


def summary(client: Client) -> str:
    """Return all demands of a scenario on a client as a sentence.

    `web_0 asks for its events, approves each event that names it before NotBefore`.
    """
    parts = [_words(demand, client) for demand in demanded(client, Expected.SCENARIO)]
    who = "each other VM" if client.vm == OTHERS else client.vm
    return f"{who}{', if it asks,' if client.is_optional else ''} " + ", ".join(
        # An optional client does not have to ask, so leave out "asks for its events".
        parts[1:] if client.is_optional and len(parts) > 1 else parts
    )


def _words(demand: Demand, client: Client) -> str:
    if demand is Demand.SEES and client.sees is not None:
        return f"sees an event that names it while it is {client.sees.value}"
    return _WORDS[demand]


_WORDS: Mapping[Demand, str] = {
    Demand.ASKS: "asks for its events",
    Demand.APPROVES: "approves each event that names it before NotBefore",
    Demand.IGNORES_OTHERS: "approves no event that does not name it",
    Demand.COMES_BACK: "asks again after its events",
}


def judge(demand: Demand, facts: Facts) -> Verdict | None:
    """Return the verdict on a demand, or None while it is undecided."""
    if demand is not Demand.ASKS and not facts.actions.asked_first:
        # A separate verdict reports that the client has not asked.
        return skipped(f"{facts.client.vm} did not ask") if facts.is_over else None
    return _JUDGES[demand](facts)


def _asks(facts: Facts) -> Verdict | None:
    vm, first = facts.client.vm, facts.actions.asked_first
    if first:
        return good(f"{vm} first asked at {format_to_the_millisecond(first)}")
    return bad(f"{vm} did not ask") if facts.is_over else None


def turned_away(actions: ClientActions) -> str:
    """Describe the last request that was not answered with events; empty: none."""
    entry = actions.turned_away
    if entry is None:
        return ""
    got = f"got {entry.status}" if entry.status else "got no answer"
    fault = f" (fault: {entry.fault})" if entry.fault else ""
    return (
        f"its last request, {entry.method} {entry.target} "
        f"at {format_to_the_millisecond(entry.at)}, {got}{fault}"
    )


# Approvals


def _approves(facts: Facts) -> Verdict | None:
    vm = facts.client.vm
    approved: list[str] = []
    is_open = False
    for named in facts.own:
        if not _is_to_be_approved(named.event):
            continue
        timely = _in_time(facts, named.event)
        if timely is not None:
            at, by = timely
            approved.append(
                f"{by} approved {named} after {length(at - named.event.created)}"
            )
        elif named.event.status is EventStatus.SCHEDULED and not facts.is_over:
            is_open = True
        else:
            return bad(_unapproved(facts, named))
    if is_open or not facts.is_over:
        return None
    if approved:
        return good(", ".join(approved))
    if came_late := _came_late(facts):
        return came_late
    none = f"no event that names {vm} waited for an approval"
    return bad(none) if facts.is_explicit else good(none)


def _came_late(facts: Facts) -> Verdict | None:
    """Return a verdict if an optional client asked only after its events were created.

    A client that starts with the others, a moment after the first one, is not judged.
    Return None otherwise.
    """
    missed = [event for event in facts.events if event.event.names(facts.client.vm)]
    if facts.own or not missed:
        return None
    vm, first = facts.client.vm, format_to_the_millisecond(facts.actions.asked_first)
    return skipped(f"{vm} first asked at {first}, after {missed[-1]} was created")


def _is_to_be_approved(event: Event) -> bool:
    """Return whether the event waits for an approval, or would wait if a client had asked.

    An event without notice, or one that a policy approves, does not wait.
    """
    waits = event.approver is not None or event.started_at != event.created
    return waits and event.approver not in _NOT_TO_BE_APPROVED


def _in_time(facts: Facts, event: Event) -> tuple[Micros, str] | None:
    """Return the time and VM of the first approval of an event that was in time.

    One approval by any VM that the event names is enough (3.4). A withheld approval does
    not change the event. A new approval may start the event before the request is in the
    journal.
    """
    approvals = [
        (approval.at, resource.vm)
        for resource in event.resources
        for approval in facts.actions_of(resource.vm).approvals
        if approval.event_id == event.event_id and approval.in_time
    ]
    by_vm = event.approver is not None and event.approver.kind is ActorKind.VM
    is_early = event.approved_at <= event.not_before
    if by_vm and is_early and event.names(event.approved_by):
        approvals.append((event.approved_at, event.approved_by))
    return min(approvals, default=None)


def _unapproved(facts: Facts, named: Named) -> str:
    """Describe that an event was not approved in time."""
    vm, event = facts.client.vm, named.event
    if why := why_at_once(event, named.name):
        return f"{vm} could not approve {named.exactly}: {why}"
    begun = event.started_at or event.removed_at
    ended = "started" if event.started_at else "was cancelled"
    sentence = f"{vm} did not approve {named.exactly} in time: expected an approval "
    sentence += f"before NotBefore, {format_to_the_millisecond(event.not_before)}"
    if begun:
        sentence += f"; it {ended} at {format_to_the_millisecond(begun)}"
    if event.approver is not None and event.approver.kind is not ActorKind.VM:
        sentence += f", approved by {event.approved_by}"
    elif event.approver is not None and not event.names(event.approved_by):
        sentence += f", approved by {event.approved_by}, which it does not name"
    return sentence + _last_seen(facts, event)


def _last_seen(facts: Facts, event: Event) -> str:
    """Describe the last action of the client."""
    actions = facts.actions
    late = next(
        (
            approval.at
            for approval in actions.approvals
            if approval.event_id == event.event_id
        ),
        0,
    )
    if late:
        return (
            f", and {facts.client.vm} approved it at {format_to_the_millisecond(late)}"
        )
    away = actions.turned_away
    if away is not None and away.method == "POST" and away.at >= event.created:
        return (
            f", and its last approval, at {format_to_the_millisecond(away.at)}, got "
            f"{away.status or 'no answer'}"
        )
    return f"; {facts.client.vm} asked last at {format_to_the_millisecond(actions.asked_last)}"


def _ignores_others(facts: Facts) -> Verdict | None:
    vm = facts.client.vm
    others = [event for event in facts.events if not event.event.names(vm)]
    by_id = {event.event.event_id: event for event in others}
    for approval in facts.actions.approvals:
        named = by_id.get(approval.event_id)
        if named is not None:
            return bad(
                f"{vm} approved {named.exactly} at {format_to_the_millisecond(approval.at)}; "
                f"expected that it would not, since the event does not name it"
            )
    if not facts.is_over:
        return None
    shown = [str(event) for event in others if _was_shown(facts, event.event)]
    if not shown:
        return skipped(f"{vm} was shown no event of another VM")
    return good(f"{vm} did not approve {listed(shown)}")


def _was_shown(facts: Facts, event: Event) -> bool:
    """Return whether the client was shown an event that does not name its VM."""
    is_in_view = facts.view is not None and sees(facts.view, event)
    return (
        is_in_view and _first_poll(facts.actions, event.created, event.removed_at) != 0
    )


# Polls


def _first_poll(actions: ClientActions, begin: Micros, end: Micros) -> Micros:
    """Return when the client first received its document in an interval; 0: never.

    If `end` is 0, the interval ends now.
    """
    polls = (at for at in actions.polls if at >= begin and (not end or at < end))
    return next(polls, 0)


def _sees(facts: Facts) -> Verdict | None:
    vm, status = facts.client.vm, facts.client.sees
    assert status is not None, facts.client
    for named in facts.own:
        event = named.event
        begin, end = event.created, event.started_at or event.removed_at
        if status is EventStatus.STARTED:
            begin, end = event.started_at, event.removed_at
        if begin and (at := _first_poll(facts.actions, begin, end)):
            return good(f"{vm} saw {named} {status.value} after {length(at - begin)}")
    if not facts.is_over:
        return None
    if not facts.own:
        return _came_late(facts) or bad(
            f"no event named {vm}; expected that it sees one {status.value}"
        )
    last = format_to_the_millisecond(facts.actions.asked_last)
    shown = listed([own_event.exactly for own_event in facts.own])
    return bad(
        f"{vm} did not see {shown} while it was {status.value}: expected that it asks "
        f"at that time; it asked last at {last}"
    )


def _comes_back(facts: Facts) -> Verdict | None:
    vm, actions = facts.client.vm, facts.actions
    if not facts.is_over:
        # Another event may follow, after which it has to ask again too.
        return None
    if not facts.own:
        return _came_late(facts) or bad(
            f"no event named {vm}; expected that it asks again after one"
        )
    live = [event for event in facts.own if event.event.is_live]
    if live:
        return bad(
            f"{live[0].exactly} is still shown to {vm}; expected that it asks again "
            "after it"
        )
    last = max(facts.own, key=lambda event: event.event.removed_at)
    gone = last.event.removed_at
    if actions.asked_last >= gone:
        return good(f"{vm} asked again after {last} was removed")
    deleted = ", and was deleted" if facts.is_deleted else ""
    return bad(
        f"{vm} did not ask again after {last.exactly} was removed at {format_to_the_millisecond(gone)}: "
        f"expected it within {length(facts.client.comes_back)}; it asked last at "
        f"{format_to_the_millisecond(actions.asked_last)}{deleted}"
    )


_JUDGES: Mapping[Demand, Callable[[Facts], Verdict | None]] = {
    Demand.ASKS: _asks,
    Demand.APPROVES: _approves,
    Demand.SEES: _sees,
    Demand.IGNORES_OTHERS: _ignores_others,
    Demand.COMES_BACK: _comes_back,
}

PATIENCE: Micros = 5 * MINUTE
"""How long after its start an event on a virtual clock is watched in small steps. A client
that polls once a second of real time has six chances, and a notice of a week does not take
hours."""


def may_act(demand: Demand, facts: Facts, *, now: Micros) -> bool:
    """Return whether a client may meet a demand at this moment."""
    actions = facts.actions
    if not actions.asked_first:
        return False
    fresh = [event.event for event in facts.own if now < event.event.created + PATIENCE]
    if demand is Demand.APPROVES:
        return any(event.awaits_approval for event in fresh)
    if demand is Demand.SEES:
        return any(
            event.is_live and actions.asked_last < event.created for event in fresh
        )
    return comes_back_yet(demand, facts)


def comes_back_yet(demand: Demand, facts: Facts) -> bool:
    """Return whether all events of a client are removed and it has not asked again."""
    return (
        demand is Demand.COMES_BACK
        and bool(facts.own)
        and not facts.is_deleted
        and all(not event.event.is_live for event in facts.own)
        and bool(facts.actions.asked_first)
        and facts.actions.asked_last
        < max(event.event.removed_at for event in facts.own)
    )
