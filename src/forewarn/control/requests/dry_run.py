"""Dry runs of requests: what each would change, as numbers.

A dry run decides a request in a transaction as usual, so that it meets the same
refusals. It counts the effect and raises `DryRunError`, which rolls everything back.
The pages that follow the transaction of a halt or of the brake are counted before it, by
the queries that these pages use.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from forewarn.campaigns.prepared import Prepared
from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.steering import revision_of
from forewarn.control.requests import campaigns
from forewarn.control.rules import unplanned
from forewarn.control.transactions.work import Check, Work
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    STARTED_STATES,
    WAITING_STATES,
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.protocol.verbs import PLANNED_VERBS, TargetKind
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind

Json: TypeAlias = dict[str, Any]

COUNTED_MAX = 5_000
"""Maximum operations in a state that a dry run counts: a tenth of a second's work."""

MOVES_MAX = 50
"""Maximum VMs whose destinations a dry run names: a dialog has no room for more."""

REASON = "(dry run)"
"""The reason of a dry run without one: the operator has not written it yet."""


class DryRunError(ForewarnError):
    """The request was a dry run, and nothing was changed; `result` has its effect."""

    def __init__(self, result: Json) -> None:
        """Keep the effect."""
        super().__init__("this request was a dry run")
        self.result = result


class ChangedError(RefusedError):
    """Another decision about a campaign was made since the caller looked."""

    def __init__(
        self, message: str, *, hint: str, entry: AuditEntry | None = None
    ) -> None:
        """Keep the entry of the last decision; None: the history has none."""
        super().__init__(message, hint=hint)
        self.by: Actor | None = None if entry is None else entry.actor
        self.at: Micros = 0 if entry is None else entry.at
        self.reason = "" if entry is None else entry.why
        self.what: AuditKind | None = None if entry is None else entry.kind


@dataclass(slots=True)
class Group:
    """Operations that meet the same effect.

    Its hosts are those that the work is on: the work on a VM is on none.
    """

    operations: set[str] = field(default_factory=set[str])
    hosts: set[str] = field(default_factory=set[str])
    vms: set[str] = field(default_factory=set[str])
    tenants: set[str] = field(default_factory=set[str])
    events: set[str] = field(default_factory=set[str])
    is_cut: bool = False
    """Whether there are more than were counted."""

    def add_host(self, operation_id: str, host: str) -> None:
        """Count an operation that was not announced, which has no event."""
        self.operations.add(operation_id)
        self.hosts.add(host)

    def add(self, operation: Operation, events: Iterable[Event]) -> None:
        """Count an operation with its events."""
        host = operation.host if operation.target_kind is TargetKind.HOST else ""
        self.add_host(operation.operation_id, host)
        self.vms.update(operation.vms, operation.left_vms)
        for event in events:
            self.events.add(event.event_id)
            self.tenants.add(event.tenant)

    def add_approved(self, operation: Operation, events: Iterable[Event]) -> None:
        """Count events of an operation that were approved, with their VMs only."""
        self.add(replace(operation, moves=(), left_vms=()), events)
        for event in events:
            self.vms.update(resource.vm for resource in event.resources)

    def report(self) -> Json:
        """Return the numbers."""
        return {
            "operations": len(self.operations),
            "hosts": len(self.hosts - {""}),
            "vms": len(self.vms),
            "tenants": len(self.tenants),
            "events": len(self.events),
        }

    def report_for(self, reader: Reader, tenant: str) -> Json:
        """Return the numbers that a tenant may know: those of its events and VMs."""
        own: list[Event] = [
            event
            for name in self.events
            if (event := reader.get(Event, name)) is not None and event.tenant == tenant
        ]
        named = {resource.vm for event in own for resource in event.resources}
        return {"vms": len(named), "events": len(own)}


@dataclass(slots=True)
class Beforehand:
    """Work that a request stops or leaves alone, as it is before the request."""

    announced: Group = field(default_factory=Group)
    """Announced, and not started."""
    in_work: Group = field(default_factory=Group)
    waiting: int = 0
    """Hosts of the campaign that are not announced."""


def of_campaign(reader: Reader, name: str) -> Beforehand:
    """Return the work of a campaign; raises NotFoundError."""
    campaign = campaigns.find(reader, name)
    before = Beforehand()
    announced = every(reader, kinds.ANNOUNCED_OF_REQUEST, campaign.request)
    _count(reader, before.announced, announced)
    _count(reader, before.in_work, _in_work(reader, campaign))
    flying = len(before.announced.hosts | before.in_work.hosts)
    before.waiting = max(0, campaign.left - flying)
    return before


def of_service(reader: Reader) -> Beforehand:
    """Return the planned work on hosts and VMs that the brake concerns."""
    before = Beforehand()
    for state in sorted(WAITING_STATES, key=lambda state: state.value):
        _count_routine(reader, before.announced, state)
    for state in sorted(STARTED_STATES, key=lambda state: state.value):
        _count_routine(reader, before.in_work, state)
    return before


def _count_routine(reader: Reader, group: Group, state: OperationState) -> None:
    there = every(reader, kinds.OPERATIONS_IN_STATE, state.value)
    _count(
        reader,
        group,
        (
            operation
            for operation in _some(group, there)
            if operation.verb in PLANNED_VERBS
        ),
    )


def _some(group: Group, operations: Iterator[Operation]) -> Iterator[Operation]:
    """Yield at most `COUNTED_MAX` operations; note in the group if there are more."""
    yield from islice(operations, COUNTED_MAX)
    group.is_cut |= next(operations, None) is not None


