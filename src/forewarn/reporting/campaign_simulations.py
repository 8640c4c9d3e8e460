"""Simulated campaigns as JSON: what happened, when, and to whom. For operators only."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, TypeAlias

from forewarn.campaigns.model import Campaign
from forewarn.campaigns.planner import CampaignPlan
from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.simulated import (
    USUAL_APPROVAL,
    Assumptions,
    HostCourse,
    Peak,
    joined,
    peak,
)
from forewarn.control.rules import obstacles
from forewarn.fleet.blackouts import coming
from forewarn.fleet.model import PLACES, Host
from forewarn.fleet.windows import openings
from forewarn.instants import (
    DAY,
    MINUTE,
    SECOND,
    Micros,
    format_instant,
    instant_or_none,
)
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import Visit
from forewarn.reporting.campaign_plans import time_of_blackout
from forewarn.reporting.campaign_sums import sums_and_figures
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every
from forewarn.wording import campaigns as wording
from forewarn.wording import operators, rollouts

Json: TypeAlias = dict[str, Any]

WAITING_TOLD_MAX = 5
"""Maximum hosts of which a report says why they still wait."""

REASONS_MAX = 3
"""Maximum reasons of such a host: a host can have one for each scope."""

PERIODS_MAX = 400
"""Maximum nights or days in a report: more than a simulation plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The current work of the service that a simulation does not have."""

    operations: int
    campaigns: tuple[str, ...]
    is_braked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A campaign that was played to its end, and the store with all its records."""

    plan: CampaignPlan
    record: CampaignRecord
    store: Store
    assumed: Assumptions
    announced: Mapping[str, Micros]
    """When each operation was announced."""
    approved: frozenset[str]
    """The operations of which all events were approved."""
    ended: Micros
    """When it ended, or made its last progress."""
    stopped: Micros
    """The virtual time at which it was no longer played."""
    is_cut: bool
    """Whether it made no progress any more."""
    left_out: LeftOut


def notices_of(plan: CampaignPlan, assumed: Assumptions) -> Sequence[Micros]:
    """Return the parts of past notices that count in a simulation, the shortest first.

    None: a share of the scopes approves.
    """
    if assumed.approve is not None or plan.measured is None:
        return ()
    return plan.measured.notices


def _approve_percent(played: Played) -> float | None:
    if notices_of(played.plan, played.assumed):
        return None
    share = played.assumed.approve
    return round(100 * (USUAL_APPROVAL if share is None else share), 6)


def simulation_report(played: Played, *, hosts_max: int) -> Json:
    """Return what happened in a simulation, with at most `hosts_max` hosts."""
    return played.store.read(lambda reader: _report(reader, played, hosts_max))


def _report(reader: Reader, played: Played, hosts_max: int) -> Json:
    plan, record = played.plan, played.record
    operations = list(every(reader, kinds.OPERATIONS_OF_REQUEST, record.request))
    courses = _courses(reader, played, operations)
    last = [courses[host] for host in plan.hosts if host in courses]
    failed = frozenset(record.failed_hosts)
    shown = last[:hosts_max]
    return {
        "campaign": record.name,
        "reason": record.reason,
        "impact": record.impact.value,
        "has_windows": bool(record.windows),
        "seed": played.assumed.seed,
        "approve_percent": _approve_percent(played),
        "approvals_measured": len(notices_of(plan, played.assumed)),
        "failure_percent": round(100 * played.assumed.failures, 6),
        "state": record.state.value,
        "halted": None if record.halt is None else rollouts.halt(record.halt),
        "is_stuck": played.is_cut,
        "waits": _waits(reader, played, operations) if played.is_cut else [],
        "begins": format_instant(plan.planned_at),
        "ends": format_instant(played.ended),
        "seconds": (played.ended - plan.planned_at) / SECOND,
        "forecast_ends": format_instant(plan.typical.end),
        "host_count": record.hosts,
        "vm_count": sum(plan.vms),
        "done": record.done,
        "failed": sorted(failed),
        "skipped": record.skipped,
        "left": record.hosts - record.done - record.skipped - len(failed),
        "withdrawn": record.withdrawn,
        "stages": list(_stages(record, last)),
        "blackouts": list(
            islice(
                map(
                    time_of_blackout,
                    coming(plan.all_blackouts, plan.planned_at, played.ended),
                ),
                PERIODS_MAX,
            )
        ),
        "periods": list(_periods(plan, last, played.ended)),
        "interruptions": _interruptions(reader, played),
        "moves": _moves(operations),
        "notice": _notice(last),
        **_waited(reader, played),
        "budgets": list(_budgets(plan, reader, courses, played)),
        "warnings": _warnings(played),
        "hosts": [_host(course) for course in shown],
        "hosts_left_out": len(last) - len(shown),
    }


def _waited(reader: Reader, played: Played) -> Json:
    """Return what the hosts waited for, as in the report of a campaign."""
    sums = sums_and_figures(reader, played.record, now=played.ended)
    return {name: sums[name] for name in ("waiting_seconds", "notice_seconds")}


