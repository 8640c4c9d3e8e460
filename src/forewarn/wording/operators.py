"""Texts for operators: on the command line, in the API, the log and transcripts.

Tenants get the same texts of values that were redacted before.
"""

from collections.abc import Iterable
from typing import assert_never

from forewarn.campaigns.plan_drift import DriftedError
from forewarn.instants import (
    Micros,
    describe_duration,
)
from forewarn.problems import listed
from forewarn.protocol.blockers import (
    SAID_CHARACTERS_MAX,
    AnyBlocker,
    BatchWaits,
    BrakeOn,
    BudgetUsed,
    ByPlatform,
    CallEnd,
    CampaignStopped,
    Cause,
    CheckUnknown,
    Contradiction,
    Deferred,
    DrainFailed,
    DriverAsked,
    DriverRetry,
    DriverUnable,
    FaultDomainDown,
    HinderedError,
    HostInUse,
    InBlackout,
    MigrationUnderWay,
    More,
    NoCapacity,
    NoCommonWindow,
    NotApproved,
    NotDue,
    NoticeRuns,
    NotItsTurn,
    OutcomeUnknown,
    OutsideWindow,
    RelaySilent,
    ReserveKept,
    ScopeInUse,
    ScopeReserved,
    SharedHost,
    StageWaits,
    StillDown,
    Trouble,
    VmBusy,
    VmDown,
    WindowClosed,
)
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.notes import (
    AnnouncedAgain,
    AnnouncedLater,
    AnyNote,
    CampaignAborted,
    Cancelled,
    Change,
    DrainStopped,
    DriverGaveUp,
    Hindered,
    HostSkipped,
    HostWentDown,
    NothingToDo,
    OperatorSaysFailed,
    Postponed,
    RolloutStopped,
    Said,
    StepEnded,
    TargetChanged,
    VmArrived,
    Withdrawn,
    WithdrawnByBrake,
    WithdrawnForBlackout,
)
from forewarn.protocol.operations import (
    ASKED_STATES,
    CallState,
    Operation,
    OperationState,
)
from forewarn.protocol.verbs import Verb
from forewarn.protocol.visits import StepOutcome, StepResult
from forewarn.store.records import (
    AuditEntry,
    AuditKind,
    Facts,
    Task,
    TokenMade,
    VmMove,
)
from forewarn.verbs.roles import READ_ONLY, role_names
from forewarn.wording import down, drifts, holds, places, rollouts
from forewarn.wording.contradictions import contradiction
from forewarn.wording.more import more
from forewarn.wording.tenants import redacted

JOINT = "; "
"""Separates two reasons in one line."""


# Why an operation waits


def reason(blocker: AnyBlocker) -> str:  # noqa: C901 - one per class
    """Return the reason why an operation has not started, or does not continue."""
    match blocker:
        case NotApproved() if blocker.listens:
            return f"tenant {blocker.tenant} has not approved (scope {blocker.scope})"
        case NotApproved():
            return (
                f"tenant {blocker.tenant} has not enabled Scheduled Events for scope "
                f"{blocker.scope}, so its event waits for NotBefore"
            )
        case NotDue():
            return f"NotBefore is in {describe_duration(blocker.remaining)}"
        case NoticeRuns():
            left = describe_duration(blocker.remaining)
            return f"the clock was set forward during the notice, which ends in {left}"
        case BatchWaits():
            return (
                f"tenant {blocker.tenant} has not approved the deletion of VM "
                f"{blocker.target} (scope {blocker.scope}), which was requested together "
                "with this one"
            )
        case FaultDomainDown() | MigrationUnderWay() | SharedHost():
            return _guard(blocker)
        case VmBusy():
            return f"VM {blocker.vm} is busy: operation {blocker.operation} is running on it"
        case VmDown():
            until = down.until(blocker.host) if blocker.host else ""
            return f"VM {blocker.vm} is down, and its host with it{until}"
        case BrakeOn() | WindowClosed() | NoCommonWindow() | Deferred():
            return holds.hold(blocker)
        case NoCapacity() | DriverUnable() | RelaySilent():
            return places.place(blocker)
        case DriverRetry() | DriverAsked() | OutcomeUnknown() | StillDown():
            return _under_way(blocker)
        case (
            NotItsTurn()
            | ScopeInUse()
            | ScopeReserved()
            | HostInUse()
            | CampaignStopped()
            | StageWaits()
            | OutsideWindow()
            | InBlackout()
            | BudgetUsed()
            | ReserveKept()
            | CheckUnknown()
            | DrainFailed()
        ):
            return rollouts.turn(blocker)
        case More():
            return more(blocker)
        case ByPlatform():
            return redacted(blocker)
        case _:
            assert_never(blocker)


