"""Texts about rollouts and campaigns, for operators."""

from collections.abc import Callable, Mapping, Sequence

from forewarn.campaigns.gate import is_only_failed, stage_still_runs
from forewarn.campaigns.record import CampaignRecord, Halt, HaltCause
from forewarn.campaigns.troubles import TroubleKind
from forewarn.fleet.resources import format_size
from forewarn.instants import (
    Micros,
    cut_to_second,
    describe_duration,
    format_instant,
)
from forewarn.problems import listed
from forewarn.protocol.notes import (
    CampaignAborted,
    DrainStopped,
    HostSkipped,
    Withdrawn,
)
from forewarn.protocol.turn_blockers import (
    BudgetKind,
    BudgetUsed,
    CampaignStopped,
    CheckUnknown,
    DrainFailed,
    HostInUse,
    InBlackout,
    NotItsTurn,
    OutsideWindow,
    ReserveKept,
    ScopeInUse,
    ScopeReserved,
    StageWaits,
    TurnBlocker,
)
from forewarn.store.records import AuditKind, Facts
from forewarn.wording import down

_AMOUNTS: Mapping[str, tuple[Callable[[int], str], str]] = {
    "capacity": ("{:,}".format, "places"),
    "vcpu": ("{:,}".format, "vCPUs"),
    "memory": (format_size, "of memory"),
}
"""How an amount of each resource is shown, and its noun."""


def turn(blocker: TurnBlocker) -> str:
    """Return why a host of a rollout is not announced yet."""
    match blocker:
        case (
            CampaignStopped()
            | StageWaits()
            | OutsideWindow()
            | InBlackout()
            | BudgetUsed()
            | CheckUnknown()
        ):
            return _campaign(blocker)
        case DrainFailed():
            return (
                f"its VMs could not be moved away in {blocker.drains} of at most "
                f"{blocker.most} attempts; campaign {blocker.campaign} tries it again "
                f"after its other hosts, from {format_instant(cut_to_second(blocker.until))} on"
            )
        case NotItsTurn() if blocker.waiting:
            wait = (
                "1 host waits for its"
                if blocker.waiting == 1
                else (f"{blocker.waiting:,} hosts wait for their")
            )
            return (
                f"{wait} turn, with {blocker.in_flight:,} in flight and at most "
                f"{blocker.at_once:,} at once"
            )
        case NotItsTurn():
            return (
                f"it waits for its turn: host {blocker.position} of {blocker.hosts} of "
                f"rollout {blocker.request}, with {blocker.in_flight} in flight and at "
                f"most {blocker.at_once} at once"
            )
        case ScopeInUse():
            return down.scope_in_use(blocker, end=down.until(blocker.down))
        case ScopeReserved():
            return (
                f"operation {blocker.operation} has waited longer and comes first in "
                f"scope {blocker.scope}"
            )
        case HostInUse():
            return down.host_in_use(blocker, end=down.until(blocker.host))
        case ReserveKept():
            return _reserve(blocker)


def shortly(blocker: TurnBlocker) -> str:
    """Return why a campaign announces no host now, without commands: a line of a page.

    The page has buttons for them.
    """
    match blocker:
        case BudgetUsed():
            used = _used(blocker)
            if not blocker.failed:
                return used
            is_one = blocker.failed == 1
            takes = (
                "a failed host takes a place" if is_one else "failed hosts take places"
            )
            return f"{used}; {takes}"
        case CampaignStopped() if not blocker.checks:
            return _stopped(blocker, "")
        case ScopeInUse():
            return down.scope_in_use(blocker, end="")
        case HostInUse():
            return down.host_in_use(blocker, end="")
        case StageWaits() if 0 < blocker.left <= blocker.failed:
            return f"only {_failed_hosts(blocker.failed)} left"
        case StageWaits():
            return _stage_waits(blocker)
        case _:
            return turn(blocker)


def _failed_hosts(failed: int) -> str:
    return "a failed host" if failed == 1 else f"{failed:,} failed hosts"


def _reserve(blocker: ReserveKept) -> str:
    show, noun = _AMOUNTS[blocker.resource]
    where = f"other hosts of pool {blocker.pool}" if blocker.pool else "other hosts"
    return (
        f"its VMs need {show(blocker.needed)} {noun} on {where}, which have "
        f"{show(blocker.free)} free, and policy.reserve ({blocker.setting}) keeps "
        f"{show(blocker.reserve)} free"
    )


def resume(campaign: str) -> str:
    """Return the command that continues a campaign that an operator or a rule stopped."""
    return f"forewarn campaign resume {campaign} --reason TEXT"


def _stopped(blocker: CampaignStopped, until: str) -> str:
    state = "halted" if blocker.is_halted else "paused"
    why = f": {blocker.reason}" if blocker.reason else ""
    return f"campaign {blocker.campaign} is {state}{until} by {blocker.by}{why}"


