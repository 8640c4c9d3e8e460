"""The campaign that a rollout of `maintain` implies: one stage with the defaults.

Every rollout passes the gate of a campaign. A campaign that was started with a file has a
stored record. A rollout that was not steered has none: its request implies one of a
single stage, with the hosts in flight that were ordered and without other budgets,
windows or checks. So `maintain` stores no more than it did without campaigns. The first
verb that steers the rollout stores the record (`control.requests.adoption`).
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.model import Impact, Tolerance
from forewarn.campaigns.record import BudgetTerms, CampaignRecord, StageTerms
from forewarn.protocol.notes import PLANNED_AGAIN
from forewarn.protocol.operations import OperationState, Request, RequestState
from forewarn.store import kinds
from forewarn.store.port import Reader, every

_STATES = {
    RequestState.OPEN: CampaignState.RUNNING,
    RequestState.CLOSED: CampaignState.DONE,
    RequestState.STOPPED: CampaignState.ABORTED,
    RequestState.CANCELLED: CampaignState.ABORTED,
}


def is_implied(campaign: CampaignRecord) -> bool:
    """Return whether a campaign is not stored: it has the ID of its rollout."""
    return campaign.campaign_id == campaign.request


def open_ones(reader: Reader) -> Iterator[CampaignRecord]:
    """Yield the terms of all campaigns that have not ended: the stored and the implied.

    The terms have what their rank depends on, so that an implied one needs a read.
    """
    implied = (
        _ranked_terms_of(reader, request)
        for request in every(reader, kinds.ROLLOUTS_IMPLYING_OPEN)
    )
    return chain(every(reader, kinds.CAMPAIGNS_OPEN), implied)


def _ranked_terms_of(reader: Reader, request: Request) -> CampaignRecord:
    """Return the terms of the campaign that a rollout implies, with its rank.

    An emergency goes before others. The rank of a rollout without waiting hosts does not
    matter.
    """
    first = reader.select(kinds.PLANNED_OF_REQUEST, request.request_id, limit=1)
    is_emergency = any(operation.is_emergency for operation in first)
    return replace(terms_of(request), is_emergency=is_emergency)


def terms_of(request: Request) -> CampaignRecord:
    """Return the terms of the campaign that a rollout implies, as the gate needs them.

    The effect on VMs, and what has been done, do not concern the gate.
    """
    return CampaignRecord(
        campaign_id=request.request_id,
        name=request.request_id,
        reason=request.reason,
        impact=Impact.NONE,
        state=CampaignState.RUNNING,
        request=request.request_id,
        actor=request.actor,
        created=request.created,
        digest="",
        text="",
        hosts=request.hosts,
        stages=(StageTerms(hosts=request.hosts),),
        budget=BudgetTerms(in_flight=str(request.at_once)),
        # A failure stops the rollout. When it is steered, a failure halts it.
        tolerance=Tolerance(failures=0, in_a_row=0),
        stage_left=request.hosts,
        # All that was ordered can be in flight from the first host on.
        ramp=request.at_once,
        shared_most=request.shared_most,
        moved_at=request.created,
    )


def record_of(reader: Reader, request: Request) -> CampaignRecord:
    """Return the campaign that a rollout implies, with what has been done.

    It reads all operations of the request: as many as a request can name hosts, and a few
    more.
    """
    operations = [
        operation
        for operation in every(reader, kinds.OPERATIONS_OF_REQUEST, request.request_id)
        if not isinstance(operation.note, PLANNED_AGAIN)
    ]
    visited = {
        visit.operation
        for visit in every(reader, kinds.OPEN_VISITS_OF_REQUEST, request.request_id)
    }
    ended = [
        operation
        for operation in operations
        if operation.ended_at and operation.operation_id not in visited
    ]
    failed = [
        operation for operation in ended if operation.state is OperationState.FAILED
    ]
    skipped = sum(
        1 for operation in ended if operation.state is OperationState.CANCELLED
    )
    left = len(operations) - len(ended) + request.hosts_unplanned
    last = max((operation.ended_at for operation in ended), default=request.created)
    return replace(
        terms_of(request),
        impact=Impact(operations[0].action.value),
        is_emergency=operations[0].is_emergency,
        state=_STATES[request.state],
        ended=0 if request.state is RequestState.OPEN else last,
        # Operations that were done long ago may be deleted.
        done=request.hosts - left - skipped - len(failed),
        skipped=skipped,
        failed=tuple((operation.host, operation.operation_id) for operation in failed),
        stage_left=left,
        moved_at=last,
    )