def reasons(blockers: Iterable[AnyBlocker]) -> list[str]:
    """Return the reasons in their order."""
    return [reason(blocker) for blocker in blockers]


def _guard(blocker: FaultDomainDown | MigrationUnderWay | SharedHost) -> str:
    match blocker:
        case FaultDomainDown():
            named = [_cause(cause) for cause in blocker.causes]
            named += [f"{blocker.more} more"] if blocker.more else []
            return (
                f"scope {blocker.scope} has fault domain {blocker.fault_domain} down "
                f"because {' and '.join(named)}"
            )
        case MigrationUnderWay():
            return (
                f"scope {blocker.scope} has a live migration that has not ended "
                f"({blocker.operation}), and only one at a time is allowed"
            )
        case SharedHost():
            return shared_host(blocker)


def shared_host(host_: SharedHost) -> str:
    """Return that a host has several fault domains of a scope, with a VM of each."""
    domains = [f"{vm.fault_domain} (VM {vm.vm})" for vm in host_.vms]
    domains += [f"{host_.more} more"] if host_.more else []
    return (
        f"host {host_.host} has fault domains {' and '.join(domains)} of scope "
        f"{host_.scope}, and maintenance of the host would affect them together"
    )


def _under_way(
    blocker: DriverRetry | DriverAsked | OutcomeUnknown | StillDown,
) -> str:
    match blocker:
        case DriverRetry():
            pause = describe_duration(blocker.remaining)
            if blocker.end is None:
                return f"the next search for a host is in {pause}"
            end = call_end(blocker.end)
            return f"the driver failed ({end}) and is called again in {pause}"
        case DriverAsked():
            return (
                f"the driver was asked for the outcome of call {blocker.generation}, and "
                "has not answered yet"
            )
        case OutcomeUnknown():
            return (
                f"the driver cannot tell whether the call completed ({call_end(blocker.end)}): "
                "check the VMs, then run "
                f"`forewarn resolve {blocker.operation} done` or `failed`"
            )
        case StillDown():
            return (
                f"{blocker.target_kind} {blocker.target} is down"
                f"{down.until(blocker.target)}"
            )


def _cause(cause: Cause) -> str:
    if not cause.operation:
        return "it is down"
    if cause.verb is Verb.FAIL:
        return (
            f"{cause.target_kind.value} {cause.target} failed "
            f"(down{down.until(cause.target)})"
        )
    return f"{cause.operation} has started: {task(cause)}"


def refusal(error: ForewarnError) -> str:
    """Return the message of an error, with the reasons in its values."""
    because = error.because if isinstance(error, HinderedError) else ()
    message = error.message
    if isinstance(error, DriftedError):
        message = f"{message}: {drifts.drift(error.drift)}"
    return JOINT.join([message, *reasons(because)])


# The end of an operation


def task(work: Operation | Task | Cause) -> str:
    """Return an operation in few words: `reboot of host h1`."""
    text = work.verb.value
    if work.action.value not in {text, "none", "delete"}:
        text = f"{text} ({work.action.value})"
    # A tenant's report has no name of a host.
    return f"{text} of {work.target_kind.value} {work.target}".rstrip()


