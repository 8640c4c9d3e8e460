"""The metrics of open campaigns.

They are sums over all campaigns, because a label with names would never be zero.
"""

from collections import Counter
from collections.abc import Collection

from forewarn.admin.meters import Reading
from forewarn.campaigns.record import CampaignRecord
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.service import metric_definitions
from forewarn.store import kinds
from forewarn.store.port import Reader, Record, every


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

    def changed(self, campaign_id: str, after: Record | None) -> None:
        """Take a changed campaign; None: it was deleted."""
        if isinstance(after, CampaignRecord) and not after.has_ended:
            self._open[campaign_id] = after
        else:
            self._open.pop(campaign_id, None)

    def readings(self) -> list[Reading]:
        """Return the metrics."""
        return readings(list(self._open.values()), now=self._clock.now())


def readings(campaigns: Collection[CampaignRecord], *, now: Micros) -> list[Reading]:
    """Return the metrics of the campaigns that have not ended."""
    states = Counter(each.state.value for each in campaigns)
    causes = Counter(each.halt.cause.value for each in campaigns if each.halt)
    failed = sum(len(each.failed) for each in campaigns)
    done = sum(each.done for each in campaigns)
    skipped = sum(each.skipped for each in campaigns)
    hosts = {
        "done": done,
        "skipped": skipped,
        "failed": failed,
        "left": sum(each.hosts for each in campaigns) - done - skipped - failed,
    }
    oldest = min((each.moved_at for each in campaigns), default=now)
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
