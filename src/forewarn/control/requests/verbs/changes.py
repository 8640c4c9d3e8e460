"""The verbs that change VMs and hosts: their options, checks, events and notices.

For VMs, from users and operators: reboot and redeploy (5.3), eviction (5.6), deletion
(5.7), OS images (5.8). For whole hosts: maintenance (5.2) and predicted failures (5.4).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from forewarn.control.requests import admission, blackouts, rollouts, visiting
from forewarn.control.requests.admission import Draft
from forewarn.control.requests.verbs.emptying import (
    check_able,
    check_can_be_emptied,
    fit_host,
)
from forewarn.control.rules import (
    abilities,
    campaign_hosts,
    destinations,
    holds,
    maintenance,
    reserves,
    second_person,
)
from forewarn.control.rules.guard import shared_hosts
from forewarn.control.rules.maintenance import Change
from forewarn.control.rules.remedies import way_out
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import HostState, ScopeKind, Vm, VmState
from forewarn.fleet.reserve import NO_RESERVE
from forewarn.instants import SECOND, Micros, describe_duration, round_up_to_second
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.host_steps import HostStep, StepKind, parse_step
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    WAITING_STATES,
    Action,
    Operation,
    OperationState,
    Request,
    TargetKind,
    Verb,
)
from forewarn.store import kinds, questions
from forewarn.store.port import Record, every
from forewarn.verbs.model import TARGETS_MAX, Kind, VerbRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Options of a request."""

    duration_seconds: int | None = None
    not_before: Micros | None = None
    """Time from the caller. It is not divided by `speed`."""
    description: str | None = None
    emergency: bool = False
    """Whether the maintenance is an emergency repair, which has a separate description
    (table 5.9)."""
    at_once: int | None = None
    """Maximum hosts that are announced or running at once; None: as in the policy."""
    steps: tuple[HostStep, ...] = ()
    """Host steps, in the order of their kinds."""


def wishes_of(given: VerbRequest) -> OrderOptions:
    """Return the options of a request."""
    return OrderOptions(
        duration_seconds=given.number("duration"),
        not_before=given.number("not_before"),
        description=given.text("description")
        if "description" in given.values
        else None,
        emergency=bool(given.number("emergency")),
        at_once=_at_once(given),
        steps=tuple(
            parse_step(kind, text)
            for kind in StepKind
            if (text := given.text(kind.value))
        ),
    )


def _at_once(given: VerbRequest) -> int | None:
    at_once, in_flight = given.number("at_once"), given.number("in_flight")
    if at_once is not None and in_flight is not None:
        raise BadRequestError("give `at_once` or `in_flight`, not both")
    return at_once if in_flight is None else in_flight


def either(said: T | None, usual: T) -> T:
    """Return the given value, or the usual one if it is None."""
    return usual if said is None else said


def adapted(change: Change, wishes: OrderOptions) -> Change:
    """Return the effect of a request with its options."""
    return replace(
        change,
        description=either(wishes.description, change.description),
        duration_seconds=either(wishes.duration_seconds, change.duration_seconds),
    )


def not_before_of(
    work: Work, wishes: OrderOptions, notice: Micros, event_type: EventType
) -> Micros:
    """Return the end of the notice of a request with the minimum notice `notice` (5.1).

    NotBefore is rounded up to the next whole second. Raises RefusedError if the caller
    asks for less notice.
    """
    earliest = work.now + notice
    if wishes.not_before is None:
        return earliest
    # The minimum notice usually ends between two whole seconds. The caller may give the
    # earlier one. NotBefore is then the later one, which gives enough notice.
    if wishes.not_before < earliest - SECOND:
        raise RefusedError(
            f"{event_type.value} needs a notice of at least "
            f"{describe_duration(notice)}",
            hint="Use a later time, or omit it.",
        )
    return max(earliest, round_up_to_second(wishes.not_before))


def check_count(names: Sequence[str], kind: Kind) -> None:
    """Refuse no targets, and too many targets."""
    if not names:
        raise RefusedError(f"name at least one {kind.noun}")
    if len(names) > TARGETS_MAX:
        raise RefusedError(
            f"one request can name at most {TARGETS_MAX:,} {kind.plural}, not "
            f"{len(names):,}",
            hint="Split it into several requests, for example one for each zone.",
        )