def _campaign(
    blocker: CampaignStopped
    | StageWaits
    | OutsideWindow
    | InBlackout
    | BudgetUsed
    | CheckUnknown,
) -> str:
    name = blocker.campaign
    match blocker:
        case CampaignStopped() if blocker.checks:
            return paused_by_checks(name, blocker.checks, blocker.reason)
        case CampaignStopped():
            return _stopped(blocker, f" until `{resume(name)}`,")
        case StageWaits():
            return _stage(blocker)
        case OutsideWindow():
            if not blocker.opens:
                return f"no window of campaign {name} is long enough for a host"
            opens = format_instant(blocker.opens)
            return f"the windows of campaign {name} allow it from {opens} on"
        case InBlackout():
            return _blackout(blocker)
        case BudgetUsed():
            return _budget(blocker)
        case CheckUnknown():
            return (
                f"check {blocker.check} of campaign {name} is unknown: {blocker.said}"
            )


def _blackout(blocker: InBlackout) -> str:
    of = f" of campaign {blocker.campaign}" if blocker.campaign else ""
    if not blocker.ends:
        return f"blackout {blocker.blackout}{of} never ends for it"
    ends = format_instant(cut_to_second(blocker.ends))
    return f"blackout {blocker.blackout}{of} forbids it until {ends}"


def _stage(blocker: StageWaits) -> str:
    if 0 < blocker.left <= blocker.failed:
        before = max(0, blocker.stage - 1)
        return only_failed(blocker.campaign, blocker.failed, stage=before)
    text = _stage_waits(blocker)
    if blocker.left:
        return f"{text}{_failed_of(blocker)}"
    if blocker.needs_approval and not blocker.remaining:
        command = f"`forewarn campaign approve {blocker.campaign} {blocker.stage}`"
        return f"{text}: {command}"
    return text


def _stage_waits(blocker: StageWaits) -> str:
    """Return what a stage waits for, without commands."""
    stage = f"stage {blocker.stage} of campaign {blocker.campaign}"
    if blocker.left:
        one = blocker.left == 1
        hosts = "1 host" if one else f"{blocker.left:,} hosts"
        ends = f"{hosts} of the stage before it {'is' if one else 'are'} done"
        return f"{stage} begins when {ends}"
    if blocker.remaining:
        left = describe_duration(blocker.remaining)
        approval = ", and needs an approval" if blocker.needs_approval else ""
        return f"the stage before {stage} soaks for another {left}{approval}"
    if blocker.needs_approval:
        return f"{stage} needs an approval"
    return f"{stage} begins now"


def _failed_of(blocker: StageWaits) -> str:
    """Return how many hosts of a stage have failed, with the commands for them."""
    if not blocker.failed:
        return ""
    have = "1 has" if blocker.failed == 1 else f"{blocker.failed:,} have"
    return f"; {have} failed: {_ways_out(blocker.campaign, blocker.failed)}"


def _ways_out(name: str, failed: int) -> str:
    """Return the commands for the failed hosts of a campaign."""
    them = "it" if failed == 1 else "them"
    return (
        f"`forewarn campaign retry {name} --failed` tries {them} again, and `forewarn "
        f"campaign skip {name} HOST --reason TEXT` leaves {them} out"
    )


def _budget(blocker: BudgetUsed) -> str:
    failed = ""
    if blocker.failed:
        hosts = _failed_hosts(blocker.failed)
        failed = f", with {hosts}: {_ways_out(blocker.campaign, blocker.failed)}"
        if blocker.budget is BudgetKind.SHARED or blocker.of_others:
            # They can be of any campaign.
            failed = f", with {hosts} that `forewarn campaign list` shows"
    away = _cordoned(blocker) if blocker.budget is BudgetKind.UNAVAILABLE else ""
    return f"campaign {blocker.campaign}: {_used(blocker)}{away}{failed}"


def _used(blocker: BudgetUsed) -> str:
    """Return what uses a budget."""
    used = f"{blocker.used:,} of {blocker.most:,}"
    match blocker.budget:
        case BudgetKind.IN_FLIGHT:
            text = f"{used} hosts are in flight"
            if blocker.used > blocker.most:
                text = f"{blocker.used:,} hosts are in flight, and now at most "
                text += f"{blocker.most:,} can be"
            if blocker.ramps_to:
                text += f", growing to {blocker.ramps_to:,} as hosts are done"
        case BudgetKind.UNAVAILABLE:
            text = f"{used} hosts are away for any cause"
        case BudgetKind.GROUP:
            text = f"{used} hosts of {blocker.subject} are in flight"
        case BudgetKind.TENANT_VMS:
            text = f"{used} VMs of tenant {blocker.subject} are announced or in work"
        case BudgetKind.SHARED:
            text = f"{used} hosts of all campaigns are in flight, the maximum of "
            text += "`[campaigns] in_flight`"
            if blocker.used - blocker.failed < max(1, blocker.most - blocker.failed):
                text = f"{used} hosts of all campaigns are in flight"
            first = blocker.subject
            text += f", and campaign {first} goes first" if first else ""
    return text


