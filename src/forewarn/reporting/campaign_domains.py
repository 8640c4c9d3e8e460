"""The scopes of which several fault domains were down at once during a campaign.

The guard never starts routine work while another fault domain of the scope is down. But a
VM can fail while the work on another one is under way, and emergencies pass the guard.
For operators only.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from forewarn.campaigns.record import CampaignRecord
from forewarn.instants import Micros
from forewarn.store import kinds
from forewarn.store.port import Reader, columns

_FIELDS = ("scope", "fault_domain", "operation", "began", "ended")


class Outage(NamedTuple):
    """A time in which a VM of a scope did not run; they sort by their beginnings."""

    began: Micros
    ended: Micros
    fault_domain: int
    is_own: bool
    """Whether the campaign caused it."""


def several_down(
    reader: Reader,
    campaign: CampaignRecord,
    scopes: Collection[str],
    operations: Collection[str],
    *,
    now: Micros,
) -> list[str]:
    """Return those of some scopes that had several fault domains down at the same time.

    `operations` are those of the campaign. One of them caused one of the interruptions.
    One statement reads the interruptions of all scopes, a scope after the other.
    """
    pages = columns(reader, kinds.OUTAGES_OF_SCOPE, _FIELDS, among=scopes)
    rows = chain.from_iterable(zip(*page, strict=True) for page in pages)
    return [
        scope
        for scope, those in groupby(rows, key=itemgetter(0))
        if overlap(_outages(campaign, those, operations, now))
    ]


def overlap(outages: Iterable[Outage]) -> bool:
    """Return whether own work and another fault domain were down at the same time."""
    ends: dict[int, Micros] = {}
    own_ends: dict[int, Micros] = {}
    for began, ended, fault_domain, is_own in sorted(outages):
        others = ends if is_own else own_ends
        if any(end > began for domain, end in others.items() if domain != fault_domain):
            return True
        for known in (ends, own_ends) if is_own else (ends,):
            known[fault_domain] = max(ended, known.get(fault_domain, 0))
    return False


def _outages(
    campaign: CampaignRecord,
    rows: Iterable[tuple[Any, ...]],
    operations: Collection[str],
    now: Micros,
) -> Iterator[Outage]:
    """Yield the interruptions of the VMs of a scope since the start of a campaign."""
    for _, domain, operation, began, ended in rows:
        last = ended or now
        if last > max(began, campaign.created):
            yield Outage(began, last, domain, operation in operations)
