"""Decide whether a campaign may announce its next host now: values in, values out.

This is the part of the decision that concerns no single host: state, stage, windows, and
the budgets of the whole campaign. `control.rules.rolling` decides about hosts.
"""

from dataclasses import dataclass, replace

from forewarn.campaigns.hours import Hours
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.turn_blockers import (
    BudgetKind,
    BudgetUsed,
    CampaignStopped,
    CheckUnknown,
    StageWaits,
)

LOOK_AGAIN_AFTER: Micros = MINUTE
"""Time to the next check of a campaign that waits for hosts of the fleet to come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The facts at one instant that the gate depends on."""

    now: Micros
    in_flight: int
    """Hosts of the campaign that are announced or in work; failed ones are separate."""
    at_once: int
    """The budget `in_flight` as a number."""
    notice: Micros
    """Notice of the campaign's events."""
    hours: Hours
    """The windows and blackouts that count."""
    away: int = 0
    """Hosts of the fleet that are away for any cause; 0 without the budget."""
    away_max: int | None = None
    """The budget `unavailable` as a number; None: no limit."""
    cordoned: tuple[str, ...] = ()
    """Hosts that are away until an operator opens them, if the budget is used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The answer of the gate."""

    blocker: AnyBlocker | None = None
    """None: the next host may be announced."""
    look_at: Micros = 0
    """When only time opens the gate; 0: something else must happen."""


def decide(campaign: CampaignRecord, standing: Standing) -> Gate:
    """Return whether the next host may be announced."""
    stopped = why_stopped(campaign)
    if stopped is not None:
        return Gate(blocker=stopped)
    if not campaign.is_released:
        needed = StageWaits(campaign=campaign.name, stage=1, needs_approval=True)
        return Gate(blocker=needed)
    if is_only_failed(campaign):
        return Gate(blocker=stage_still_runs(campaign))
    now = standing.now
    if campaign.unknown:
        check, said = campaign.unknown[0]
        unknown = CheckUnknown(campaign=campaign.name, check=check, said=said)
        return Gate(blocker=unknown)
    if campaign.soaks_until > now:
        return Gate(
            blocker=_stage_waits(campaign, remaining=campaign.soaks_until - now),
            look_at=campaign.soaks_until,
        )
    if is_stage_over(campaign) and not campaign.is_last_stage:
        return Gate(blocker=_stage_waits(campaign))
    if used := _used(campaign, standing):
        # Hosts come back for many reasons, so the budget of the fleet has a timer.
        is_fleet = used.budget is BudgetKind.UNAVAILABLE
        return Gate(blocker=used, look_at=now + LOOK_AGAIN_AFTER if is_fleet else 0)
    return _by_hours(standing.hours, now, standing.notice)


def why_stopped(campaign: CampaignRecord) -> CampaignStopped | None:
    """Return why the campaign announces nothing by order; None: it runs."""
    if campaign.state is CampaignState.RUNNING:
        return None
    halt = campaign.halt
    checks: tuple[str, ...] = ()
    if halt is not None:
        by, reason = halt.by.text, halt.reason
    elif campaign.pauses:
        # A pause for a check ends by itself, so those of operators come first.
        pause = min(campaign.pauses, key=lambda pause: pause.is_of_checks)
        by, reason = pause.by.text, pause.reason
        if pause.is_of_checks:
            checks = tuple(name for name, _ in campaign.unknown)
    else:
        by, reason = campaign.actor.text, ""
    return CampaignStopped(
        campaign=campaign.name,
        is_halted=halt is not None,
        by=by,
        reason=reason,
        checks=checks,
    )


def is_stage_over(campaign: CampaignRecord) -> bool:
    """Return whether all hosts of the current stage are done or skipped."""
    return campaign.stage_left <= 0


def is_only_failed(campaign: CampaignRecord) -> bool:
    """Return whether all hosts of the current stage that are left have failed.

    A failed host belongs to the current stage, which does not end before it is retried or
    skipped.
    """
    return 0 < campaign.stage_left <= len(campaign.failed)


def may_advance(campaign: CampaignRecord, *, now: Micros) -> bool:
    """Return whether the next stage begins: soaked, and approved if that is demanded."""
    return (
        campaign.state is CampaignState.RUNNING
        and not campaign.is_last_stage
        and is_stage_over(campaign)
        and campaign.soaks_until <= now
        and not campaign.unknown
        and (campaign.is_approved or not campaign.stages[campaign.stage - 1].approval)
    )


def needs_approval(campaign: CampaignRecord, *, now: Micros) -> bool:
    """Return whether the next stage waits only for its approval."""
    approved = replace(campaign, is_approved=True)
    return may_advance(approved, now=now) and not may_advance(campaign, now=now)


def slots(campaign: CampaignRecord, at_once: int) -> int:
    """Return how many hosts can be in flight in addition to the failed ones.

    Failed hosts use slots, but never the last one.
    """
    return max(1, min(campaign.ramp, at_once) - len(campaign.failed))


def _stage_waits(campaign: CampaignRecord, *, remaining: Micros = 0) -> StageWaits:
    current = campaign.stages[campaign.stage - 1]
    return StageWaits(
        campaign=campaign.name,
        stage=campaign.stage + 1,
        remaining=remaining,
        needs_approval=current.approval and not campaign.is_approved,
    )


def _used(campaign: CampaignRecord, standing: Standing) -> BudgetUsed | None:
    most = slots(campaign, standing.at_once)
    failed = len(campaign.failed)
    if standing.in_flight >= most:
        return BudgetUsed(
            campaign=campaign.name,
            budget=BudgetKind.IN_FLIGHT,
            used=standing.in_flight + failed,
            most=min(campaign.ramp, standing.at_once),
            failed=failed,
            ramps_to=standing.at_once if campaign.ramp < standing.at_once else 0,
        )
    if standing.away_max is not None and standing.away >= standing.away_max:
        return BudgetUsed(
            campaign=campaign.name,
            budget=BudgetKind.UNAVAILABLE,
            used=standing.away,
            most=standing.away_max,
            failed=failed,
            cordoned=len(standing.cordoned),
            cordoned_host=next(iter(standing.cordoned), ""),
        )
    return None


def _by_hours(hours: Hours, now: Micros, notice: Micros) -> Gate:
    """Return whether windows and blackouts allow the next announcement now."""
    at = hours.next_notice(now, notice)
    if at == now:
        return Gate()
    return Gate(blocker=hours.why_not_announced(now, notice, at), look_at=at or 0)


def stage_still_runs(campaign: CampaignRecord) -> StageWaits:
    """Return that the current stage has hosts left, which later ones wait for."""
    gate = replace(
        _stage_waits(campaign), left=campaign.stage_left, failed=len(campaign.failed)
    )
    return replace(gate, stage=0) if campaign.is_last_stage else gate
