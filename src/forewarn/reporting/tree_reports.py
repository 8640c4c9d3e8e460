"""The clusters of a campaign as JSON, however they were read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.instants import Micros, format_instant
from forewarn.reporting.campaign_states import HostState, worst

Json: TypeAlias = dict[str, Any]

CLUSTERS_MAX = 1_000
"""Maximum clusters in one answer: the largest fleets have some hundreds."""

STEPS = 24
"""Steps of the time of a cluster: as many bars as fit into a narrow row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The time of a campaign that is shown."""

    campaign: CampaignRecord
    now: Micros
    first: Micros
    until: Micros


def times_of(
    campaign: CampaignRecord, *, first: Micros, last: Micros, now: Micros
) -> Times:
    """Return the time between two instants; 0: the beginning, and the end or now."""
    return Times(
        campaign=campaign,
        now=now,
        first=first or campaign.created,
        until=last or campaign.ended or now,
    )


def tree_report(
    times: Times,
    total: Counter[HostState],
    clusters: Mapping[str, Json],
    *,
    racks: Sequence[Json],
    racks_left_out: int,
) -> Json:
    """Return the answer with these clusters by name, and these racks."""
    names = sorted(clusters)
    return {
        "campaign": times.campaign.campaign_id,
        "at": format_instant(times.now),
        "from": format_instant(times.first),
        "until": format_instant(times.until),
        "steps": STEPS,
        "hosts": total.total(),
        "counts": counts_report(total),
        "clusters": [clusters[name] for name in names[:CLUSTERS_MAX]],
        "clusters_left_out": max(0, len(names) - CLUSTERS_MAX),
        "racks": list(racks),
        "racks_left_out": racks_left_out,
    }


def cluster_report(
    name: str, counts: Counter[HostState], *, racks: int, busy: Sequence[int]
) -> Json:
    """Return a cluster with the number of its racks, and of hosts in work in each step."""
    return {
        "cluster": name,
        "hosts": counts.total(),
        "racks": racks,
        "counts": counts_report(counts),
        "worst": worst(counts).value,
        "busy": list(busy),
    }


def counts_report(counts: Counter[HostState]) -> dict[str, int]:
    """Return the number of hosts in each state that a host has."""
    return {state.value: counts[state] for state in HostState if counts[state]}