def _courses(
    reader: Reader, played: Played, operations: Sequence[Operation]
) -> dict[str, HostCourse]:
    """Return the last attempt of each host that was announced."""
    record = played.record
    labels = [limit.label for limit in played.plan.campaign.budget.by]
    failed = dict(record.failed)
    by_host: dict[str, HostCourse] = {}
    first = replace(record, stage=1)
    for operation in operations:
        announced = played.announced.get(operation.operation_id)
        if announced is None or operation.state is OperationState.CANCELLED:
            continue
        tenants = Counter[str]()
        domains: set[tuple[str, int]] = set()
        events: list[Event] = list(
            every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id)
        )
        for event in events:
            tenants[event.tenant] += len(event.resources)
            domains.update(
                (event.scope, resource.fault_domain) for resource in event.resources
            )
        host = reader.get(Host, operation.host)
        visit = reader.get(Visit, operation.visit) if operation.visit else None
        freed = operation.ended_at if visit is None else visit.ended_at
        by_host[operation.host] = HostCourse(
            host=operation.host,
            stage=first.stage_of(operation.position),
            vms=tenants.total(),
            tenants=tenants,
            domains=frozenset(domains),
            groups={} if host is None else _groups(host, labels),
            cluster="" if host is None else host.cluster,
            rack="" if host is None else host.rack,
            announced=announced,
            not_before=operation.not_before,
            started=operation.started_at,
            ended=freed and max(freed, operation.ended_at),
            freed=freed,
            undisturbed=0
            if operation.state is OperationState.FAILED
            else operation.ended_at,
            failed_at=_failed_at(operation, visit)
            if failed.get(operation.host) == operation.operation_id
            else 0,
            was_approved=operation.operation_id in played.approved
            and operation.started_at < operation.not_before,
        )
    return by_host


def _failed_at(operation: Operation, visit: Visit | None) -> Micros:
    """Return when the work on a host failed: its visit stands still, or has no steps."""
    return operation.ended_at if visit is None else visit.ended_at or visit.since


def _groups(host: Host, labels: Sequence[str]) -> Mapping[str, str]:
    values = {**dict(host.labels), **{kind: getattr(host, kind) for kind in PLACES}}
    return {label: values[label] for label in labels if values.get(label)}


def _waits(
    reader: Reader, played: Played, operations: Sequence[Operation]
) -> list[Json]:
    """Return why the first hosts that wait do so."""
    waiting = [operation for operation in operations if not operation.ended_at][
        :WAITING_TOLD_MAX
    ]
    return [
        {
            "host": operation.host,
            "reasons": operators.reasons(
                obstacles.why_waiting(reader, operation, now=played.stopped)[
                    :REASONS_MAX
                ]
            ),
        }
        for operation in waiting
    ]


def _stages(record: CampaignRecord, courses: Sequence[HostCourse]) -> Iterator[Json]:
    by_stage = defaultdict[int, list[HostCourse]](list)
    for course in courses:
        by_stage[course.stage].append(course)
    for number, stage in enumerate(record.stages, start=1):
        of_stage = by_stage[number]
        ends = [course.ended for course in of_stage if course.ended]
        yield {
            "stage": number,
            "hosts": stage.hosts,
            "done": sum(
                1 for course in of_stage if course.ended and not course.has_failed
            ),
            "failed": sum(1 for course in of_stage if course.has_failed),
            "approval": stage.approval,
            "begins": instant_or_none(
                min((course.announced for course in of_stage), default=0)
            ),
            "ends": instant_or_none(max(ends, default=0)),
        }


def _periods(
    plan: CampaignPlan, courses: Sequence[HostCourse], ended: Micros
) -> Iterator[Json]:
    """Yield the openings of the windows, or the days, with the hosts that ended then.

    A host that ends after the close belongs to the opening before.
    """
    bounds = list(_bounds(plan.campaign, plan.planned_at, ended))
    starts = [*(opens for opens, _ in bounds[1:]), ended + 1]
    before = 0
    for (opens, closes), until in zip(bounds, starts, strict=True):
        ends = [e for e in courses if e.settled and before <= e.settled < until]
        before = until
        yield {
            "opens": format_instant(opens),
            "closes": format_instant(closes),
            "done": sum(1 for course in ends if not course.has_failed),
            "failed": sum(1 for course in ends if course.has_failed),
        }


def _bounds(
    campaign: Campaign, begins: Micros, ended: Micros
) -> Iterator[tuple[Micros, Micros]]:
    if campaign.windows:
        for number, opening in enumerate(openings(campaign.windows, begins)):
            if number == PERIODS_MAX or (number and opening.opens > ended):
                return
            yield opening.opens, opening.closes
    else:
        days = range(begins - begins % DAY, ended + DAY, DAY)
        yield from list(pairwise(days))[:PERIODS_MAX]


