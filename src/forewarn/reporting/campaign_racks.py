"""The hosts of a campaign by stage and rack: a line for each, not one for each host.

Single fields are read, each kind of record once, so that 10,000 hosts take a fraction of
a second. For operators only.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Host
from forewarn.protocol.operations import OperationState
from forewarn.protocol.visits import VisitState
from forewarn.reporting.campaign_reports import stage_of
from forewarn.reporting.campaign_states import IN_FLIGHT_STATES, HostState, state_of
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, columns_of

Json: TypeAlias = dict[str, Any]

ROWS_MAX = 1_000
"""Maximum rows in one answer: 10,000 hosts have some hundreds of racks."""


class HostCourse(enum.Enum):
    """How far a host of a campaign is; the value is the name in the API."""

    DONE = "done"
    IN_FLIGHT = "in_flight"
    WAITING = "waiting"
    """It is not announced, or waits for another attempt."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """The campaign leaves it out, or has ended before its turn."""


_COURSES = {
    HostState.PLANNED: HostCourse.WAITING,
    HostState.DONE: HostCourse.DONE,
    HostState.SKIPPED: HostCourse.SKIPPED,
    # Only a visit that stands still, in a rollout without a stored campaign.
    HostState.FAILED: HostCourse.IN_FLIGHT,
    **dict.fromkeys(IN_FLIGHT_STATES, HostCourse.IN_FLIGHT),
}


def course_of(state: OperationState, visit: VisitState | None) -> HostCourse:
    """Return how far a host is by its last operation, and by its visit if it has one.

    The host is not one of the campaign's failed hosts.
    """
    return _COURSES[state_of(state, visit)]


def campaign_racks(reader: Reader, campaign: CampaignRecord) -> Json:
    """Return the numbers of hosts by stage, rack and course."""
    last = _last_operations(reader, campaign)
    visits = _visits(reader, campaign)
    racks = _racks(reader, last)
    failed = set(campaign.failed_hosts)
    counts: defaultdict[tuple[int, str], Counter[HostCourse]] = defaultdict(Counter)
    for host, (operation, position, state) in last.items():
        course = (
            HostCourse.FAILED
            if host in failed
            else course_of(state, visits.get(operation))
        )
        counts[stage_of(campaign, position), racks.get(host, "")][course] += 1
    rows = sorted(counts)
    return {
        "campaign": campaign.campaign_id,
        "racks": [
            {
                "stage": stage,
                "rack": rack,
                "hosts": counts[stage, rack].total(),
                **{course.value: counts[stage, rack][course] for course in HostCourse},
            }
            for stage, rack in rows[:ROWS_MAX]
        ],
        "racks_left_out": max(0, len(rows) - ROWS_MAX),
    }


def _last_operations(
    reader: Reader, campaign: CampaignRecord
) -> dict[str, tuple[str, int, OperationState]]:
    """Return the last operation of each host: its ID, its position, and its state.

    IDs sort by time.
    """
    names = ("host", "operation_id", "position", "state")
    query, one = kinds.OPERATIONS_OF_REQUEST, (campaign.request, campaign.request)
    return {
        host: (operation, position, state)
        for page in columns(reader, query, names, between=one)
        for host, operation, position, state in zip(*page, strict=True)
    }


def _visits(reader: Reader, campaign: CampaignRecord) -> dict[str, VisitState]:
    """Return the state of the visit of each operation that has one."""
    query, one = kinds.VISITS_OF_REQUEST, (campaign.request, campaign.request)
    return {
        operation: state
        for page in columns(reader, query, ("operation", "state"), between=one)
        for operation, state in zip(*page, strict=True)
    }


def _racks(reader: Reader, hosts: Collection[str]) -> dict[str, str]:
    """Return the racks of some hosts."""
    return {
        name: rack
        for page in columns_of(reader, Host, ("name", "rack"), hosts)
        for name, rack in zip(*page, strict=True)
    }
