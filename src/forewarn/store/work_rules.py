"""What must hold between the rows of what is done: requests, operations, events."""

import contextlib
import json
from collections import Counter, defaultdict
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
from forewarn.store.contents import Contents, first_of, those, unknown
from forewarn.store.order_key import OrderKey
from forewarn.store.outbox import OutboxMessage
from forewarn.store.sequence import term_of

DIGEST_CHARACTERS = 64
"""Of a SHA-256 in hexadecimal."""

HEXADECIMAL = frozenset("0123456789abcdef")


def is_digest(text: str) -> bool:
    """Tell whether it is a SHA-256 in hexadecimal."""
    return len(text) == DIGEST_CHARACTERS and not set(text) - HEXADECIMAL


def references(contents: Contents) -> Iterator[str]:
    """Tell of names that nothing has; what has ended may outlive its fleet."""
    for operation in contents.operations.values():
        me = f"operation {operation.operation_id}"
        yield from unknown(
            f"{me} is of request", {operation.request}, contents.requests
        )
        if operation.state not in ENDED_STATES:
            yield from unknown(f"{me} is on host", {operation.host}, contents.hosts)
            yield from unknown(f"{me} names vm", operation.vms, contents.vms)
            yield from unknown(f"{me} names scope", operation.scopes, contents.scopes)
    for event in contents.events.values():
        me = f"event {event.event_id}"
        yield from unknown(
            f"{me} is of operation", {event.operation}, contents.operations
        )
        if event.is_live:
            vms = {each.vm for each in event.resources}
            yield from unknown(f"{me} is of scope", {event.scope}, contents.scopes)
            yield from unknown(f"{me} names vm", vms, contents.vms)


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
    is_over = state in ENDED_STATES
    return those(
        (state in WAITING_STATES and operation.started_at, "has started"),
        (state in STARTED_STATES and not operation.started_at, "has not started"),
        (
            state is OperationState.RECOVERING and not operation.impact_ended_at,
            "its impact has not ended",
        ),
        (is_over and not operation.ended_at, "has no end"),
        (operation.ended_at and not is_over, "has ended"),
        (is_over and operation.due_at, "waits for a timer"),
    )


def _wrong_vms(operation: Operation) -> Iterator[str]:
    both = min({*operation.vms} & {*operation.left_vms}, default="")
    by = operation.cancelled_by
    wrong = wrong_actor(by) if by else ""
    return those(
        (both, f"vm {both} is part of it, and has left it"),
        (
            by and operation.state is not OperationState.CANCELLED,
            "was cancelled by an order",
        ),
        (wrong, f"its end {wrong}"),
    )


def _wrong_blockers(operation: Operation) -> Iterator[str]:
    is_planned = operation.state is OperationState.PLANNED
    held, waits = operation.held_by, operation.waits_for
    is_started = operation.state is not OperationState.READY and not is_planned
    yield from those(
        (is_started and held, "something holds it"),
        (is_started and waits, f"waits for {', '.join(waits[:1])}"),
        (
            held and not (is_planned or waits),
            "something holds it, and nothing would wake it",
        ),
        (is_planned and not waits, "waits for nothing that could call it up"),
        (
            is_planned and (operation.moves or operation.scopes),
            "names VMs before anybody was told",
        ),
    )
    if not is_planned:
        yield from wrong_blockers(held)
        return
    for blocker in held:
        if blocker.kind not in TURN_KINDS:
            yield f"a reason of kind {blocker.kind!r} cannot keep its turn from coming"


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
    return those(
        (is_called and not works, f"its driver call is {operation.call_state.value}"),
        (works and not is_called, "no driver call of it is under way"),
        (
            operation.driver_memory and not operation.driver,
            "its driver call names a driver's memory, and no driver",
        ),
        (
            is_called and not operation.generation,
            "its driver call has no generation",
        ),
    )


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
        wrong = wrong_actor(event.approver) if event.approver else ""
        is_removed = event.status is EventStatus.REMOVED
        operation = contents.operations.get(event.operation)
        is_planned_work = operation is not None and operation.verb in PLANNED_VERBS
        for what in those(
            (event.not_before % SECOND, "has a NotBefore within a second"),
            (wrong, f"has a wrong approver: its approval {wrong}"),
            (
                event.is_approved != bool(event.approved_at),
                "is approved by nobody, or never",
            ),
            (
                event.status is EventStatus.STARTED and not event.started_at,
                "is Started and never did",
            ),
            (
                {bool(event.removed_at), bool(event.outcome)} != {is_removed},
                f"is {event.status.value}, and its end says otherwise",
            ),
            (event.is_live and not event.resources, "is shown and names no vm"),
            (
                event.is_live and event.is_planned_work is not is_planned_work,
                "is or is not planned work, and its operation says otherwise",
            ),
        ):
            yield f"event {event.event_id} {what}"


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


