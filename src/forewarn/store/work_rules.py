"""Rules between requests, operations, events and audit entries."""

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
    HALVES,
    STARTED_STATES,
    WAITING_STATES,
    Action,
    CallPart,
    CallState,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.store.campaign_rules import can_retry
from forewarn.store.contents import Contents, first_of, unknown, violated
from forewarn.store.records import (
    AuditEntry,
    AuditKind,
    Choice,
    OrderKey,
    OutboxMessage,
    choice_key,
)
from forewarn.store.sequence import term_of

DIGEST_CHARACTERS = 64
"""Characters of a SHA-256 in hexadecimal."""

HEXADECIMAL = frozenset("0123456789abcdef")


def is_digest(text: str) -> bool:
    """Return whether a text is a SHA-256 in hexadecimal."""
    return len(text) == DIGEST_CHARACTERS and not set(text) - HEXADECIMAL


def references(contents: Contents) -> Iterator[str]:
    """Report references to missing records; ended operations may outlive the fleet."""
    for operation in contents.operations.values():
        me = f"operation {operation.operation_id}"
        yield from unknown(
            f"{me} is of request", {operation.request}, contents.requests
        )
        if operation.state not in ENDED_STATES:
            yield from unknown(f"{me} is on host", {operation.host}, contents.hosts)
            yield from unknown(f"{me} names VM", operation.vms, contents.vms)
            yield from unknown(f"{me} names scope", operation.scopes, contents.scopes)
    for page in contents.unplanned.values():
        me = f"page {page.page_id} of hosts to plan"
        yield from unknown(f"{me} is of request", {page.request}, contents.requests)
    for event in contents.events.values():
        me = f"event {event.event_id}"
        yield from unknown(
            f"{me} is of operation", {event.operation}, contents.operations
        )
        if event.is_live:
            vms = {resource.vm for resource in event.resources}
            yield from unknown(f"{me} is of scope", {event.scope}, contents.scopes)
            yield from unknown(f"{me} names VM", vms, contents.vms)


def operations(contents: Contents) -> Iterator[str]:
    """4.1: an operation is consistent with itself and with its events."""
    for operation in contents.operations.values():
        wrong = [
            *_wrong_instants(operation),
            *_wrong_call(operation),
            *_wrong_blockers(operation),
            *_wrong_vms(operation),
            *_wrong_events(operation, contents.events_of[operation.operation_id]),
        ]
        for violation in wrong:
            yield (
                f"operation {operation.operation_id} is {operation.state.value}, but "
                f"{violation}"
            )


def _wrong_instants(operation: Operation) -> Iterator[str]:
    state = operation.state
    is_over = state in ENDED_STATES
    return violated(
        (state in WAITING_STATES and operation.started_at, "it has started"),
        (state in STARTED_STATES and not operation.started_at, "it has not started"),
        (
            state is OperationState.RECOVERING and not operation.impact_ended_at,
            "its impact has not ended",
        ),
        (is_over and not operation.ended_at, "it has no end"),
        (operation.ended_at and not is_over, "it has ended"),
        (is_over and operation.due_at, "it waits for a timer"),
    )


def _wrong_vms(operation: Operation) -> Iterator[str]:
    both = min({*operation.vms} & {*operation.left_vms}, default="")
    by = operation.cancelled_by
    wrong = wrong_actor(by) if by else ""
    return violated(
        (both, f"VM {both} is both part of it and one that left it"),
        (
            by and operation.state is not OperationState.CANCELLED,
            "it has an actor who cancelled it",
        ),
        (wrong, f"the actor who cancelled it {wrong}"),
    )


