"""The metrics of open campaigns.

They are sums over all campaigns, because a label with names would never be zero. A
rollout of several hosts that no verb has steered is a campaign here, too: its hosts are
counted as they end.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from forewarn.admin.meters import Reading
from forewarn.campaigns.record import CampaignRecord
from forewarn.clock import Clock
from forewarn.control.rules import implied_campaigns
from forewarn.instants import SECOND, Micros
from forewarn.protocol.notes import PLANNED_AGAIN
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.protocol.visits import Visit
from forewarn.service import metric_definitions
from forewarn.service.observed import Changes
from forewarn.store import kinds
from forewarn.store.port import Reader, every


class OpenCampaigns:
    """Campaigns that have not ended; the control thread writes, any thread reads."""

    def __init__(self, clock: Clock) -> None:
        """Begin without campaigns."""
        self._clock = clock
        self._open: dict[str, CampaignRecord] = {}

    def load(self, reader: Reader) -> None:
        """Read the campaigns at the start of the service."""
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN):
            self._open[campaign.campaign_id] = campaign

        for request in every(reader, kinds.ROLLOUTS_IMPLYING_OPEN):
            self._open[request.key] = implied_campaigns.record_of(reader, request)

    def take(self, changes: Changes) -> None:
        """Take the writes of a transaction; a stored campaign has the last word."""
        for _before, request in changes.of(Request):
            if request is not None:
                self._rollout_changed(request)
        for before, operation in changes.of(Operation):
            if before and operation and operation.request in self._open:
                self._operation_changed(before, operation)
        for before, visit in changes.of(Visit):
            if before and visit and visit.request in self._open:
                self._visit_changed(before, visit)
        for before, campaign in changes.of(CampaignRecord):
            self.changed(before, campaign)

    def _rollout_changed(self, request: Request) -> None:
        """Take a changed request; an open one can imply a campaign."""
        if request.state is RequestState.OPEN and request.implies_campaign:
            self._open.setdefault(request.key, implied_campaigns.terms_of(request))
        else:
            self._open.pop(request.key, None)

    def _operation_changed(self, before: Operation, operation: Operation) -> None:
        """Take a changed operation of an implied campaign, whose host may have ended."""
        if operation.ended_at and not before.ended_at:
            # A visited host ends with its visit.
            if not operation.visit and not isinstance(operation.note, PLANNED_AGAIN):
                self._host_ended(operation)
        elif before.state is OperationState.PLANNED is not operation.state:
            self._moved(operation.request)

    def _visit_changed(self, before: Visit, visit: Visit) -> None:
        """Take a changed visit of an implied campaign: its end is that of its host."""
        if visit.ended_at and not before.ended_at:
            self._moved(visit.request, done=not visit.skipped)

    def _host_ended(self, operation: Operation) -> None:
        if operation.state is OperationState.FAILED:
            failed = (operation.host, operation.operation_id)
            old = self._open[operation.request]
            self._open[operation.request] = replace(old, failed=(*old.failed, failed))
            self._moved(operation.request)
        else:
            self._moved(operation.request, done=operation.state is OperationState.DONE)

    def _moved(self, request_id: str, *, done: bool | None = None) -> None:
        """Note progress of an implied campaign; `done`: a host was done, or skipped."""
        old = self._open[request_id]
        self._open[request_id] = replace(
            old,
            done=old.done + (done is True),
            skipped=old.skipped + (done is False),
            moved_at=self._clock.now(),
        )

    def changed(
        self, before: CampaignRecord | None, after: CampaignRecord | None
    ) -> None:
        """Take a changed campaign; one without `after` was deleted."""
        if after is not None and not after.has_ended:
            self._open[after.campaign_id] = after
        elif ended := after or before:
            self._open.pop(ended.campaign_id, None)

    def readings(self) -> list[Reading]:
        """Return the metrics."""
        return readings(list(self._open.values()), now=self._clock.now())


def readings(campaigns: Collection[CampaignRecord], *, now: Micros) -> list[Reading]:
    """Return the metrics of the campaigns that have not ended."""
    states = Counter(campaign.state.value for campaign in campaigns)
    causes = Counter(
        campaign.halt.cause.value for campaign in campaigns if campaign.halt
    )
    failed = sum(len(campaign.failed) for campaign in campaigns)
    done = sum(campaign.done for campaign in campaigns)
    skipped = sum(campaign.skipped for campaign in campaigns)
    hosts = {
        "done": done,
        "skipped": skipped,
        "failed": failed,
        "left": sum(campaign.hosts for campaign in campaigns) - done - skipped - failed,
    }
    oldest = min((campaign.moved_at for campaign in campaigns), default=now)
    return [
        Reading(
            metric_definitions.CAMPAIGNS,
            {state: states[state] for state in metric_definitions.CAMPAIGN_STATES},
        ),
        Reading(
            metric_definitions.CAMPAIGNS_HALTED,
            {cause: causes[cause] for cause in metric_definitions.HALT_CAUSES},
        ),
        Reading(metric_definitions.CAMPAIGN_HOSTS, hosts),
        Reading(
            metric_definitions.CAMPAIGN_PROGRESS_AGE, max(0, now - oldest) / SECOND
        ),
    ]
