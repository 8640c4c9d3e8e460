"""Hosts that failed and wait for an operator: each list of hosts calls the same ones failed.

A step of a visit failed, or an open campaign counts the host as failed. For operators only.
"""

from collections.abc import Iterable

from forewarn.control.rules import campaign_gate
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def all_failed(reader: Reader, visits: Iterable[Visit]) -> set[str]:
    """Return the names of all failed hosts; `visits` are the open ones."""
    stuck = {visit.host for visit in visits if visit.state in STUCK_VISITS}
    return stuck | campaign_gate.all_failed(reader)


def has_failed(reader: Reader, host: str) -> bool:
    """Return whether a host has failed; for many hosts, the reader should remember."""
    visits = every(reader, kinds.OPEN_VISITS_OF_HOST, host)
    return any(
        visit.state in STUCK_VISITS for visit in visits
    ) or host in campaign_gate.all_failed(reader)
