"""Explanations for any ID: its state, the reasons why it waits, and remedies.

A host, a VM, an event and a rollout are explained by their open operations. Every
reason is a value from the guard's code, with its sentence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import campaigns
from forewarn.control.rules import guard, shared_limit
from forewarn.control.rules.remedies import actionable_first
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.instants import Micros, format_instant
from forewarn.protocol.blockers import (
    AnyBlocker,
    SharedHost,
    bounded,
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
from forewarn.reporting import able, apart_hosts, unknown_names, visited
from forewarn.reporting.blocker_reports import blocker_report, blocker_reports
from forewarn.reporting.campaigns import deferred_count, failure_of
from forewarn.reporting.upcoming import upcoming_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import explained, operators, rollouts

Json: TypeAlias = dict[str, Any]

FAILED_EXPLAINED_MAX = 3
"""Failed hosts in the explanation of a campaign, each with its reason: a few show whether
they have a common cause."""

EXPLAINED_MAX = 20
"""Maximum operations in the explanation of a rollout, event, host or VM; the number of
the others is counted. The reasons of a Planned host take some milliseconds to find."""


def explain(reader: Reader, name: str, *, now: Micros, kind: str = "") -> Json:
    """Return the state of an object, and every reason why it waits.

    `kind` is `host`, `vm` or `campaign`, if several have this name. Raises NotFoundError
    with the nearest names, and RefusedError for an ambiguous name.
    """
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
    found = {"host": host, "VM": vm, "campaign": campaign}
    nouns = [noun for noun, each in found.items() if each is not None]
    if len(nouns) > 1:
        options = " or ".join(f"`--kind {noun.lower()}`" for noun in nouns)
        raise RefusedError(
            f"{name} is the name of a {' and of a '.join(nouns)}",
            hint=f"Run `forewarn explain {name}` with {options}.",
        )
    if host is not None:
        return _of_host(reader, host, now=now)
    if vm is not None:
        return _of_vm(reader, vm, now=now)
    if campaign is not None:
        return _of_campaign(reader, campaign, now=now)
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
    return _explanation(
        "operation",
        operation.operation_id,
        what=operators.task(operation),
        state=operation.state.value,
        standing=_joined(
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


def _explanation(
    kind: str,
    name: str,
    *,
    what: str,
    state: str,
    standing: str,
    blockers: Sequence[Json] = (),
    note: str = "",
    no_driver_call: bool = False,
    counts: Counter[str] | None = None,
    operations: Sequence[Json] = (),
    more_operations: int = 0,
    abilities: Sequence[Json] = (),
    upcoming: Sequence[Json] = (),
) -> Json:
    return {
        "kind": kind,
        "id": name,
        "what": what,
        "state": state,
        "standing": standing,
        "blocked_by": [each["text"] for each in blockers],
        "blockers": list(blockers),
        "note": note,
        "no_driver_call": no_driver_call,
        "counts": dict(counts or {}),
        "operations": list(operations),
        "more_operations": more_operations,
        "abilities": list(abilities),
        "upcoming": list(upcoming),
    }


def _of_operations(
    reader: Reader, operations: Sequence[Operation], *, now: Micros
) -> tuple[list[Json], list[Json]]:
    """Return the explanations of some operations, and their reasons without
    duplicates.

    Of several operations, a kind of reason has a few sentences and a count.
    """

    def limited(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
        return bounded(blockers) if len(operations) > 1 else tuple(blockers)

    reader = tenant_reader.remembered(reader)
    found: list[Json] = []
    reasons: dict[AnyBlocker, Json] = {}
    for operation in operations:
        blockers = tenant_reader.blockers(reader, operation, now=now)
        reports = blocker_reports(reader, operation, blockers, now=now)
        for blocker, report in zip(blockers, reports, strict=True):
            reasons.setdefault(blocker, report)
        found.append(
            {
                "operation": operation.operation_id,
                "what": operators.task(operation),
                "state": operation.state.value,
                "standing": _joined(
                    operators.standing(operation, blockers, now=now),
                    explained.freeze_of_migration(operation),
                ),
                "blocked_by": operators.reasons(limited(blockers)),
            }
        )
    told = limited(actionable_first(reasons))
    return found, [
        # A count of further reasons is new.
        reasons[each] if each in reasons else blocker_report(each, now=now)
        for each in told
    ]


def _of_request(reader: Reader, request: Request, *, now: Micros) -> Json:
    counts: Counter[str] = Counter()
    open_: dict[str, list[Operation]] = {}
    for each in every(reader, kinds.OPERATIONS_OF_REQUEST, request.request_id):
        counts[each.state.value] += 1
        kept = open_.setdefault(each.state.value, [])
        if each.state not in ENDED_STATES and len(kept) < EXPLAINED_MAX:
            kept.append(each)
    order = ("Impacting", "Ready", "Announced", "Recovering", "Planned")
    looked_at = [each for state in order for each in open_.get(state, ())]
    looked_at = looked_at[:EXPLAINED_MAX]
    found, reasons = _of_operations(reader, looked_at, now=now)
    return _explanation(
        "rollout" if request.is_rollout else "request",
        request.request_id,
        what=request.verb.value,
        state=request.state.value,
        standing=_joined(
            explained.progress(counts, len(request.unplanned)),
            visited.counted(reader, request),
        ),
        blockers=reasons,
        counts=counts,
        operations=found,
        more_operations=sum(counts[state] for state in order) - len(found),
    )


def _of_campaign(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Json:
    """Return the explanation of a campaign by its hosts in flight, the next ones that have
    reasons of their own, and its failed hosts.

    Its record has the counts, so that the cost does not depend on the number of hosts.
    """
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    started = every(reader, kinds.STARTED_OF_REQUEST, campaign.request)
    impacting = (each for each in started if each.state is OperationState.IMPACTING)
    first = islice(
        chain(
            impacting,
            every(reader, kinds.ANNOUNCED_OF_REQUEST, campaign.request),
            every(reader, kinds.PLANNED_OF_REQUEST, campaign.request),
        ),
        EXPLAINED_MAX,
    )
    found, reasons = _of_operations(reader, list(first), now=now)
    left = 0 if campaign.has_ended else campaign.left
    own = [] if campaign.has_ended else _gate_of(reader, request, campaign, now=now)
    told = {each["text"] for each in own}
    # A host that waits only for the campaign adds nothing to the campaign's own reasons.
    found = [
        each
        for each in found
        if each["state"] != OperationState.PLANNED.value
        or not told.issuperset(each["blocked_by"])
    ]
    deferred = deferred_count(reader, campaign)
    counts = {
        "Done": campaign.done,
        "InFlight": request.in_flight,
        "Waiting": max(0, left - request.in_flight - deferred),
        "Deferred": deferred,
        "Failed": len(campaign.failed),
        "Skipped": campaign.skipped,
    }
    return _explanation(
        "campaign",
        campaign.campaign_id,
        what=f"campaign {campaign.name}",
        state=campaign.state.value,
        standing=_joined(
            rollouts.campaign_standing(campaign, request.in_flight, deferred),
            *(
                rollouts.failed_host(host, failure_of(reader, operation))
                for host, operation in campaign.failed[:FAILED_EXPLAINED_MAX]
            ),
        ),
        blockers=[*own, *(each for each in reasons if each["text"] not in told)],
        counts=Counter(counts),
        operations=found,
        more_operations=max(0, left - len(found)),
    )


def _gate_of(
    reader: Reader, request: Request, campaign: CampaignRecord, *, now: Micros
) -> list[Json]:
    """Return why the campaign announces no further host, as values."""
    gate = shared_limit.ask(reader, request, campaign, now=now)
    if gate.blocker is None:
        return []
    found = blocker_report(gate.blocker, now=now)
    if gate.look_at:
        found["until"] = format_instant(gate.look_at)
    return [found]


def _of_visit(reader: Reader, visit: Visit, *, now: Micros) -> Json:
    operation = reader.get(Operation, visit.operation)
    is_open = operation is not None and not operation.ended_at
    some = [operation] if operation is not None and is_open else []
    found, reasons = _of_operations(reader, some, now=now)
    return _explanation(
        "visit",
        visit.visit_id,
        what=f"visit of host {visit.host}",
        state=visit.state.value,
        standing=visited.standing(reader, visit, now=now),
        blockers=reasons,
        operations=found,
    )


def _of_event(reader: Reader, event: Event, *, now: Micros) -> Json:
    operation = reader.get(Operation, event.operation)
    found, reasons = _of_operations(reader, [operation] if operation else [], now=now)
    return _explanation(
        "event",
        event.event_id,
        what=explained.event_title(event),
        state=event.status.value,
        standing=explained.event_standing(event, now=now),
        # An ended event has no reasons.
        blockers=reasons if event.is_live else (),
        operations=found,
    )


def _of_host(reader: Reader, host: Host, *, now: Micros) -> Json:
    there = list(every(reader, kinds.VMS_ON_HOST, host.name))
    shares = guard.shares(host.name, there)
    standing = _with_shares(explained.host_standing(host, len(there)), shares)
    open_ = list(every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name))
    return _of_place(
        reader,
        open_,
        kind="host",
        name=host.name,
        state=host.state.value,
        standing=_joined(
            standing,
            *_campaigns_of(reader, host.name, open_),
            *visited.of_host(reader, host.name, now=now),
        ),
        abilities=able.of_host(reader, host),
        now=now,
    )


def _campaigns_of(
    reader: Reader, host: str, open_: Iterable[Operation]
) -> Iterator[str]:
    """Yield the open campaigns that have a host to do, or in which it failed."""
    requests = {each.request for each in open_ if each.position}
    for campaign in every(reader, kinds.CAMPAIGNS_OPEN):
        if campaign.request in requests:
            yield rollouts.has_host(campaign.name)
        elif host in campaign.failed_hosts:
            yield rollouts.has_failed_host(campaign.name)


def _of_vm(reader: Reader, vm: Vm, *, now: Micros) -> Json:
    is_there = vm.state is not VmState.DELETED
    return _of_place(
        reader,
        every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name) if is_there else iter(()),
        kind="vm",
        name=vm.name,
        state=vm.state.value,
        standing=_with_shares(
            explained.vm_standing(vm), _shares_of(reader, vm) if is_there else ()
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
    return [upcoming_report(each) for each in page.work[:EXPLAINED_MAX]]


def _shares_of(reader: Reader, vm: Vm) -> Iterator[SharedHost]:
    """Yield the VM's scope if its host has several fault domains of it.

    A tenant's reader shows no host.
    """
    there = every(reader, kinds.VMS_ON_HOST, vm.host) if vm.host else ()
    return (each for each in guard.shares(vm.host, there) if each.scope == vm.scope)


def _with_shares(standing: str, shares: Iterable[SharedHost]) -> str:
    """Return a state with the scopes of which the host has several fault domains."""
    return operators.JOINT.join([standing, *map(explained.shared_host, shares)])


def _joined(*sentences: str) -> str:
    return operators.JOINT.join(filter(None, sentences))


def _of_place(
    reader: Reader,
    operations: Iterable[Operation],
    *,
    kind: str,
    name: str,
    state: str,
    standing: str,
    abilities: Sequence[Json],
    now: Micros,
    upcoming: Sequence[Json] = (),
) -> Json:
    open_ = list(operations)
    found, reasons = _of_operations(reader, open_[:EXPLAINED_MAX], now=now)
    return _explanation(
        kind,
        name,
        what=f"{kind} {name}",
        state=state,
        standing=explained.with_operations(standing, len(open_)),
        blockers=reasons,
        operations=found,
        more_operations=len(open_) - len(found),
        abilities=abilities,
        upcoming=upcoming,
    )