def check_targets(names: Sequence[str], kind: Kind) -> None:
    """Refuse no targets, too many targets, and duplicates."""
    check_count(names, kind)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise RefusedError(f"{kind.noun} {twice[0]} is named twice")


DELETING_VERBS = frozenset({Verb.EVICT, Verb.TERMINATE})
IMAGE_VERBS = frozenset({Verb.UPGRADE_OS, Verb.REIMAGE})


CHANGES = {
    Verb.REBOOT: Change(
        action=Action.REBOOT,
        event_type=EventType.REBOOT,
        description="Virtual machine is going to be restarted as requested by "
        "authorized user.",
    ),
    Verb.REDEPLOY: Change(
        action=Action.REDEPLOY,
        event_type=EventType.REDEPLOY,
        description="Virtual machine is going to be redeployed as requested by "
        "authorized user.",
    ),
    Verb.EVICT: Change(
        action=Action.DELETE,
        event_type=EventType.PREEMPT,
        source=EventSource.PLATFORM,
    ),
    Verb.TERMINATE: Change(action=Action.DELETE, event_type=EventType.TERMINATE),
    Verb.UPGRADE_OS: Change(
        action=Action.REIMAGE, event_type=EventType.REBOOT, routine=True
    ),
    Verb.REIMAGE: Change(
        action=Action.REIMAGE, event_type=EventType.REBOOT, routine=True
    ),
}


def change_vms(
    work: Work, vms: Sequence[str], verb: Verb, wishes: OrderOptions
) -> Request:
    """Carry out a verb of `CHANGES`: one request with one operation per VM.

    VMs that a user deletes start together, with one NotBefore (3.6). The table of verbs
    has the refusals.
    """
    check_targets(vms, Kind.VM)
    change = CHANGES[verb]
    members = work.parts.each(vms, lambda name: _member(work, name, verb))
    not_before = not_before_of(
        work, wishes, max(_notice(work, vm, verb) for vm in members), change.event_type
    )
    blackouts.check_vms(work, members, verb, not_before)
    request = admission.open_request(
        work, verb, together=verb is Verb.TERMINATE, is_rollout=change.routine
    )
    admission.admit(
        work,
        request,
        [draft_for(vm, verb, change, not_before, wishes) for vm in members],
    )
    return request


def _notice(work: Work, vm: Vm, verb: Verb) -> Micros:
    """Return the minimum notice of a VM; 0: no event."""
    scope = work.scope(vm.scope)
    if verb is Verb.EVICT:
        return work.policy.preempt_notice
    if verb not in {Verb.TERMINATE, *IMAGE_VERBS}:
        return work.policy.notice_for(CHANGES[verb].event_type)
    if not admission.is_announced(verb, scope, vm):
        return 0
    if verb is Verb.TERMINATE:
        return work.policy.terminate_notice_of(scope.terminate_notice or 0)
    return work.policy.notice_of(scope.os_image_notice or 0)


def _member(work: Work, name: str, verb: Verb) -> Vm:
    """Return a VM that the verb can change; raises RefusedError."""
    vm = work.vm(name)
    if verb in IMAGE_VERBS:
        scope = work.scope(vm.scope)
        if scope.kind is not ScopeKind.SCALE_SET:
            raise RefusedError(
                f"VM {vm.name} is not a scale-set instance: scope {scope.name} is of "
                f"kind {scope.kind.value}"
            )
    _check_free(work, vm, verb)
    if verb in IMAGE_VERBS and vm.state is VmState.DOWN:
        raise RefusedError(f"VM {vm.name} is down")
    if verb is Verb.REBOOT and work.host(vm.host).state is HostState.DOWN:
        raise RefusedError(
            f"cannot restart VM {name}: its host {vm.host} is down",
            hint=f"Run `forewarn redeploy {name}` to move it to another host.",
        )
    if verb not in DELETING_VERBS:
        check_able(work, vm, CHANGES[verb].action)
    if verb is Verb.EVICT and not vm.spot:
        raise RefusedError(
            f"VM {name} is not a Spot VM",
            hint=f"Run `forewarn terminate {name}` to delete it with notice.",
        )
    return vm


def draft_for(
    vm: Vm, verb: Verb, change: Change, not_before: Micros, wishes: OrderOptions
) -> Draft:
    """Return the draft of an operation on one VM, with the options of the request."""
    return admission.draft(
        verb,
        adapted(change, wishes),
        (vm,),
        target_kind=TargetKind.VM,
        target=vm.name,
        host=vm.host,
        not_before=not_before,
        is_timed=wishes.not_before is not None,
    )


