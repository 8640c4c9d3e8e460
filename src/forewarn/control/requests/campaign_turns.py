"""The turns of a campaign: what happens before its rollout announces the next host.

Each turn is one transaction. A halted campaign withdraws its announcements, a page at a
time; a stage that has soaked ends; and the gate decides whether a host is announced. When
only time opens the gate, the campaign gets a timer. After a crash, the next start takes
the turn again: everything that it depends on is in the store.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forewarn.campaigns import gate, progress
from forewarn.campaigns.hours import Hours
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.options import OVERLAP_MAX
from forewarn.campaigns.record import TERMS_CHANGED, WINDOWS_CHANGED, CampaignRecord
from forewarn.control.execution import (
    campaign_checks,
    campaign_ends,
    ending,
    replanning,
)
from forewarn.control.rules import campaign_gate, holds, shared_limit, tallies, waits
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.ids import place_of
from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.blockers import bounded
from forewarn.protocol.notes import HostWentDown, Withdrawn
from forewarn.protocol.operations import Operation, Request
from forewarn.store import kinds, sequence
from forewarn.store.port import Reader, every
from forewarn.store.records import FLEET_HOSTS, AuditKind, Facts

WITHDRAWN_MAX = 25
"""Maximum announcements that one transaction withdraws, so that it stays short."""

LOOKED_AT_AGAIN_MAX = 25
"""Maximum hosts that one transaction gives their turn again: about 3 ms."""


def due(reader: Reader, now: Micros) -> Iterator[str]:
    """Yield the rollouts of campaigns whose timer is due."""
    yield from (campaign.request for campaign in reader.due(kinds.CAMPAIGNS_DUE, now))


def open_rollouts(reader: Reader) -> list[str]:
    """Return the rollouts of all campaigns that have not ended."""
    return [campaign.request for campaign in every(reader, kinds.CAMPAIGNS_OPEN)]


def prepare(work: Work, request: Request) -> str:
    """Take a turn; return the wait of the hosts that may be announced, or an empty text.

    A rollout without a stored campaign passes the same gate, and notes only the limit that
    all campaigns share.
    """
    if not request.campaign:
        return _turn_of_implied(work, request)
    old = work.campaign(request.campaign)
    campaign = campaign_checks.apply_results(work, old)
    if campaign.state is CampaignState.HALTED:
        campaign_ends.save(work, old, replace(campaign, due_at=0))
        _withdraw(work, request)
        return ""
    if campaign.fitted != _terms_of(campaign):
        campaign_ends.save(work, old, campaign)
        _fit(work, request)
        return ""
    if gate.may_advance(campaign, now=work.now):
        campaign = progress.next_stage(
            campaign, fleet_hosts=tallies.counted(work.tx, FLEET_HOSTS)
        )
        campaign_ends.note(
            work,
            campaign,
            AuditKind.CAMPAIGN_STAGE_BEGUN,
            Facts(stage=campaign.stage, count=campaign.stage_left),
        )
        # All its hosts can have been skipped before it began.
        campaign = campaign_ends.stage_ended(work, campaign)
    elif gate.needs_approval(campaign, now=work.now) and not campaign.is_asked:
        campaign = replace(campaign, is_asked=True)
        campaign_ends.note(
            work,
            campaign,
            AuditKind.CAMPAIGN_APPROVAL_NEEDED,
            Facts(stage=campaign.stage + 1),
        )
    notice = campaign_gate.notice_of(work.policy, campaign.impact)
    campaign = replace(
        campaign,
        notice=notice,
        stages=campaign_gate.with_speed(work.policy, campaign.stages),
        shared_most=work.policy.campaigns_in_flight,
        overlap_before=campaign.overlap_before if request.in_flight else 0,
    )
    answer = shared_limit.ask(work.tx, request, campaign, now=work.now)
    look_at = answer.look_at
    if campaign.checks:
        again = work.now + campaign_checks.LOOK_AGAIN_AFTER
        look_at = min(look_at or again, again)
    campaign_ends.save(work, old, replace(campaign, due_at=look_at))
    if answer.blocker is None:
        return waits.turn(request.request_id, campaign.stage)
    again = shared_limit.ask_again(work.tx, request, campaign, answer, now=work.now)
    return waits.again_turn(request.request_id) if again.blocker is None else ""


def _turn_of_implied(work: Work, request: Request) -> str:
    most = work.policy.campaigns_in_flight
    if request.implies_campaign and request.shared_most != most:
        request = work.tx.replace(request, replace(request, shared_most=most))
    campaign = campaign_gate.gate_record(work.tx, request)
    gate = shared_limit.ask(work.tx, request, campaign, now=work.now)
    return waits.turn(request.request_id) if gate.blocker is None else ""


def is_open(reader: Reader, request: Request) -> bool:
    """Return whether the gate of a rollout without a stored campaign is open.

    It depends on no time. The limit that all campaigns share is asked afterwards.
    """
    campaign = campaign_gate.gate_record(reader, request)
    return campaign_gate.ask(reader, request, campaign, now=0).blocker is None


def announced(work: Work, request: Request) -> None:
    """Note the progress of a campaign that announced a host."""
    if request.campaign:
        campaign = work.campaign(request.campaign)
        campaign_ends.save(
            work, campaign, progress.host_announced(campaign, now=work.now)
        )


def note_ignored(
    work: Work, operation: Operation, vms: Sequence[Vm], start: Micros
) -> None:
    """Note the windows and deferrals that the host of an emergency campaign ignores."""
    campaign = campaign_gate.campaign_of(work.tx, work.request(operation.request))
    if campaign is None or not operation.is_emergency:
        return
    start = round_up_to_second(start)
    ignored_holds = (
        *holds.holds_of(work.tx, replace(operation, is_emergency=False), vms),
        *holds.deferrals_at(work.tx, operation, vms),
    )
    ignored = bounded(
        blocker
        for hold in ignored_holds
        # The history names blackouts of the service in an entry of their own.
        if hold.blackout is None
        for blocker in holds.why_held([hold], start)
    )
    if ignored:
        campaign_ends.note(
            work,
            campaign,
            AuditKind.CAMPAIGN_WINDOWS_IGNORED,
            Facts(blockers=ignored),
            hosts=(operation.host,),
        )


def opening(work: Work, request: Request, notice: Micros) -> Micros:
    """Return the earliest start of a host that is announced now; 0: any time."""
    if not request.campaign:
        return 0
    campaign = work.campaign(request.campaign)
    hours = campaign_gate.hours_of(work.tx, campaign)
    return hours.first_start(work.now, notice)


def _withdraw(work: Work, request: Request) -> None:
    """Withdraw some announcements of a halted campaign, and plan the hosts again."""
    announced = work.tx.select(
        kinds.ANNOUNCED_OF_REQUEST, request.request_id, limit=WITHDRAWN_MAX
    )
    work.lock_scopes(scope for operation in announced for scope in operation.scopes)
    campaign = work.campaign(request.campaign)
    why = Withdrawn(campaign=campaign.name, successor="")
    for operation in announced:
        plan_again(work, request, operation, why)
    if len(announced) == WITHDRAWN_MAX:
        work.take_turn(request.request_id)
    if announced:
        withdrawn = campaign.withdrawn + len(announced)
        campaign_ends.save(work, campaign, replace(campaign, withdrawn=withdrawn))


def _terms_of(campaign: CampaignRecord) -> str:
    """Return a digest of the terms on which the waits of its hosts depend."""
    overlap = campaign.budget.overlap_notice
    hours = campaign_gate.own_hours(campaign).digest
    return "/".join((hours, str(overlap))) if overlap else hours


def _fit(work: Work, request: Request) -> None:
    """Withdraw some announcements that changed windows and blackouts forbid, and plan the
    hosts again.

    With another `overlap_notice`, hosts that wait in a scope are looked at again, and with
    other budgets and times, those that wait for these. The campaign announces nothing until
    all of this is done.
    """
    campaign = work.campaign(request.campaign)
    is_last = _recheck_passed_over(work, campaign)
    hours = campaign_gate.own_hours(campaign)
    withdrawn: list[tuple[Operation, Withdrawn]] = []
    for record in every(work.tx, kinds.ANNOUNCED_OF_REQUEST, request.request_id):
        why = _why_withdrawn(campaign, hours, max(work.now, record.not_before))
        if why is not None:
            withdrawn.append((record, why))
    page = withdrawn[:WITHDRAWN_MAX]
    work.lock_scopes(scope for operation, _ in page for scope in operation.scopes)
    for operation, why in page:
        plan_again(work, request, operation, why)
    campaign = work.campaign(request.campaign)
    campaign_ends.save(
        work,
        campaign,
        replace(
            campaign,
            withdrawn=campaign.withdrawn + len(page),
            fitted=_terms_of(campaign)
            if is_last and page == withdrawn
            else campaign.fitted,
        ),
    )
    work.take_turn(request.request_id)


def _why_withdrawn(
    campaign: CampaignRecord, hours: Hours, start: Micros
) -> Withdrawn | None:
    """Return why a host that would start then is withdrawn; None: it stays announced."""
    if (banned := hours.clash_at(start)) is not None:
        return Withdrawn(campaign=campaign.name, successor="", blackout=banned.name)
    if campaign.fitted == WINDOWS_CHANGED and hours.misses_window(start):
        return Withdrawn(campaign=campaign.name, successor="", is_outside=True)
    return None


def _recheck_passed_over(work: Work, campaign: CampaignRecord) -> bool:
    """Let some hosts announce again that other terms of the campaign had passed over.

    Return whether none is left.
    """
    rollout, overlap = campaign.request, campaign.budget.overlap_notice
    others = (number for number in range(OVERLAP_MAX + 1) if number != overlap)
    names = [waits.passed_over(rollout, number) for number in others]
    if campaign.fitted in {TERMS_CHANGED, WINDOWS_CHANGED}:
        names.append(waits.by_terms(rollout))
    looked_at: list[Operation] = []
    for name in names:
        most = LOOKED_AT_AGAIN_MAX - len(looked_at)
        looked_at += work.tx.select(kinds.OPERATIONS_THAT_WAIT, name, limit=most)
        if len(looked_at) == LOOKED_AT_AGAIN_MAX:
            break
    for operation in looked_at:
        reservations = filter(waits.is_reservation, operation.waits_for)
        turns = (*replanning.turns_of(work, operation), *reservations)
        is_held = any(map(waits.is_turn_for_hold, operation.waits_for))
        due_at = 0 if is_held else operation.due_at
        work.save_operation(
            operation, replace(operation, waits_for=turns, held_by=(), due_at=due_at)
        )
    return len(looked_at) < LOOKED_AT_AGAIN_MAX


def plan_again(
    work: Work,
    request: Request,
    operation: Operation,
    why: Withdrawn | HostWentDown | None,
) -> Operation:
    """Plan a host of a campaign again, after the others of its stage.

    `why` cancels its operation; without it, the operation has ended, and an
    operator has ordered another attempt.
    """
    # A time that the caller of `maintain` gave applies again; that of a window does not.
    is_timed = operation.is_timed and not work.campaign(request.campaign).windows
    earliest = max(work.now, operation.not_before) if is_timed else work.now
    pattern = replace(
        replanning.host_pattern(operation, earliest),
        position=operation.position,
        is_timed=is_timed,
        drains=operation.drains if why is not None else 0,
        deferrals=operation.deferrals if why is not None else (),
        promises=operation.promises if why is not None else (),
    )
    place = place_of(*sequence.parts_of(work.next_key()))
    successor = replanning.plan_again(work, request.request_id, pattern, place=place)
    if why is not None:
        ending.cancel(
            work, operation, note=replace(why, successor=successor.operation_id)
        )
    return successor
