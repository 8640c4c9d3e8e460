"""The unit of work of one transaction: its reads, changes and effects.

Each attempt of a transaction has a new `Work`, so that an attempt that conflicts leaves
nothing behind. A `Work` stores each change together with its history entry. It renders
the documents of changed scopes once, at the end, so that one transaction raises an
incarnation once (clause 2.10). It collects the side effects after the commit in
`Effects`: publications, driver calls, and checks of waiting operations.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias, TypeVar

from forewarn.campaigns.record import CampaignRecord
from forewarn.checks.board import NO_CHECKS, Board
from forewarn.control.rules import tenant_waits, waits
from forewarn.control.rules.abilities import Abilities
from forewarn.control.rules.capacities import Capacities
from forewarn.control.rules.consent import whole_second
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.about import subjects_of, task_of
from forewarn.control.transactions.effects import Effects
from forewarn.control.transactions.inquiries import Question
from forewarn.control.transactions.messages import Messages
from forewarn.control.transactions.named import need
from forewarn.control.transactions.parts import Parts
from forewarn.control.transactions.publishing import (
    events_for,
    guest_of,
    is_same_guest,
    snapshot_of,
)
from forewarn.control.transactions.who import Who
from forewarn.drivers.port import Call
from forewarn.fleet.model import Host, Scope, Vm, VmState, places_of
from forewarn.ids import RandomIds
from forewarn.instants import Micros
from forewarn.protocol import actors, documents, lifecycle, views
from forewarn.protocol.actors import Actor
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.events import Event, Outcome
from forewarn.protocol.frozen import changed
from forewarn.protocol.lifecycle import EventInput, OperationInput, RequestInput
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.published import Guest, Publication, ViewSnapshot
from forewarn.protocol.visits import Visit
from forewarn.store import kinds
from forewarn.store.port import Record, Transaction, every, none_yet
from forewarn.store.records import NOTHING, AuditEntry, AuditKind, Facts

R = TypeVar("R", bound=Record)

_LINE = AuditEntry(
    entry_id="",
    at=0,
    actor=actors.CLOCK,
    kind=AuditKind.FLEET_APPLIED,
    why="",
    subjects=(),
)
"""Template entry. Building an entry from scratch takes three times as long."""


class Work:
    """The unit of work of one transaction."""

    def __init__(
        self,
        tx: Transaction,
        *,
        now: Micros,
        who: Who,
        policy: Policy,
        abilities: Abilities,
        driver: str,
        memory: str,
        ids: RandomIds,
        next_key: Callable[[], str],
        next_epoch: Callable[[], int],
        span_id: Callable[[Micros], str],
        notice_left: Callable[[Operation], Micros] = lambda _operation: 0,
        not_before: Callable[[str, Micros], Micros] = whole_second,
        checks: Board = NO_CHECKS,
    ) -> None:
        """Start work in `tx` at the time `now` on behalf of `who`.

        `notice_left` returns the rest of a notice on the monotonic clock. `not_before`
        returns the NotBefore for the end of a notice. `checks` has the last results.
        """
        self.tx, self.now, self.who = tx, now, who
        self.policy, self.checks, self.abilities = policy, checks, abilities
        self.driver, self.memory, self.span_id = driver, memory, span_id
        self.ids, self.next_key, self.next_epoch = ids, next_key, next_epoch
        self.notice_left, self.not_before = notice_left, not_before
        self.called: Callable[[str], str] = str
        """Converts the ID of an operation or request to the ID that the caller knows."""
        self.parts = Parts(is_whole=True)
        self.approved: dict[str, None] = {}
        """IDs of the events that this transaction has approved."""
        self.rooms = Capacities()
        self._effects = Effects()
        self._touched: dict[str, None] = {}
        self._guests: dict[str, Guest] = {}
        self._guests_gone: dict[str, None] = {}
        self._snapshots: dict[str, ViewSnapshot] = {}
        self._views_gone: dict[str, None] = {}
        self._messages = Messages(policy.subscribers)
        self._decisions: dict[str, str] = {}
        """History entries of the last decisions, by campaign."""
        self._shown: dict[str, dict[str, views.View]] = {}
        """Views that show an event for the first time, by event ID."""

    # Reading

    def host(self, name: str) -> Host:
        """Return the host; raises NotFoundError."""
        return need(self.tx, Host, name)

    def scope(self, name: str) -> Scope:
        """Return the scope; raises NotFoundError."""
        return need(self.tx, Scope, name)

    def vm(self, name: str) -> Vm:
        """Return the VM if it is not deleted; raises NotFoundError."""
        vm = need(self.tx, Vm, name)
        if vm.state is VmState.DELETED:
            raise NotFoundError(f"VM {name} was deleted")
        return vm

    def operation(self, operation_id: str) -> Operation:
        """Return the operation; raises NotFoundError."""
        return need(self.tx, Operation, operation_id)

    def request(self, request_id: str) -> Request:
        """Return the request; raises NotFoundError."""
        return need(self.tx, Request, request_id)

    def campaign(self, campaign_id: str) -> CampaignRecord:
        """Return the campaign; raises NotFoundError."""
        return need(self.tx, CampaignRecord, campaign_id)

    def events_of(self, operation: Operation) -> list[Event]:
        """Return the events of the operation, in the order of their IDs."""
        return list(every(self.tx, kinds.EVENTS_OF_OPERATION, operation.operation_id))

    # Changing

    def note(
        self,
        kind: AuditKind,
        subjects: Iterable[str],
        facts: Facts = NOTHING,
        *,
        operation: str = "",
        who: Who | None = None,
    ) -> str:
        """Store an audit entry, and return its ID.

        `operation` is the ID of the operation it is about. `who` did it, if it is not the
        actor of the transaction.
        """
        who = who or self.who
        entry = self.tx.add(
            changed(
                _LINE,
                entry_id=self.next_key(),
                at=self.now,
                actor=who.actor,
                kind=kind,
                why=who.reason,
                subjects=tuple(dict.fromkeys(subjects)),
                operation=operation,
                facts=facts,
            )
        )
        self._messages.add_entry(entry)
        return entry.entry_id

    def note_decision(self, campaign: str, entry: str) -> None:
        """Store with a campaign the ID of the last decision about it, at the end."""
        self._decisions[campaign] = entry

    def note_operation(
        self, kind: AuditKind, operation: Operation, facts: Facts = NOTHING
    ) -> None:
        """Store an audit entry about an operation."""
        about = subjects_of(operation)
        self.note(kind, about, facts, operation=operation.operation_id)

    def add_operation(self, operation: Operation) -> Operation:
        """Store a new operation."""
        operation = self.policy.with_chooser(operation)
        self._effects.changed[operation.operation_id] = None
        self.rooms.change_operation(None, operation)
        none_yet(self.tx, kinds.EVENTS_OF_OPERATION, operation.operation_id)
        return self.tx.add(operation)

    def save_operation(self, old: Operation, new: Operation) -> Operation:
        """Store a changed operation."""
        self._effects.changed[new.operation_id] = None
        new = tenant_waits.noted(old, new, now=self.now)
        self.rooms.change_operation(old, new)
        return self.tx.replace(old, new)

    def step(
        self,
        operation: Operation,
        given: OperationInput,
        *,
        note: AnyNote | None = None,
    ) -> Operation:
        """Take an operation through the table, with an audit entry."""
        stepped = lifecycle.step_operation(operation, given, now=self.now, note=note)
        kind = AuditKind[f"OPERATION_{stepped.state.name}"]
        facts = Facts(note=note) if note else task_of(stepped)
        self.note_operation(kind, stepped, facts)
        return self.save_operation(operation, stepped)

    def step_request(self, request: Request, given: RequestInput) -> Request:
        """Apply an input of the request table to a request, and note the step in the
        history."""
        stepped = lifecycle.step_request(request, given)
        if stepped.state is request.state:
            return request
        self.share()
        self.note(
            AuditKind[f"REQUEST_{stepped.state.name}"],
            (f"request:{request.request_id}",),
        )
        return self.tx.replace(request, stepped)

    def save_event(self, old: Event, new: Event) -> Event:
        """Store a changed event; render the documents of its scope if it looks different."""
        if not documents.look_alike(old, new):
            self._touched[new.scope] = None
        self._effects.changed[new.operation] = None
        stored = self.tx.replace(old, new)
        self._messages.add_step(old, stored)
        return stored

    def step_event(
        self,
        event: Event,
        given: EventInput,
        *,
        by: Actor | None = None,
        outcome: Outcome | None = None,
    ) -> Event:
        """Take an event through the table, with an audit entry."""
        stepped = lifecycle.step_event(
            event, given, now=self.now, by=by, outcome=outcome
        )
        if stepped is event:
            return event
        is_approval = given is EventInput.APPROVE
        if is_approval:
            self.approved[event.event_id] = None
        operation = need(self.tx, Operation, event.operation)
        self.note(
            AuditKind.EVENT_APPROVED
            if is_approval
            else AuditKind[f"EVENT_{stepped.status.name}"],
            (
                f"event:{event.event_id}",
                f"operation:{event.operation}",
                f"request:{operation.request}",
                f"host:{operation.host}",
                f"scope:{event.scope}",
                f"tenant:{event.tenant}",
                *[f"vm:{resource.vm}" for resource in event.resources],
            ),
            Facts(outcome=outcome) if outcome else NOTHING,
            operation=event.operation,
        )
        return self.save_event(event, stepped)

    def save_vm(self, old: Vm, new: Vm) -> Vm:
        """Store a changed VM, and publish it if the endpoint must know the change."""
        stored = self.tx.replace(old, new)
        self.rooms.change_vm(old, new)
        if not is_same_guest(old, new):
            self.tell_guest(stored)
        return stored

    def tell_guest(self, vm: Vm) -> None:
        """Publish the VM, or its removal if it is deleted."""
        if vm.state is VmState.DELETED:
            self.forget_guest(vm.name)
        else:
            self._guests_gone.pop(vm.name, None)
            self._guests[vm.name] = guest_of(vm)

    def forget_guest(self, name: str) -> None:
        """Publish the removal of a VM."""
        self._guests.pop(name, None)
        self._guests_gone[name] = None

    def publish_view(
        self, view: views.View, events: tuple[Event, ...] | None = None
    ) -> None:
        """Publish the view with its events."""
        if events is None:
            events = events_for(self.tx, view)
        self._snapshots[view.view_id] = snapshot_of(view, events)

    def forget_view(self, view: views.View) -> None:
        """Delete a view without VMs."""
        self.tx.remove(view)
        self._snapshots.pop(view.view_id, None)
        self._views_gone[view.view_id] = None

    def lock_scopes(self, scopes: Iterable[str]) -> None:
        """Lock the safety rows of the scopes before reading the data that they protect."""
        self.tx.lock_safety_rows(sorted(set(scopes)))

    def free(self, scopes: Iterable[str], vms: Iterable[str] = ()) -> None:
        """Check operations that wait in scopes or for VMs, after the commit."""
        names = list(scopes)
        freed = (
            *map(waits.STARTS.in_scope, names),
            *map(waits.TURNS.in_scope, names),
            *map(waits.for_vm, vms),
        )
        self._effects.freed.update(dict.fromkeys(freed))

    def free_room(self, host: str = "") -> None:
        """Check operations that wait for capacity, and rollouts that wait for `host`."""
        self._effects.freed.update(dict.fromkeys((waits.ROOM, waits.TURN_ROOM)))
        if host:
            self.free_host(host)

    def free_budgets(self, host: str, tenants: Iterable[str]) -> None:
        """Check hosts that wait for a budget of a host's places or of tenants.

        Only campaigns have budgets, and most rollouts run without any.
        """
        if not self.tx.select(kinds.CAMPAIGNS_OPEN, limit=1):
            return
        stored = self.tx.get(Host, host)
        names = waits.budgets(() if stored is None else places_of(stored), tenants)
        self._effects.freed.update(dict.fromkeys(names))

    def free_host(self, host: str) -> None:
        """Check rollouts that wait for this host, after the commit."""
        self._effects.freed[waits.for_host(host)] = None

    def free_brake(self) -> None:
        """Check the operations that wait for the brake, after the commit."""
        self._effects.freed.update(dict.fromkeys((waits.BRAKE, waits.TURN_BRAKE)))

    def free_blackout(self, name: str) -> None:
        """Check operations that wait for the end of a blackout, after the commit."""
        self._effects.freed.update(dict.fromkeys(waits.names_of_blackout(name)))

    def free_window(self, scope: str) -> None:
        """Check operations that wait for the window of a scope, after the commit."""
        freed = (waits.for_window(scope), waits.turn_for_window(scope))
        self._effects.freed.update(dict.fromkeys(freed))

    def free_relay(self, host: str) -> None:
        """Check operations that wait for the relay of a host, after the commit."""
        self._effects.freed[waits.for_relay(host)] = None

    def free_campaign(self, name: str) -> None:
        """Check announced operations that wait for their campaign, after the commit."""
        self._effects.freed[waits.for_campaign(name)] = None

    def change_brake(self) -> None:
        """Read the timers of the brake and its losses again, after the commit."""
        self._effects.has_changed_brake = True

    def withdraw(self) -> None:
        """Withdraw announced work after the commit that the brake or a blackout stops."""
        self._effects.withdraws = True

    def free_turns(self, scopes: Iterable[str]) -> None:
        """Check rollouts that wait in these scopes, after the commit."""
        self._effects.freed.update(dict.fromkeys(map(waits.TURNS.in_scope, scopes)))

    def free_behind(self, request_id: str) -> None:
        """Check hosts that wait for reservations of this rollout, after the commit."""
        self._effects.freed[waits.behind(request_id)] = None

    def take_turn(self, request_id: str) -> None:
        """Continue a rollout after the commit."""
        self._effects.turns[request_id] = None

    def share(self) -> None:
        """Offer free places under the shared limit to the campaigns after the commit."""
        self._effects.shares = self.policy.campaigns_in_flight > 0

    def take_page(self, request_id: str) -> None:
        """Plan the next page of hosts of a rollout after the commit."""
        self._effects.pages[request_id] = None

    def take_visit(self, visit_id: str) -> None:
        """Continue a visit after the commit; an empty ID means none."""
        if visit_id:
            self._effects.visits[visit_id] = None

    def save_visit(self, old: Visit, new: Visit) -> Visit:
        """Store a changed visit."""
        self.rooms.change_visit(old, new)
        self._effects.changed[new.operation] = None
        return self.tx.replace(old, new)

    def count_in_flight(self, request_id: str, by: int) -> None:
        """Count a host of a rollout that was announced (1) or has ended (-1)."""
        request = self.request(request_id)
        if request.at_once:
            self.tx.replace(request, changed(request, in_flight=request.in_flight + by))
            if by < 0:
                self.take_turn(request_id)
                self.share()

    def revisit(self, operation_id: str) -> None:
        """Check an operation after the commit, because it may wait for less now."""
        self._effects.revisits[operation_id] = None

    def call(self, call: Call) -> None:
        """Make a driver call after the commit."""
        self._effects.calls.append(call)

    def ask(self, question: Question) -> None:
        """Ask the driver after the commit."""
        self._effects.questions.append(question)

    def abort(self, operation: Operation) -> None:
        """Tell the driver after the commit that a call is obsolete.

        If it was to be made after the same commit, it is not made.
        """
        if operation.generation:
            name = operation.operation_id, operation.generation
            self._effects.aborts.append(name)
            calls = self._effects.calls
            self._effects.calls = [call for call in calls if call.name != name]

    # Ending

    def finish(self) -> Effects:
        """Render changed documents, write to the outbox, and return the effects."""
        for scope in self._touched:
            for view in every(self.tx, kinds.VIEWS_OF_SCOPE, scope):
                self.render(view)
        self._mark_shown()
        for campaign, entry in self._decisions.items():
            old = self.campaign(campaign)
            self.tx.replace(old, replace(old, last_decision=entry))
        self._decisions.clear()
        self.rooms.write(self.tx)
        self._effects.arrivals = tuple(self.rooms.arrivals)
        self._messages.write(
            self.tx, now=self.now, ids=self.ids, next_key=self.next_key
        )
        self._effects.publication = Publication(
            views=tuple(self._snapshots.values()),
            views_gone=tuple(self._views_gone),
            guests=tuple(self._guests.values()),
            guests_gone=tuple(self._guests_gone),
        )
        return self._effects

    def render(self, view: views.View) -> views.View:
        """Raise the incarnation of the view if its document has changed."""
        if not view.is_enabled:
            return view
        events = events_for(self.tx, view)
        digest = documents.digest(events)
        if digest == view.digest:
            return view
        raised = self.tx.replace(
            view, changed(view, digest=digest, incarnation=view.incarnation + 1)
        )
        self.show(raised, events)
        return raised

    def show(self, view: views.View, events: tuple[Event, ...]) -> None:
        """Publish a view, and remember that it shows these events."""
        self.publish_view(view, events)
        for event in events:
            if not views.was_shown_in(event, view):
                self._shown.setdefault(event.event_id, {})[view.view_id] = view

    def _mark_shown(self) -> None:
        """Store the new marks in their events, once per event."""
        for event_id, shown in self._shown.items():
            event = need(self.tx, Event, event_id)
            marks = views.with_marks(event.shown_in, shown.values())
            self.tx.replace(event, changed(event, shown_in=marks))


Check: TypeAlias = Callable[[Work], None]
"""Checks in a transaction whether its request is still admitted; raises ForewarnError."""