def _cordoned(blocker: BudgetUsed) -> str:
    """Return which hosts are away until an operator opens them."""
    if not blocker.cordoned:
        return ""
    host = blocker.cordoned_host
    which = (
        f"host {host} is cordoned"
        if blocker.cordoned == 1
        else f"{blocker.cordoned} hosts are cordoned, such as {host}"
    )
    return f" ({which}: `forewarn host open {host} --all-owners`)"


def first_host(host: str, reason: str) -> str:
    """Return why no host of a stage can be announced: the reason of the first of them."""
    return f"no host of the stage can be announced now: host {host} waits: {reason}"


def only_failed(name: str, failed: int, *, stage: int) -> str:
    """Return that a campaign has only failed hosts left, or a stage of it; 0: the last."""
    hosts = _failed_hosts(failed)
    which = f"stage {stage} of campaign {name}" if stage else f"campaign {name}"
    return f"{which} has only {hosts} left: {_ways_out(name, failed)}"


def only_deferred(name: str, deferred: int, until: Micros) -> str:
    """Return that a campaign has only hosts left whose VMs could not be moved away."""
    hosts = "1 deferred host" if deferred == 1 else f"{deferred:,} deferred hosts"
    return (
        f"campaign {name} has only {hosts} left, and tries again from "
        f"{format_instant(cut_to_second(until))} on"
    )


def held_stage(name: str, host: str, reason: str) -> str:
    """Return that windows or deferrals hold a stage; `reason` is that of its first host."""
    return (
        f"campaign {name} cannot announce a host for another day: host {host} is the first "
        f"that can go on, and waits: {reason}; `forewarn explain {host}` shows all reasons, "
        f"and `forewarn campaign skip {name} {host} --reason TEXT` leaves the host out"
    )


def paused_by_checks(name: str, checks: Sequence[str], reason: str) -> str:
    """Return that checks that do not answer have paused a campaign, and what to do."""
    which = "check" if len(checks) == 1 else "checks"
    ignored = " ".join(f"--despite {check}" for check in checks)
    return (
        f"campaign {name} is paused until {which} {listed(checks)} passes: {reason}; "
        f"look with `forewarn check run {next(iter(checks), 'NAME')}`, or continue "
        f"without it with `forewarn campaign resume {name} {ignored} --reason TEXT`"
    )


def halted_by(halt: Halt) -> str:
    """Return who halted a campaign: an operator, or one of its own rules."""
    return f"halted by {halt.by.text if halt.is_ordered else 'itself'}"


def trouble(campaign: CampaignRecord, kind: TroubleKind, *, waits: str) -> str:
    """Return why a campaign needs an operator; `waits` is why it announces nothing."""
    name = campaign.name
    match kind:
        case TroubleKind.HALTED:
            assert campaign.halt is not None
            return (
                f"campaign {name} was {halted_by(campaign.halt)}: {halt(campaign.halt)}"
            )
        case TroubleKind.FAILED_HOSTS if is_only_failed(campaign):
            return turn(stage_still_runs(campaign))
        case TroubleKind.FAILED_HOSTS:
            failed = len(campaign.failed)
            hosts = (
                "a failed host uses" if failed == 1 else f"{failed:,} failed hosts use"
            )
            return (
                f"campaign {name} has one host in flight at a time: {hosts} its budget; "
                + _ways_out(name, failed)
            )
        case TroubleKind.CHECKS:
            checks = [check for check, _ in campaign.unknown]
            (reason, *_) = (
                pause.reason for pause in campaign.pauses if pause.is_of_checks
            )
            return paused_by_checks(name, checks, reason)
        case TroubleKind.WAITS:
            return (
                f"stage {campaign.stage + 1} of campaign {name} waits for an approval: "
                f"`forewarn campaign approve {name} {campaign.stage + 1}`"
            )
        case TroubleKind.HELD | TroubleKind.STALLED:
            since = format_instant(cut_to_second(campaign.moved_at))
            why = f": {waits}" if waits else ""
            return f"campaign {name} has made no progress since {since}{why}"


def campaign_standing(campaign: CampaignRecord, in_flight: int, deferred: int) -> str:
    """Return how far a campaign is."""
    parts = (
        (in_flight, "in flight"),
        (deferred, "deferred"),
        (len(campaign.failed), "failed"),
        (campaign.skipped, "skipped"),
    )
    counts = "".join(f", {number:,} {noun}" for number, noun in parts if number)
    return (
        f"{campaign.done:,} of {campaign.hosts:,} hosts are done{counts}; it is in stage "
        f"{campaign.stage} of {len(campaign.stages)}"
    )


