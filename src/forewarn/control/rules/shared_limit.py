"""The limit on hosts in flight that all campaigns share, and which campaign goes first.

Every rollout of several hosts is a campaign here, also before a verb steers it. All
planned work on hosts uses places: also that of a single host, which is announced at once,
and of rollouts that were stopped. A failed host of an open campaign keeps its place, but
never the last one. A campaign *wants* a host in flight if its own gate is open and a host is in its turn. As
long as an emergency campaign, one with a higher priority, or an older one of the same
priority wants one, the others announce nothing. A campaign that is paused or halted, waits
for a window or has no host in its turn wants none, so it blocks no other. This module only
reads; its cost grows with the number of open campaigns, which are few.
"""

from collections.abc import Sequence

from forewarn.campaigns.gate import Gate
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import brake, campaign_gate, implied_campaigns, waits
from forewarn.instants import Micros
from forewarn.protocol.operations import Request
from forewarn.protocol.turn_blockers import BudgetKind, BudgetUsed
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def ask(
    reader: Reader, request: Request, campaign: CampaignRecord, *, now: Micros
) -> Gate:
    """Return whether a campaign may announce its next host now, besides the others."""
    gate = campaign_gate.ask(reader, request, campaign, now=now)
    if gate.blocker is not None:
        return gate
    return Gate(blocker=why_shared(reader, campaign, now=now))


def ask_again(
    reader: Reader,
    request: Request,
    campaign: CampaignRecord,
    verdict: Gate,
    *,
    now: Micros,
) -> Gate:
    """Return whether it may announce a host that is tried again, after the `verdict` of `ask`.

    The host is away already, so it needs no place of the budget `unavailable`.
    """
    if not campaign_gate.is_used_up(verdict.blocker):
        return verdict
    verdict = campaign_gate.ask(reader, request, campaign, now=now, is_away=True)
    if verdict.blocker is not None:
        return verdict
    return Gate(blocker=why_shared(reader, campaign, now=now))


def next_in_line(reader: Reader, limit: int, *, now: Micros) -> str:
    """Return the rollout that may announce a host next; empty: none.

    `limit`: maximum number of hosts in flight; 0: no limit.
    """
    if not limit:
        return ""
    campaigns = list(implied_campaigns.open_ones(reader))
    if _in_flight(reader, limit) >= _places(campaigns, limit):
        return ""
    first = _first_that_wants(reader, sorted(campaigns, key=_rank), now=now)
    return "" if first is None else first.request


def why_shared(
    reader: Reader, campaign: CampaignRecord, *, now: Micros
) -> BudgetUsed | None:
    """Return why a campaign with an open gate waits for others; None: it does not."""
    if not campaign.shared_most:
        return None
    limit, campaigns = campaign.shared_most, list(implied_campaigns.open_ones(reader))
    own_campaigns = (
        other for other in campaigns if other.campaign_id == campaign.campaign_id
    )
    own = next(own_campaigns, campaign)
    ahead = sorted(
        (other for other in campaigns if _rank(other) < _rank(own)), key=_rank
    )
    first = _first_that_wants(reader, ahead, now=now)
    used = _in_flight(reader, limit)
    if first is None and used < _places(campaigns, limit):
        return None
    failed = _failed(campaigns)
    return BudgetUsed(
        campaign=campaign.name,
        budget=BudgetKind.SHARED,
        used=used + failed,
        most=limit,
        subject="" if first is None else first.name,
        failed=failed,
    )


def _rank(campaign: CampaignRecord) -> tuple[bool, int, Micros, str]:
    """Return the sort key of campaigns: those that go first come first."""
    is_routine = not campaign.is_emergency
    return is_routine, -campaign.priority, campaign.created, campaign.request


def _in_flight(reader: Reader, limit: int) -> int:
    """Return how many hosts are announced or in work, as far as the limit needs it."""
    used = 0
    for request in every(reader, kinds.REQUESTS_IN_FLIGHT):
        used += request.in_flight
        if used > limit:
            break
    return used


def _failed(campaigns: Sequence[CampaignRecord]) -> int:
    return sum(len(campaign.failed) for campaign in campaigns)


def _places(campaigns: Sequence[CampaignRecord], limit: int) -> int:
    """Return how many hosts can be in flight in addition to the failed ones."""
    return max(1, limit - _failed(campaigns))


def _first_that_wants(
    reader: Reader, campaigns: Sequence[CampaignRecord], *, now: Micros
) -> CampaignRecord | None:
    for campaign in campaigns:
        if _wants(reader, campaign, now=now):
            return campaign
    return None


def _wants(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> bool:
    """Return whether only the shared limit keeps a campaign from its next host."""
    request = reader.get(Request, campaign.request)
    if (
        request is None
        or request.hosts_unplanned
        or brake.why_braked(reader, request.verb)
    ):
        return False
    if campaign_gate.ask(reader, request, campaign, now=now).blocker is not None:
        return False
    turn = waits.turn(campaign.request, campaign.stage)
    first = reader.select(kinds.OPERATIONS_THAT_WAIT, turn, limit=1)
    # The first host of a rollout waits for the blackouts of the fleet for all of them.
    return any(waits.TURN_BLACKOUTS not in operation.waits_for for operation in first)