def note(note_: AnyNote | None) -> str:  # noqa: C901, PLR0912 - one for each class
    """Return why an operation ended, or what happened to it; can be empty."""
    match note_:
        case None:
            return ""
        case Said():
            return note_.text
        case NothingToDo():
            return "the driver was not called, because there are no VMs"
        case Cancelled():
            why = f": {note_.reason}" if note_.reason else ""
            return f"cancelled by {note_.by.text}{why}"
        case AnnouncedAgain():
            held = f"held for {describe_duration(note_.held)} after NotBefore"
            why = JOINT.join(reasons(note_.reasons))
            return f"{held} ({why}); announced again as {note_.successor}"
        case WithdrawnByBrake() | WithdrawnForBlackout() | Postponed() | VmArrived():
            return holds.withdrawn(note_)
        case AnnouncedLater():
            return "postponed, to be announced again"
        case RolloutStopped():
            if not note_.failed:
                return "the rollout has stopped"
            return f"the rollout stopped because {note_.failed} failed"
        case HostWentDown():
            return (
                f"host {note_.host} failed; it waits as {note_.successor} until it is "
                "restored"
            )
        case Withdrawn() | CampaignAborted() | HostSkipped() | DrainStopped():
            return rollouts.campaign_note(note_)
        case TargetChanged():
            change = _CHANGES[note_.change].format(note_.host)
            return f"{note_.target_kind.value} {note_.target} {change}"
        case Hindered():
            return reason(note_.why)[:SAID_CHARACTERS_MAX]
        case CallEnd():
            return call_end(note_)
        case DriverGaveUp():
            often = "once" if note_.attempts == 1 else f"{note_.attempts} times"
            return f"the driver failed {often}: {call_end(note_.end)}"
        case StepEnded():
            return _step_ended(note_)
        case OperatorSaysFailed():
            return "an operator reported that it failed"
        case _:
            assert_never(note_)


def step_said(result: StepResult) -> str:
    """Return what the driver said about a step; a step that succeeded can say nothing."""
    is_good = result.outcome in {StepOutcome.DONE, StepOutcome.NOT_NEEDED}
    return "" if is_good and result.end == CallEnd() else call_end(result.end)


def _step_ended(step_end: StepEnded) -> str:
    step, cause = step_end.step.value, call_end(step_end.end)
    if step_end.is_needless:
        why = f" ({step_end.end.said})" if step_end.end.said else ""
        return f"step {step} reported that the host does not need the work{why}"
    if step_end.is_unknown:
        return f"the outcome of step {step} is unknown: {cause}"
    return f"step {step} failed: {cause}"


_CHANGES = {
    Change.FAILED: "failed",
    Change.RESTORED: "was restored",
    Change.REMOVED: "was removed from the fleet",
    Change.LEFT: "left {}",
    Change.RUNS_AGAIN: "runs again",
    Change.DELETED: "was deleted",
}


def call_end(end: CallEnd) -> str:
    """Return why a driver's call has not completely succeeded."""
    if end.trouble is not None:
        text = _trouble(end, end.trouble)
    elif end.failed_vms:
        names = listed(end.failed_vms)
        text = f"it failed for {names}; an operator reported that the rest is done"
    elif end.vms:
        text = f"{end.done} of {end.of} VMs are done; " if end.of else ""
        text += JOINT.join(
            f"vm {vm.vm}: "
            + (
                _refuted(vm.wrong)
                or vm.said
                or ("unknown" if vm.is_unknown else "failed")
            )
            for vm in end.vms
        )
        text += f"; and {end.more} more" if end.more else ""
    else:
        text = _refuted(end.wrong) or end.said or "the driver gave no reason"
    return text[:SAID_CHARACTERS_MAX]


def _trouble(end: CallEnd, trouble: Trouble) -> str:
    match trouble:
        case Trouble.UNSTARTED:
            return "the call timed out before it started"
        case Trouble.STOPPED:
            return "the call timed out"
        case Trouble.NOT_STOPPED:
            left = f"; {end.said}" if end.said else " and goes on"
            return f"the call timed out{left}"
        case Trouble.NOT_KNOWN:
            return "the driver does not know the outcome"
        case Trouble.MAY_COME_LATE:
            return (
                "its marks name an earlier call, so it was not begun, but the replica "
                "that got it may still make it"
            )
        case Trouble.OTHER_DRIVER:
            return (
                f"the call was given to the {end.given_to} driver, and the service "
                f"was started with the {end.driver} one"
            )


def _refuted(wrong: Iterable[Contradiction]) -> str:
    sentence = JOINT.join(map(contradiction, wrong))
    return f"the driver reported success, but {sentence}" if sentence else ""


