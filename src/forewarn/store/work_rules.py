"""What must hold between the rows of what is done: requests, operations, events."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from forewarn.fleet.model import HostState, VmState
from forewarn.instants import SECOND
from forewarn.protocol.actors import Actor, ActorKind
from forewarn.protocol.blockers import (
    GUARD_KINDS,
    NAMED_MAX,
    TURN_KINDS,
    Blocker,
    FaultDomainDown,
    More,
)
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    STARTED_STATES,
    WAITING_STATES,
    Action,
    CallState,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.store.audit import AuditEntry, AuditKind
from forewarn.store.contents import Contents
from forewarn.store.order_key import OrderKey
from forewarn.store.outbox import OutboxMessage
from forewarn.store.sequence import term_of
from forewarn.store.token import Token

DIGEST_CHARACTERS = 64
"""Of a SHA-256 in hexadecimal."""

HEXADECIMAL = frozenset("0123456789abcdef")


def references(contents: Contents) -> Iterator[str]:
    """Tell of names that nothing has; what has ended may outlive its fleet."""
    for operation in contents.operations.values():
        me = f"operation {operation.operation_id}"
        if operation.request not in contents.requests:
            yield f"{me} is of request {operation.request}, which is not there"
        if operation.state in ENDED_STATES:
            continue
        if operation.host not in contents.hosts:
            yield f"{me} is on host {operation.host}, which is not there"
        for vm in sorted(set(operation.vms) - contents.vms.keys()):
            yield f"{me} names vm {vm}, which is not there"
        for scope in sorted(set(operation.scopes) - contents.scopes.keys()):
            yield f"{me} names scope {scope}, which is not there"
    for event in contents.events.values():
        me = f"event {event.event_id}"
        if event.operation not in contents.operations:
            yield f"{me} is of operation {event.operation}, which is not there"
        if not event.is_live:
            continue
        if event.scope not in contents.scopes:
            yield f"{me} is of scope {event.scope}, which is not there"
        strangers = {each.vm for each in event.resources} - contents.vms.keys()
        for vm in sorted(strangers):
            yield f"{me} names vm {vm}, which is not there"


def operations(contents: Contents) -> Iterator[str]:
    """4.1: an operation's row says one thing, and so do its events."""
    for operation in contents.operations.values():
        wrong = [
            *_wrong_instants(operation),
            *_wrong_call(operation),
            *_wrong_blockers(operation),
            *_wrong_vms(operation),
            *_wrong_events(operation, contents.events_of[operation.operation_id]),
        ]
        for what in wrong:
            yield (
                f"operation {operation.operation_id} is {operation.state.value} and "
                f"{what}"
            )


def _wrong_instants(operation: Operation) -> Iterator[str]:
    state = operation.state
    if state in WAITING_STATES and operation.started_at:
        yield "has started"
    if state in STARTED_STATES and not operation.started_at:
        yield "has not started"
    if (state is OperationState.RECOVERING) and not operation.impact_ended_at:
        yield "its impact has not ended"
    if (state in ENDED_STATES) != bool(operation.ended_at):
        yield "has ended" if operation.ended_at else "has no end"
    if state in ENDED_STATES and operation.due_at:
        yield "waits for a timer"


def _wrong_vms(operation: Operation) -> Iterator[str]:
    if both := sorted(set(operation.vms) & set(operation.left_vms)):
        yield f"vm {both[0]} is part of it, and has left it"
    by = operation.cancelled_by
    if by is None:
        return
    if operation.state is not OperationState.CANCELLED:
        yield "was cancelled by an order"
    if wrong := wrong_actor(by):
        yield f"its end {wrong}"


def _wrong_blockers(operation: Operation) -> Iterator[str]:
    is_planned = operation.state is OperationState.PLANNED
    if operation.state is not OperationState.READY and not is_planned:
        if operation.held_by:
            yield "something holds it"
        if operation.waits_for:
            yield f"waits for {operation.waits_for[0]}"
    if operation.held_by and not (is_planned or operation.waits_for):
        yield "something holds it, and nothing would wake it"
    if is_planned and not operation.waits_for:
        yield "waits for nothing that could call it up"
    if is_planned and (operation.moves or operation.scopes):
        yield "names VMs before anybody was told"
    for blocker in operation.held_by if is_planned else ():
        if blocker.kind not in TURN_KINDS:
            yield f"a reason of kind {blocker.kind!r} cannot keep its turn from coming"
    if not is_planned:
        yield from wrong_blockers(operation.held_by)


def wrong_blockers(blockers: Sequence[Blocker]) -> Iterator[str]:
    """Tell of stored blockers that hold no start, and of lists without a bound."""
    counts = Counter(blocker.kind for blocker in blockers)
    for kind, count in counts.items():
        if kind not in GUARD_KINDS:
            yield f"a reason of kind {kind!r} cannot hold a start"
        elif kind != More.kind and count > NAMED_MAX:
            yield f"{count} reasons of kind {kind!r} are kept, more than {NAMED_MAX}"
    for blocker in blockers:
        if isinstance(blocker, FaultDomainDown) and not (
            0 < len(blocker.causes) <= NAMED_MAX and blocker.more >= 0
        ):
            yield f"{len(blocker.causes)} causes are kept of one fault domain"
        if isinstance(blocker, More) and blocker.count < 1:
            yield "no reasons are counted as more"


