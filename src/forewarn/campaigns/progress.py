"""Change a campaign when one of its hosts ends: values in, values out.

Failed hosts keep their place in the budgets and in their stage until they are retried or
skipped. The hosts that may be in flight grow 1, 2, 4, … at the start of each stage and
after each resumption, so that a fault of the work meets few hosts.
"""

from dataclasses import replace

from forewarn.campaigns.durations import SAMPLES_MIN, SLOW, percentile
from forewarn.campaigns.lifecycle import CampaignInput, step
from forewarn.campaigns.record import (
    CAMPAIGN_OUTCOMES_MAX,
    CampaignRecord,
    Halt,
    HaltCause,
)
from forewarn.fleet.windows import openings
from forewarn.instants import HOUR, Micros
from forewarn.protocol.actors import Actor

_DONE, _FAILED = "d", "f"

WORKS_MAX = 50
"""Hosts whose times a campaign keeps: a night of a small one, in half a kilobyte."""

DRAINS_MAX = 3
"""Maximum attempts to move the VMs of a host away. Each costs the tenants a notice, and a
host that cannot be emptied three times needs an operator."""

DRAIN_PAUSE: Micros = HOUR
"""Time before another attempt to move VMs away. The cause, such as a full pool, seldom ends
sooner."""

DEFERRED_PERCENT_MAX = 5
"""Maximum part of the hosts that is deferred before the campaign halts: more has a common
cause, and each attempt costs tenants a notice."""

DEFERRED_HOSTS_LEAST = 2
"""Number of deferred hosts that never halts a campaign, however small."""


def hosts_added(campaign: CampaignRecord, number: int) -> CampaignRecord:
    """Return the campaign with further hosts in its last stage."""
    *first, last = campaign.stages
    more = number if campaign.is_last_stage else 0
    return replace(
        campaign,
        hosts=campaign.hosts + number,
        stages=(*first, replace(last, hosts=last.hosts + number)),
        stage_left=campaign.stage_left + more,
    )


def host_announced(campaign: CampaignRecord, *, now: Micros) -> CampaignRecord:
    """Return the campaign after the announcement of a host."""
    return replace(campaign, moved_at=now, due_at=0)


def host_done(campaign: CampaignRecord, *, now: Micros) -> CampaignRecord:
    """Return the campaign after a host was done."""
    ramp, ramp_done = campaign.ramp, campaign.ramp_done + 1
    if ramp_done >= ramp:
        ramp, ramp_done = 2 * ramp, 0
    return replace(
        campaign,
        done=campaign.done + 1,
        stage_left=campaign.stage_left - 1,
        outcomes=_with(campaign, _DONE),
        ramp=ramp,
        ramp_done=ramp_done,
        moved_at=now,
    )


def host_timed(
    campaign: CampaignRecord, began: Micros, ended: Micros
) -> CampaignRecord:
    """Return the campaign after it measured the work on a host.

    Work that has begun is never broken off by the end of a window, so it is counted.
    """
    works = (*campaign.works, ended - began)[-WORKS_MAX:]
    opening = next(openings(campaign.windows, began), None)
    has_overrun = (
        opening is not None and opening.opens <= began and opening.closes < ended
    )
    return replace(campaign, works=works, overran=campaign.overran + has_overrun)


def own_slow(campaign: CampaignRecord) -> Micros:
    """Return the slow time of its own hosts, or the present one if that is longer.

    Too few hosts tell nothing.
    """
    if len(campaign.works) < SAMPLES_MIN:
        return campaign.slow
    return max(campaign.slow, percentile(campaign.works, SLOW))


def host_skipped(
    campaign: CampaignRecord, host: str, *, stage: int, now: Micros
) -> CampaignRecord:
    """Return the campaign after a host was skipped that had failed or not been done.

    A host of a later stage ends nothing of the current one.
    """
    is_ahead = stage > campaign.stage
    ahead = dict(campaign.skipped_ahead)
    if is_ahead:
        ahead[stage] = ahead.get(stage, 0) + 1
    return replace(
        campaign,
        skipped=campaign.skipped + 1,
        skipped_ahead=tuple(sorted(ahead.items())),
        stage_left=campaign.stage_left - (0 if is_ahead else 1),
        failed=_without(campaign, host),
        moved_at=now,
    )


def host_failed(
    campaign: CampaignRecord, host: str, operation: str, *, now: Micros
) -> CampaignRecord:
    """Return the campaign after an operation of a host failed; `why_halt` judges it."""
    return replace(
        campaign,
        failed=(*_without(campaign, host), (host, operation)),
        outcomes=_with(campaign, _FAILED),
        moved_at=now,
    )


