"""Start and steer campaigns: each verb is one transaction.

A campaign is one rollout and one record. Starting it stores both, and the first page of
its hosts; the other pages follow as for every rollout. Each later verb changes the
record, and the next turn of the campaign (`campaign_turns`) acts on the change. A crash
after a verb therefore loses nothing: the next start takes a turn of every open campaign.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.campaigns import progress
from forewarn.campaigns.lifecycle import CampaignInput, CampaignState, step
from forewarn.campaigns.prepared import Prepared
from forewarn.campaigns.record import CampaignRecord, Halt, HaltCause, Pause
from forewarn.control.execution import (
    campaign_checks,
    campaign_ends,
    ending,
    visits,
)
from forewarn.control.requests import (
    admission,
    adoption,
    campaign_release,
    campaign_turns,
    rollouts,
    visiting,
)
from forewarn.control.requests.idempotency import Once, Result, carry_out
from forewarn.control.rules import (
    abilities,
    campaign_gate,
    campaign_hosts,
    implied_campaigns,
    second_person,
    steerable,
    steerable_hosts,
    tallies,
)
from forewarn.control.rules.maintenance import maintenance_by_campaign
from forewarn.control.rules.second_person import Asker
from forewarn.control.transactions.work import Check, Work
from forewarn.fleet.model import Host
from forewarn.ids import place_in
from forewarn.problems import listed
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.notes import AnyNote, CampaignAborted, HostSkipped
from forewarn.protocol.operations import (
    Action,
    Operation,
    Request,
    TargetKind,
    Verb,
)
from forewarn.protocol.visits import STUCK_VISITS, SkipReason, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import FLEET_HOSTS, AuditKind, Facts


def find(reader: Reader, name: str) -> CampaignRecord:
    """Return a campaign by its ID or rollout, or by its name the open or newest one.

    A rollout of several hosts without one implies a campaign. Raises NotFoundError.
    """
    request = reader.get(Request, name)
    if request is not None and request.implies_campaign:
        return implied_campaigns.record_of(reader, request)
    campaign = reader.get(CampaignRecord, request.campaign if request else name)
    if campaign is not None:
        return campaign
    for record in every(reader, kinds.CAMPAIGNS_OPEN):
        if record.name == name:
            return record
    # IDs sort by the time of the start.
    for record in every(reader, kinds.ALL_CAMPAIGNS):
        if record.name == name:
            campaign = record
    if campaign is None:
        raise NotFoundError(
            f"there is no campaign {name!r}",
            hint="Run `forewarn campaign list --all` to list campaigns.",
        )
    return campaign


def start(work: Work, prepared: Prepared) -> CampaignRecord:
    """Start a campaign.

    Raises RefusedError if one with its name has not ended, or if another campaign got one
    of its hosts after it was prepared.
    """
    for other in every(work.tx, kinds.CAMPAIGNS_OPEN):
        if other.name == prepared.name:
            raise RefusedError(
                f"campaign {prepared.name} is already {other.state.value}",
                hint=f"Run `forewarn campaign show {prepared.name}`, or choose another "
                "name in the file.",
            )
    campaign_hosts.check_free(
        work.tx,
        prepared.hosts,
        known=prepared.seen,
        is_emergency=prepared.is_emergency,
    )
    campaign_checks.refuse_unknown(work.checks.names, prepared.checks)
    action = Action(prepared.impact.value)
    steps = abilities.steps_of(work.abilities.host_steps, prepared.steps, action)
    abilities.check_steps(work.abilities, steps, action)
    campaign = _store(work, prepared, steps)
    campaign_release.ask(work, campaign)
    return campaign


def _store(
    work: Work, prepared: Prepared, steps: tuple[HostStep, ...]
) -> CampaignRecord:
    """Store the campaign, its rollout, and the first page of its hosts."""
    request = admission.open_request(
        work,
        Verb.MAINTAIN,
        is_rollout=True,
        at_once=1,
        hosts=len(prepared.hosts),
        steps=steps,
    )
    campaign = CampaignRecord(
        campaign_id=work.ids.short("ca", place=place_in(request.request_id)),
        name=prepared.name,
        reason=prepared.reason,
        impact=prepared.impact,
        state=step(CampaignState.DRAFT, CampaignInput.START),
        request=request.request_id,
        actor=work.who.actor,
        created=work.now,
        digest=prepared.digest,
        text=prepared.text,
        hosts=len(prepared.hosts),
        stages=campaign_gate.with_speed(work.policy, prepared.stages),
        budget=prepared.budget,
        tolerance=prepared.tolerance,
        windows=prepared.windows,
        blackouts=prepared.blackouts,
        is_emergency=prepared.is_emergency,
        is_released=campaign_release.is_released(work.policy, prepared),
        priority=prepared.priority,
        shared_most=work.policy.campaigns_in_flight,
        checks=prepared.checks,
        slow=prepared.slow,
        planned_end=prepared.planned_end,
        notice=campaign_gate.notice_of(work.policy, prepared.impact),
        tenant_most=prepared.tenant_most,
        fleet_hosts=tallies.counted(work.tx, FLEET_HOSTS),
        stage_left=prepared.stages[0].hosts,
        moved_at=work.now,
    )
    work.tx.add(campaign)
    most = campaign_gate.at_once(campaign)
    request = work.tx.replace(
        request,
        replace(
            request,
            campaign=campaign.campaign_id,
            at_once=most,
            reason=prepared.reason,
        ),
    )
    facts = Facts(count=campaign.hosts, text=", ".join(prepared.ignored))
    campaign_ends.note(work, campaign, AuditKind.CAMPAIGN_STARTED, facts)
    change = maintenance_by_campaign(prepared, request.steps)
    pattern = admission.draft(
        Verb.MAINTAIN,
        change,
        (),
        target_kind=TargetKind.HOST,
        target=prepared.hosts[0],
        host=prepared.hosts[0],
        not_before=work.now,
    )
    planned = replace(pattern.operation, created=work.now)
    rollouts.plan(work, request, prepared.hosts, planned)
    return campaign


def start_once(
    work: Work, prepared: Prepared, *, once: Once | None, check: Check | None
) -> Result:
    """Start a campaign once for each key; return its ID.

    `check` is called first, and its error refuses the start.
    """
    if check is not None:
        check(work)
    return carry_out(work, once, lambda work: start(work, prepared).campaign_id)


def pause(work: Work, name: str) -> CampaignRecord:
    """Let the campaign announce no host until the actor resumes it."""
    old = find_open(work, name)
    actor = work.who.actor
    if any(earlier.by.is_same_as(actor) for earlier in old.pauses):
        raise RefusedError(
            f"campaign {old.name} is already paused by {actor.text}",
            hint=f"Run `forewarn campaign resume {old.name} --reason TEXT` first to change "
            "the reason.",
        )
    own_pause = Pause(by=actor, reason=check_reason(work, "a pause"), at=work.now)
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_PAUSED)
    new = campaign_ends.take_step(work, old, CampaignInput.PAUSE)
    return campaign_ends.save(work, old, replace(new, pauses=(*old.pauses, own_pause)))


def halt(work: Work, name: str) -> CampaignRecord:
    """Halt the campaign: what it has announced is withdrawn without impact."""
    old = find_open(work, name)
    if refused := steerable.why_no_halt(old):
        raise refused
    why = Halt(
        cause=HaltCause.OPERATOR,
        by=work.who.actor,
        at=work.now,
        reason=check_reason(work, "a halt"),
    )
    return campaign_ends.save(work, old, campaign_ends.halt(work, old, why))


def resume(
    work: Work, name: str, *, by_all: bool, despite: Sequence[str] = ()
) -> CampaignRecord:
    """End the halt of the campaign, and the actor's pause or those of all actors.

    The checks in `despite` are ignored until the next stage.
    """
    old = find_open(work, name)
    for check in despite:
        if check not in old.checks:
            raise RefusedError(
                f"campaign {old.name} has no check {check}",
                hint=f"Its checks are {listed(old.checks)}."
                if old.checks
                else "It has no checks, so leave out --despite.",
            )
        second_person.check(
            work.policy,
            starter=old.actor,
            actor=work.who.actor,
            act=f"override check {check} of campaign {old.name}",
        )
    if old.halt is None and not old.pauses:
        raise RefusedError(
            f"campaign {old.name} is neither paused nor halted",
            hint=f"Run `forewarn campaign show {old.name}` to see what it waits for.",
        )
    check_reason(work, "a resumption")
    campaign_checks.refuse_failing(work, old, despite=despite)
    ignored = tuple(dict.fromkeys((*old.despite, *despite)))
    unanswered = campaign_checks.unanswered(work, replace(old, despite=ignored))
    left = tuple(
        earlier
        for earlier in old.pauses
        if not by_all
        and not earlier.by.is_same_as(work.who.actor)
        # It continues without the checks that paused it.
        and not (despite and earlier.is_of_checks and not unanswered)
    )
    if old.halt is None and left == old.pauses:
        campaign_checks.refuse_unanswered(old, left, unanswered)
        owners = listed([earlier.by.text for earlier in left])
        raise RefusedError(
            f"campaign {old.name} is paused by {owners}, not by {work.who.actor.text}",
            hint=f"Run `forewarn campaign resume {old.name} --all-owners --reason TEXT` to "
            "end their pauses.",
        )
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_RESUMED)
    if old.halt is not None:
        # A host that was not withdrawn yet can have been approved meanwhile.
        work.free_campaign(old.name)
    step = CampaignInput.RESUME_PAUSED if left else CampaignInput.RESUME
    new = campaign_ends.take_step(work, progress.resumed(old), step)
    return campaign_ends.save(work, old, replace(new, pauses=left, despite=ignored))


def abort(work: Work, name: str) -> CampaignRecord:
    """End the campaign: hosts that have not started are skipped, and it is over."""
    old = find_open(work, name)
    check_reason(work, "an abort")
    end_aborted(work, old, note=CampaignAborted(campaign=old.name))
    return work.campaign(old.campaign_id)


def end_aborted(work: Work, old: CampaignRecord, *, note: AnyNote) -> list[Operation]:
    """End a campaign that has not ended as Aborted; return the cancelled operations."""
    request = work.request(old.request)
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_ABORTED)
    aborted = campaign_ends.take_step(work, old, CampaignInput.ABORT)
    campaign_ends.save(work, old, replace(aborted, halt=None))
    for host in old.failed_hosts:
        work.free_budgets(host, ())
    return rollouts.cancel_unstarted(work, request, note=note)


def approve(work: Work, name: str, stage: int) -> CampaignRecord:
    """Approve the next stage of the campaign, or release an emergency with its stage 1.

    It begins when the current stage has soaked. The current stage must have its result:
    a halt during the soak withdraws the approval. The starter of the campaign is refused if
    the policy demands a second person.
    """
    old = find_open(work, name)
    asker = Asker(actor=work.who.actor, second_person=work.policy.second_person)
    if why := steerable.why_no_approval(old, stage, asker):
        raise why
    if not old.is_released:
        return campaign_release.release(work, old)
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_STAGE_APPROVED, Facts(stage=stage))
    work.take_turn(old.request)
    return campaign_ends.save(work, old, replace(old, is_approved=True))


def retry(work: Work, name: str, hosts: Sequence[str]) -> CampaignRecord:
    """Plan another attempt for failed hosts; without names, for all of them.

    Hosts whose VMs could not be moved away are tried at their turn, without a pause.
    """
    old = find_open(work, name)
    hosts = tuple(hosts) or old.failed_hosts
    if not hosts:
        raise RefusedError(f"campaign {old.name} has no failed host")
    hosts = work.parts.each(hosts, lambda host: _retry(work, old, host))
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_HOSTS_RETRIED, hosts=tuple(hosts))
    work.take_turn(old.request)
    return work.campaign(old.campaign_id)


def _retry(work: Work, old: CampaignRecord, host: str) -> str:
    """Plan another attempt for a host; raises RefusedError."""
    campaign, request = work.campaign(old.campaign_id), work.request(old.request)
    operation = dict(campaign.failed).get(host)
    if operation is None:
        was_deferred = rollouts.end_pause(work, request, host)
        if why := steerable_hosts.why_no_retry(
            campaign, host, is_deferred=was_deferred
        ):
            raise why
        return host
    last = work.operation(operation)
    if not _repeated(work, host, last):
        campaign = work.campaign(old.campaign_id)
        work.tx.replace(campaign, progress.host_retried(campaign, host))
        campaign_turns.plan_again(work, request, last, None)
        # It may have to wait longer than other hosts of its rack.
        work.free_budgets(host, ())
    return host


def _repeated(work: Work, host: str, last: Operation) -> bool:
    """Repeat the step in which the visit of a host stands still, if that is enough.

    A visit that failed before its work ends, so that the host gets a new notice.
    """
    stuck = _stuck_visit(work, last)
    if stuck is None:
        return False
    if visiting.can_repeat(work, stuck):
        visiting.retry(work, host)
        return True
    visits.give_up(work, stuck)
    return False


def _stuck_visit(work: Work, last: Operation) -> Visit | None:
    visit = work.tx.get(Visit, last.visit) if last.visit else None
    return visit if visit is not None and visit.state in STUCK_VISITS else None


def skip(work: Work, name: str, hosts: Sequence[str]) -> CampaignRecord:
    """Leave out hosts that have failed, or have not started."""
    old = find_open(work, name)
    reason = check_reason(work, "a skipped host")
    note = HostSkipped(campaign=old.name, by=work.who.actor, reason=reason)
    hosts = work.parts.each(hosts, lambda host: _skip(work, old, host, note))
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_HOSTS_SKIPPED, hosts=tuple(hosts))
    work.take_turn(old.request)
    return work.campaign(old.campaign_id)


def _skip(work: Work, old: CampaignRecord, host: str, note: HostSkipped) -> str:
    """Leave out a host; raises RefusedError."""
    campaign = work.campaign(old.campaign_id)
    failed = dict(campaign.failed).get(host)
    if failed is None:
        operation = _waiting_of(work, old, host)
        work.lock_scopes(operation.scopes)
        ending.cancel(work, operation, note=note, by=work.who.actor)
        return host
    stuck = _stuck_visit(work, work.operation(failed))
    if stuck is not None:
        # The end of the visit is counted like every other.
        visits.skip(work, stuck, SkipReason.GIVEN_UP)
        return host
    skipped = progress.host_skipped(campaign, host, stage=campaign.stage, now=work.now)
    campaign_ends.save(work, campaign, campaign_ends.stage_ended(work, skipped))
    work.free_budgets(host, ())
    ending.close_request(work, campaign.request)
    return host


def find_open(work: Work, name: str) -> CampaignRecord:
    """Return a campaign that has not ended, to steer it.

    Raises RefusedError and NotFoundError.
    """
    campaign = find(work.tx, name)
    if why := steerable.why_ended(campaign):
        raise why
    if implied_campaigns.is_implied(campaign):
        return adoption.adopt(work, campaign)
    return campaign


def check_reason(work: Work, what: str) -> str:
    """Return the reason of the request; raises BadRequestError without one."""
    if not work.who.reason:
        raise BadRequestError(f"{what} needs a reason", hint="Add --reason TEXT.")
    return work.who.reason


def _waiting_of(work: Work, campaign: CampaignRecord, host: str) -> Operation:
    """Return the operation of a host that has not started; raises RefusedError."""
    rollouts.complete(work, [host])
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host):
        if operation.request == campaign.request:
            if why := steerable_hosts.why_started(operation):
                raise why
            return operation
    if work.tx.get(Host, host) is None:
        raise NotFoundError(
            f"there is no host {host!r}",
            hint="Names are case-sensitive. Run `forewarn fleet show` to list them.",
        )
    is_done = campaign_hosts.is_done_in(work.tx, campaign.request, host)
    raise steerable_hosts.why_not_waiting(campaign, host, is_done=is_done)
