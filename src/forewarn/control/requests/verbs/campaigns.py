"""The decisions of the verbs that steer campaigns."""

from collections.abc import Callable, Mapping

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import campaign_changes, campaigns
from forewarn.control.requests.verbs.campaign_hosts import add_hosts
from forewarn.control.requests.verbs.changes import check_count
from forewarn.control.transactions.work import Work
from forewarn.protocol.errors import BadRequestError
from forewarn.verbs.campaign_terms import TERM_KEYS
from forewarn.verbs.model import Kind, VerbRequest


def _retry(work: Work, name: str, given: VerbRequest) -> CampaignRecord:
    hosts, with_all = given.names("hosts"), bool(given.number("failed"))
    if bool(hosts) == with_all:
        raise BadRequestError(
            "name hosts, or all failed hosts",
            hint="Give the names of hosts, or --failed.",
        )
    return campaigns.retry(work, name, hosts)


def _add(work: Work, name: str, given: VerbRequest) -> CampaignRecord:
    return add_hosts(
        work, name, given.names("hosts"), with_drift=bool(given.number("drift"))
    )


def _set(work: Work, name: str, given: VerbRequest) -> CampaignRecord:
    values = {key: given.text(key) for key in TERM_KEYS}
    return campaign_changes.change(work, campaigns.find_open(work, name), values)


def _skip(work: Work, name: str, given: VerbRequest) -> CampaignRecord:
    hosts = given.names("hosts")
    check_count(hosts, Kind.HOST)
    return campaigns.skip(work, name, hosts)


_STEERS: Mapping[str, Callable[[Work, str, VerbRequest], CampaignRecord]] = {
    "campaign-pause": lambda work, name, _: campaigns.pause(work, name),
    "campaign-halt": lambda work, name, _: campaigns.halt(work, name),
    "campaign-resume": lambda work, name, given: campaigns.resume(
        work,
        name,
        by_all=bool(given.number("all_owners")),
        despite=given.names("despite"),
    ),
    "campaign-abort": lambda work, name, _: campaigns.abort(work, name),
    "campaign-approve": lambda work, name, given: campaigns.approve(
        work, name, given.number("stage") or 0
    ),
    "campaign-set": _set,
    "campaign-retry": _retry,
    "campaign-skip": _skip,
    "campaign-add": _add,
}


def _decide(
    steer: Callable[[Work, str, VerbRequest], CampaignRecord],
) -> Callable[[Work, VerbRequest], str]:
    def decide(work: Work, given: VerbRequest) -> str:
        [name] = given.targets
        return steer(work, name, given).campaign_id

    return decide


CAMPAIGN_DECISIONS: Mapping[str, Callable[[Work, VerbRequest], str]] = {
    name: _decide(steer) for name, steer in _STEERS.items()
}
"""The decision of each verb, by name."""
