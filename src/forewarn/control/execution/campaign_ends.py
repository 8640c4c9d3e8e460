"""Count the ends of hosts in their campaign, and halt it if too many failed.

All of it happens in the transaction that ends the host's operation, so a crash leaves
neither an end that was not counted nor a halt without its cause.
"""

from dataclasses import replace

from forewarn.campaigns import gate, never, progress
from forewarn.campaigns.lifecycle import CampaignInput, step
from forewarn.campaigns.record import CampaignRecord, Halt
from forewarn.control.execution import cordoning, replanning
from forewarn.control.rules import campaign_gate
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.ids import place_of
from forewarn.protocol.actors import Actor, campaign_actor
from forewarn.protocol.blockers import DrainFailed
from forewarn.protocol.events import Outcome
from forewarn.protocol.notes import (
    PLANNED_AGAIN,
    AnyNote,
    DrainStopped,
)
from forewarn.protocol.operations import Operation, OperationState, Request
from forewarn.protocol.visits import SkipReason, Visit
from forewarn.store import kinds, sequence
from forewarn.store.port import every
from forewarn.store.records import NOTHING, AuditKind, Facts

DECISIONS = frozenset(
    {
        AuditKind.CAMPAIGN_STARTED,
        AuditKind.CAMPAIGN_PAUSED,
        AuditKind.CAMPAIGN_HALTED,
        AuditKind.CAMPAIGN_RESUMED,
        AuditKind.CAMPAIGN_ABORTED,
        AuditKind.CAMPAIGN_STAGE_APPROVED,
        AuditKind.CAMPAIGN_HOSTS_RETRIED,
        AuditKind.CAMPAIGN_HOSTS_SKIPPED,
        AuditKind.CAMPAIGN_HOSTS_ADDED,
        AuditKind.CAMPAIGN_CHANGED,
    }
)
"""Entries about decisions on a campaign, also about those of the service, such as a halt
after failures. The others are its progress."""


def owner_of(campaign: CampaignRecord) -> Actor:
    """Return the campaign as the owner of cordons."""
    return campaign_actor(campaign.name)


def note(
    work: Work,
    campaign: CampaignRecord,
    kind: AuditKind,
    facts: Facts = NOTHING,
    hosts: tuple[str, ...] = (),
) -> None:
    """Store a history entry about a campaign; a decision changes its revision."""
    subjects = (
        campaign.subject,
        f"request:{campaign.request}",
        *(f"host:{host}" for host in hosts),
    )
    entry = work.note(kind, subjects, facts)
    if kind in DECISIONS:
        work.note_decision(campaign.campaign_id, entry)


def save(work: Work, old: CampaignRecord, new: CampaignRecord) -> CampaignRecord:
    """Store a changed campaign."""
    return old if new == old else work.tx.replace(old, new)


def need_checks(work: Work, *, ended: str = "") -> None:
    """Let the service ask the checks of all open campaigns but `ended`, and no others."""
    names = {
        name
        for campaign in every(work.tx, kinds.CAMPAIGNS_OPEN)
        if campaign.campaign_id != ended
        for name in campaign.checks
    }
    wanted = frozenset(names).intersection(work.checks.names)
    if wanted != work.checks.needed:
        work.checks.need(wanted)


def take_step(
    work: Work, campaign: CampaignRecord, given: CampaignInput
) -> CampaignRecord:
    """Apply an input of the campaign table, and continue its rollout after the commit."""
    state = step(campaign.state, given)
    work.take_turn(campaign.request)
    if given in {CampaignInput.FINISH, CampaignInput.ABORT}:
        if campaign.checks:
            need_checks(work, ended=campaign.campaign_id)
        return replace(campaign, state=state, ended=work.now, due_at=0, pauses=())
    return replace(campaign, state=state)


