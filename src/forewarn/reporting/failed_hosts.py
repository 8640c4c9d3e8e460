"""Hosts that failed and wait for an operator: each list of hosts calls the same ones failed.

A step of a visit failed, or an open campaign counts the host as failed. For operators only.
"""

from collections.abc import Iterable

from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def all_failed(reader: Reader, visits: Iterable[Visit]) -> set[str]:
    """Return the names of all failed hosts; `visits` are the open ones."""
    stuck = {visit.host for visit in visits if visit.state in STUCK_VISITS}
    return stuck | _of_campaigns(reader)


def has_failed(reader: Reader, host: str) -> bool:
    """Return whether a host has failed; for many hosts, the reader should remember."""
    visits = every(reader, kinds.OPEN_VISITS_OF_HOST, host)
    return any(
        visit.state in STUCK_VISITS for visit in visits
    ) or host in _of_campaigns(reader)


def _of_campaigns(reader: Reader) -> set[str]:
    return {
        host
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
        for host in campaign.failed_hosts
    }