def _wrong_call(operation: Operation) -> Iterator[str]:
    is_called = operation.call_state is not CallState.NONE
    works = (
        operation.state is OperationState.IMPACTING
        and operation.action is not Action.NONE
    )
    if is_called and not works:
        yield f"its driver call is {operation.call_state.value}"
    if works and not is_called:
        yield "no driver call of it is under way"
    if operation.driver_memory and not operation.driver:
        yield "its driver call names a driver's memory, and no driver"
    if is_called and not operation.generation:
        yield "its driver call has no generation"


def _wrong_events(operation: Operation, events: list[Event]) -> Iterator[str]:
    allowed = {EventStatus.REMOVED}
    if operation.state in WAITING_STATES:
        allowed.add(EventStatus.SCHEDULED)
    elif operation.state in STARTED_STATES:
        allowed.add(EventStatus.STARTED)
    for event in events:
        if event.status not in allowed:
            yield f"its event {event.event_id} is {event.status.value}"


def events(contents: Contents) -> Iterator[str]:
    """2.7, 3.2, 4.1: an event's row says one thing."""
    for event in contents.events.values():
        me = f"event {event.event_id}"
        if event.not_before % SECOND:
            yield f"{me} has a NotBefore within a second"
        if event.approver is not None and (wrong := wrong_actor(event.approver)):
            yield f"event {event.event_id}: its approval {wrong}"
        if event.is_approved != bool(event.approved_at):
            yield f"{me} is approved by nobody, or never"
        if event.status is EventStatus.STARTED and not event.started_at:
            yield f"{me} is Started and never did"
        is_removed = event.status is EventStatus.REMOVED
        if is_removed != bool(event.removed_at) or is_removed != bool(event.outcome):
            yield f"{me} is {event.status.value}, and its end says otherwise"
        if event.is_live and not event.resources:
            yield f"{me} is shown and names no vm"
        operation = contents.operations.get(event.operation)
        is_planned_work = operation is not None and operation.verb in PLANNED_VERBS
        if event.is_live and event.is_planned_work is not is_planned_work:
            yield f"{me} is or is not planned work, and its operation says otherwise"


def timers(contents: Contents) -> Iterator[str]:
    """4.1: every open operation has a timer, or waits for a person."""
    for operation in contents.open_operations:
        me = f"operation {operation.operation_id}"
        if operation.verb is Verb.FAIL:
            yield from _wrong_failure(contents, operation)
        elif (
            operation.state is not OperationState.PLANNED
            and operation.call_state is not CallState.UNKNOWN
            and not operation.due_at
        ):
            yield f"{me} waits for a timer that it does not have"


def _wrong_failure(contents: Contents, operation: Operation) -> Iterator[str]:
    me = f"operation {operation.operation_id}"
    for name in operation.vms:
        vm = contents.vms.get(name)
        if vm is not None and vm.state is not VmState.DOWN:
            yield f"{me} is a failure of vm {name}, which is {vm.state.value}"
    host = contents.hosts.get(operation.host)
    is_host = operation.target_kind is TargetKind.HOST
    if not operation.moves and is_host and host and host.state is not HostState.DOWN:
        yield f"{me} is a failure of host {host.name}, which is up"


def migrations(contents: Contents) -> Iterator[str]:
    """6.3: of live migrations, one operation of a scope at a time."""
    busy: dict[str, str] = {}
    for operation in contents.open_operations:
        if (
            operation.action is not Action.LIVE_MIGRATE
            or operation.state is not OperationState.IMPACTING
        ):
            continue
        vms = [contents.vms[name] for name in operation.vms if name in contents.vms]
        for scope in sorted({vm.scope for vm in vms}):
            other = busy.setdefault(scope, operation.operation_id)
            if other != operation.operation_id:
                yield (
                    f"operations {other} and {operation.operation_id} migrate VMs of "
                    f"scope {scope} at once"
                )


def _wrong_list(request: Request, contents: Contents) -> Iterator[str]:
    """A host that is in a list waits to be planned, after those before it."""
    me = f"request {request.request_id}"
    ids = [operation_id for operation_id, _ in request.unplanned]
    hosts = [host for _, host in request.unplanned]
    if len(hosts) > request.hosts or (hosts and not request.at_once):
        yield f"{me} has {len(hosts)} hosts to plan, and is for {request.hosts}"
    if ids != sorted(set(ids)) or len(hosts) != len(set(hosts)):
        yield f"{me} has hosts to plan twice, or not in their order"
    for operation_id, host in request.unplanned:
        if operation_id in contents.operations:
            yield f"{me} has operation {operation_id} to plan, which is there"
        if host not in contents.hosts:
            yield f"{me} has host {host} to plan, which is not there"


