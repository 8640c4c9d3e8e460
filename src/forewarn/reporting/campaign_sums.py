"""The sums of a campaign's report: results, downtime, moves, notice and approvals.

A campaign of 10,000 hosts has ten times as many events. So single fields are read, each
kind of record once: operations by rollout, their events and spans by the range of their
IDs, which sort by time. For operators only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import lt
from typing import Any, NamedTuple, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Vm
from forewarn.instants import Micros, format_instant
from forewarn.protocol.operations import (
    Deferrals,
    Operation,
    OperationState,
    TenantWait,
    could_not_move,
)
from forewarn.protocol.visits import SkipReason, VisitState
from forewarn.reporting import campaign_domains, waiting_causes
from forewarn.reporting.campaign_courses import end_of, visit_of
from forewarn.reporting.campaign_figures import CampaignFigures
from forewarn.reporting.campaign_reports import (
    ended_at,
    stage_of,
    waited_since,
    why_failed,
)
from forewarn.reporting.campaign_states import DEFERRED, attempt_state
from forewarn.reporting.uptime import seconds
from forewarn.reporting.waiting_causes import Wait
from forewarn.store import kinds
from forewarn.store.port import Columns, Reader, columns, columns_of, every
from forewarn.store.questions import Query
from forewarn.store.records import AuditEntry
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]

FAILURES_MAX = 20
"""Failures in the sums, one screen of text. The attempts have all."""

SCOPES_MAX = 20
"""Scopes that the sums name, as many as failures."""

_PHASES = ("waiting", "notice", "work", "recovery")
"""The phases of an attempt, in their order."""

_FIELDS = (
    *("operation_id", "host", "position", "state", "not_before"),
    *("started_at", "impact_ended_at", "ended_at", "deferrals", "tenant_waits"),
)


_MOVE_FIELDS = ("moves.vm", "moves.to_host", "moves.done", "moves.is_down")


class _VisitEnd(NamedTuple):
    """How far the visit of an operation is, or how it ended."""

    state: VisitState
    skipped: SkipReason | None
    at: Micros
    """When it ended, or came to a standstill; 0: not yet."""


class _Attempt(NamedTuple):
    """The fields of an operation that are summed up, in the order of `_FIELDS`."""

    operation_id: str
    host: str
    position: int
    state: OperationState
    not_before: Micros
    started_at: Micros
    impact_ended_at: Micros
    ended_at: Micros
    deferrals: Sequence[Deferrals]
    tenant_waits: Sequence[TenantWait]
    could_not_move: bool


class _Begun(NamedTuple):
    """How an attempt began."""

    waited: Micros
    """Since when it waited."""
    announced: Micros
    """When it was announced; 0: it was not."""
    agreed: Micros
    """When all its events were approved or due."""


@dataclass(slots=True)
class _Sums:
    """The sums of attempts, added one by one."""

    attempts: int = 0
    stages: dict[int, Counter[str]] = field(default_factory=dict[int, Counter[str]])
    phases: Counter[str] = field(default_factory=Counter[str])
    notice_causes: Counter[str] = field(default_factory=Counter[str])
    deferred: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Tenants and hosts whose work they deferred."""
    vms: set[str] = field(default_factory=set[str])
    moves: Counter[str] = field(default_factory=Counter[str])
    started: int = 0
    noticed: int = 0
    """Started attempts that were announced: a host without VMs is not."""
    given: Micros = 0
    used: Micros = 0
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Failed and deferred operations, each with its state."""

    def add_moves(
        self,
        host: str,
        vms: Sequence[str],
        to_hosts: Sequence[str],
        done: Sequence[bool],
        *,
        is_started: bool,
    ) -> None:
        """Add the moves of an attempt on a host, given as columns."""
        stays = {"", host}
        self.moves.update(
            [
                vm
                for vm, to_host in zip(
                    compress(vms, done), compress(to_hosts, done), strict=True
                )
                if to_host not in stays
            ]
        )
        if is_started:
            self.vms.update(vms)

    def add(
        self,
        attempt: _Attempt,
        state: str,
        stage: int,
        begun: _Begun,
        now: Micros,
    ) -> None:
        """Add an attempt with its state."""
        waited, announced, _ = begun
        self.attempts += 1
        self.stages.setdefault(stage, Counter())[state] += 1
        started, over = attempt.started_at, attempt.impact_ended_at
        stop = attempt.ended_at or now
        spent = (
            _between(waited, announced or stop),
            _between(announced, started or stop),
            _between(started, over or stop),
            _between(over, stop),
        )
        for name, span in zip(_PHASES, spent, strict=True):
            self.phases[name] += span
        if announced:
            self._add_notice(attempt, begun, started or stop)
        if attempt.deferrals:
            self.deferred.update(
                (each.tenant, attempt.host) for each in attempt.deferrals
            )
        if started:
            self.started += 1
            self.noticed += announced != 0
            self.given += _between(announced, attempt.not_before)
            self.used += _between(announced, started)
        if state in {OperationState.FAILED.value, DEFERRED}:
            self.failures.append((attempt.operation_id, state))

    def _add_notice(self, attempt: _Attempt, begun: _Begun, until: Micros) -> None:
        """Add what an announced attempt waited for, until its start or its end."""
        agreed = max(begun.announced, min(begun.agreed, until))
        parts = waiting_causes.held_between(attempt.tenant_waits, agreed, until)
        held = sum(ends - begins for _, begins, ends in parts)
        causes = self.notice_causes
        causes[waiting_causes.APPROVAL] += agreed - begun.announced
        causes[waiting_causes.WINDOW] += held
        causes[waiting_causes.START] += max(0, until - agreed) - held


def _between(first: Micros, last: Micros) -> Micros:
    """Return the span between two instants; 0 if one of them has not come."""
    return max(0, last - first) if first and last else 0


def sums_and_figures(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Json:
    """Return the sums of a campaign, and its figures for people."""
    figures = CampaignFigures()
    sums = campaign_sums(reader, campaign, now=now, figures=figures)
    several = campaign_domains.several_down(
        reader, campaign, figures.down_scopes, figures.operations, now=now
    )
    entries = waiting_causes.history(reader, campaign)
    held = waiting_causes.stretches(
        reader, campaign, entries, figures.stage_ends, now=now
    )
    waited = waiting_causes.sums(held, figures.waits)
    return {
        **sums,
        "failures": [
            {**failure, "then": _then(reader, entries, failure)}
            for failure in sums["failures"]
        ],
        "waiting_seconds": {cause: seconds(waited[cause]) for cause in waited},
        **figures.report(),
        "several_domains_down_count": len(several),
        "several_domains_down": several[:SCOPES_MAX],
    }


def _then(reader: Reader, entries: Sequence[AuditEntry], failure: Json) -> Json | None:
    """Return what was decided about a failed host; None: nothing yet."""
    operation = reader.get(Operation, failure["operation"])
    assert operation is not None, failure["operation"]
    failed = ended_at(operation.ended_at, visit_of(reader, operation))
    decision = waiting_causes.decision_after(entries, failure["host"], failed)
    if decision is None:
        return None
    return {**decision._asdict(), "at": format_instant(decision.at)}


def campaign_sums(
    reader: Reader,
    campaign: CampaignRecord,
    *,
    now: Micros,
    figures: CampaignFigures | None = None,
) -> Json:
    """Return the sums of a campaign, which can still run.

    `figures` get the same rows.
    """
    sums = _Sums()
    visits = _visits(reader, campaign)
    attempts = _attempts(reader, campaign, sums, visits)
    names = {attempt.operation_id for attempt in attempts}
    span = (min(names, default=""), max(names, default=""))
    announced, agreed, approvals = _events(reader, names, span, figures)
    ends: defaultdict[str, list[Micros]] = defaultdict(list)
    for attempt in attempts:
        if attempt.ended_at:
            ends[attempt.host].append(attempt.ended_at)
    failed: set[tuple[str, Micros]] = set()
    for attempt in attempts:
        state = _state(attempt, visits.get(attempt.operation_id))
        noticed = announced.get(attempt.operation_id, 0)
        others = (at for at in ends[attempt.host] if at != attempt.ended_at)
        waited = waited_since(campaign, others, noticed or now)
        stage = stage_of(campaign, attempt.position)
        if state == OperationState.FAILED.value:
            failed.add((attempt.host, attempt.ended_at))
        begun = _Begun(waited, noticed, agreed.get(attempt.operation_id, 0))
        sums.add(attempt, state, stage, begun, now)
        if figures is not None:
            if state == OperationState.DONE.value:
                figures.add_done(attempt.ended_at)
            stop = noticed or attempt.ended_at or now
            has_failed = (attempt.host, waited) in failed
            figures.add_wait(
                *(stage, waited, stop, attempt.ended_at),
                has_failed=has_failed,
                by_tenants=attempt.tenant_waits,
            )
    if figures is not None:
        figures.operations = names
        _add_vms(reader, sums, figures)
        for host, ended in failed:
            if host in campaign.failed_hosts and ended == max(ends[host]):
                figures.waits.append(Wait(ended, campaign.ended or now, True))
    return {
        **_document(reader, sums),
        "vm_down_seconds": seconds(_down(reader, names, span, now, figures)),
        **approvals,
        **_deferrals(reader, campaign, sums, figures),
    }


def _deferrals(
    reader: Reader,
    campaign: CampaignRecord,
    sums: _Sums,
    figures: CampaignFigures | None,
) -> Json:
    """Return how often tenants have deferred work of a campaign, and on how many hosts."""
    times = Counter[str]()
    for choice in every(reader, kinds.CHOICES_OF_REQUEST, campaign.request):
        times[choice.tenant] += choice.deferrals
    if figures is not None:
        hosts = Counter(tenant for tenant, _ in sums.deferred)
        figures.add_deferrals(+times, hosts)
    return {
        "deferrals": times.total(),
        "hosts_deferred": len({host for _, host in sums.deferred}),
    }


def _add_vms(reader: Reader, sums: _Sums, figures: CampaignFigures) -> None:
    """Add the VMs of the attempts that have started, and those that moved."""
    for names, tenants in columns_of(reader, Vm, ("name", "tenant"), sums.vms):
        figures.add_vms(names, tenants, sums.moves)


def _visits(reader: Reader, campaign: CampaignRecord) -> dict[str, _VisitEnd]:
    """Return how far the visit of each operation is that has one."""
    one = (campaign.request, campaign.request)
    names = ("operation", "state", "skipped", "ended_at", "since")
    return {
        operation: _VisitEnd(state, skipped, end_of(state, ended, since))
        for operation, state, skipped, ended, since in _rows(
            reader, kinds.VISITS_OF_REQUEST, names, one
        )
    }


def _state(attempt: _Attempt, visit: _VisitEnd | None) -> str:
    """Return the state of an attempt, which is that of its visit if it has one."""
    if visit is None:
        return DEFERRED if attempt.could_not_move else attempt.state.value
    return attempt_state(attempt.state, visit.state, visit.skipped)


def _attempts(
    reader: Reader,
    campaign: CampaignRecord,
    sums: _Sums,
    visits: dict[str, _VisitEnd],
) -> list[_Attempt]:
    """Return the attempts of a campaign, and add their moves to the sums.

    An attempt ends with its visit, if it has one.

    Only some fields of the moves are read: a campaign of 10,000 hosts has 100,000 moves,
    and to create them took a third of the time of the report.
    """
    attempts: list[_Attempt] = []
    one = (campaign.request, campaign.request)
    for *fields, action, vms, to_hosts, done, down in _rows(
        reader, kinds.OPERATIONS_OF_REQUEST, (*_FIELDS, "action", *_MOVE_FIELDS), one
    ):
        state = fields[_FIELDS.index("state")]
        could_not = could_not_move(state, action, is_any_down=any(down))
        attempt = _Attempt._make((*fields, could_not))
        if visit := visits.get(attempt.operation_id):
            attempt = attempt._replace(ended_at=visit.at)
        is_started = bool(attempt.started_at)
        sums.add_moves(attempt.host, vms, to_hosts, done, is_started=is_started)
        attempts.append(attempt)
    return attempts


def _down(
    reader: Reader,
    names: set[str],
    span: tuple[str, str],
    now: Micros,
    figures: CampaignFigures | None,
) -> Micros:
    """Return the total downtime of VMs in these operations.

    An interruption that has not ended counts until now.
    """
    more = () if figures is None else figures.SPAN_FIELDS
    wanted, down = ("operation", "began", "ended", *more), 0
    for page in columns(reader, kinds.SPANS_OF_OPERATION, wanted, between=span):
        _, began, ended, *others = _of(names, page)
        down += sum(ended) + now * ended.count(0) - sum(began)
        if figures is not None:
            tenants, vms, causes, scopes = others
            lasted = (
                (last or now) - first for first, last in zip(began, ended, strict=True)
            )
            figures.add_spans(tenants, vms, causes, scopes, lasted)
    return down


def _of(names: set[str], page: Columns) -> Columns:
    """Return the columns of the rows of these operations, which the first column has.

    Other campaigns can have rows in between.
    """
    if names.issuperset(page[0]):
        return page
    chosen = [operation_id in names for operation_id in page[0]]
    return [[*compress(column, chosen)] for column in page]


def _rows(
    reader: Reader,
    query: Query[Any],
    names: tuple[str, ...],
    between: tuple[str, str],
) -> Iterator[tuple[Any, ...]]:
    for page in columns(reader, query, names, between=between):
        yield from zip(*page, strict=True)


def _events(
    reader: Reader,
    names: set[str],
    span: tuple[str, str],
    figures: CampaignFigures | None,
) -> tuple[dict[str, Micros], dict[str, Micros], Json]:
    """Return when each operation was announced, and approved or due, and the events and
    approvals of all."""
    announced: dict[str, Micros] = {}
    agreed: dict[str, Micros] = {}
    events, approvers, early = 0, Counter[str](), 0
    more = () if figures is None else figures.EVENT_FIELDS
    wanted = ("operation", "created", "tenant", "approved_at", "not_before", *more)
    for page in columns(reader, kinds.EVENTS_OF_OPERATION, wanted, between=span):
        operations, created, tenants, approved, not_before, *rest = _of(names, page)
        if figures is not None:
            figures.add_events(tenants, created, approved, *rest)
        events += len(operations)
        for operation, at, ready, due in zip(
            operations, created, approved, not_before, strict=True
        ):
            if at < announced.setdefault(operation, at):
                announced[operation] = at
            if (ready or due) > agreed.setdefault(operation, ready or due):
                agreed[operation] = ready or due
        # Column by column: a step of Python for each of 100,000 events takes as long as
        # to read it.
        approvers.update(compress(tenants, approved))
        early += sum(
            map(lt, compress(approved, approved), compress(not_before, approved))
        )
    return (
        announced,
        agreed,
        {
            "events": events,
            "approvals": approvers.total(),
            "approvals_early": early,
            "approvals_by_tenant": dict(approvers),
        },
    )


def _document(reader: Reader, sums: _Sums) -> Json:
    states = Counter[str]()
    for stage in sums.stages.values():
        states += stage
    distribution = Counter(sums.moves.values())
    return {
        "attempts": sums.attempts,
        "states": dict(states),
        "stages": {
            str(stage): dict(sums.stages[stage]) for stage in sorted(sums.stages)
        },
        "seconds": {name: seconds(sums.phases[name]) for name in _PHASES},
        "notice_seconds": {
            cause: seconds(sums.notice_causes[cause])
            for cause in waiting_causes.NOTICE_CAUSES
        },
        "vms": len(sums.vms),
        "moves_per_vm": {
            str(moves): vms for moves, vms in sorted(distribution.items())
        },
        "started": sums.started,
        "noticed": sums.noticed,
        "notice_given_seconds": seconds(sums.given),
        "notice_used_seconds": seconds(sums.used),
        "failures_count": len(sums.failures),
        "failures": [
            _failure(reader, operation, state)
            for operation, state in sums.failures[:FAILURES_MAX]
        ],
    }


def _failure(reader: Reader, operation_id: str, state: str) -> Json:
    operation = reader.get(Operation, operation_id)
    assert operation is not None, operation_id
    return {
        "host": operation.host,
        "operation": operation_id,
        "state": state,
        "note": why_failed(operation, visit_of(reader, operation))
        or operators.note(operation.note),
    }
