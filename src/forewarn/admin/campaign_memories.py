"""The large campaigns whose hosts are kept between reads: those that are looked at."""

import threading

from forewarn.admin import limits
from forewarn.reporting.campaign_memory import CampaignMemory


class CampaignMemories:
    """The memories of the campaigns that were read last; threads can share it."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._kept: dict[str, CampaignMemory] = {}

    def of(self, campaign_id: str) -> CampaignMemory:
        """Return the memory of a campaign; a new one knows nothing."""
        with self._lock:
            memory = self._kept.pop(campaign_id, None) or CampaignMemory()
            self._kept[campaign_id] = memory
            if len(self._kept) > limits.CAMPAIGN_MEMORIES_MAX:
                del self._kept[next(iter(self._kept))]
            return memory
