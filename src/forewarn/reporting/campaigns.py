"""Campaigns as JSON: how far each is, and what it waits for. For operators only."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from forewarn.campaigns.gate import is_only_failed, stage_still_runs, why_stopped
from forewarn.campaigns.model import Tolerance
from forewarn.campaigns.progress import DRAINS_MAX, vms_down_max
from forewarn.campaigns.record import CampaignRecord, Halt, StageTerms
from forewarn.campaigns.steering import revision_of
from forewarn.control.rules import brake, campaign_gate, shared_limit, waits
from forewarn.control.rules.remedies import actionable_first
from forewarn.fleet.blackout_fields import line_of_blackout
from forewarn.fleet.blackouts import Blackout, coming
from forewarn.fleet.window_fields import line_of
from forewarn.instants import SECOND, Micros, format_instant, instant_or_none
from forewarn.protocol.blockers import (
    AnyBlocker,
    Deferred,
    DrainFailed,
    InBlackout,
    NoCommonWindow,
    OutsideWindow,
    WindowClosed,
)
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.turn_blockers import CampaignStopped, TurnBlocker
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, count, every
from forewarn.wording import campaigns as campaign_texts
from forewarn.wording import operators, rollouts, visits

Json: TypeAlias = dict[str, Any]

DEFERRED_SHOWN_MAX = 100
"""Maximum deferred hosts in one report: a list for people. A tenth of a millisecond each."""

FAILURES_MAX = 20
"""Failed hosts of a campaign with their reasons: as many as its text shows. Each needs
two reads."""


HELD_READ_MAX = 20
"""Maximum planned hosts that are read to find the first one of the stage with a reason: a
millisecond."""

HELD_HOSTS_MAX = 1_000
"""Maximum planned hosts that are read to know that windows hold a whole stage: 50 ms."""

DRIFT_COUNTED_MAX = 1_000
"""Maximum hosts that a report counts as drift: a number for people, and 1 ms."""


def campaign_report(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Json:
    """Return a campaign with its stages and counts.

    The cost does not depend on the number of its hosts.
    """
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    why = why_waiting(reader, campaign, now=now)
    # The end of a halted campaign ends its halt.
    halt = None if campaign.has_ended else campaign.halt
    deferred = deferred_count(reader, campaign)
    return {
        "campaign": campaign.campaign_id,
        "name": campaign.name,
        "reason": campaign.reason,
        "impact": campaign.impact.value,
        "state": campaign.state.value,
        "rollout": campaign.request,
        "revision": revision_of(campaign),
        "digest": campaign.digest,
        "actor": campaign.actor.text,
        "created": format_instant(campaign.created),
        "ended": format_instant(campaign.ended) if campaign.ended else None,
        "planned_end": instant_or_none(campaign.planned_end),
        "progressed": format_instant(campaign.moved_at),
        "emergency": campaign.is_emergency,
        "released": campaign.is_released,
        "priority": campaign.priority,
        "hosts": campaign.hosts,
        "waiting": max(0, campaign.left - request.in_flight - deferred),
        "in_flight": request.in_flight,
        "done": campaign.done,
        "skipped": campaign.skipped,
        "failed": [
            {
                "host": host,
                "operation": operation,
                "reason": failure_of(reader, operation) if place < FAILURES_MAX else "",
            }
            for place, (host, operation) in enumerate(campaign.failed)
        ],
        "deferred_count": deferred,
        "deferred": _deferred(reader, campaign),
        "vms_down": campaign_gate.vms_down(reader, campaign),
        "vms_down_max": vms_down_max(campaign),
        "slow_seconds": campaign.slow / SECOND,
        "overran": campaign.overran,
        "drift": _drift(reader, campaign),
        "withdrawn": campaign.withdrawn,
        "at_once": min(campaign.ramp, campaign_gate.at_once(campaign)),
        "budgets": _budgets(campaign),
        "tolerance": _tolerance(campaign.tolerance),
        "stage": campaign.stage,
        "stages": [
            _stage(campaign, number, stage, now=now)
            for number, stage in enumerate(campaign.stages, start=1)
        ],
        "halted": None if halt is None else _halt_report(halt),
        "pauses": [
            {"by": one.by.text, "reason": one.reason, "at": format_instant(one.at)}
            for one in campaign.pauses
        ],
        "windows": list(map(line_of, campaign.windows)),
        "blackouts": [blackout_report(row, now=now) for row in campaign.blackouts],
        "checks": list(campaign.checks),
        "warnings": _warnings(campaign, request),
        "waits_for": why.text,
        "waits_shortly": why.short or why.text,
    }


def _halt_report(halt: Halt) -> Json:
    return {
        "cause": halt.cause.value,
        "by": halt.by.text,
        "at": format_instant(halt.at),
        "host": halt.host or None,
        "message": rollouts.halt(halt),
    }


def _warnings(campaign: CampaignRecord, request: Request) -> list[str]:
    """Return what a campaign does not do, although its operators can expect it.

    The rollout of a `maintain` has no file to which a step could be added.
    """
    if campaign.name == campaign.request:
        return []
    has_work = any(step.kind is StepKind.WORK for step in request.steps)
    warning = "" if has_work else campaign_texts.without_work(campaign.impact)
    return [warning] if warning else []


def failure_of(reader: Reader, operation_id: str) -> str:
    """Return why a host failed in a campaign; empty if the store has deleted it.

    The operation of a host can be done although a host step failed after it.
    """
    operation = reader.get(Operation, operation_id)
    if operation is None:
        return ""
    visit = reader.get(Visit, operation.visit) if operation.visit else None
    if visit is not None and visit.state in STUCK_VISITS:
        return visits.failure(visit)
    return operators.note(operation.note)


def blackout_report(blackout: Blackout, *, now: Micros) -> Json:
    """Return a blackout, with its current or next time."""
    following = next(coming([blackout], now, now), None)
    return {
        "name": blackout.name,
        "line": line_of_blackout(blackout),
        "begins": instant_or_none(following.begins if following else 0),
        "ends": instant_or_none(following.ends if following else 0),
    }


class Waiting(NamedTuple):
    """Why a campaign announces no further host now."""

    text: str
    """Empty: it may announce one."""
    until: Micros = 0
    """0: something else than the time must happen."""
    short: str = ""
    """The same without commands; empty: as `text`."""


def why_waiting(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Waiting:
    """Return why the campaign announces no further host now, and until when."""
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    if request.hosts_unplanned or campaign.has_ended:
        return Waiting("")
    if is_only_failed(campaign):
        causes = [stage_still_runs(campaign), *filter(None, [why_stopped(campaign)])]
        return Waiting(
            operators.JOINT.join(map(rollouts.turn, causes)),
            short=operators.JOINT.join(map(rollouts.shortly, causes)),
        )
    gate = shared_limit.ask(reader, request, campaign, now=now)
    blocker = gate.blocker
    if not isinstance(blocker, CampaignStopped):
        # It holds the hosts in flight too, so no budget becomes free.
        for braked in brake.why_braked(reader, request.verb):
            return Waiting(operators.reason(braked))
    if isinstance(blocker, OutsideWindow) and (never := _why_never(reader, campaign)):
        return Waiting(never)
    if blocker is not None:
        # The fleet is looked at again and again, but nothing opens this budget by itself.
        is_used_up = campaign_gate.is_used_up(blocker)
        return Waiting(
            operators.reason(blocker),
            0 if is_used_up else gate.look_at,
            rollouts.shortly(blocker) if isinstance(blocker, TurnBlocker) else "",
        )
    deferred = deferred_count(reader, campaign)
    if deferred and not request.in_flight and deferred == campaign.left:
        until = min(
            (operation.due_at for operation in _waiting(reader, campaign)), default=0
        )
        return Waiting(rollouts.only_deferred(campaign.name, deferred, until), until)
    return _why_no_turn(reader, campaign)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStage:
    """A stage whose hosts all wait only for windows of their tenants and deferrals."""

    host: str
    """The host that can go on first."""
    blocker: WindowClosed | Deferred
    """The last reason of this host to end."""
    until: Micros


def held_stage(reader: Reader, campaign: CampaignRecord) -> HeldStage | None:
    """Return what holds the stage, if all hosts that are left in it wait only for windows
    of their tenants and deferrals.

    None: it has other work, waits for something else, or has so many hosts that this is
    unknown. The gate of the campaign is not asked: it can open much earlier.
    """
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    is_idle = not (campaign.has_ended or request.hosts_unplanned or request.in_flight)
    unread = campaign.stage_left - len(campaign.failed)
    is_known = 0 < unread <= HELD_HOSTS_MAX
    if not (is_idle and is_known) or _has_turn(reader, campaign):
        return None
    stages: list[HeldStage] = []
    planned = every(reader, kinds.PLANNED_OF_REQUEST, campaign.request)
    for operation in islice(planned, HELD_HOSTS_MAX):
        if campaign.stage_of(operation.position) != campaign.stage:
            continue
        blocker = _last_to_open(operation)
        if blocker is None:
            return None
        held = HeldStage(host=operation.host, blocker=blocker, until=end_of(blocker))
        stages.append(held)
        unread -= 1
        if not unread:
            return min(stages, key=lambda stage: stage.until)
    return None


def _last_to_open(operation: Operation) -> WindowClosed | Deferred | None:
    """Return the window or deferral that lets a host go on; None: it waits for more."""
    held = [e for e in operation.held_by if isinstance(e, WindowClosed | Deferred)]
    is_held = held and len(held) == len(operation.held_by)
    return max(held, key=end_of) if is_held else None


def _first_of_stage(reader: Reader, campaign: CampaignRecord) -> list[Operation]:
    """Return the first waiting hosts of a campaign that belong to its current stage."""
    waiting = reader.select(
        kinds.PLANNED_OF_REQUEST, campaign.request, limit=HELD_READ_MAX
    )
    return [e for e in waiting if campaign.stage_of(e.position) == campaign.stage]


def _why_never(reader: Reader, campaign: CampaignRecord) -> str:
    """Return why no window of the campaign helps its hosts; empty: one may help.

    The windows of the tenants on each host are not open together with those of the
    campaign, so the reason of the first one is shown.
    """
    if _has_turn(reader, campaign):
        return ""
    in_stage = _first_of_stage(reader, campaign)
    reasons = [
        next((e for e in operation.held_by if isinstance(e, NoCommonWindow)), None)
        for operation in in_stage
    ]
    if not reasons or reasons[0] is None or None in reasons:
        return ""
    return rollouts.first_host(in_stage[0].host, operators.reason(reasons[0]))


def _has_turn(reader: Reader, campaign: CampaignRecord) -> bool:
    """Return whether a host of the stage waits for its turn only."""
    request = campaign.request
    for name in (waits.turn(request, campaign.stage), waits.again_turn(request)):
        for first in reader.select(kinds.OPERATIONS_THAT_WAIT, name, limit=1):
            if waits.TURN_BLACKOUTS not in first.waits_for:
                return True
    return False


def _why_no_turn(reader: Reader, campaign: CampaignRecord) -> Waiting:
    """Return why no host of the stage can be announced although the campaign may.

    The stored reason of the first host is shown, such as a blackout of a part of the fleet.
    """
    if _has_turn(reader, campaign):
        return Waiting("")
    for operation in _first_of_stage(reader, campaign):
        if operation.held_by:
            blocker = actionable_first(operation.held_by)[0]
            reason = operators.reason(blocker)
            return Waiting(rollouts.first_host(operation.host, reason), end_of(blocker))
    return Waiting("")


def end_of(blocker: AnyBlocker) -> Micros:
    """Return when a reason ends by itself; 0: something else must happen."""
    match blocker:
        case InBlackout():
            return blocker.ends
        case WindowClosed():
            return blocker.opens
        case Deferred() | DrainFailed():
            return blocker.until
        case _:
            return 0


def deferred_count(reader: Reader, campaign: CampaignRecord) -> int:
    """Return how many hosts wait because their VMs could not be moved away."""
    if not campaign.deferred or campaign.has_ended:
        return 0
    most = max(1, campaign.hosts)
    return count(reader, kinds.DEFERRED_OF_REQUEST, campaign.request, limit=most)


def _waiting(reader: Reader, campaign: CampaignRecord) -> list[Operation]:
    """Return the first deferred hosts, in the order of their next attempts."""
    return reader.select(
        kinds.DEFERRED_OF_REQUEST, campaign.request, limit=DEFERRED_SHOWN_MAX
    )


def _drift(reader: Reader, campaign: CampaignRecord) -> int:
    """Return how many hosts match the campaign and were added after its start."""
    if campaign.has_ended:
        return 0
    return count(
        reader, kinds.DRIFT_OF_CAMPAIGN, campaign.campaign_id, limit=DRIFT_COUNTED_MAX
    )


def _deferred(reader: Reader, campaign: CampaignRecord) -> list[Json]:
    if not campaign.deferred or campaign.has_ended:
        return []
    return [
        {
            "host": operation.host,
            "operation": operation.operation_id,
            "attempts": operation.drains,
            "attempts_max": DRAINS_MAX,
            "until": instant_or_none(operation.due_at),
        }
        for operation in _waiting(reader, campaign)
    ]


def _tolerance(tolerance: Tolerance) -> Json:
    return {
        "failures": tolerance.failures,
        "of_last": tolerance.of_last,
        "in_a_row": tolerance.in_a_row,
        "vms_down": tolerance.vms_down,
    }


def _budgets(campaign: CampaignRecord) -> Json:
    budget = campaign.budget
    return {
        "in_flight": budget.in_flight,
        "in_flight_hosts": campaign_gate.at_once(campaign),
        "unavailable_hosts": campaign_gate.away_max(campaign),
        "unavailable": budget.unavailable or None,
        "by": dict(budget.by),
        "tenant_vms": budget.tenant_vms or None,
        "overlap_notice": budget.overlap_notice,
    }


def _stage(
    campaign: CampaignRecord, number: int, stage: StageTerms, *, now: Micros
) -> Json:
    is_current = number == campaign.stage
    left = 0
    if is_current:
        left = max(0, campaign.stage_left)
    elif number > campaign.stage:
        left = stage.hosts - dict(campaign.skipped_ahead).get(number, 0)
    soaks = is_current and campaign.soaks_until > now
    return {
        "hosts": stage.hosts,
        "left": left,
        "soak_seconds": stage.soak / SECOND,
        "soaks_until": format_instant(campaign.soaks_until) if soaks else None,
        "approval": stage.approval,
        "approved": number < campaign.stage or (is_current and campaign.is_approved),
    }
