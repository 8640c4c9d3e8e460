"""Explanations for any ID: its state, the reasons why it waits, and remedies.

A host, a VM, an event and a rollout are explained by their open operations. Every
reason is a value from the guard's code, with its sentence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeAlias

from forewarn.campaigns.gate import Gate
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import campaigns
from forewarn.control.rules import guard, shared_limit
from forewarn.fleet.model import Host, Vm, VmState, place
from forewarn.instants import Micros, format_instant
from forewarn.protocol.blockers import (
    SharedHost,
)
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    Request,
)
from forewarn.protocol.visits import Visit
from forewarn.reporting import (
    able,
    apart_hosts,
    explained_names,
    unknown_names,
    visited,
)
from forewarn.reporting.blocker_reports import blocker_report, blocker_reports
from forewarn.reporting.campaigns import deferred_count, failure_of
from forewarn.reporting.explained_names import NOTHING_OUTSIDE, Outside
from forewarn.reporting.explanation import (
    EXPLAINED_MAX,
    WaitingHosts,
    explanation,
    joined,
    of_operations,
    of_place,
)
from forewarn.reporting.upcoming import upcoming_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import explained, operators, rollouts

Json: TypeAlias = dict[str, Any]

FAILED_EXPLAINED_MAX = 3
"""Failed hosts in the explanation of a campaign, each with its reason: a few show whether
they have a common cause."""


def explain(
    reader: Reader,
    name: str,
    *,
    now: Micros,
    kind: str = "",
    outside: Outside = NOTHING_OUTSIDE,
) -> Json:
    """Return the state of an object, and every reason why it waits.

    A host, VM or campaign comes before an object of another kind with the same name.
    `kind` selects one of several. `outside` has the objects that are not in the store.
    Raises NotFoundError with the nearest names, and RefusedError for an ambiguous name.
    """
    if kind in explained_names.KINDS:
        return explained_names.explain(reader, name, outside, now=now, kind=kind)
    named = tenant_reader.real_id(reader, name)
    operation = reader.get(Operation, named)
    if operation is not None:
        return of_operation(reader, operation, now=now)
    if (request := reader.get(Request, named)) is not None:
        return _of_request(reader, request, now=now)
    if (visit := reader.get(Visit, name)) is not None:
        return _of_visit(reader, visit, now=now)
    if (event := reader.get(Event, name.upper())) is not None:
        return _of_event(reader, event, now=now)
    host = reader.get(Host, name) if kind in {"", "host"} else None
    vm = reader.get(Vm, name) if kind in {"", "vm"} else None
    campaign = _campaign(reader, name) if kind in {"", "campaign"} else None
    objects = {"host": host, "VM": vm, "campaign": campaign}
    nouns = [noun for noun, found_ in objects.items() if found_ is not None]
    if len(nouns) > 1:
        options = " or ".join(f"`--kind {noun.lower()}`" for noun in nouns)
        raise RefusedError(
            f"{name} is the name of a {' and of a '.join(nouns)}",
            hint=f"Run `forewarn explain {name}` with {options}.",
        )
    if host is not None:
        return _of_host(reader, host, outside, now=now)
    if vm is not None:
        return _of_vm(reader, vm, outside, now=now)
    if campaign is not None:
        return _of_campaign(reader, campaign, now=now)
    if not kind:
        return explained_names.explain(reader, name, outside, now=now)
    raise unknown_names.error_for(reader, name)


def _campaign(reader: Reader, name: str) -> CampaignRecord | None:
    """Return the campaign with this ID or name, unless the reader is a tenant's."""
    if isinstance(reader, TenantReader):
        return None
    try:
        return campaigns.find(reader, name)
    except NotFoundError:
        return None


def of_operation(reader: Reader, operation: Operation, *, now: Micros) -> Json:
    """Return the state of an operation, and the reasons why it waits."""
    blockers = tenant_reader.blockers(reader, operation, now=now)
    return explanation(
        "operation",
        operation.operation_id,
        what=operators.task(operation),
        state=operation.state.value,
        status=joined(
            operators.standing(operation, blockers, now=now),
            explained.freeze_of_migration(operation),
            explained.promised(operation, now=now),
            apart_hosts.way_out(reader, operation, blockers),
            visited.of_operation(reader, operation, now=now),
        ),
        blockers=blocker_reports(reader, operation, blockers, now=now),
        note=operators.note(operation.note),
        no_driver_call=operation.called_no_driver,
    )