def host_deferred(
    campaign: CampaignRecord, *, is_first: bool, now: Micros
) -> CampaignRecord:
    """Return the campaign after the VMs of a host could not be moved away.

    `is_first`: it is the first attempt on this host.
    """
    deferred = campaign.deferred + (1 if is_first else 0)
    return replace(campaign, deferred=deferred, moved_at=now)


def host_retried(campaign: CampaignRecord, host: str) -> CampaignRecord:
    """Return the campaign after an operator ordered another attempt for a host."""
    return replace(campaign, failed=_without(campaign, host))


def next_stage(campaign: CampaignRecord, *, fleet_hosts: int) -> CampaignRecord:
    """Return the campaign at the beginning of its next stage."""
    return replace(
        campaign,
        stage=campaign.stage + 1,
        stage_left=campaign.stages[campaign.stage].hosts
        - dict(campaign.skipped_ahead).get(campaign.stage + 1, 0),
        skipped_ahead=tuple(
            skipped
            for skipped in campaign.skipped_ahead
            if skipped[0] > campaign.stage + 1
        ),
        fleet_hosts=fleet_hosts,
        soaks_until=0,
        is_approved=False,
        is_asked=False,
        despite=(),
        ramp=1,
        ramp_done=0,
    )


def halted(campaign: CampaignRecord, why: Halt) -> CampaignRecord:
    """Return the campaign after an input of its table halted it.

    The approval of a stage that has not begun is withdrawn: it was given for a result that
    was good then. The next stage asks for another one.
    """
    return replace(
        campaign,
        state=step(campaign.state, CampaignInput.HALT),
        halt=why,
        due_at=0,
        is_approved=False,
        is_asked=campaign.is_asked and not campaign.is_approved,
    )


def resumed(campaign: CampaignRecord) -> CampaignRecord:
    """Return the campaign after its halt or last pause ended.

    Earlier failures do not halt it again.
    """
    return replace(campaign, halt=None, outcomes="", deferred=0, ramp=1, ramp_done=0)


def failures_of(campaign: CampaignRecord) -> tuple[int, int]:
    """Return how many of the last hosts failed, and how many of them in a row."""
    recent = campaign.outcomes[-campaign.tolerance.of_last :]
    return recent.count(_FAILED), len(recent) - len(recent.rstrip(_FAILED))


def why_halt(
    campaign: CampaignRecord, host: str, *, by: Actor, now: Micros
) -> Halt | None:
    """Return why the failure of a host halts the campaign; None: it is tolerated."""
    tolerance = campaign.tolerance
    recent = campaign.outcomes[-tolerance.of_last :]
    failures, in_a_row = failures_of(campaign)
    halt = Halt(cause=HaltCause.FAILURES, by=by, at=now, host=host)
    if not campaign.is_last_stage:
        return replace(halt, cause=HaltCause.CANARY, count=failures, of=len(recent))
    if in_a_row > tolerance.in_a_row:
        return replace(halt, cause=HaltCause.IN_A_ROW, count=in_a_row, of=len(recent))
    if failures > tolerance.failures:
        return replace(halt, count=failures, of=len(recent))
    return None


def why_halt_deferred(
    campaign: CampaignRecord, host: str, *, by: Actor, now: Micros
) -> Halt | None:
    """Return why a deferred host halts the campaign; None: it is tolerated."""
    share = campaign.hosts * DEFERRED_PERCENT_MAX // 100
    if campaign.deferred <= max(DEFERRED_HOSTS_LEAST, share):
        return None
    return Halt(
        cause=HaltCause.DEFERRED,
        by=by,
        at=now,
        host=host,
        count=campaign.deferred,
        of=campaign.hosts,
    )


def vms_down_max(campaign: CampaignRecord) -> int | None:
    """Return how many VMs can be down because of the campaign; None: any number.

    Stages before the last one tolerate none.
    """
    most = campaign.tolerance.vms_down
    return most if most is None or campaign.is_last_stage else 0


def halt_for_vms(
    host: str, down: int, down_max: int, *, by: Actor, now: Micros
) -> Halt:
    """Return the halt for too many VMs that are down."""
    return Halt(
        cause=HaltCause.VMS_DOWN, by=by, at=now, host=host, count=down, of=down_max
    )


def _without(campaign: CampaignRecord, host: str) -> tuple[tuple[str, str], ...]:
    return tuple(failure for failure in campaign.failed if failure[0] != host)


def _with(campaign: CampaignRecord, outcome: str) -> str:
    count = min(
        CAMPAIGN_OUTCOMES_MAX,
        max(campaign.tolerance.of_last, campaign.tolerance.in_a_row + 1),
    )
    return (campaign.outcomes + outcome)[-count:]
