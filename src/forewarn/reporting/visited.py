"""Sentences about visits, for the explanations of other things.

A tenant's reader shows no visit.
"""

from collections.abc import Iterator

from forewarn.campaigns.record import CampaignRecord
from forewarn.instants import Micros
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Action, Operation, Request
from forewarn.protocol.visits import Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import visits


def standing(reader: Reader, visit: Visit, *, now: Micros) -> str:
    """Return the state of a visit, and how an operator ends it if it stands still."""
    told = visits.standing(visit, now=now, campaign=_campaign_of(reader, visit))
    operation = reader.get(Operation, visit.operation)
    is_reboot = operation is not None and operation.action is Action.REBOOT
    if is_reboot and visit.step(StepKind.WORK) is None:
        return f"{told}; {visits.NO_HOST_REBOOT}"
    return told


def of_operation(reader: Reader, operation: Operation, *, now: Micros) -> str:
    """Return what the visit of an operation does; empty: it has none.

    The visit can fail after the end of the operation.
    """
    visit = reader.get(Visit, operation.visit) if operation.visit else None
    return "" if visit is None else _told(reader, visit, now=now)


def of_host(reader: Reader, host: str, *, now: Micros) -> Iterator[str]:
    """Yield what the open visits of a host do."""
    for visit in every(reader, kinds.OPEN_VISITS_OF_HOST, host):
        yield _told(reader, visit, now=now)


def counted(reader: Reader, request: Request) -> str:
    """Return how many visits of a request are in each state; empty if it has none."""
    if not request.steps:
        return ""
    return visits.counted(every(reader, kinds.VISITS_OF_REQUEST, request.request_id))


def _told(reader: Reader, visit: Visit, *, now: Micros) -> str:
    return visits.of_host(visit, standing(reader, visit, now=now))


def _campaign_of(reader: Reader, visit: Visit) -> str:
    """Return the name of the campaign that a visit belongs to; empty: none."""
    request = reader.get(Request, visit.request)
    campaign = (
        reader.get(CampaignRecord, request.campaign)
        if request is not None and request.campaign
        else None
    )
    return "" if campaign is None else campaign.name
