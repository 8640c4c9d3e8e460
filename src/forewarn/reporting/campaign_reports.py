"""The report of a campaign: the result of each attempt on a host, page by page.

An attempt is an operation of the campaign's rollout. A host has several of them if it was
retried, or if its announcement was withdrawn by a halt. For operators only.
"""

from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Span
from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.blockers import NoCommonWindow
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import Visit, VisitState
from forewarn.reporting.accounts import outcome_of
from forewarn.reporting.uptime import seconds
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]

DEFERRED = "deferred"
"""Outcome of an attempt that could not move the VMs of the host away."""


def attempts(
    reader: Reader, campaign: CampaignRecord, *, after: str, limit: int, now: Micros
) -> Json:
    """Return a page of the attempts of a campaign, in the order of their operations."""
    rows = reader.select(
        kinds.OPERATIONS_OF_REQUEST, campaign.request, after=after, limit=limit
    )
    return {
        "attempts": [_attempt(reader, campaign, each, now=now) for each in rows],
        "next": rows[-1].key if len(rows) == limit else None,
    }


def _attempt(
    reader: Reader, campaign: CampaignRecord, operation: Operation, *, now: Micros
) -> Json:
    # An operation that waits for its turn has neither events nor spans.
    events: list[Event] = []
    spans: list[Span] = []
    if operation.state is not OperationState.PLANNED:
        events = list(every(reader, kinds.EVENTS_OF_OPERATION, operation.key))
    if operation.started_at:
        spans = list(every(reader, kinds.SPANS_OF_OPERATION, operation.key))
    announced = min((event.created for event in events), default=0)
    approvals = [event for event in events if event.is_approved]
    return {
        "operation": operation.operation_id,
        "host": operation.host,
        "stage": stage_of(campaign, operation.position),
        "state": operation.state.value,
        "outcome": DEFERRED
        if _is_deferred(reader, operation)
        else outcome_of(operation),
        "note": operators.note(operation.note) or _why_never(operation),
        "announced": instant_or_none(announced),
        "not_before": format_instant(operation.not_before) if announced else None,
        "started": instant_or_none(operation.started_at),
        "ended": instant_or_none(operation.ended_at),
        **_times(operation, announced, now),
        "events": len(events),
        "approvals": [
            {
                "tenant": event.tenant,
                "by": event.approved_by,
                "at": format_instant(event.approved_at),
                "early": event.approved_at < event.not_before,
            }
            for event in approvals
        ],
        "vms": list(operation.vms),
        "moved": [
            move.vm
            for move in operation.moves
            if move.done and move.to_host not in {"", operation.host}
        ],
        "down_seconds": seconds(
            sum((span.ended or now) - span.began for span in spans)
        ),
    }


def _why_never(operation: Operation) -> str:
    """Return the windows for which a host waits without end; empty: it does not."""
    never = (e for e in operation.held_by if isinstance(e, NoCommonWindow))
    return operators.JOINT.join(operators.reasons(never))


def _is_deferred(reader: Reader, operation: Operation) -> bool:
    """Return whether the VMs of the host could not be moved away."""
    if not operation.visit:
        return operation.could_not_move
    visit = reader.get(Visit, operation.visit)
    return visit is not None and visit.state is VisitState.DEFERRED


def _times(operation: Operation, announced: Micros, now: Micros) -> Json:
    """Return where the time of an attempt went; null for what has not begun."""
    started, over = operation.started_at, operation.impact_ended_at
    ended = operation.ended_at

    def between(first: Micros, last: Micros) -> float | None:
        return seconds(max(0, last - first)) if first and last else None

    stop = ended or now
    return {
        "waited_seconds": between(operation.created, announced or stop),
        "notice_seconds": between(announced, operation.not_before),
        "notice_used_seconds": between(announced, started or stop),
        "work_seconds": between(started, over or stop),
        "recovery_seconds": between(over, stop),
    }


def stage_of(campaign: CampaignRecord, position: int) -> int:
    """Return the number of the stage that a position in the order is in, from 1."""
    end = 0
    for number, stage in enumerate(campaign.stages, start=1):
        end += stage.hosts
        if position <= end:
            return number
    return len(campaign.stages)
