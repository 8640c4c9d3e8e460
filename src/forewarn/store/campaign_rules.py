"""Rules for campaigns: their states, and their counts against the operations."""

from collections import Counter
from collections.abc import Iterator

from forewarn.campaigns.lifecycle import ENDED, CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.protocol.operations import Request, RequestState
from forewarn.store.contents import Contents, violated


def campaigns(contents: Contents) -> Iterator[str]:
    """4.5: a campaign has a rollout, and each of its hosts is in one state."""
    open_ = Counter(operation.request for operation in contents.open_operations)
    # A host with a visit can have an operation that has ended.
    visited = {
        visit.request for visit in contents.visits.values() if not visit.ended_at
    }
    names = Counter(
        campaign.name
        for campaign in contents.campaigns.values()
        if not campaign.has_ended
    )
    for name, count in names.items():
        if count > 1:
            yield f"{count} campaigns with the name {name} have not ended"
    for campaign in contents.campaigns.values():
        yield from _wrong_state(campaign)
        yield from _wrong_counts(campaign, contents)
        if not campaign.has_ended and campaign.request not in visited:
            yield from _wrong_hosts(campaign, contents, open_[campaign.request])
    yield from _shared_hosts(contents)
    for request in contents.requests.values():
        if request.campaign and request.campaign not in contents.campaigns:
            yield (
                f"request {request.request_id} is of campaign {request.campaign}, which "
                "does not exist"
            )


def can_retry(request: Request, contents: Contents) -> bool:
    """Return whether the campaign of a rollout has failed hosts, which can be retried."""
    campaign = contents.campaigns.get(request.campaign)
    return campaign is not None and bool(campaign.failed)


def _shared_hosts(contents: Contents) -> Iterator[str]:
    """Report hosts of two campaigns that have not ended, stored or implied."""
    open_ = {
        request.request_id: request.campaign or request.request_id
        for request in contents.requests.values()
        if request.at_once and request.hosts > 1 and request.state is RequestState.OPEN
    }
    taken: dict[str, str] = {}
    for operation in contents.open_operations:
        if operation.position and (own := open_.get(operation.request)):
            other = taken.setdefault(operation.host, own)
            if other != own:
                yield f"host {operation.host} is in the campaigns {other} and {own}"
    for campaign in contents.campaigns.values():
        for host in () if campaign.has_ended else campaign.failed_hosts:
            own = campaign.campaign_id
            other = taken.setdefault(host, own)
            if other != own:
                yield f"host {host} is in the campaigns {other} and {own}"


def _wrong_state(campaign: CampaignRecord) -> Iterator[str]:
    me = f"campaign {campaign.campaign_id} is {campaign.state.value}"
    state = campaign.state
    yield from violated(
        (state is CampaignState.DRAFT, f"{me}, which is never stored"),
        (
            campaign.has_ended is not (state in ENDED),
            f"{me}, but the time of its end contradicts that",
        ),
        (
            (state is CampaignState.HALTED) is not (campaign.halt is not None)
            and not campaign.has_ended,
            f"{me}, but its halt contradicts that",
        ),
        (
            state is CampaignState.PAUSED and not campaign.pauses,
            f"{me}, but no pause is stored",
        ),
        (
            state is CampaignState.RUNNING and campaign.pauses,
            f"{me}, but a pause is stored",
        ),
        (campaign.has_ended and campaign.due_at, f"{me}, but has a timer"),
    )


def _wrong_counts(campaign: CampaignRecord, contents: Contents) -> Iterator[str]:
    me = f"campaign {campaign.campaign_id}"
    request = contents.requests.get(campaign.request)
    failed = campaign.failed_hosts
    yield from violated(
        (
            request is None or request.campaign != campaign.campaign_id,
            f"{me} has the rollout {campaign.request}, which is not its own",
        ),
        (
            sum(stage.hosts for stage in campaign.stages) != campaign.hosts,
            f"{me} has {campaign.hosts} hosts, but its stages have other ones",
        ),
        (
            not 1 <= campaign.stage <= len(campaign.stages),
            f"{me} is in stage {campaign.stage} of {len(campaign.stages)}",
        ),
        (len(failed) != len(set(failed)), f"{me} has a failed host twice"),
        (
            any(stage <= campaign.stage for stage, _ in campaign.skipped_ahead),
            f"{me} has skipped hosts ahead of stage {campaign.stage} in a stage before",
        ),
    )


def _wrong_hosts(
    campaign: CampaignRecord, contents: Contents, open_: int
) -> Iterator[str]:
    """Report problems of the hosts of an open campaign."""
    me = f"campaign {campaign.campaign_id}"
    request = contents.requests.get(campaign.request)
    ended = campaign.done + campaign.skipped + len(campaign.failed)
    left = open_ + (request.hosts_unplanned if request else 0)
    if ended + left != campaign.hosts:
        yield (
            f"{me} has {campaign.hosts} hosts, but {ended} have ended and {left} have "
            "not"
        )
    for host, operation in campaign.failed:
        if operation not in contents.operations:
            yield f"{me} has no operation {operation} of its failed host {host}"