def halt(work: Work, campaign: CampaignRecord, why: Halt) -> CampaignRecord:
    """Return the campaign, halted; its announcements are withdrawn in later steps."""
    withdrawn = campaign.stage + 1 if campaign.is_approved else 0
    facts = Facts(halt=why, stage=withdrawn)
    note(work, campaign, AuditKind.CAMPAIGN_HALTED, facts)
    work.take_turn(campaign.request)
    return progress.halted(campaign, why)


def host_ended(
    work: Work, operation: Operation, outcome: Outcome, why: AnyNote | None
) -> None:
    """Count the end of an operation in its campaign, if it has one.

    A visited host ends with its visit, and not before.
    """
    if operation.visit or isinstance(why, PLANNED_AGAIN):
        return
    if isinstance(why, DrainStopped):
        _stopped(work, operation)
    elif operation.could_not_move:
        _defer(work, operation)
    else:
        _count(work, operation, outcome)


def visit_ended(work: Work, visit: Visit) -> None:
    """Count the end of a visit in the campaign of its host, if it has one.

    A host counts as failed if its step `needed` failed, or if the attempt to move its VMs
    away left one of them down.
    """
    operation = work.tx.get(Operation, visit.operation)
    if operation is None or isinstance(operation.note, PLANNED_AGAIN):
        return
    if visit.skipped is SkipReason.HALTED:
        _stopped(work, operation)
        return
    has_failed = operation.state is OperationState.FAILED
    if visit.is_deferred and (operation.could_not_move or not has_failed):
        _defer(work, operation)
        return
    if visit.is_deferred or visit.skipped is SkipReason.NEEDED_FAILED:
        outcome = Outcome.FAILED
    else:
        outcome = Outcome.CANCELLED if visit.skipped else Outcome.COMPLETED
    _count(work, operation, outcome)


def _stopped(work: Work, operation: Operation) -> None:
    """Plan a host again that the halt of its campaign left without work.

    It is the first one after the halt, and this attempt does not count as one that failed.
    After an abort, it is skipped.
    """
    request = work.request(operation.request)
    old = work.campaign(request.campaign)
    if old.has_ended:
        _count(work, operation, Outcome.CANCELLED)
        return
    replanning.plan_first(work, operation)
    save(work, old, replace(old, withdrawn=old.withdrawn + 1))
    work.free_budgets(operation.host, ())
    work.take_turn(request.request_id)


def _defer(work: Work, operation: Operation) -> None:
    """Let the campaign try a host again, after its other hosts, or skip it.

    Nothing was done to the host, so it counts neither as done nor as failed.
    """
    request = work.request(operation.request)
    if not request.campaign:
        return
    old = work.campaign(request.campaign)
    host, drains = operation.host, operation.drains + 1
    if drains >= progress.DRAINS_MAX or old.has_ended:
        facts = Facts(count=drains)
        note(work, old, AuditKind.CAMPAIGN_HOSTS_SKIPPED, facts, hosts=(host,))
        _count(work, operation, Outcome.CANCELLED)
        return
    until = work.now + work.policy.sped_up(progress.DRAIN_PAUSE)
    pattern = replace(
        replanning.host_pattern(operation, work.now),
        position=replanning.give_place(work, old, operation),
        is_timed=False,
        drains=drains,
    )
    replanning.plan_again(
        work,
        request.request_id,
        pattern,
        place=place_of(*sequence.parts_of(work.next_key())),
        until=until,
        blocker=DrainFailed(
            campaign=old.name, drains=drains, most=progress.DRAINS_MAX, until=until
        ),
    )
    facts = Facts(count=drains)
    note(work, old, AuditKind.CAMPAIGN_HOST_DEFERRED, facts, hosts=(host,))
    new = progress.host_deferred(old, is_first=drains == 1, now=work.now)
    if drains == 1 and new.halt is None:
        by = work.who.actor
        why = progress.why_halt_deferred(new, host, by=by, now=work.now)
        if why is not None:
            new = halt(work, new, why)
    save(work, old, new)
    work.take_turn(request.request_id)


