"""Find the reasons why an open campaign needs an operator: values in, values out.

Reasons that end soon with the time are left out, such as a soak or a closed window.
"""

from dataclasses import dataclass

from forewarn.campaigns import gate
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.instants import DAY, Micros
from forewarn.protocol.enumerations import Enumeration

STALLED_AFTER: Micros = DAY
"""Time without progress, after the notice and work of a host, that needs an operator. It
is longer than any usual work, and an operator still learns of it on the next day."""


class TroubleKind(Enumeration):
    """Reasons why a campaign needs an operator, the worst first."""

    HALTED = "halted"
    FAILED_HOSTS = "failed hosts"
    """Only failed hosts are left in the stage, or they use all slots but one."""
    CHECKS = "checks"
    """A check that does not answer has paused it."""
    WAITS = "waits"
    """The next stage waits for an approval only."""
    HELD = "held"
    """All hosts of the stage that are left wait long for windows of their tenants."""
    STALLED = "stalled"
    """It runs without progress."""


HELD_LONG: Micros = DAY
"""Time for which a whole stage waits for windows of tenants that needs an operator. A night
or a working day passes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A reason why one campaign needs an operator."""

    kind: TroubleKind
    since: Micros


def of(
    campaign: CampaignRecord,
    *,
    at_once: int,
    waits_until: Micros,
    held_until: Micros,
    now: Micros,
) -> tuple[Trouble, ...]:
    """Return the reasons why the campaign needs an operator, the worst first.

    `at_once` is the budget `in_flight` as a number, and `waits_until` the time at which
    the gate opens by itself, or 0. `held_until` is when the first host of a stage goes on
    whose hosts all wait for windows of their tenants, or 0. The other troubles of a halted
    campaign can follow from its halt, so they are not returned.
    """
    if campaign.has_ended:
        return ()
    if campaign.halt is not None:
        return (Trouble(kind=TroubleKind.HALTED, since=campaign.halt.at),)
    troubles = [
        Trouble(kind=TroubleKind.CHECKS, since=pause.at)
        for pause in campaign.pauses
        if pause.is_of_checks
    ]
    if _is_held_by_failures(campaign, at_once):
        troubles.append(Trouble(kind=TroubleKind.FAILED_HOSTS, since=campaign.moved_at))
    if not campaign.is_released:
        troubles.append(Trouble(kind=TroubleKind.WAITS, since=campaign.created))
    if _needs_approval(campaign, now):
        troubles.append(Trouble(kind=TroubleKind.WAITS, since=campaign.soaks_until))
    if campaign.state is CampaignState.RUNNING and held_until >= now + HELD_LONG:
        troubles.append(Trouble(kind=TroubleKind.HELD, since=campaign.moved_at))
    stalls = campaign.moved_at + campaign.notice + campaign.slow + STALLED_AFTER
    is_waiting = waits_until > now or campaign.state is not CampaignState.RUNNING
    if not (troubles or is_waiting) and stalls <= now:
        troubles.append(Trouble(kind=TroubleKind.STALLED, since=campaign.moved_at))
    return tuple(troubles)


def _is_held_by_failures(campaign: CampaignRecord, at_once: int) -> bool:
    failed = len(campaign.failed)
    # With a budget of one host, a tolerated failure always uses it.
    return gate.is_only_failed(campaign) or (failed > 0 and failed >= at_once)


def _needs_approval(campaign: CampaignRecord, now: Micros) -> bool:
    return (
        not campaign.is_last_stage
        and gate.is_stage_over(campaign)
        and campaign.soaks_until <= now
        and campaign.stages[campaign.stage - 1].approval
        and not campaign.is_approved
    )
