"""Let the checks of a campaign halt, pause and continue it.

The last answers are in memory (`checks.board`), so a decision asks no other system. A
check that fails halts the campaign. While a check is unknown, no host is announced; if
that lasts, the campaign is paused, so that its operators are alerted. The pause ends by
itself.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from forewarn.campaigns.lifecycle import CampaignInput, CampaignState
from forewarn.campaigns.record import CHECKS, CampaignRecord, Halt, HaltCause, Pause
from forewarn.checks.model import CheckResult, Outcome
from forewarn.control.execution import campaign_ends
from forewarn.control.transactions.work import Work
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.problems import listed
from forewarn.protocol.errors import RefusedError
from forewarn.store.records import AuditKind

LOOK_AGAIN_AFTER: Micros = 15 * SECOND
"""Time to the next look at the answers: a failed check halts within this time of its
answer, even while no host can be announced."""

PAUSED_AFTER: Micros = 15 * MINUTE
"""Time after which a campaign with an unknown check is paused."""


def apply_results(work: Work, campaign: CampaignRecord) -> CampaignRecord:
    """Halt, pause or continue a campaign by the results of its checks, and return it."""
    if campaign.state is CampaignState.HALTED:
        return campaign
    has_paused = any(pause.is_of_checks for pause in campaign.pauses)
    if not campaign.checks and not has_paused:
        return campaign
    campaign_ends.need_checks(work)
    results = list(_not_passed(work, campaign))
    for result in results:
        if result.outcome is Outcome.FAIL:
            why = Halt(
                cause=HaltCause.CHECK,
                by=CHECKS,
                at=work.now,
                reason=result.reason,
                check=result.name,
            )
            return campaign_ends.halt(work, replace(campaign, unknown=()), why)
    unknown = tuple(
        (check_result.name, check_result.reason) for check_result in results
    )
    since = (campaign.unknown_since or work.now) if unknown else 0
    campaign = replace(campaign, unknown=unknown, unknown_since=since)
    if unknown and work.now - since >= PAUSED_AFTER:
        return _paused(work, campaign)
    return campaign if unknown else _continued(work, campaign)


def refuse_unknown(service_checks: Collection[str], names: Iterable[str]) -> None:
    """Refuse checks that the service does not have."""
    for name in names:
        if name not in service_checks:
            raise RefusedError(
                f"there is no check {name}",
                hint=f"Add a table [check.{name}] to forewarn.toml, or run `forewarn "
                "check list` to see the checks.",
            )


def unanswered(work: Work, campaign: CampaignRecord) -> tuple[str, ...]:
    """Return the checks that do not answer and are not ignored."""
    return tuple(
        check_result.name
        for check_result in _not_passed(work, campaign)
        if check_result.outcome is Outcome.UNKNOWN
    )


def refuse_unanswered(
    campaign: CampaignRecord, pauses: Sequence[Pause], checks: Sequence[str]
) -> None:
    """Refuse to end the pauses of a campaign if only its checks have paused it."""
    if all(pause.is_of_checks for pause in pauses) and checks:
        raise RefusedError(
            f"campaign {campaign.name} is paused until its checks answer: {listed(checks)}",
            hint="It continues by itself when they pass; look with `forewarn check run "
            f"{checks[0]}`. To go on without them, run `forewarn campaign resume "
            f"{campaign.name} --despite {' --despite '.join(checks)} --reason TEXT`.",
        )


def refuse_failing(
    work: Work, campaign: CampaignRecord, *, despite: Collection[str]
) -> None:
    """Refuse to resume a campaign that a failing check would halt again at once."""
    ignored = replace(campaign, despite=(*campaign.despite, *despite))
    for check_result in _not_passed(work, ignored):
        if check_result.outcome is Outcome.FAIL:
            raise RefusedError(
                f"check {check_result.name} of campaign {campaign.name} fails: {check_result.reason}",
                hint="Wait until it passes. To go on although it fails, run `forewarn "
                f"campaign resume {campaign.name} --despite {check_result.name} --reason TEXT`.",
            )


def _not_passed(work: Work, campaign: CampaignRecord) -> Iterator[CheckResult]:
    for name in campaign.checks:
        if name not in campaign.despite:
            result = work.checks.latest(name, now=work.now)
            if result.outcome is not Outcome.PASS:
                yield result


def _paused(work: Work, campaign: CampaignRecord) -> CampaignRecord:
    if any(each.is_of_checks for each in campaign.pauses):
        return campaign
    campaign_ends.note(work, campaign, AuditKind.CAMPAIGN_PAUSED)
    reason = campaign.unknown[0][1]
    pause = Pause(by=CHECKS, reason=reason, at=work.now)
    paused = campaign_ends.take_step(work, campaign, CampaignInput.PAUSE)
    return replace(paused, pauses=(*campaign.pauses, pause))


def _continued(work: Work, campaign: CampaignRecord) -> CampaignRecord:
    left = tuple(pause for pause in campaign.pauses if not pause.is_of_checks)
    if left == campaign.pauses:
        return campaign
    campaign_ends.note(work, campaign, AuditKind.CAMPAIGN_RESUMED)
    step = CampaignInput.RESUME_PAUSED if left else CampaignInput.RESUME
    return replace(campaign_ends.take_step(work, campaign, step), pauses=left)