def _of_request(reader: Reader, request: Request, *, now: Micros) -> Json:
    counts: Counter[str] = Counter()
    open_: dict[str, list[Operation]] = {}
    for operation in every(reader, kinds.OPERATIONS_OF_REQUEST, request.request_id):
        counts[operation.state.value] += 1
        first = open_.setdefault(operation.state.value, [])
        if operation.state not in ENDED_STATES and len(first) < EXPLAINED_MAX:
            first.append(operation)
    order = ("Impacting", "Ready", "Announced", "Recovering", "Planned")
    looked_at = [operation for state in order for operation in open_.get(state, ())]
    looked_at = looked_at[:EXPLAINED_MAX]
    in_order = WaitingHosts(
        counts["Planned"] + request.hosts_unplanned,
        seen=sum(operation.state is OperationState.PLANNED for operation in looked_at),
    )
    documents, reasons = of_operations(reader, looked_at, now=now, waiting=in_order)
    count_open = sum(counts[state] for state in order)
    return explanation(
        "rollout" if request.is_rollout else "request",
        request.request_id,
        what=request.verb.value,
        state=request.state.value,
        status=joined(
            explained.progress(counts, request.hosts_unplanned),
            visited.counted(reader, request),
            explained.first_only(len(looked_at), count_open),
        ),
        blockers=reasons,
        counts=counts,
        operations=documents,
        more_operations=count_open - len(documents),
    )


def _of_campaign(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Json:
    """Return the explanation of a campaign by its hosts in flight, the next ones that have
    reasons of their own, and its failed hosts.

    Its record has the counts, so that the cost does not depend on the number of hosts.
    """
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    started = every(reader, kinds.STARTED_OF_REQUEST, campaign.request)
    impacting = (
        operation
        for operation in started
        if operation.state is OperationState.IMPACTING
    )
    first = islice(
        chain(
            impacting,
            every(reader, kinds.ANNOUNCED_OF_REQUEST, campaign.request),
            every(reader, kinds.PLANNED_OF_REQUEST, campaign.request),
        ),
        EXPLAINED_MAX,
    )
    left = 0 if campaign.has_ended else campaign.left
    gate = (
        Gate()
        if campaign.has_ended
        else shared_limit.ask(reader, request, campaign, now=now)
    )
    own = () if gate.blocker is None else (gate.blocker,)
    # A host that waits only for the campaign adds nothing to the campaign's own reasons.
    documents, reasons = of_operations(reader, list(first), now=now, own=own)
    deferred = deferred_count(reader, campaign)
    counts = {
        "Done": campaign.done,
        "InFlight": request.in_flight,
        "Waiting": max(0, left - request.in_flight - deferred),
        "Deferred": deferred,
        "Failed": len(campaign.failed),
        "Skipped": campaign.skipped,
    }
    return explanation(
        "campaign",
        campaign.campaign_id,
        what=f"campaign {campaign.name}",
        state=campaign.state.value,
        status=joined(
            rollouts.campaign_standing(campaign, request.in_flight, deferred),
            *(
                rollouts.failed_host(host, failure_of(reader, operation))
                for host, operation in campaign.failed[:FAILED_EXPLAINED_MAX]
            ),
        ),
        blockers=[
            *_report_of(gate, now=now),
            *reasons,
        ],
        counts=Counter(counts),
        operations=documents,
        more_operations=max(0, left - len(documents)),
    )


def _report_of(gate: Gate, *, now: Micros) -> list[Json]:
    """Return why the campaign announces no further host, as values."""
    if gate.blocker is None:
        return []
    documents = blocker_report(gate.blocker, now=now)
    if gate.look_at:
        documents["until"] = format_instant(gate.look_at)
    return [documents]


def _of_visit(reader: Reader, visit: Visit, *, now: Micros) -> Json:
    operation = reader.get(Operation, visit.operation)
    is_open = operation is not None and not operation.ended_at
    some = [operation] if operation is not None and is_open else []
    documents, reasons = of_operations(reader, some, now=now)
    return explanation(
        "visit",
        visit.visit_id,
        what=f"visit of host {visit.host}",
        state=visit.state.value,
        status=visited.standing(reader, visit, now=now),
        blockers=reasons,
        operations=documents,
    )


def _of_event(reader: Reader, event: Event, *, now: Micros) -> Json:
    operation = reader.get(Operation, event.operation)
    documents, reasons = of_operations(
        reader, [operation] if operation else [], now=now
    )
    return explanation(
        "event",
        event.event_id,
        what=explained.event_title(event),
        state=event.status.value,
        status=explained.event_standing(event, now=now),
        # An ended event has no reasons.
        blockers=reasons if event.is_live else (),
        operations=documents,
    )


def _of_host(reader: Reader, host: Host, outside: Outside, *, now: Micros) -> Json:
    there = list(every(reader, kinds.VMS_ON_HOST, host.name))
    shares = guard.shares(host.name, there)
    standing = _with_shares(explained.host_standing(host, len(there)), shares)
    open_ = list(every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name))
    return of_place(
        reader,
        open_,
        kind="host",
        name=host.name,
        state=host.state.value,
        status=joined(
            standing,
            explained.unreachable(outside.unreachable.get(host.name, "")),
            *_partners_of(reader, host),
            *_campaigns_of(reader, host.name, open_),
            *visited.of_host(reader, host.name, now=now),
        ),
        abilities=able.of_host(reader, host),
        now=now,
    )