def _wrong_list(request: Request, contents: Contents) -> Iterator[str]:
    """A host that is in a list waits to be planned, after those before it."""
    me = f"request {request.request_id}"
    ids = [operation_id for operation_id, _ in request.unplanned]
    hosts = [host for _, host in request.unplanned]
    yield from those(
        (
            len(hosts) > request.hosts or (hosts and not request.at_once),
            f"{me} has {len(hosts)} hosts to plan, and is for {request.hosts}",
        ),
        (
            ids != sorted(set(ids)) or len(hosts) != len(set(hosts)),
            f"{me} has hosts to plan twice, or not in their order",
        ),
    )
    for operation_id, host in request.unplanned:
        if operation_id in contents.operations:
            yield f"{me} has operation {operation_id} to plan, which is there"
        if host not in contents.hosts:
            yield f"{me} has host {host} to plan, which is not there"


def requests(contents: Contents) -> Iterator[str]:
    """4.5: a request is open as long as something of it is; somebody ordered it."""
    states = defaultdict[str, set[OperationState]](set)
    for operation in contents.operations.values():
        states[operation.request].add(operation.state)
    in_flight = Counter(
        operation.request
        for operation in contents.open_operations
        if operation.state is not OperationState.PLANNED
    )
    for name, request in contents.requests.items():
        count, at_once = in_flight[name], request.at_once
        under_way = states[name] - ENDED_STATES
        if request.unplanned:
            under_way.add(OperationState.PLANNED)
        is_ended = request.state is RequestState.CANCELLED or (
            request.state is RequestState.STOPPED and request.is_rollout
        )
        wrong = wrong_actor(request.actor)
        me = f"request {name} is {request.state.value}"
        yield from those(
            (
                at_once and request.in_flight != count,
                (
                    f"request {name} counts {request.in_flight} hosts as announced or "
                    f"worked on, and has {count}"
                ),
            ),
            (
                0 < at_once < count,
                (
                    f"request {name} has {count} hosts announced or worked on, and "
                    f"may have {at_once}"
                ),
            ),
            (wrong, f"request {name} {wrong}"),
            (
                request.state is RequestState.OPEN and not under_way,
                f"{me} and nothing of it is under way",
            ),
            (
                request.state is RequestState.CLOSED and under_way,
                f"{me} and something of it is under way",
            ),
            (
                is_ended and under_way & WAITING_STATES,
                f"{me} and something of it still waits",
            ),
        )
        yield from _wrong_list(request, contents)


def wrong_key(key: str, contents: Contents) -> str:
    """Return what is wrong with the place of an entry or message, or nothing."""
    term = term_of(key)
    return first_of(
        (term is None, "has no term and number"),
        (
            (term or 0) > contents.term,
            f"is of term {term}, and the store is in term {contents.term}",
        ),
    )


def wrong_entry(entry: AuditEntry, contents: Contents) -> str:
    """Return what is wrong with a line of the trail, or nothing."""
    place = wrong_key(entry.entry_id, contents)
    by = wrong_actor(entry.facts.by) if entry.facts.by else ""
    actor = wrong_actor(entry.actor)
    blocker = next(wrong_blockers(entry.facts.blockers), "")
    what = first_of(
        (place, f" {place}"),
        (
            entry.operation and f"operation:{entry.operation}" not in entry.subjects,
            " does not name its operation",
        ),
        (
            entry.facts.blockers and entry.kind is not AuditKind.OPERATION_HELD,
            " has reasons of a hold",
        ),
        (by, f": its approval {by}"),
        (actor, f" {actor}"),
        (blocker, f": {blocker}"),
    )
    return what and f"line {entry.entry_id} of the trail{what}"


_NAMED = frozenset(
    {ActorKind.OPERATOR, ActorKind.TENANT, ActorKind.SERVICE, ActorKind.POLICY}
)
"""Kinds of actors that have a name."""


def wrong_actor(actor: Actor) -> str:
    """Return what is wrong with a stored actor, or nothing."""
    return first_of(
        (actor.kind is ActorKind.PLATFORM, "is by an actor who is redacted"),
        (actor.kind in _NAMED and not actor.name, "does not say who"),
        (
            (actor.kind is ActorKind.TENANT) != bool(actor.tenant),
            "does not say whose token it was",
        ),
    )


def wrong_message(message: OutboxMessage, contents: Contents) -> str:
    """Return what is wrong with a message for a receiver, or nothing."""
    body = _parsed(message.body)
    is_event = isinstance(body, dict) and body.keys() >= {"EventId", "EventStatus"}
    place = wrong_key(message.message_id, contents)
    what = first_of(
        (place, place),
        (
            not message.receiver or not message.public_id,
            "does not say for whom it is, or has no name",
        ),
        (not is_event, "tells of no event"),
    )
    return what and f"message {message.message_id} of the outbox {what}"


def wrong_order_key(found: OrderKey, _contents: Contents) -> str:
    """Return what is wrong with the Idempotency-Key of an order, or nothing."""
    what = first_of(
        (
            not (is_digest(found.key_id) and is_digest(found.digest)),
            "has no digest of a caller and a key, or of a request",
        ),
        (
            not found.caller or found.expires_at <= found.created_at,
            "does not say who gave the order, or has no time",
        ),
        (_parsed(found.result) is None, "does not say what the order made"),
    )
    return what and f"order key {found.key_id} {what}"


def _parsed(text: str) -> object:
    """Return the value of a JSON text; None: it is not one."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None
