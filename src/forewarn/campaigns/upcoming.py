"""Estimate by when the work on a host that waits begins: values in, values out.

The estimate is for the owner of VMs on the host, so it is rather too late than too early.
It uses few numbers of the rollout, and never plays its order: `forecast` does that for
operators.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.windows import Opening
from forewarn.instants import DAY, Micros

AHEAD_MAX: Micros = 90 * DAY
"""Maximum time that is looked ahead: a later estimate helps no tenant to plan, and each
day can have windows to compute."""

SLACK = 2
"""Factor on the number of hosts that come before: fault domains, racks and tenants let
fewer hosts be in work together than the budget `in_flight`."""

PACE_HOSTS_MIN = 10
"""Minimum hosts that are done before the pace of a rollout is measured: with fewer, one
slow host decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Hosts, stages and soaks that come before a host in its rollout."""

    hosts: int
    """Hosts that wait and may come first."""
    slots: int
    """Maximum hosts in flight."""
    ramps: int
    """Stages that begin with one host in flight, from the current one on."""
    soaks: Micros
    """Soaks of the stages before that of the host."""
    work: Micros
    """Time of a slow host with its notice; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The progress of a rollout so far."""

    done: int
    elapsed: Micros


def begins_by(
    ahead: Ahead, pace: Pace, free: Iterable[Opening], *, now: Micros
) -> Micros | None:
    """Return by when a host is expected to begin; None: there is no estimate.

    `free` has the times in which the rollout may work, the earliest first. The later of
    two estimates counts: by the limits of the rollout, and by its pace so far.
    """
    estimates: list[Micros] = []
    if ahead.work:
        played = _played(ahead, free)
        if played is None:
            return None
        estimates.append(played)
    if pace.done >= PACE_HOSTS_MIN:
        pace_of_host = pace.elapsed // pace.done
        estimates.append(now + (ahead.hosts + 1) * pace_of_host + ahead.soaks)
    by = max(estimates, default=None)
    return None if by is None or by > now + AHEAD_MAX else by


def _played(ahead: Ahead, free: Iterable[Opening]) -> Micros | None:
    """Return the end of the last of as many rounds as are needed; None: they do not fit."""
    rounds = 1 + SLACK * -(-ahead.hosts // ahead.slots)
    rounds += ahead.ramps * ahead.slots.bit_length()
    for time in free:
        fit = (time.closes - time.opens) // ahead.work
        if rounds <= fit:
            return time.opens + rounds * ahead.work + ahead.soaks
        rounds -= fit
    return None


def soaks_before(campaign: CampaignRecord, stage: int, *, now: Micros) -> Micros | None:
    """Return the soaks before a stage begins.

    None: it needs an approval that an operator has not given.
    """
    soaks: Micros = 0
    for number in range(campaign.stage, stage):
        terms = campaign.stages[number - 1]
        is_current = number == campaign.stage
        if terms.approval and not (is_current and campaign.is_approved):
            return None
        is_running = is_current and campaign.soaks_until
        soaks += max(0, campaign.soaks_until - now) if is_running else terms.lasts
    return soaks


def end_of_day(instant: Micros) -> Micros:
    """Return the end of the UTC day of an instant.

    An estimate has no better resolution, and the days of two tenants on a host do not
    show that they share it.
    """
    return (instant // DAY + 1) * DAY
