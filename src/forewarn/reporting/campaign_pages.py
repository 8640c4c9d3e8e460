"""Pages of the list of campaigns: the stored ones and those that rollouts imply."""

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import implied_campaigns
from forewarn.protocol.operations import Request
from forewarn.store import kinds
from forewarn.store.port import Reader, count
from forewarn.store.questions import Query

COUNTED_MAX = 10_000
"""Maximum campaigns of each sort that are counted: a millisecond."""


def _queries(*, with_ended: bool) -> tuple[Query[CampaignRecord], Query[Request]]:
    if with_ended:
        return kinds.ALL_CAMPAIGNS, kinds.ROLLOUTS_IMPLYING
    return kinds.CAMPAIGNS_OPEN, kinds.ROLLOUTS_IMPLYING_OPEN


def page_of(
    reader: Reader, *, after: str, limit: int, with_ended: bool
) -> list[CampaignRecord]:
    """Return a page of the campaigns in the order of their IDs: the implied ones come last.

    `after` is the last ID of the page before.
    """
    stored, implied = _queries(with_ended=with_ended)
    page = reader.select(stored, after=after, limit=limit)
    if len(page) < limit:
        rest = reader.select(implied, after=after, limit=limit - len(page))
        page += [implied_campaigns.record_of(reader, request) for request in rest]
    return page


def newest_of(
    reader: Reader, *, before: str, limit: int, with_ended: bool
) -> list[CampaignRecord]:
    """Return a page of the campaigns in the order of their starts, the newest first.

    `before` is the last ID of the page before; empty: the page begins with the newest.
    """
    stored, implied = _queries(with_ended=with_ended)
    start = _start_in(before)
    campaigns = reader.latest(stored, before=start and f"ca-{start}", limit=limit)
    rollouts = reader.latest(implied, before=start and f"ro-{start}", limit=limit)
    newest = sorted(
        [*campaigns, *rollouts], key=lambda record: _start_in(record.key), reverse=True
    )
    return [
        implied_campaigns.record_of(reader, record)
        if isinstance(record, Request)
        else record
        for record in newest[:limit]
    ]


def _start_in(campaign_id: str) -> str:
    """Return the part of an ID that sorts campaigns of both sorts by their starts."""
    return campaign_id.partition("-")[2]


def total_of(reader: Reader, *, with_ended: bool) -> int:
    """Return the number of campaigns, at most `COUNTED_MAX` of each sort."""
    return sum(
        count(reader, query, limit=COUNTED_MAX)
        for query in _queries(with_ended=with_ended)
    )