def _check_free(work: Work, vm: Vm, verb: Verb) -> None:
    """Refuse a VM with the same request, a deletion, or a running driver call."""
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        same = operation.verb is verb and operation.state in WAITING_STATES
        if same or operation.verb in DELETING_VERBS:
            raise RefusedError(
                f"VM {vm.name} already has operation {work.called(operation.operation_id)} "
                f"({operation.verb.value}, {operation.state.value})",
                hint=way_out(operation, work.called),
            )
        if (
            operation.state is OperationState.IMPACTING
            and operation.action is not Action.NONE
        ):
            raise RefusedError(
                f"VM {vm.name} is busy: operation "
                f"{work.called(operation.operation_id)} "
                f"({operation.verb.value}) is running on it",
                hint="Try again after the operation ends.",
            )


R = TypeVar("R", bound=Record)

READ_ONCE_MAX = 100
"""Maximum open operations, or moving VMs, that are read at once for a long list of hosts.
A query for a single host takes about as long as reading one of them."""


def maintain(
    work: Work, hosts: Sequence[str], action: Action, wishes: OrderOptions
) -> Request:
    """Maintain hosts: one operation per host, one rollout for all.

    A single host is announced at once, unless a maintenance window is closed at the end
    of its notice. Several hosts are announced one after the other.
    Refused: a host that is unknown, down or under other maintenance; an impact that is
    not one of maintenance; a NotBefore with less than the minimum notice (5.1).
    """
    check_targets(hosts, Kind.HOST)
    rules = work.abilities.host_steps
    steps = abilities.with_usual_steps(rules, wishes.steps, action)
    wishes = replace(wishes, steps=steps)
    usual = maintenance.maintenance_of(action, wishes.steps)
    if usual is None:
        raise RefusedError(f"maintenance cannot have the impact {action.value}")
    abilities.check_steps(work.abilities, wishes.steps, action)
    if wishes.emergency:
        second_person.check_emergency(work.policy)
        usual = maintenance.in_emergency(usual)
    change = adapted(usual, wishes)
    has_event = action is not Action.NONE
    notice = work.policy.notice_for(change.event_type) if has_event else 0
    not_before = not_before_of(work, wishes, notice, change.event_type)
    at_once = either(wishes.at_once, work.policy.hosts_at_once)
    # Hosts that the fleet marks as the last ones come after the others, in their order.
    hosts = free_hosts(work, hosts)
    hosts = work.parts.each(hosts, campaign_hosts.none_failed(work.tx, hosts))
    hosts = work.parts.each(
        hosts, lambda name: fit_host(work, name, action, wishes.steps)
    )
    hosts = sorted(hosts, key=lambda name: work.host(name).last)
    request = admission.open_request(
        work,
        Verb.MAINTAIN,
        is_rollout=True,
        at_once=at_once,
        hosts=len(hosts),
        steps=wishes.steps,
    )
    is_single = len(hosts) == 1
    draft = admission.draft(
        Verb.MAINTAIN,
        change,
        list(every(work.tx, kinds.VMS_ON_HOST, hosts[0]))
        if is_single and has_event
        else (),
        target_kind=TargetKind.HOST,
        target=hosts[0],
        host=hosts[0],
        not_before=not_before,
        is_timed=wishes.not_before is not None,
    )
    if is_single:
        _check_domains_apart(draft)
    if is_single and not wishes.steps and not _is_held(work, draft):
        [made] = admission.admit(work, request, [draft])
        blackouts.note_ignored(work, made)
        return request
    reserve = NO_RESERVE if wishes.emergency else work.policy.reserve
    is_checked = action in MOVING_ACTIONS and not work.policy.driver_chooses
    if is_checked and (reserve.value or not is_single):
        check_can_be_emptied(work, request, hosts, reserve=reserve)
    pattern = replace(draft.operation, created=work.now, moves=(), scopes=())
    rollouts.plan(work, request, hosts, pattern)
    rollouts.go_on(work, request.request_id)
    return request