def requests(contents: Contents) -> Iterator[str]:
    """4.5: a request is open as long as something of it is; somebody ordered it."""
    states: dict[str, set[OperationState]] = {}
    for operation in contents.operations.values():
        states.setdefault(operation.request, set()).add(operation.state)
    in_flight = Counter(
        operation.request
        for operation in contents.open_operations
        if operation.state is not OperationState.PLANNED
    )
    for name, request in contents.requests.items():
        if request.at_once and request.in_flight != in_flight[name]:
            yield (
                f"request {name} counts {request.in_flight} hosts as announced or worked "
                f"on, and has {in_flight[name]}"
            )
        if 0 < request.at_once < in_flight[name]:
            yield (
                f"request {name} has {in_flight[name]} hosts announced or worked on, and "
                f"may have {request.at_once}"
            )
        under_way = states.get(name, set()) - ENDED_STATES
        me = f"request {name} is {request.state.value}"
        if wrong := wrong_actor(request.actor):
            yield f"request {name} {wrong}"
        yield from _wrong_list(request, contents)
        if request.unplanned:
            under_way = {*under_way, OperationState.PLANNED}
        if request.state is RequestState.OPEN and not under_way:
            yield f"{me} and nothing of it is under way"
        elif request.state is RequestState.CLOSED and under_way:
            yield f"{me} and something of it is under way"
        elif (
            request.state in {RequestState.CANCELLED, RequestState.STOPPED}
            and (request.is_rollout or request.state is RequestState.CANCELLED)
            and under_way & WAITING_STATES
        ):
            yield f"{me} and something of it still waits"


def wrong_key(key: str, contents: Contents) -> str:
    """Return what is wrong with the place of an entry or message, or nothing."""
    term = term_of(key)
    if term is None:
        return "has no term and number"
    if term > contents.term:
        return f"is of term {term}, and the store is in term {contents.term}"
    return ""


def wrong_entry(entry: AuditEntry, contents: Contents) -> str:
    """Return what is wrong with a line of the trail, or nothing."""
    if wrong := wrong_key(entry.entry_id, contents):
        return f"line {entry.entry_id} of the trail {wrong}"
    if entry.operation and f"operation:{entry.operation}" not in entry.subjects:
        return f"line {entry.entry_id} of the trail does not name its operation"
    if entry.facts.blockers and entry.kind is not AuditKind.OPERATION_HELD:
        return f"line {entry.entry_id} of the trail has reasons of a hold"
    by = entry.facts.by
    if by is not None and (wrong := wrong_actor(by)):
        return f"line {entry.entry_id} of the trail: its approval {wrong}"
    if wrong := wrong_actor(entry.actor):
        return f"line {entry.entry_id} of the trail {wrong}"
    for what in wrong_blockers(entry.facts.blockers):
        return f"line {entry.entry_id} of the trail: {what}"
    return ""


_NAMED = frozenset(
    {ActorKind.OPERATOR, ActorKind.TENANT, ActorKind.SERVICE, ActorKind.POLICY}
)
"""Kinds of actors that have a name."""


def wrong_actor(actor: Actor) -> str:
    """Return what is wrong with a stored actor, or nothing."""
    if actor.kind is ActorKind.PLATFORM:
        return "is by an actor who is redacted"
    if actor.kind in _NAMED and not actor.name:
        return "does not say who"
    if (actor.kind is ActorKind.TENANT) != bool(actor.tenant):
        return "does not say whose token it was"
    return ""


def wrong_message(message: OutboxMessage, contents: Contents) -> str:
    """Return what is wrong with a message for a receiver, or nothing."""
    me = f"message {message.message_id} of the outbox"
    if wrong := wrong_key(message.message_id, contents):
        return f"{me} {wrong}"
    if not message.receiver or not message.public_id:
        return f"{me} does not say for whom it is, or has no name"
    try:
        body = json.loads(message.body)
    except ValueError:
        body = None
    is_event = isinstance(body, dict) and body.keys() >= {"EventId", "EventStatus"}
    return "" if is_event else f"{me} tells of no event"


def wrong_token(token: Token, contents: Contents) -> str:
    """Return what is wrong with a token of the operator API, or nothing."""
    me = f"token {token.token_id}"
    if not token.name:
        return f"{me} does not say who holds it"
    if wrong := wrong_actor(token.created_by):
        return f"the maker of {me} {wrong}"
    if len(token.digest) != DIGEST_CHARACTERS or set(token.digest) - HEXADECIMAL:
        return f"{me} has no digest of a secret"
    if token.tenant and token.tenant not in contents.tenants:
        return f"{me} is of tenant {token.tenant}, which is not there"
    return ""


def wrong_order_key(found: OrderKey) -> str:
    """Return what is wrong with the Idempotency-Key of an order, or nothing."""
    me = f"order key {found.key_id}"
    for text in (found.key_id, found.digest):
        if len(text) != DIGEST_CHARACTERS or set(text) - HEXADECIMAL:
            return f"{me} has no digest of a caller and a key, or of a request"
    if not found.caller or found.expires_at <= found.created_at:
        return f"{me} does not say who gave the order, or has no time"
    try:
        json.loads(found.result)
    except ValueError:
        return f"{me} does not say what the order made"
    return ""
