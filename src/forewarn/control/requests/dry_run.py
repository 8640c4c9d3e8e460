"""Dry runs of requests: what each would change, as numbers.

A dry run decides a request in a transaction as usual, so that it meets the same
refusals. It counts the effect and raises `DryRunError`, which rolls everything back.
The pages that follow the transaction of a halt or of the brake are counted before it, by
the queries that these pages use.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.steering import revision_of
from forewarn.control.requests import campaigns
from forewarn.control.transactions.work import Work
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
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry

Json: TypeAlias = dict[str, Any]

COUNTED_MAX = 5_000
"""Maximum operations in a state that a dry run counts: a tenth of a second's work."""

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
        self.what = "" if entry is None else entry.what


@dataclass(slots=True)
class Group:
    """Operations that meet the same effect."""

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
        self.add_host(operation.operation_id, operation.host)
        self.vms.update(operation.vms, operation.left_vms)
        for event in events:
            self.events.add(event.event_id)
            self.tenants.add(event.tenant)

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
    found = Beforehand()
    announced = every(reader, kinds.ANNOUNCED_OF_REQUEST, campaign.request)
    _count(reader, found.announced, announced)
    _count(reader, found.in_work, _in_work(reader, campaign))
    flying = len(found.announced.hosts | found.in_work.hosts)
    found.waiting = max(0, campaign.left - flying)
    return found


def of_service(reader: Reader) -> Beforehand:
    """Return the routine work on hosts and VMs that the brake concerns."""
    found = Beforehand()
    for state in sorted(WAITING_STATES, key=lambda each: each.value):
        _count_routine(reader, found.announced, state)
    for state in sorted(STARTED_STATES, key=lambda each: each.value):
        _count_routine(reader, found.in_work, state)
    return found


def _count_routine(reader: Reader, group: Group, state: OperationState) -> None:
    there = every(reader, kinds.OPERATIONS_IN_STATE, state.value)
    _count(
        reader,
        group,
        (each for each in _some(group, there) if each.verb in PLANNED_VERBS),
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
    for each in operations:
        group.add(each, every(reader, kinds.EVENTS_OF_OPERATION, each.operation_id))


def of_changes(
    work: Work, changed: Collection[str], *, creates: bool
) -> dict[str, Group]:
    """Return what has become of the operations that a transaction has changed.

    `creates`: it is a request for new operations.
    """
    found: dict[str, Group] = {}
    requests: dict[str, None] = {}
    for name in changed:
        operation = work.tx.get(Operation, name)
        if operation is None:
            continue
        requests[operation.request] = None
        events = work.events_of(operation)
        is_new = creates and operation.created == work.now
        for effect in _effects_on(work, operation, is_new=is_new):
            found.setdefault(effect, Group()).add(operation, events)
        approved = [e for e in events if e.is_approved and e.approved_at == work.now]
        if approved and not is_new:
            group = found.setdefault("approved", Group())
            group.operations.add(name)
            group.hosts.add(operation.host)
            for event in approved:
                group.events.add(event.event_id)
                group.tenants.add(event.tenant)
                group.vms.update(resource.vm for resource in event.resources)
    for name in requests:
        _add_later(work, found, work.request(name), creates=creates)
    return found


def _add_later(
    work: Work, found: dict[str, Group], request: Request, *, creates: bool
) -> None:
    """Count the hosts of a rollout that follow in later transactions."""
    is_open = request.state is RequestState.OPEN
    if not is_open:
        group = found.setdefault("cancelled", Group())
        rest = every(work.tx, kinds.PLANNED_OF_REQUEST, request.request_id)
        for each in _some(group, rest):
            group.add_host(each.operation_id, each.host)
    elif creates and request.created == work.now:
        group = found.setdefault("planned", Group())
    else:
        return
    for operation_id, host in request.unplanned:
        group.add_host(operation_id, host)


def _effects_on(work: Work, operation: Operation, *, is_new: bool) -> Iterator[str]:
    if operation.ended_at == work.now:
        is_cancelled = operation.state is OperationState.CANCELLED
        yield "cancelled" if is_cancelled else "ended"
        return
    if operation.state is OperationState.PLANNED:
        yield "planned"
    elif is_new:
        yield "announced"
    if operation.started_at == work.now:
        yield "started"


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
