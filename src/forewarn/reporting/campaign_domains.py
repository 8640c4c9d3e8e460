"""The scopes of which several fault domains were down at once during a campaign.

The guard never starts routine work while another fault domain of the scope is down. But a
VM can fail while the work on another one is under way, and emergencies pass the guard.
For operators only.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import SpanKind
from forewarn.instants import Micros
from forewarn.store import kinds
from forewarn.store.port import Reader, columns

_FIELDS = ("fault_domain", "kind", "operation", "began", "ended")


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
    scopes: Iterable[str],
    operations: Collection[str],
    *,
    now: Micros,
) -> list[str]:
    """Return those of some scopes that had several fault domains down at the same time.

    `operations` are those of the campaign. One of them caused one of the interruptions.
    """
    return [
        scope
        for scope in sorted(scopes)
        if overlap(_outages(reader, campaign, scope, operations, now))
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
    reader: Reader,
    campaign: CampaignRecord,
    scope: str,
    operations: Collection[str],
    now: Micros,
) -> Iterator[Outage]:
    """Yield the interruptions of the VMs of a scope since the start of a campaign."""
    one = (scope, scope)
    for page in columns(reader, kinds.SPANS_OF_SCOPE, _FIELDS, between=one):
        for domain, kind, operation, began, ended in zip(*page, strict=True):
            last = ended or now
            if kind is not SpanKind.EXISTENCE and last > max(began, campaign.created):
                yield Outage(began, last, domain, operation in operations)
