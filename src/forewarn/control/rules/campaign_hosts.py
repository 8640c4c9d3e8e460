"""Each host is in at most one campaign that has not ended: read who has which.

A start is prepared from a snapshot, perhaps for seconds, and then stored in a
transaction. Other campaigns can start or grow in between. The transaction therefore
checks the campaigns that the preparation has not seen as they are now, and no others:
its cost does not depend on the fleet.
"""

from collections.abc import Collection

from forewarn.campaigns.record import CampaignRecord
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Request
from forewarn.store import kinds
from forewarn.store.port import Reader, every

Seen = frozenset[tuple[str, int]]
"""The open campaigns of a snapshot: their IDs, with their numbers of hosts. The set of
hosts of a campaign only grows."""


def seen(reader: Reader) -> Seen:
    """Return the open campaigns, to compare them with later ones."""
    return frozenset(
        (each.campaign_id, each.hosts) for each in every(reader, kinds.CAMPAIGNS_OPEN)
    )


def check_free(
    reader: Reader, hosts: Collection[str], *, known: Seen = frozenset()
) -> None:
    """Refuse hosts that another campaign has and has not ended; raises RefusedError.

    `known` has campaigns that were compared with these hosts before.
    """
    wanted: frozenset[str] | None = None
    for other in every(reader, kinds.CAMPAIGNS_OPEN):
        if (other.campaign_id, other.hosts) in known:
            continue
        wanted = frozenset(hosts) if wanted is None else wanted
        if shared := sorted(wanted & _hosts_of(reader, other)):
            raise RefusedError(
                f"campaign {other.name} has {len(shared):,} of the hosts and has not "
                f"ended, such as {shared[0]}",
                hint="Wait until it ends, or exclude these hosts with "
                "[campaign.select] except.",
            )


def _hosts_of(reader: Reader, campaign: CampaignRecord) -> set[str]:
    """Return the hosts of a campaign that have not ended."""
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    found = {host for _, host in request.unplanned} | {*campaign.failed_hosts}
    found |= {
        each.host
        for each in every(reader, kinds.OPEN_OPERATIONS_OF_REQUEST, campaign.request)
    }
    # The work on a host can go on after the end of its operation.
    found |= {
        each.host
        for each in every(reader, kinds.OPEN_VISITS_OF_REQUEST, campaign.request)
    }
    return found
