"""The report of a campaign: the result of each attempt on a host, page by page.

An attempt is an operation of the campaign's rollout. A host has several of them if it was
retried, or if its announcement was withdrawn by a halt. For operators only.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Span
from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.blockers import NoCommonWindow
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import Visit
from forewarn.reporting import campaign_courses
from forewarn.reporting.campaign_courses import visit_of
from forewarn.reporting.campaign_states import (
    DEFERRED,
    FAILED_SKIPS,
    attempt_state,
)
from forewarn.reporting.uptime import seconds
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import operators, visits

Json: TypeAlias = dict[str, Any]

_OUTCOMES = {
    "Done": "completed",
    "Cancelled": "cancelled",
    "Failed": "failed",
    DEFERRED: "deferred",
}
"""The outcome of an attempt by its state; in the others it has none yet."""


def attempts(
    reader: Reader, campaign: CampaignRecord, *, after: str, limit: int, now: Micros
) -> Json:
    """Return a page of the attempts of a campaign, in the order of their operations."""
    rows = reader.select(
        kinds.OPERATIONS_OF_REQUEST, campaign.request, after=after, limit=limit
    )
    return {
        "attempts": [_attempt(reader, campaign, row, now=now) for row in rows],
        "next": rows[-1].key if len(rows) == limit else None,
    }


def _attempt(
    reader: Reader, campaign: CampaignRecord, operation: Operation, *, now: Micros
) -> Json:
    visit = visit_of(reader, operation)
    state = state_of_attempt(operation, visit)
    ended = ended_at(operation.ended_at, visit)
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
        "state": state,
        "outcome": _OUTCOMES.get(state),
        "note": why_failed(operation, visit)
        or operators.note(operation.note)
        or _why_never(operation),
        "announced": instant_or_none(announced),
        "not_before": format_instant(operation.not_before) if announced else None,
        "started": instant_or_none(operation.started_at),
        "ended": instant_or_none(ended),
        **_times(
            operation,
            waited_since(
                campaign, _others(reader, campaign, operation), announced or now
            ),
            announced,
            ended,
            now,
        ),
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


def _others(
    reader: Reader, campaign: CampaignRecord, operation: Operation
) -> Iterator[Micros]:
    """Yield when the other attempts on the host of an operation ended."""
    for other in campaign_courses.on_host(reader, campaign, operation.host):
        if other.ended_at and other.operation_id != operation.operation_id:
            yield ended_at(other.ended_at, visit_of(reader, other))


def state_of_attempt(operation: Operation, visit: Visit | None) -> str:
    """Return the state of an attempt; Deferred if no VM could be moved away."""
    if visit is None:
        return DEFERRED if operation.could_not_move else operation.state.value
    return attempt_state(operation.state, visit.state, visit.skipped)


def why_failed(operation: Operation, visit: Visit | None) -> str:
    """Return the step of the host in which an attempt failed; empty: in none."""
    if visit is None or operation.state is OperationState.FAILED:
        return ""
    has_failed = visit.failed_in is not None or visit.skipped in FAILED_SKIPS
    return visits.failure(visit) if has_failed else ""


def ended_at(ended: Micros, visit: Visit | None) -> Micros:
    """Return when an attempt ended, with the steps on its host; 0: not yet."""
    return ended if visit is None else campaign_courses.attempt_end(visit)


def waited_since(
    campaign: CampaignRecord, ends: Iterable[Micros], announced: Micros
) -> Micros:
    """Return since when an attempt waited for its announcement.

    The first one waits since the start of the campaign, another one since the end of the
    attempt before. `ends` has the ends of the other attempts on the host.
    """
    return max((end for end in ends if end <= announced), default=campaign.created)


def _times(
    operation: Operation,
    waited: Micros,
    announced: Micros,
    ended: Micros,
    now: Micros,
) -> Json:
    """Return where the time of an attempt went; null for what has not begun."""
    started, over = operation.started_at, operation.impact_ended_at

    def between(first: Micros, last: Micros) -> float | None:
        return seconds(max(0, last - first)) if first and last else None

    stop = ended or now
    return {
        "waited_seconds": between(waited, announced or stop),
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
