"""The tenant filter: what a tenant may see of each record.

Records that several tenants share (operations, requests, history entries) are reduced to
the part of the tenant. This part has no hosts, no text of operators, and no counters that
grow when others act. IDs of operations and requests become aliases. Times are cut to
whole seconds, so that two tenants cannot match records by microsecond. A kind of record
that is not listed here does not exist for a tenant. `tenant_reader` decides which queries
a tenant can use.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from forewarn.control.redaction import left_work, ownership_history, redact
from forewarn.control.transactions.aliases import Aliases
from forewarn.fleet.model import Scope, Span, Tenant, Vm
from forewarn.instants import (
    SECOND,
    SORTABLE_DIGITS,
    Micros,
    cut_to_second,
    sortable,
)
from forewarn.protocol.actors import PLATFORM, Actor
from forewarn.protocol.blockers import AnyBlocker, MigrationUnderWay, VmBusy
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    ENDED_STATES,
    CallPart,
    Move,
    Operation,
    Request,
    RequestState,
)
from forewarn.protocol.views import View
from forewarn.store import kinds, questions
from forewarn.store.port import Reader, every
from forewarn.store.records import (
    LEADER_KEY,
    NOTHING,
    AuditEntry,
    AuditKind,
    Choice,
    Facts,
    Leader,
)

R = TypeVar("R", bound=questions.Record)

_SHARED: Mapping[str, type[questions.Record]] = {
    "event": Event,
    "operation": Operation,
    "request": Request,
}
"""Kinds of subjects that a tenant sees if it sees the record."""

_DECIDING = ("tenant:", "scope:", "vm:", "event:")
"""Kinds of subjects that show an entry to their tenant, those first that need the
fewest reads."""


class TenantFilter:
    """Filters records for one tenant; caches results for one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Filter for `tenant`; `reader` is unfiltered."""
        self._reader = reader
        self.tenant = tenant
        self.past = ownership_history.Past(reader, tenant)
        self.aliases = aliases_of(reader, tenant)
        self._cuts: dict[str, Any] = {}
        """Filtered operations and requests, by ID."""
        self._left: dict[str, Micros] = {}
        """When the tenant left each operation that was read; 0: it did not."""
        self._left_lines: dict[str, str] = {}
        """The last entry of the tenant about each operation that it has left."""
        self._owned: dict[str, bool] = {}
        """Whether a shared subject concerns the tenant. Most entries of the history
        name the same few operations, requests and events."""
        self._see: dict[type, Callable[[Any], Any]] = {
            Tenant: self._tenant,
            Scope: self._scope,
            Vm: self._vm,
            View: self._view,
            Span: self._span,
            Event: self._event,
            Operation: lambda operation: self._once(operation, self._cut),
            Request: lambda request: self._once(request, self._cut_request),
            AuditEntry: self._line,
            Choice: self._choice,
        }
        """The filter of each kind. Other kinds do not exist for a tenant."""

    def of(self, record: R) -> R | None:
        """Return the record as the tenant may see it; None: it may not see it."""
        see = self._see.get(type(record))
        return None if see is None else see(record)

    def blockers(self, told: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
        """Return redacted blockers with the tenant's aliases."""
        return tuple(
            replace(blocker, operation=self.aliases.of(blocker.operation))
            if isinstance(blocker, VmBusy | MigrationUnderWay)
            else blocker
            for blocker in told
        )

    # Ownership

    def had_scope(self, name: str) -> bool:
        """Return whether a scope belongs or belonged to the tenant."""
        return self.is_own_scope(name) or name in self.past.scopes

    def had_vm(self, name: str) -> bool:
        """Return whether a VM belongs or belonged to the tenant."""
        return self._is_own_vm(name) or self.past.had_vm(name)

    def is_own_scope(self, name: str) -> bool:
        """Return whether a scope belongs to the tenant now."""
        return self.past.owner_of(name) == self.tenant

    def _is_own_vm(self, name: str) -> bool:
        vm = self._reader.get(Vm, name)
        return vm is not None and vm.tenant == self.tenant

    def is_own_subject(self, subject: str, at: Micros | None = None) -> bool:
        """Return whether a subject belonged to the tenant at `at`; None: now or earlier."""
        kind, _, name = subject.partition(":")
        match kind:
            case "vm":
                return (
                    self.had_vm(name) if at is None else self.past.had_vm_at(name, at)
                )
            case "scope" if at is not None:
                return self.past.had_scope_at(name, at)
            case "scope":
                return self.had_scope(name)
            case "tenant":
                return name == self.tenant
            case _:
                if subject not in self._owned:
                    self._owned[subject] = self._owns(kind, name)
                return self._owned[subject]

    def _owns(self, kind: str, key: str) -> bool:
        """Return whether a shared subject concerns the tenant."""
        shared = _SHARED.get(kind)
        record = None if shared is None else self._reader.get(shared, key)
        if isinstance(record, Request):
            return self._owns_request(record)
        return record is not None and self.of(record) is not None

    def _owns_request(self, request: Request) -> bool:
        """Return whether a request concerns the tenant: its first operation decides."""
        return request.actor.is_of(self.tenant) or any(
            self.of(operation) is not None
            for operation in every(
                self._reader, kinds.OPERATIONS_OF_REQUEST, request.request_id
            )
        )

    def has_left(self, operation: Operation) -> bool:
        """Return whether the tenant left the operation before it ended."""
        return self.of(operation) is not None and self._left[operation.key] != 0

    def _is_about_left(self, entry: AuditEntry) -> bool:
        """Return whether an entry is a step of an operation that the tenant had left."""
        for subject in entry.subjects:
            kind, _, name = subject.partition(":")
            if kind == "operation" and self.is_own_subject(subject):
                last = self._last_line(name)
                if last and entry.key > last:
                    return True
        return False

    def _last_line(self, operation_id: str) -> str:
        """Return the key of the entry with which the tenant left an operation.

        The order of the entries counts, not their times. Empty: it did not leave.
        """
        if not self._left.get(operation_id):
            return ""
        if operation_id not in self._left_lines:
            self._left_lines[operation_id] = max(
                (
                    entry.key
                    for event in every(
                        self._reader, kinds.EVENTS_OF_OPERATION, operation_id
                    )
                    if event.tenant == self.tenant
                    for entry in every(
                        self._reader, kinds.AUDIT_OF_SUBJECT, f"event:{event.event_id}"
                    )
                    if entry.kind is AuditKind.EVENT_REMOVED
                ),
                default="",
            )
        return self._left_lines[operation_id]

    # Records

    def _tenant(self, tenant: Tenant) -> Tenant | None:
        return replace(tenant, applied="") if tenant.name == self.tenant else None

    def _scope(self, scope: Scope) -> Scope | None:
        return replace(scope, applied="") if scope.tenant == self.tenant else None

    def _vm(self, vm: Vm) -> Vm | None:
        if vm.tenant != self.tenant:
            return None
        # The host and the listener of the VM are for the operator only.
        return replace(
            vm,
            host="",
            moving_to="",
            is_observed=False,
            listen="",
            left_views=(),
            started=tuple(self.aliases.of(vm_id) for vm_id in vm.started),
            applied="",
        )

    def _view(self, view: View) -> View | None:
        if not self.is_own_scope(view.scope):
            return None
        return replace(view, last_seen=cut_to_second(view.last_seen))

    def _span(self, span: Span) -> Span | None:
        if span.tenant != self.tenant:
            return None
        return replace(
            span,
            span_id=span_cursor(span.span_id),
            operation=self.aliases.of(span.operation),
            began=cut_to_second(span.began),
            ended=cut_to_second(span.ended),
        )

    def _choice(self, choice: Choice) -> Choice | None:
        """Return a choice of the tenant while its request is open."""
        request = self._reader.get(Request, choice.request)
        is_open = request is not None and request.state is RequestState.OPEN
        if choice.tenant != self.tenant or not is_open:
            return None
        return replace(
            choice,
            request="",
            by=self._actor(choice.by),
            at=cut_to_second(choice.at),
            # 0 means that the maintenance comes next.
            until=cut_to_second(choice.until),
        )

    def _event(self, event: Event) -> Event | None:
        if event.tenant != self.tenant:
            return None
        by = event.approver
        return replace(
            event,
            operation=self.aliases.of(event.operation),
            approver=None if by is None else self._actor(by),
            created=cut_to_second(event.created),
            approved_at=cut_to_second(event.approved_at),
            started_at=cut_to_second(event.started_at),
            removed_at=cut_to_second(event.removed_at),
        )

    def _once(self, record: R, cut: Callable[[R], R | None]) -> R | None:
        if record.key not in self._cuts:
            self._cuts[record.key] = cut(record)
        return self._cuts[record.key]

    def _cut(self, operation: Operation) -> Operation | None:
        events = list(every(self._reader, kinds.EVENTS_OF_OPERATION, operation.key))
        own = [event for event in events if event.tenant == self.tenant]
        for event in events:
            self._owned[f"event:{event.event_id}"] = event.tenant == self.tenant
        # The events know the owner of a past operation; the scope can have a new owner.
        tenants = {event.scope: event.tenant for event in events}
        scopes = tuple(
            name
            for name in operation.scopes
            if self._is_own_part(tenants.get(name), name, operation.created)
        )
        if not scopes:
            return None
        named = {resource.vm for event in own for resource in event.resources}
        others = (event for event in events if event.tenant != self.tenant)
        strange = {resource.vm for event in others for resource in event.resources}
        moves = tuple(
            Move(vm=move.vm, done=move.done)
            for move in operation.moves
            if move.vm in named
            or (
                move.vm not in strange
                and self.past.had_vm_at(move.vm, operation.created)
            )
        )
        if not (own or moves):
            return None
        self._owned[f"request:{operation.request}"] = True
        vms = {move.vm for move in moves} | named
        by = operation.cancelled_by
        is_ours = by is not None and by.is_of(self.tenant)
        left = left_work.left_at(operation, own, has_vms=bool(moves))
        self._left[operation.key] = left
        shown = replace(
            operation,
            operation_id=self.aliases.of(operation.operation_id),
            request=self.aliases.of(operation.request),
            created=cut_to_second(operation.created),
            not_before=cut_to_second(operation.not_before),
            due_at=cut_to_second(operation.due_at),
            started_at=cut_to_second(operation.started_at),
            impact_ended_at=cut_to_second(operation.impact_ended_at),
            ended_at=cut_to_second(operation.ended_at),
            waits_for=(),
            target=operation.target if operation.target in vms else "",
            host="",
            moves=moves,
            scopes=scopes,
            description=own[0].description if own else "",
            note=operation.note if is_ours else redact.note(operation.note),
            cancelled_by=by if is_ours else None,
            held_by=(),
            left_vms=tuple(
                vm
                for vm in operation.left_vms
                if vm not in strange and self.past.had_vm_at(vm, operation.created)
            ),
            attempts=1,
            generation=0,
            deferrals=(),
            promises=(),
            tenant_waits=(),
            visit="",
            part=CallPart.WHOLE,
        )
        return left_work.as_left(shown, own, at=left) if left else shown

    def _is_own_part(self, told: str | None, scope: str, at: Micros) -> bool:
        if told is not None:
            return told == self.tenant
        return self.past.had_scope_at(scope, at)

    def _cut_request(self, request: Request) -> Request | None:
        if request.actor.is_of(self.tenant):
            return self._named(request, actor=self._actor(request.actor))
        operations = every(
            self._reader, kinds.OPERATIONS_OF_REQUEST, request.request_id
        )
        own = [seen for operation in operations if (seen := self.of(operation))]
        if not own:
            return None
        # Only the part of the tenant counts; other operations can still be open.
        is_over = all(operation.state in ENDED_STATES for operation in own)
        return self._named(
            request,
            actor=PLATFORM,
            reason="",
            state=RequestState.CLOSED if is_over else RequestState.OPEN,
        )

    def _named(self, request: Request, **changes: Any) -> Request:
        return replace(
            request,
            request_id=self.aliases.of(request.request_id),
            created=cut_to_second(request.created),
            # The number and names of hosts are for the operator only.
            at_once=0,
            in_flight=0,
            hosts=0,
            hosts_unplanned=0,
            steps=(),
            **changes,
        )

    def _line(self, entry: AuditEntry) -> AuditEntry | None:
        is_ours = entry.actor.is_of(self.tenant)
        is_held = entry.kind is AuditKind.OPERATION_HELD
        if is_held and f"tenant:{self.tenant}" not in entry.subjects:
            # None of the reasons that the tenant may see has changed.
            return None
        # An entry about shared objects only can be a step of another tenant.
        if not is_ours and not any(
            self.is_own_subject(subject, entry.at)
            for kind in _DECIDING
            for subject in entry.subjects
            if subject.startswith(kind)
        ):
            return None
        subjects = tuple(
            subject
            for subject in entry.subjects
            if self.is_own_subject(subject, entry.at)
        )
        has_own_part = any(
            subject.startswith(("vm:", "event:")) for subject in subjects
        )
        if not is_ours and not has_own_part and self._is_about_left(entry):
            return None
        at = cut_to_second(entry.at)
        digest = self.aliases.of_entry(entry.entry_id)
        return replace(
            entry,
            entry_id=f"{sortable(at)}.{digest}",
            at=at,
            actor=self._actor(entry.actor),
            why=entry.why if is_ours else "",
            subjects=tuple(self._subject(subject) for subject in subjects),
            operation="",
            facts=self._facts(entry.kind, subjects, entry.facts),
        )

    def _subject(self, subject: str) -> str:
        kind, _, name = subject.partition(":")
        is_shared = kind in {"operation", "request"}
        return f"{kind}:{self.aliases.of(name)}" if is_shared else subject

    def _actor(self, actor: Actor) -> Actor:
        return redact.actor_for(actor, self.tenant, had_vm=self.had_vm)

    def _facts(self, kind: AuditKind, subjects: Iterable[str], facts: Facts) -> Facts:
        match _SHOWN.get(kind):
            case "by" if facts.by is not None:
                return Facts(by=self._actor(facts.by))
            case "outcome":
                return Facts(outcome=facts.outcome)
            case "blockers":
                scopes, vms = _names(subjects, "scope"), _names(subjects, "vm")
                redacted = redact.for_tenant(facts.blockers, scopes=scopes, vms=vms)
                return Facts(blockers=self.blockers(redacted))
            case "text":
                return Facts(text=facts.text)
            case "given up":
                return Facts(count=facts.count, cause=facts.cause)
            case _:
                return NOTHING