PARTNERS_MAX = 100
"""Maximum hosts of a pool that an explanation counts: each is read."""


def _partners_of(reader: Reader, host: Host) -> Iterator[str]:
    """Yield the hosts with which a host exchanges VMs, if it is in a pool."""
    if not host.pool:
        return
    pool = place("pool", host.pool)
    hosts = reader.select(kinds.HOSTS_AT_PLACE, pool, limit=PARTNERS_MAX + 2)
    others = [other.name for other in hosts if other.name != host.name]
    yield explained.partners(
        host.pool, others[:PARTNERS_MAX], is_cut=len(others) > PARTNERS_MAX
    )


def _campaigns_of(
    reader: Reader, host: str, open_: Iterable[Operation]
) -> Iterator[str]:
    """Yield the open campaigns that have a host to do, or in which it failed."""
    requests = {operation.request for operation in open_ if operation.position}
    for campaign in every(reader, kinds.CAMPAIGNS_OPEN):
        if campaign.request in requests:
            yield rollouts.has_host(campaign.name)
        elif host in campaign.failed_hosts:
            yield rollouts.has_failed_host(campaign.name)


def _of_vm(reader: Reader, vm: Vm, outside: Outside, *, now: Micros) -> Json:
    is_there = vm.state is not VmState.DELETED
    return of_place(
        reader,
        every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name) if is_there else iter(()),
        kind="vm",
        name=vm.name,
        state=vm.state.value,
        status=joined(
            _with_shares(
                explained.vm_standing(vm), _shares_of(reader, vm) if is_there else ()
            ),
            explained.unreachable(outside.unreachable.get(vm.host, "")),
        ),
        abilities=able.of_vm(reader, vm) if is_there else (),
        now=now,
        upcoming=_upcoming_of(reader, vm, now=now) if is_there else (),
    )


def _upcoming_of(reader: Reader, vm: Vm, *, now: Micros) -> list[Json]:
    """Return the coming work on a VM, as its tenant sees it."""
    own = (
        reader if isinstance(reader, TenantReader) else TenantReader(reader, vm.tenant)
    )
    page = own.upcoming(
        scope=vm.scope, vm=vm.name, after="", limit=EXPLAINED_MAX, now=now
    )
    return [upcoming_report(operation) for operation in page.work[:EXPLAINED_MAX]]


def _shares_of(reader: Reader, vm: Vm) -> Iterator[SharedHost]:
    """Yield the VM's scope if its host has several fault domains of it.

    A tenant's reader shows no host.
    """
    there = every(reader, kinds.VMS_ON_HOST, vm.host) if vm.host else ()
    return (share for share in guard.shares(vm.host, there) if share.scope == vm.scope)


def _with_shares(standing: str, shares: Iterable[SharedHost]) -> str:
    """Return a state with the scopes of which the host has several fault domains."""
    return operators.JOINT.join([standing, *map(explained.shared_host, shares)])