def _is_held(work: Work, draft: admission.Draft) -> bool:
    """Return whether a host must wait for its announcement.

    It could not start when its notice ends, its VMs would use the reserve, or it keeps
    places for VMs that no other host can take. An emergency repair does not wait for
    those.
    """
    host, is_emergency = draft.operation.host, draft.operation.is_emergency
    if not is_emergency and not destinations.can_give_up_places(work.tx, host):
        return True
    if reserves.why_kept(work.tx, draft.operation, draft.vms, work.policy.reserve):
        return True
    current_holds = holds.holds_of(work.tx, draft.operation, draft.vms)
    start = round_up_to_second(draft.operation.not_before)
    return not holds.HeldTimes(current_holds, start, now=work.now).allow_it_now


def _check_domains_apart(draft: admission.Draft) -> None:
    """Refuse maintenance that would affect two fault domains of a scope together (6.3).

    It could not start after its notice. A host of a longer list waits unannounced instead.
    """
    if blockers := shared_hosts(draft.operation, draft.vms):
        host = draft.operation.host
        raise HinderedError(
            f"host {host} cannot be maintained this way",
            because=blockers,
            hint=f"Run `forewarn maintain {host} --impact live-migrate`, which moves its "
            "VMs one after the other, or redeploy one of the VMs.",
        )


def predict_failure(
    work: Work, hosts: Sequence[str], notice: Micros, wishes: OrderOptions
) -> Request:
    """Announce that hosts will fail (5.4), so that their VMs can move early.

    There is one operation per VM, because each can move separately: an approval, or a
    redeploy by the user, moves it at once. Refused: a host that is down, under maintenance
    or without VMs; less than the notice of a Redeploy.
    """
    check_targets(hosts, Kind.HOST)
    hosts = free_hosts(work, hosts)
    members = work.parts.each(hosts, lambda name: _vms_to_tell(work, name))
    least = work.policy.redeploy_notice
    if notice < least:
        raise RefusedError(
            f"a Redeploy needs a notice of at least {describe_duration(least)}",
            hint="Use a longer notice, or omit it.",
        )
    request = admission.open_request(work, Verb.PREDICT_FAILURE)
    admission.admit(
        work,
        request,
        [
            draft_for(
                vm, Verb.PREDICT_FAILURE, maintenance.LEAVING, work.now + notice, wishes
            )
            for vms in members
            for vm in vms
        ],
    )
    return request


def _vms_to_tell(work: Work, host: str) -> list[Vm]:
    vms = list(every(work.tx, kinds.VMS_ON_HOST, host))
    if not vms:
        raise RefusedError(f"host {host} has no VMs")
    return vms


def free_hosts(work: Work, names: Sequence[str]) -> list[str]:
    """Return the hosts; refuse hosts that are down or in use.

    For a long list of hosts, few open operations are read once, not per host.
    """
    rollouts.complete(work, names)
    operations: list[Operation] | None = None
    moving: list[Vm] | None = None
    if len(names) > READ_ONCE_MAX:
        operations = _all(work, kinds.OPEN_OPERATIONS)
        moving = _all(work, kinds.VMS_MOVING)
    visited = _all(work, kinds.OPEN_VISITS) if len(names) > READ_ONCE_MAX else None
    in_use = {operation.host for operation in operations or ()}
    visiting_now = {visit.host for visit in visited or ()}
    expecting = {vm.moving_to for vm in moving or ()}

    def free(name: str) -> str:
        if work.host(name).state is HostState.DOWN:
            raise RefusedError(
                f"host {name} is down", hint=f"Run `forewarn restore {name}` first."
            )
        if operations is None or name in in_use:
            _check_not_in_use(work, name)
        if visited is None or name in visiting_now:
            visiting.check_not_visited(work, name)
        if moving is None or name in expecting:
            _check_expects_none(work, name)
        return name

    return work.parts.each(names, free)


def _all(work: Work, query: questions.Query[R]) -> list[R] | None:
    """Return all records of a query; None: there are too many."""
    rows = work.tx.select(query, limit=READ_ONCE_MAX + 1)
    return rows if len(rows) <= READ_ONCE_MAX else None


def _check_not_in_use(work: Work, name: str) -> None:
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, name):
        if operation.is_host_bound:
            raise RefusedError(
                f"host {name} already has operation {operation.operation_id} "
                f"({operation.verb.value}, {operation.state.value})",
                hint=way_out(operation),
            )


def _check_expects_none(work: Work, name: str) -> None:
    # If a move has not started, the host waits until the place is free again.
    for vm in destinations.arrivals(work.tx, name):
        raise RefusedError(
            f"VM {vm.name} is moving to host {name} and would get no notice",
            hint="Try again after the move ends.",
        )