def _interruptions(reader: Reader, played: Played) -> list[Json]:
    """Return for each kind of interruption the VMs and their minutes."""
    lengths, vms = Counter[str](), defaultdict[str, set[str]](set)
    down = Counter[str]()
    for span in every(reader, kinds.ALL_SPANS):
        if span.is_outage:
            kind = span.kind.value
            lengths[kind] += max(0, (span.ended or played.ended) - span.began)
            vms[kind].add(span.vm)
            down[kind] += span.is_open
    return [
        {
            "kind": kind,
            "vms": len(vms[kind]),
            "minutes": round(lengths[kind] / MINUTE, 1),
            "still_down": down[kind],
        }
        for kind in sorted(vms)
    ]


def _moves(operations: Sequence[Operation]) -> Json:
    moves = Counter[str]()
    for operation in operations:
        moves.update(move.vm for move in operation.moves if move.done and move.to_host)
    return {
        "vms": len(moves),
        "moves": moves.total(),
        "most": max(moves.values(), default=0),
    }


def _notice(courses: Sequence[HostCourse]) -> Json:
    """Return how much of their notice hosts with VMs have used."""
    announced = [course for course in courses if course.vms and course.started]
    notice = sum(course.not_before - course.announced for course in announced)
    used = sum(
        min(course.started, course.not_before) - course.announced
        for course in announced
    )
    return {
        "hosts": len(announced),
        "approved_hosts": sum(1 for course in announced if course.was_approved),
        "given_minutes": round(notice / MINUTE / len(announced), 1)
        if announced
        else 0.0,
        "used_percent": round(100 * used / notice, 1) if notice else 0.0,
    }


def _budgets(
    plan: CampaignPlan,
    reader: Reader,
    courses: Mapping[str, HostCourse],
    played: Played,
) -> Iterator[Json]:
    """Yield the worst moment of each budget. A failed host uses it to the end."""
    limits, budget = plan.limits, plan.campaign.budget
    spans = [
        (
            course,
            course.announced,
            played.ended if course.has_failed else course.freed or played.ended,
        )
        for course in courses.values()
    ]
    hosts = [(begins, ends, "", 1) for _, begins, ends in spans]
    yield _peak("in-flight", "", peak(hosts, {"": limits.in_flight}))
    yield _peak(
        "unavailable",
        "",
        peak(hosts, {"": limits.unavailable}, base=limits.away),
    )
    for group in limits.groups:
        if group.written:
            most = {
                value: group.most[number]
                for number, value in enumerate(group.column.names)
            }
            uses = [
                (begins, ends, course.groups[group.label], 1)
                for course, begins, ends in spans
                if group.label in course.groups
            ]
            yield _peak("group", group.label, peak(uses, most))
    totals = Counter(vm.tenant for vm in every(reader, kinds.ALL_VMS))
    amount = budget.tenant_vms
    vms = [
        (begins, ends, tenant, count)
        for course, begins, ends in spans
        for tenant, count in course.tenants.items()
    ]
    per_tenant = (
        {}
        if amount is None
        else {name: max(1, amount.of(vms)) for name, vms in totals.items()}
    )
    yield _peak("tenant-vms", "", peak(vms, per_tenant))
    # A fault domain is free with its VMs, and a failed host keeps its other places.
    busy = [
        (course, course.announced, course.undisturbed or played.ended)
        for course in courses.values()
    ]
    yield _peak("overlap-notice", "", _domains_peak(busy, limits.overlap + 1))


def _domains_peak(
    spans: Iterable[tuple[HostCourse, Micros, Micros]], domains_max: int
) -> Peak | None:
    """Return when most fault domains of a scope were announced, in work or recovering."""
    by_domain = defaultdict[tuple[str, int], list[tuple[Micros, Micros]]](list)
    for course, begins, ends in spans:
        for domain in course.domains:
            by_domain[domain].append((begins, ends))
    uses = [
        (begins, ends, scope, 1)
        for (scope, _), found in by_domain.items()
        for begins, ends in joined(found)
    ]
    limits: dict[str, int | None] = {scope: domains_max for scope, _ in by_domain}
    return peak(uses, limits)


def _peak(kind: str, label: str, found: Peak | None) -> Json:
    return {
        "kind": kind,
        "label": label,
        "subject": "" if found is None else found.subject,
        "used": 0 if found is None else found.used,
        "most": None if found is None else found.most,
        "at": None if found is None else format_instant(found.at),
    }


def _warnings(played: Played) -> list[str]:
    return [
        *wording.warnings(played.plan),
        *wording.not_simulated(
            operations=played.left_out.operations,
            campaigns=played.left_out.campaigns,
            is_braked=played.left_out.is_braked,
            checks=len(played.plan.campaign.checks),
        ),
    ]


def _host(course: HostCourse) -> Json:
    state = "done"
    if course.has_failed:
        state = "failed"
    elif not course.ended:
        state = "in-work" if course.started else "announced"
    return {
        "host": course.host,
        "cluster": course.cluster,
        "rack": course.rack,
        "stage": course.stage,
        "vms": course.vms,
        "state": state,
        "begins": format_instant(course.announced),
        "starts": instant_or_none(course.started),
        "ends": instant_or_none(course.ended),
    }