def aliases_of(reader: Reader, tenant: str) -> Aliases:
    """Return the aliases of a tenant, from the secret of the store."""
    # Without a secret, the store is empty, so there are no IDs.
    leader = reader.get(Leader, LEADER_KEY)
    return Aliases("" if leader is None else leader.secret, tenant)


def span_cursor(key: str) -> str:
    """Return the key of a span, or a cursor of a tenant, cut to its second.

    It sorts after the keys of all spans of the VM that began in this second.
    """
    vm, _, rest = key.partition("/")
    digits = rest[:SORTABLE_DIGITS]
    if not (len(digits) == SORTABLE_DIGITS and digits.isascii() and digits.isdecimal()):
        return f"{vm}/" if vm else ""
    last = cut_to_second(int(digits)) + SECOND - 1
    # A slash sorts after the dot that follows the time in the key.
    return f"{vm}/{sortable(last)}/"


_SHOWN: Mapping[AuditKind, str] = {
    AuditKind.EVENT_APPROVED: "by",
    AuditKind.EVENT_REMOVED: "outcome",
    AuditKind.OPERATION_HELD: "blockers",
    AuditKind.WEBHOOK_GAVE_UP: "given up",
    AuditKind.WINDOW_SET: "text",
    AuditKind.MAINTENANCE_DEFERRED: "text",
}
"""Facts of an entry that a tenant sees, redacted. Other kinds show none."""


def _names(subjects: Iterable[str], kind: str) -> set[str]:
    """Return the names of the subjects of one kind."""
    parts = (subject.partition(":") for subject in subjects)
    return {name for found, _, name in parts if found == kind}
