"""What must hold between the rows of what is done: requests, operations, events."""

import json
from collections.abc import Iterator

from forewarn.fleet.model import HostState, VmState
from forewarn.instants import SECOND
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    STARTED_STATES,
    WAITING_STATES,
    Action,
    CallState,
    Operation,
    OperationState,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.store.audit import AuditEntry
from forewarn.store.contents import Contents
from forewarn.store.outbox import OutboxMessage
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
            *_wrong_events(operation, contents.events_of[operation.operation_id]),
        ]
        for what in wrong:
            yield (
                f"operation {operation.operation_id} is {operation.state.value} and "
                f"{what}"
            )


def _wrong_instants(operation: Operation) -> Iterator[str]:
    state = operation.state
    if state is OperationState.PLANNED:
        yield "was never told to anybody"
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
        if bool(event.approved_by) != bool(event.approved_at):
            yield f"{me} is approved by nobody, or never"
        if event.status is EventStatus.STARTED and not event.started_at:
            yield f"{me} is Started and never did"
        is_removed = event.status is EventStatus.REMOVED
        if is_removed != bool(event.removed_at) or is_removed != bool(event.outcome):
            yield f"{me} is {event.status.value}, and its end says otherwise"
        if event.is_live and not event.resources:
            yield f"{me} is shown and names no vm"


def timers(contents: Contents) -> Iterator[str]:
    """4.1: every open operation has a timer, or waits for a person."""
    for operation in contents.open_operations:
        me = f"operation {operation.operation_id}"
        if operation.verb is Verb.FAIL:
            yield from _wrong_failure(contents, operation)
        elif operation.call_state is not CallState.UNKNOWN and not operation.due_at:
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


def requests(contents: Contents) -> Iterator[str]:
    """4.5: a request is open as long as something of it is."""
    states: dict[str, set[OperationState]] = {}
    for operation in contents.operations.values():
        states.setdefault(operation.request, set()).add(operation.state)
    for name, request in contents.requests.items():
        under_way = states.get(name, set()) - ENDED_STATES
        me = f"request {name} is {request.state.value}"
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


def wrong_entry(entry: AuditEntry) -> str:
    """Return what is wrong with a line of the trail, or nothing."""
    if not entry.entry_id.startswith(f"{entry.at:017d}."):
        return f"line {entry.entry_id} of the trail is not where its time belongs"
    if not entry.actor:
        return f"line {entry.entry_id} of the trail does not say who"
    return ""


def wrong_message(message: OutboxMessage) -> str:
    """Return what is wrong with a message for a receiver, or nothing."""
    me = f"message {message.message_id} of the outbox"
    if message.message_id.partition(".")[0] < f"{message.at:017d}":
        return f"{me} is not where its time belongs"
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
    if not token.name or not token.created_by:
        return f"{me} does not say who holds it, or who made it"
    if len(token.digest) != DIGEST_CHARACTERS or set(token.digest) - HEXADECIMAL:
        return f"{me} has no digest of a secret"
    if token.tenant and token.tenant not in contents.tenants:
        return f"{me} is of tenant {token.tenant}, which is not there"
    return ""
