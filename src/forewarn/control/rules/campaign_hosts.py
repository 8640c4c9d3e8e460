"""Each host is in at most one campaign that has not ended: read who has which.

A start is prepared from a snapshot, perhaps for seconds, and then stored in a
transaction. Other campaigns can start or grow in between. The transaction therefore
checks the campaigns that the preparation has not seen as they are now, and no others:
its cost does not depend on the fleet. A rollout of several hosts counts as a campaign
before a verb steers it, so that steering it never makes a second campaign of a host.
"""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import NoReturn

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import implied_campaigns, unplanned
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import Visit, VisitState
from forewarn.store import kinds
from forewarn.store.port import Reader, every

Seen = frozenset[tuple[str, int]]
"""The open campaigns of a snapshot: their IDs, with their numbers of hosts. The set of
hosts of a campaign only grows."""

HOSTS_NAMED_MAX = 10
"""Maximum hosts that a hint names: one line."""


def seen(reader: Reader) -> Seen:
    """Return the open campaigns, to compare them with later ones."""
    return frozenset(
        (campaign.campaign_id, campaign.hosts)
        for campaign in implied_campaigns.open_ones(reader)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Hosts of a planned campaign that another campaign has and has not ended."""

    campaign_id: str
    name: str
    state: CampaignState
    hosts: tuple[str, ...]
    """In the order of their names."""
    has_failed: bool = False
    """Whether they have failed there, and the planned campaign is an emergency."""
    is_taken_over: bool = False
    """Whether the planned campaign takes them over at their turn, and is not refused."""

    def refuse(self) -> NoReturn:
        """Raise the RefusedError of a start with these hosts."""
        if self.has_failed:
            raise RefusedError(
                f"{len(self.hosts):,} of the hosts have failed in campaign {self.name}, "
                f"such as {self.hosts[0]}",
                hint=f"Run `forewarn campaign skip {self.name} {_named(self.hosts)} "
                "--reason TEXT` first, or exclude them with [campaign.select] except.",
            )
        raise RefusedError(
            f"campaign {self.name} has {len(self.hosts):,} of the hosts and has not "
            f"ended, such as {self.hosts[0]}",
            hint="Wait until it ends, exclude these hosts with [campaign.select] except, "
            f"or run `forewarn campaign skip {self.name} {_named(self.hosts)} "
            "--reason TEXT`. An emergency takes hosts over from routine campaigns.",
        )


def holdings(
    reader: Reader,
    hosts: Collection[str],
    *,
    known: Seen = frozenset(),
    is_emergency: bool = False,
    with_taken_over: bool = False,
) -> Iterator[Holding]:
    """Yield the other campaigns that have any of these hosts, with the hosts.

    `known` has campaigns that were compared with these hosts before. An emergency takes
    hosts over from routine campaigns, except those that have failed there: a person must
    look at these first. `with_taken_over`: yield those that it takes over, too.
    """
    wanted: frozenset[str] | None = None
    for other in implied_campaigns.open_ones(reader):
        if (other.campaign_id, other.hosts) in known:
            continue
        wanted = frozenset(hosts) if wanted is None else wanted
        takes_over = is_emergency and not other.is_emergency
        failed = wanted.intersection(other.failed_hosts if takes_over else ())
        if failed:
            yield _holding(other, failed, has_failed=True)
        if takes_over and not with_taken_over:
            continue
        if shared := (wanted & _hosts_of(reader, other)) - failed:
            yield _holding(other, shared, is_taken_over=takes_over)


def _holding(
    campaign: CampaignRecord,
    hosts: Iterable[str],
    *,
    has_failed: bool = False,
    is_taken_over: bool = False,
) -> Holding:
    return Holding(
        campaign_id=campaign.campaign_id,
        name=campaign.name,
        state=campaign.state,
        hosts=tuple(sorted(hosts)),
        has_failed=has_failed,
        is_taken_over=is_taken_over,
    )


def check_free(
    reader: Reader,
    hosts: Collection[str],
    *,
    known: Seen = frozenset(),
    is_emergency: bool = False,
) -> None:
    """Refuse hosts that another campaign has and has not ended; raises RefusedError.

    The arguments are those of `holdings`.
    """
    for holding in holdings(reader, hosts, known=known, is_emergency=is_emergency):
        holding.refuse()


def _named(hosts: Sequence[str]) -> str:
    """Return hosts as arguments of a command; of many, the first ones."""
    more = " …" if len(hosts) > HOSTS_NAMED_MAX else ""
    return " ".join(hosts[:HOSTS_NAMED_MAX]) + more


def failed_in(reader: Reader) -> dict[str, str]:
    """Return the failed hosts of the open campaigns, each with the name of its campaign.

    They have no open operation.
    """
    return {
        host: campaign.name
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
        for host in campaign.failed_hosts
    }


def check_not_failed(failed: Mapping[str, str], host: str) -> str:
    """Return a host; refuse one that waits for another attempt in a campaign.

    `failed` comes from `failed_in`.
    """
    if host in failed:
        raise RefusedError(
            f"host {host} has failed in campaign {failed[host]}",
            hint=f"Run `forewarn campaign retry {failed[host]} {host}`, or skip it there "
            "first.",
        )
    return host


def none_failed(reader: Reader, hosts: Collection[str]) -> Callable[[str], str]:
    """Return the check of each host of a rollout; only several hosts are a campaign."""
    failed = failed_in(reader) if len(hosts) > 1 else {}
    return lambda host: check_not_failed(failed, host)


def is_done_in(reader: Reader, request: str, host: str) -> bool:
    """Return whether a host is done in the campaign of a rollout."""
    return any(
        operation.request == request and _is_done(reader, operation)
        for operation in every(reader, kinds.WORKED_ON_HOST, host)
    )


def _is_done(reader: Reader, operation: Operation) -> bool:
    visit = reader.get(Visit, operation.visit) if operation.visit else None
    is_visited = visit is None or visit.state is VisitState.DONE
    return operation.state is OperationState.DONE and is_visited


def _hosts_of(reader: Reader, campaign: CampaignRecord) -> set[str]:
    """Return the hosts of a campaign that have not ended."""
    hosts = {*campaign.failed_hosts}
    hosts |= {host for _, host in unplanned.hosts_of(reader, campaign.request)}
    hosts |= {
        operation.host
        for operation in every(
            reader, kinds.OPEN_OPERATIONS_OF_REQUEST, campaign.request
        )
    }
    # The work on a host can go on after the end of its operation.
    hosts |= {
        visit.host
        for visit in every(reader, kinds.OPEN_VISITS_OF_REQUEST, campaign.request)
    }
    return hosts