def _in_work(reader: Reader, campaign: CampaignRecord) -> Iterator[Operation]:
    """Yield the operations of a campaign whose work has started and goes on."""
    yield from every(reader, kinds.STARTED_OF_REQUEST, campaign.request)
    failed = set(campaign.failed_hosts)
    for visit in every(reader, kinds.OPEN_VISITS_OF_REQUEST, campaign.request):
        operation = reader.get(Operation, visit.operation)
        is_left = operation is not None and operation.ended_at != 0
        if operation is not None and is_left and visit.host not in failed:
            yield operation


def _count(reader: Reader, group: Group, operations: Iterable[Operation]) -> None:
    for operation in operations:
        group.add(
            operation, every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id)
        )


def of_changes(
    work: Work, changed: Collection[str], *, creates: bool, tells_starts: bool = True
) -> dict[str, Group]:
    """Return what has become of the operations that a transaction has changed.

    `creates`: it is a request for new operations. Each of them has one effect. Without
    `tells_starts`, new work that has started at once counts as announced.
    """
    groups: dict[str, Group] = {}
    requests: dict[str, None] = {}
    for name in changed:
        operation = work.tx.get(Operation, name)
        if operation is None:
            continue
        requests[operation.request] = None
        events = work.events_of(operation)
        is_new = creates and operation.created == work.now
        effect = _effect_on(work, operation, is_new=is_new)
        if effect == "started" and is_new and not tells_starts:
            effect = "announced"
        if effect:
            groups.setdefault(effect, Group()).add(operation, events)
        approved = [event for event in events if event.event_id in work.approved]
        if approved and not is_new:
            groups.setdefault("approved", Group()).add_approved(operation, approved)
    for name in requests:
        _add_later(work, groups, work.request(name), creates=creates)
    return groups


def report(
    work: Work,
    groups: Mapping[str, Group],
    *,
    targets: int,
    changed: Iterable[str] = (),
    waiting: int | None = None,
    refused: Sequence[Json] = (),
) -> Json:
    """Return the effect of a request, for an operator.

    `changed` are the operations that the transaction has changed, and `waiting` is the
    number of hosts of a campaign that are not announced.
    """
    return {
        "dry_run": True,
        "targets": targets,
        "effect": {
            kind: group.report()
            for kind, group in sorted(groups.items())
            if group.operations
        },
        "moves": destinations(work, changed),
        "waiting_hosts": waiting,
        "at_least": any(group.is_cut for group in groups.values()),
        "refused": list(refused),
    }


def of_start(work: Work, prepared: Prepared, *, check: Check | None) -> DryRunError:
    """Start a campaign, and return the error that rolls it back; raises its refusals.

    `check` is called first, and its error refuses the start.
    """
    if check is not None:
        check(work)
    campaign = campaigns.start(work, prepared)
    changed = work.finish().changed
    return DryRunError(
        report(
            work,
            of_changes(work, changed, creates=True),
            targets=campaign.hosts,
            changed=changed,
        )
    )


def destinations(work: Work, changed: Iterable[str]) -> list[Json]:
    """Return where VMs would go by the operations that a transaction has changed."""
    operations = (work.tx.get(Operation, name) for name in changed)
    moves = (
        {"vm": move.vm, "to_host": move.to_host}
        for operation in operations
        if operation is not None and not operation.ended_at
        for move in operation.moves
        if move.to_host not in {"", operation.host} and not move.done
    )
    return list(islice(moves, MOVES_MAX))


def _add_later(
    work: Work, found: dict[str, Group], request: Request, *, creates: bool
) -> None:
    """Count the hosts of a rollout that follow in later transactions."""
    is_open = request.state is RequestState.OPEN
    if not is_open:
        group = found.setdefault("cancelled", Group())
        rest = every(work.tx, kinds.PLANNED_OF_REQUEST, request.request_id)
        for operation in _some(group, rest):
            group.add_host(operation.operation_id, operation.host)
    elif creates and request.created == work.now:
        group = found.setdefault("planned", Group())
    else:
        return
    for operation_id, host in unplanned.hosts_of(work.tx, request.request_id):
        group.add_host(operation_id, host)


def _effect_on(work: Work, operation: Operation, *, is_new: bool) -> str:
    """Return what has become of an operation; empty: nothing that is counted."""
    if operation.ended_at == work.now:
        is_cancelled = operation.state is OperationState.CANCELLED
        return "cancelled" if is_cancelled else "ended"
    if operation.state is OperationState.PLANNED:
        return "planned"
    if operation.started_at == work.now:
        return "started"
    return "announced" if is_new else ""


def check_revision(reader: Reader, name: str, revision: str) -> None:
    """Raise ChangedError if a campaign is not as the caller has seen it."""
    campaign = campaigns.find(reader, name)
    if revision == revision_of(campaign):
        return
    last = reader.get(AuditEntry, campaign.last_decision)
    if last is None:
        raise ChangedError(
            f"campaign {campaign.name} has changed since you looked",
            hint=f"Run `forewarn campaign show {campaign.name}`, and decide again.",
        )
    raise ChangedError(
        f"campaign {campaign.name} has changed since you looked: {last.what} by "
        f"{last.actor.text}",
        hint=f"Run `forewarn campaign show {campaign.name}`, and decide again.",
        entry=last,
    )