def standing(
    operation: Operation, blockers: Iterable[AnyBlocker], *, now: Micros
) -> str:
    """Return the state of an operation in one sentence."""
    state = operation.state
    if state is OperationState.PLANNED:
        return "it is not announced"
    if state is OperationState.ANNOUNCED:
        return "its events are published, and it waits for approval or NotBefore"
    if state is OperationState.READY:
        return "it is ready and " + ("is held" if tuple(blockers) else "starts at once")
    if state is OperationState.IMPACTING:
        if operation.verb is Verb.FAIL:
            return "the failure lasts"
        if operation.call_state in ASKED_STATES:
            return "its impact had started, and the driver is asked for the outcome"
        if operation.call_state is CallState.UNKNOWN:
            return "its impact has an unknown outcome"
        if operation.visit and not operation.generation:
            return "it has started, and its VMs wait until the host is entered"
        if operation.holds_vms:
            return "its VMs are paused or stopped until the work on the host has ended"
        attempt = operation.attempts
        return f"its impact is running (attempt {attempt} of the driver's call)"
    if state is OperationState.RECOVERING:
        left = describe_duration(max(0, operation.due_at - now))
        why = f" ({note(operation.note)})" if operation.called_no_driver else ""
        return f"its impact is over, and its events are removed in {left}{why}"
    return f"it has ended: {state.value.lower()}" + (
        f" ({note(operation.note)})" if operation.note else ""
    )


# The history


def detail_of(entry: AuditEntry) -> str:
    """Return the details of an audit entry beyond its kind; can be empty."""
    facts = entry.facts
    if facts.text:
        where = f" at {listed(facts.places)}" if facts.places else ""
        return rollouts.entry(entry.kind, facts) or f"{facts.text}{where}"
    if facts.note is not None:
        return note(facts.note)
    if facts.task is not None:
        return task(facts.task)
    if entry.kind is AuditKind.EVENT_APPROVED:
        return f"by {(facts.by or entry.actor).as_approver}"
    if facts.outcome is not None:
        return facts.outcome.value
    if facts.blockers:
        return JOINT.join(reasons(facts.blockers))
    if facts.moves:
        if len(facts.moves) == 1:
            return moved(facts.moves[0])
        return JOINT.join(f"vm {move.vm} {moved(move)}" for move in facts.moves)
    return _of_kind(entry.kind, facts)


def _rights(token: TokenMade) -> str:
    if token.host:
        return f"relay of {token.host}"
    if token.roles:
        return (
            f"roles {role_names(token.roles)}"
            if token.roles != READ_ONLY
            else "read-only"
        )
    # An entry of a version without roles.
    return "read-only" if token.read_only else "read and write"


def moved(move: VmMove) -> str:
    """Return where a VM went: `from h1 to h2`."""
    return f"from {move.from_host} to {move.to_host}"


def _of_kind(kind: AuditKind, facts: Facts) -> str:
    match kind:
        case AuditKind.SCOPE_ENABLED if facts.enabling:
            return f"{facts.enabling}, by the first request of vm {facts.vm}"
        case AuditKind.SCOPE_DISABLED if facts.enabling:
            return f"{facts.enabling}, after {facts.count} silent view(s)"
        case AuditKind.EVENT_SHRUNK if facts.vm:
            return f"VM {facts.vm} is no longer affected"
        case AuditKind.OPERATION_RESOLVED:
            return f"the operator reported {'done' if facts.is_done else 'failed'}"
        case AuditKind.WEBHOOK_GAVE_UP if facts.count:
            noun = "change was" if facts.count == 1 else "changes were"
            return f"{facts.count} {noun} not delivered: {facts.cause}"
        case AuditKind.HOSTS_PLANNED if facts.count:
            return f"{facts.count} hosts, at most {facts.at_once} at once"
        case AuditKind.BRAKE_ON if facts.losses is not None:
            return holds.losses(facts.losses)
        case AuditKind.BLACKOUTS_IGNORED:
            return JOINT.join(reasons(facts.blockers))
        case AuditKind.TOKEN_CREATED if facts.token is not None:
            token = facts.token
            rights = _rights(token)
            span = (
                "does not expire"
                if token.lifetime is None
                else describe_duration(token.lifetime)
            )
            return f"{token.name}; {rights}; {span}"
        case _:
            return rollouts.entry(kind, facts)