def _wrong_blockers(operation: Operation) -> Iterator[str]:
    is_planned = operation.state is OperationState.PLANNED
    held, waits = operation.held_by, operation.waits_for
    is_started = operation.state is not OperationState.READY and not is_planned
    yield from violated(
        (is_started and held, "it has blockers"),
        (is_started and waits, f"it waits for {', '.join(waits[:1])}"),
        (
            held and not (is_planned or waits),
            "it has blockers, and nothing would wake it",
        ),
        (is_planned and not waits, "nothing that it waits for would announce it"),
        (
            is_planned and (operation.moves or operation.scopes),
            "it names VMs before its announcement",
        ),
    )
    if not is_planned:
        yield from wrong_blockers(held)
        return
    for blocker in held:
        if blocker.kind not in TURN_KINDS:
            yield f"a blocker of kind {blocker.kind!r} cannot delay its announcement"


def wrong_blockers(blockers: Sequence[Blocker]) -> Iterator[str]:
    """Report stored blockers that cannot hold a start, and lists above the bound."""
    for kind, count in Counter(blocker.kind for blocker in blockers).items():
        if kind not in GUARD_KINDS:
            yield f"a blocker of kind {kind!r} cannot hold a start"
        elif kind != More.kind and count > NAMED_MAX:
            yield f"{count} blockers of kind {kind!r} are stored, more than {NAMED_MAX}"
    for blocker in blockers:
        if isinstance(blocker, FaultDomainDown) and not (
            0 < len(blocker.causes) <= NAMED_MAX and blocker.more >= 0
        ):
            yield f"{len(blocker.causes)} causes of one fault domain are stored"
        if isinstance(blocker, More) and blocker.count < 1:
            yield "the number of further blockers is below 1"


