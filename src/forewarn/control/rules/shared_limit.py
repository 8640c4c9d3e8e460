"""The limit on hosts in flight that all campaigns share, and which campaign goes first.

A campaign *wants* a host in flight if its own gate is open and a host is in its turn. As
long as an emergency campaign, one with a higher priority, or an older one of the same
priority wants one, the others announce nothing. A campaign that is paused or halted, waits
for a window or has no host in its turn wants none, so it blocks no other. This module only
reads; its cost grows with the number of open campaigns, which are few.
"""

from collections.abc import Sequence

from forewarn.campaigns.gate import Gate
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import brake, campaign_gate, waits
from forewarn.instants import Micros
from forewarn.protocol.operations import Request
from forewarn.protocol.turn_blockers import BudgetKind, BudgetUsed
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def ask(
    reader: Reader, request: Request, campaign: CampaignRecord, *, now: Micros
) -> Gate:
    """Return whether a campaign may announce its next host now, beside the others."""
    found = campaign_gate.ask(reader, request, campaign, now=now)
    if found.blocker is not None:
        return found
    return Gate(blocker=why_shared(reader, campaign, now=now))


def ask_again(
    reader: Reader,
    request: Request,
    campaign: CampaignRecord,
    found: Gate,
    *,
    now: Micros,
) -> Gate:
    """Return whether it may announce a host that is tried again, after `found` of `ask`.

    The host is away already, so it needs no place of the budget `unavailable`.
    """
    if not campaign_gate.is_used_up(found.blocker):
        return found
    found = campaign_gate.ask(reader, request, campaign, now=now, is_away=True)
    if found.blocker is not None:
        return found
    return Gate(blocker=why_shared(reader, campaign, now=now))


def next_in_line(reader: Reader, most: int, *, now: Micros) -> str:
    """Return the rollout that may announce a host next; empty: none.

    `most` is the limit; 0: there is none.
    """
    if not most:
        return ""
    campaigns = list(every(reader, kinds.CAMPAIGNS_OPEN))
    if _in_flight(reader, campaigns) >= most:
        return ""
    first = _first_that_wants(reader, sorted(campaigns, key=_rank), now=now)
    return "" if first is None else first.request


def why_shared(
    reader: Reader, campaign: CampaignRecord, *, now: Micros
) -> BudgetUsed | None:
    """Return why a campaign with an open gate waits for others; None: it does not."""
    if not campaign.shared_most:
        return None
    campaigns = list(every(reader, kinds.CAMPAIGNS_OPEN))
    ahead = sorted(
        (each for each in campaigns if _rank(each) < _rank(campaign)), key=_rank
    )
    first = _first_that_wants(reader, ahead, now=now)
    used = _in_flight(reader, campaigns)
    if first is None and used < campaign.shared_most:
        return None
    return BudgetUsed(
        campaign=campaign.name,
        budget=BudgetKind.SHARED,
        used=used,
        most=campaign.shared_most,
        subject="" if first is None else first.name,
    )


def _rank(campaign: CampaignRecord) -> tuple[bool, int, Micros, str]:
    """Return the sort key of campaigns: those that go first come first."""
    is_routine = not campaign.is_emergency
    return is_routine, -campaign.priority, campaign.created, campaign.campaign_id


def _in_flight(reader: Reader, campaigns: Sequence[CampaignRecord]) -> int:
    """Return the number of hosts that are announced or in work for these campaigns."""
    requests = (reader.get(Request, each.request) for each in campaigns)
    return sum(each.in_flight for each in requests if each is not None)


def _first_that_wants(
    reader: Reader, campaigns: Sequence[CampaignRecord], *, now: Micros
) -> CampaignRecord | None:
    for each in campaigns:
        if _wants(reader, each, now=now):
            return each
    return None


def _wants(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> bool:
    """Return whether only the shared limit keeps a campaign from its next host."""
    request = reader.get(Request, campaign.request)
    if request is None or request.unplanned or brake.why_braked(reader, request.verb):
        return False
    if campaign_gate.ask(reader, request, campaign, now=now).blocker is not None:
        return False
    turn = waits.turn(campaign.request, campaign.stage)
    return bool(reader.select(kinds.OPERATIONS_THAT_WAIT, turn, limit=1))