def has_host(name: str) -> str:
    """Return that a campaign has a host to do."""
    return f"campaign {name} has it to do"


def has_failed_host(name: str) -> str:
    """Return that a host has failed in a campaign."""
    return f"it failed in campaign {name}, which can retry or skip it"


def failed_host(host: str, reason: str) -> str:
    """Return that a host has failed, and why if that is known."""
    return f"host {host} failed: {reason}" if reason else f"host {host} failed"


def campaign_note(
    note: Withdrawn | CampaignAborted | HostSkipped | DrainStopped,
) -> str:
    """Return what a campaign did to the operation of a host."""
    match note:
        case Withdrawn():
            why = f"campaign {note.campaign} was halted"
            if note.blackout:
                why = f"blackout {note.blackout} of campaign {note.campaign} forbids it"
            elif note.is_outside:
                why = f"the changed windows of campaign {note.campaign} do not allow it"
            return (
                f"{why}; the host waits for its next announcement as {note.successor}"
            )
        case DrainStopped():
            how = "aborted" if note.is_aborted else "halted"
            return (
                f"campaign {note.campaign} was {how} before the work on the host; VMs "
                "that moved stay where they are"
            )
        case CampaignAborted():
            return f"campaign {note.campaign} was aborted"
        case HostSkipped(taken_by=emergency) if emergency:
            return (
                f"left out of campaign {note.campaign}: emergency campaign {emergency} "
                f"has taken it over: {note.reason}"
            )
        case HostSkipped():
            return (
                f"left out of campaign {note.campaign} by {note.by.text}: {note.reason}"
            )


def entry(kind: AuditKind, facts: Facts) -> str:
    """Return the details of a history entry about a campaign; empty: there are none."""
    match kind:
        case AuditKind.CAMPAIGN_STARTED:
            ignored = f", in an emergency despite {facts.text}" if facts.text else ""
            return f"{facts.count:,} hosts{ignored}"
        case AuditKind.CAMPAIGN_HALTED if facts.halt is not None:
            withdrawn = f"the approval of stage {facts.stage} is withdrawn"
            # The reason of an operator is that of the whole entry.
            parts = (
                "" if facts.halt.is_ordered else halt(facts.halt),
                withdrawn if facts.stage else "",
            )
            return "; ".join(filter(None, parts))
        case AuditKind.CAMPAIGN_STAGE_BEGUN:
            return f"stage {facts.stage}, {facts.count:,} hosts"
        case AuditKind.CAMPAIGN_HOSTS_ADDED:
            return "1 host" if facts.count == 1 else f"{facts.count:,} hosts"
        case AuditKind.CAMPAIGN_HOST_DEFERRED:
            return f"its VMs could not be moved away, attempt {facts.count}"
        case AuditKind.CAMPAIGN_HOSTS_SKIPPED if facts.count:
            return f"its VMs could not be moved away in {facts.count} attempts"
        case AuditKind.CAMPAIGN_APPROVAL_NEEDED | AuditKind.CAMPAIGN_STAGE_APPROVED:
            return f"stage {facts.stage}"
        case AuditKind.CAMPAIGN_CHANGED:
            return ", ".join(
                f"{key} {before} -> {after}" for key, before, after in facts.changes
            )
        case _:
            return ""


def halt(halt_: Halt) -> str:
    """Return why a campaign was halted."""
    match halt_.cause:
        case HaltCause.OPERATOR:
            return halt_.reason
        case HaltCause.CHECK:
            return f"check {halt_.check} failed: {halt_.reason}"
        case HaltCause.BRAKE:
            return f"the brake came on: {halt_.reason or 'too much was lost at once'}"
        case HaltCause.CANARY:
            return (
                f"host {halt_.host} failed, and no stage but the last one tolerates a "
                "failure"
            )
        case HaltCause.IN_A_ROW:
            return f"{halt_.count} hosts failed in a row, the last of them {halt_.host}"
        case HaltCause.FAILURES:
            return (
                f"{halt_.count} of the last {halt_.of} hosts failed, the last of them "
                f"{halt_.host}"
            )
        case HaltCause.DEFERRED:
            return (
                f"the VMs of {halt_.count} of {halt_.of} hosts could not be moved away, "
                f"the last of them {halt_.host}"
            )
        case HaltCause.VMS_DOWN:
            vms = "1 VM is" if halt_.count == 1 else f"{halt_.count:,} VMs are"
            return (
                f"{vms} down after the work, and at most {halt_.of:,} can be; the last "
                f"one was on host {halt_.host}"
            )