def visit_failed(work: Work, operation: Operation) -> bool:
    """Count a visit that stands still; return whether the host is of a campaign.

    It then counts as a failed host there, and not as one in flight.
    """
    if not work.request(operation.request).campaign:
        return False
    _count(work, operation, Outcome.FAILED)
    return True


def visit_repeated(work: Work, operation: Operation) -> None:
    """Count a failed host as in work again, if it is of a campaign."""
    request = work.request(operation.request)
    if request.campaign:
        campaign = work.campaign(request.campaign)
        save(work, campaign, progress.host_retried(campaign, operation.host))


def _count(work: Work, operation: Operation, outcome: Outcome) -> None:
    request = work.request(operation.request)
    if not request.campaign:
        return
    old = work.campaign(request.campaign)
    host = operation.host
    if outcome is Outcome.FAILED:
        new = _failed(work, old, operation)
    elif outcome is Outcome.COMPLETED:
        new = _timed(work, progress.host_done(old, now=work.now), operation)
        cordoning.remove(work, host, owner=owner_of(old))
    else:
        stage = old.stage_of(operation.position)
        new = progress.host_skipped(old, host, stage=stage, now=work.now)
    if host in old.failed_hosts or operation.visit:
        # Its operation has ended before, and has freed what the host took after it.
        work.free_budgets(host, ())
    save(work, old, stage_ended(work, new))


def _timed(
    work: Work, campaign: CampaignRecord, operation: Operation
) -> CampaignRecord:
    """Return the campaign after it measured a host that is done.

    A slower time that would leave its hosts no opening is not used: it would stop the
    campaign for good.
    """
    if not operation.started_at or (campaign.impact.empties_host and not operation.vms):
        # A host without VMs says nothing about one that must be emptied.
        return campaign
    ended = work.now if operation.visit else operation.impact_ended_at or work.now
    timed = progress.host_timed(campaign, operation.started_at, ended)
    slow = progress.own_slow(timed)
    if slow == timed.slow:
        return timed
    slower = replace(timed, slow=slow)
    hours = campaign_gate.hours_of(work.tx, slower)
    needs = never.Needs(
        at=work.now, notice=slower.notice, work=slow, windows=hours.windows
    )
    return slower if needs.fits((*hours.blackouts, *hours.wide)) else timed


def _failed(
    work: Work, campaign: CampaignRecord, operation: Operation
) -> CampaignRecord:
    """Return the campaign after a host failed; the host takes no new VM."""
    host = operation.host
    stored = work.tx.get(Host, host)
    owner = owner_of(campaign)
    if stored is not None and stored.cordon_of(owner) is None:
        cordoning.add(work, stored, owner=owner, reason="")
    failed = progress.host_failed(campaign, host, operation.operation_id, now=work.now)
    why = progress.why_halt(failed, host, by=work.who.actor, now=work.now)
    if why is None or failed.halt is not None or failed.has_ended:
        return failed
    return halt(work, failed, why)


def stage_ended(work: Work, campaign: CampaignRecord) -> CampaignRecord:
    """Return the campaign, with the soak begun if the current stage is over."""
    is_over = gate.is_stage_over(campaign) and not campaign.is_last_stage
    if not is_over or campaign.soaks_until or campaign.has_ended:
        return campaign
    soak = campaign.stages[campaign.stage - 1].soak
    ends = work.now + work.policy.sped_up(soak)
    work.take_turn(campaign.request)
    return replace(campaign, soaks_until=ends, due_at=ends)


def may_close(work: Work, request: Request) -> bool:
    """Return whether a rollout without open operations is over.

    A campaign with failed hosts is not: they can be retried.
    """
    if not request.campaign:
        return True
    campaign = work.campaign(request.campaign)
    return campaign.has_ended or not campaign.failed


def closed(work: Work, request: Request) -> None:
    """End the campaign of a rollout that was closed."""
    if not request.campaign:
        return
    campaign = work.campaign(request.campaign)
    if not campaign.has_ended:
        note(work, campaign, AuditKind.CAMPAIGN_DONE)
        save(work, campaign, take_step(work, campaign, CampaignInput.FINISH))
