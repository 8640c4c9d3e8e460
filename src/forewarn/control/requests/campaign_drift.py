"""Find hosts that a running campaign would have selected, had they been in the fleet.

A host is compared with the open campaigns when the fleet gains it, so neither a decision
of a campaign nor its report looks through the fleet.
"""

from dataclasses import replace
from functools import lru_cache

from forewarn.campaigns.model import Selection
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.store import kinds
from forewarn.store.port import every

SELECTIONS_MAX = 8
"""Selections that are kept, so that a fleet file with many new hosts reads the file of
each campaign once: more campaigns seldom run at once."""


def marked(work: Work, host: Host) -> Host:
    """Return a new host, with the first open campaign whose selection it matches.

    A steered rollout has no file: its hosts were named.
    """
    for campaign in every(work.tx, kinds.CAMPAIGNS_OPEN):
        has_file = bool(campaign.text)
        if has_file and _selection(campaign.text, campaign.name).matches(host):
            return replace(host, drift_of=campaign.campaign_id)
    return host


@lru_cache(maxsize=SELECTIONS_MAX)
def _selection(text: str, name: str) -> Selection:
    """Return what the file of a campaign selects."""
    # A service without campaigns does not load the reader of their files.
    from forewarn.campaigns.file import read_campaign  # noqa: PLC0415

    return read_campaign(text, name=name).select
