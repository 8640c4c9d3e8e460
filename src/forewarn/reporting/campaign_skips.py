"""The hosts that a campaign leaves out, with the reason of each. For operators only.

Single fields of all attempts are read, as for the sums, and whole records only for the
hosts that are shown.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.instants import instant_or_none
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import SkipReason
from forewarn.reporting import campaign_courses, waiting_causes
from forewarn.reporting.campaign_courses import Attempt
from forewarn.reporting.campaign_reports import stage_of, why_failed
from forewarn.reporting.campaign_states import HostState
from forewarn.store.port import Reader
from forewarn.store.records import AuditEntry
from forewarn.wording import operators, visits

Json: TypeAlias = dict[str, Any]

SKIPS_MAX = 100
"""Hosts in one answer: a list for people, and two reads each."""


def campaign_skips(reader: Reader, campaign: CampaignRecord) -> Json:
    """Return the skipped hosts of a campaign, in its order: the first ones, and how many.

    A campaign that has skipped none is not read.
    """
    if not campaign.skipped:
        return {"skipped_count": 0, "skipped": []}
    attempts = campaign_courses.of_campaign(reader, reader, campaign)
    failed = frozenset(campaign.failed_hosts)
    last = (
        attempts_of_host[-1]
        for attempts_of_host in campaign_courses.by_host(attempts).values()
    )
    skipped = sorted(
        (attempt for attempt in last if _is_skipped(campaign, attempt, failed)),
        key=lambda attempt: attempt.position,
    )
    entries = waiting_causes.history(reader, campaign)
    return {
        "skipped_count": len(skipped),
        "skipped": [
            _skip(reader, campaign, attempt, entries) for attempt in skipped[:SKIPS_MAX]
        ],
    }


def _is_skipped(
    campaign: CampaignRecord, last: Attempt, failed: frozenset[str]
) -> bool:
    state = campaign_courses.state_in(campaign, last, failed)
    return state is HostState.SKIPPED


def _skip(
    reader: Reader,
    campaign: CampaignRecord,
    last: Attempt,
    entries: Sequence[AuditEntry],
) -> Json:
    return {
        "host": last.host,
        "stage": stage_of(campaign, last.position),
        "operation": last.operation,
        "ended": instant_or_none(last.over),
        "reason": _why(reader, campaign, last, entries),
    }


def _why(
    reader: Reader,
    campaign: CampaignRecord,
    last: Attempt,
    entries: Sequence[AuditEntry],
) -> str:
    """Return why a host was left out."""
    operation = reader.get(Operation, last.operation)
    if operation is None or operation.state is OperationState.PLANNED:
        return f"campaign {campaign.name} ended before its turn"
    visit = campaign_courses.visit_of(reader, operation)
    is_given_up = visit is not None and visit.skipped is SkipReason.GIVEN_UP
    if is_given_up or operation.state is OperationState.FAILED:
        decision = waiting_causes.decision_after(entries, last.host, last.over)
        if decision is not None and decision.reason:
            failure = why_failed(operation, visit) or operators.note(operation.note)
            left = f"left out of campaign {campaign.name} by {decision.by}"
            return operators.JOINT.join(
                filter(None, [failure, f"{left}: {decision.reason}"])
            )
    if operation.state is OperationState.CANCELLED and operation.note is not None:
        return operators.note(operation.note)
    if visit is not None and (skipped := visits.why_skipped(visit)):
        return skipped
    return operators.note(operation.note) or "its work failed, and it was given up"