def _wrong_call(operation: Operation) -> Iterator[str]:
    is_called = operation.call_state is not CallState.NONE
    works = (
        operation.state is OperationState.IMPACTING
        and operation.action is not Action.NONE
    )
    return violated(
        (is_called and not works, f"its driver call is {operation.call_state.value}"),
        # A visit enters the host before the call, and works between two calls.
        (works and not is_called and not operation.visit, "it has no driver call"),
        (
            operation.driver_memory and not operation.driver,
            "its driver call names a driver's memory but no driver",
        ),
        (
            operation.part is not CallPart.WHOLE
            and not (operation.visit and operation.action in HALVES),
            "its driver call does a half of an action that has no halves",
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
    """2.7, 3.2, 4.1: an event is consistent with itself."""
    for event in contents.events.values():
        wrong = wrong_actor(event.approver) if event.approver else ""
        is_removed = event.status is EventStatus.REMOVED
        operation = contents.operations.get(event.operation)
        is_planned_work = operation is not None and operation.verb in PLANNED_VERBS
        for violation in violated(
            (event.not_before % SECOND, "has a NotBefore with a fraction of a second"),
            (wrong, f"is approved, but its approver {wrong}"),
            (
                event.is_approved != bool(event.approved_at),
                "has an approver or a time of approval without the other",
            ),
            (
                event.status is EventStatus.STARTED and not event.started_at,
                "is Started but has no start time",
            ),
            (
                {bool(event.removed_at), bool(event.outcome)} != {is_removed},
                f"is {event.status.value}, but its end or outcome contradicts that",
            ),
            (event.is_live and not event.resources, "is live but names no VM"),
            (
                event.is_live and event.is_planned_work is not is_planned_work,
                "and its operation disagree whether it is planned work",
            ),
        ):
            yield f"event {event.event_id} {violation}"


def timers(contents: Contents) -> Iterator[str]:
    """4.1: every open operation has a timer, or waits for an operator."""
    for operation in contents.open_operations:
        me = f"operation {operation.operation_id}"
        if operation.verb is Verb.FAIL:
            yield from _wrong_failure(contents, operation)
        elif (
            operation.state is not OperationState.PLANNED
            and operation.call_state is not CallState.UNKNOWN
            and not operation.due_at
            and not _enters(operation)
        ):
            yield f"{me} needs a timer and has none"


def _enters(operation: Operation) -> bool:
    """Return whether a started operation waits for its visit: to enter the host, or to
    end the work."""
    is_started = operation.state is OperationState.IMPACTING
    has_visit = is_started and bool(operation.visit)
    return has_visit and (not operation.generation or operation.holds_vms)


def _wrong_failure(contents: Contents, operation: Operation) -> Iterator[str]:
    me = f"operation {operation.operation_id}"
    for name in operation.vms:
        vm = contents.vms.get(name)
        if vm is not None and vm.state is not VmState.DOWN:
            yield f"{me} is a failure of VM {name}, which is {vm.state.value}"
    host = contents.hosts.get(operation.host)
    is_host = operation.target_kind is TargetKind.HOST
    if not operation.moves and is_host and host and host.state is not HostState.DOWN:
        yield f"{me} is a failure of host {host.name}, which is up"


def _wrong_list(request: Request, contents: Contents) -> Iterator[str]:
    """Report problems of a rollout's list of hosts to plan."""
    me = f"request {request.request_id}"
    unplanned = contents.unplanned_of[request.request_id]
    ids = [operation_id for operation_id, _ in unplanned]
    hosts = [host for _, host in unplanned]
    yield from violated(
        (
            len(hosts) != request.hosts_unplanned,
            (
                f"{me} counts {request.hosts_unplanned} hosts to plan, but has "
                f"{len(hosts)}"
            ),
        ),
        (
            len(hosts) > request.hosts or (hosts and not request.at_once),
            f"{me} has {len(hosts)} hosts to plan but covers {request.hosts}",
        ),
        (
            ids != sorted(set(ids)) or len(hosts) != len(set(hosts)),
            f"{me} has hosts to plan twice or out of order",
        ),
    )
    for operation_id, host in unplanned:
        if operation_id in contents.operations:
            yield f"{me} has operation {operation_id} to plan, which exists"
        if host not in contents.hosts:
            yield f"{me} has host {host} to plan, which does not exist"


def requests(contents: Contents) -> Iterator[str]:
    """4.5: a request is open as long as an operation of it is, and has an actor."""
    states = defaultdict[str, set[OperationState]](set)
    for operation in contents.operations.values():
        states[operation.request].add(operation.state)
    in_flight = Counter(
        operation.request
        for operation in contents.open_operations
        if operation.state is not OperationState.PLANNED and not operation.visit
    )
    in_flight.update(
        visit.request for visit in contents.visits.values() if visit.holds_slot
    )
    visited = {
        visit.request for visit in contents.visits.values() if not visit.ended_at
    }
    for name, request in contents.requests.items():
        count, at_once = in_flight[name], request.at_once
        under_way = states[name] - ENDED_STATES
        if request.hosts_unplanned:
            under_way.add(OperationState.PLANNED)
        is_ended = request.state is RequestState.CANCELLED or (
            request.state is RequestState.STOPPED and request.is_rollout
        )
        wrong = wrong_actor(request.actor)
        me = f"request {name} is {request.state.value}"
        yield from violated(
            (
                at_once and request.in_flight != count,
                (
                    f"request {name} counts {request.in_flight} hosts as announced or "
                    f"running, but has {count}"
                ),
            ),
            (
                0 < at_once < count,
                (
                    f"request {name} has {count} hosts announced or running, but "
                    f"at most {at_once} are allowed"
                ),
            ),
            (wrong, f"the actor of request {name} {wrong}"),
            (
                request.state is RequestState.OPEN
                and not under_way
                and name not in visited
                and not can_retry(request, contents),
                f"{me} but has no open operation",
            ),
            (
                request.state is RequestState.CLOSED and under_way,
                f"{me} but has an open operation",
            ),
            (
                is_ended and under_way & WAITING_STATES,
                f"{me} but has a waiting operation",
            ),
        )
        yield from _wrong_list(request, contents)


def wrong_key(key: str, contents: Contents) -> str:
    """Return the problem of the key of an entry or message, or nothing."""
    term = term_of(key)
    return first_of(
        (term is None, "has no term and number"),
        (
            (term or 0) > contents.term,
            f"is of term {term}, but the store is in term {contents.term}",
        ),
    )


_WITH_BLOCKERS = frozenset(
    {
        AuditKind.OPERATION_HELD,
        AuditKind.BLACKOUTS_IGNORED,
        AuditKind.CAMPAIGN_WINDOWS_IGNORED,
    }
)
"""Kinds of entries that name what held work, or what it ignored."""


def wrong_entry(entry: AuditEntry, contents: Contents) -> str:
    """Return the problem of an audit entry, or nothing."""
    place = wrong_key(entry.entry_id, contents)
    by = wrong_actor(entry.facts.by) if entry.facts.by else ""
    actor = wrong_actor(entry.actor)
    blocker = next(wrong_blockers(entry.facts.blockers), "")
    violation = first_of(
        (place, f" {place}"),
        (
            entry.operation and f"operation:{entry.operation}" not in entry.subjects,
            " does not name its operation",
        ),
        (
            entry.facts.blockers and entry.kind not in _WITH_BLOCKERS,
            " has blockers",
        ),
        (by, f": its approver {by}"),
        (actor, f": its actor {actor}"),
        (blocker, f": {blocker}"),
    )
    return violation and f"audit entry {entry.entry_id}{violation}"


_NAMED = frozenset(
    {ActorKind.OPERATOR, ActorKind.TENANT, ActorKind.SERVICE, ActorKind.POLICY}
)
"""Kinds of actors with a name."""


def wrong_actor(actor: Actor) -> str:
    """Return the problem of a stored actor, or nothing."""
    return first_of(
        (actor.kind is ActorKind.PLATFORM, "is redacted"),
        (actor.kind in _NAMED and not actor.name, "has no name"),
        (
            (actor.kind is ActorKind.TENANT) != bool(actor.tenant),
            "has no tenant, or a tenant without being one",
        ),
    )


def wrong_message(message: OutboxMessage, contents: Contents) -> str:
    """Return the problem of an outbox message, or nothing."""
    is_notice = message.notice is not None
    body = None if is_notice else _parsed(message.body)
    is_event = isinstance(body, dict) and body.keys() >= {"EventId", "EventStatus"}
    place = wrong_key(message.message_id, contents)
    violation = first_of(
        (place, place),
        (
            not message.receiver or not message.public_id,
            "has no receiver or no public ID",
        ),
        (not is_event and not is_notice, "contains no event"),
        (
            is_notice and (message.change is not None or message.body),
            "is both a notice and the change of an event",
        ),
        (is_event and message.change is None, "has no change"),
    )
    return violation and f"message {message.message_id} of the outbox {violation}"


def wrong_order_key(found: OrderKey, _contents: Contents) -> str:
    """Return the problem of a stored Idempotency-Key, or nothing."""
    violation = first_of(
        (
            not (is_digest(found.key_id) and is_digest(found.digest)),
            "has an invalid digest of the caller and key, or of the request",
        ),
        (
            not found.caller or found.expires_at <= found.created_at,
            "has no caller or no validity period",
        ),
        (_parsed(found.result) is None, "has no valid result"),
    )
    return violation and f"order key {found.key_id} {violation}"


def wrong_choice(found: Choice, contents: Contents) -> str:
    """Return the problem of a tenant's choice, or nothing."""
    request = contents.requests.get(found.request)
    violation = first_of(
        (
            found.choice_id != choice_key(found.request, found.scope, found.vm),
            "has the key of another one",
        ),
        (
            request is None or not request.has_choices,
            f"is about request {found.request}, which does not exist or has none",
        ),
        (
            # A deferral of a scope that ended for one VM is none of the VM.
            found.until < 0
            or found.deferrals < 0
            or (found.until and not found.deferrals and not found.vm),
            "has an invalid time or number",
        ),
    )
    return violation and f"choice {found.choice_id} {violation}"


def _parsed(text: str) -> object:
    """Return the value of a JSON text; None: it is not valid."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None
