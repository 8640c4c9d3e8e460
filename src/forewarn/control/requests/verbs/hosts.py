"""Verbs for whole hosts: maintenance and predicted failures (5.2, 5.4)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from forewarn.control.requests import admission, host_lists, rollouts
from forewarn.control.requests.admission import MAINTENANCE, Change
from forewarn.control.requests.verbs.order import (
    REPAIRING,
    OrderOptions,
    adapted,
    check_targets,
    either,
    not_before_of,
)
from forewarn.control.requests.verbs.vms import draft_for
from forewarn.control.rules import destinations
from forewarn.control.rules.remedies import way_out
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import UNLIMITED_PLACES, Capacity, HostState, Vm
from forewarn.instants import Micros, describe_duration
from forewarn.problems import listed
from forewarn.protocol.blockers import AnyBlocker, HinderedError
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Action,
    Operation,
    Request,
    TargetKind,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.kinds import Query
from forewarn.store.port import PAGE_ROWS, Record, every

R = TypeVar("R", bound=Record)

LEAVING = Change(
    action=Action.REDEPLOY,
    event_type=EventType.REDEPLOY,
    source=EventSource.PLATFORM,
    description=REPAIRING,
    routine=True,
)
"""The effect of a predicted failure on each VM of the host."""

READ_ONCE_MAX = 100
"""Maximum open operations, or moving VMs, that are read at once for a long list of hosts.
A query for a single host takes about as long as reading one of them."""


TRIED_MAX = 4
"""Maximum hosts for which destinations are searched. If more hosts remain, the request is
accepted: a search for a thousand hosts would block the service."""


def maintain(
    work: Work, hosts: Sequence[str], action: Action, wishes: OrderOptions
) -> Request:
    """Maintain hosts: one operation per host, one rollout for all.

    A single host is announced at once. Several hosts are announced one after the other.
    Refused: a host that is unknown, down or under other maintenance; an impact that
    maintenance does not have; a NotBefore with less than the minimum notice (5.1).
    """
    check_targets(hosts, "host")
    usual = MAINTENANCE.get(action)
    if usual is None:
        raise RefusedError(f"maintenance cannot have the impact {action.value}")
    if wishes.emergency:
        usual = replace(usual, description=REPAIRING)
    change = adapted(usual, wishes)
    notice = work.policy.notice_for(change.event_type)
    not_before = not_before_of(work, wishes, notice, change.event_type)
    at_once = either(wishes.at_once, work.policy.hosts_at_once)
    hosts = _free_hosts(work, hosts)
    request = admission.open_request(
        work, Verb.MAINTAIN, is_rollout=True, at_once=at_once, hosts=len(hosts)
    )
    is_single = len(hosts) == 1
    draft = admission.draft(
        Verb.MAINTAIN,
        change,
        list(every(work.tx, kinds.VMS_ON_HOST, hosts[0])) if is_single else (),
        target_kind=TargetKind.HOST,
        target=hosts[0],
        host=hosts[0],
        not_before=not_before,
        is_timed=wishes.not_before is not None,
    )
    if is_single:
        admission.admit(work, request, [draft])
        return request
    if action in MOVING_ACTIONS:
        check_can_be_emptied(work, request, hosts)
    pattern = replace(draft.operation, created=work.now)
    host_lists.plan(work, request, hosts, pattern)
    rollouts.go_on(work, request.request_id)
    return request


def predict_failure(
    work: Work, hosts: Sequence[str], notice: Micros, wishes: OrderOptions
) -> Request:
    """Announce that hosts will fail (5.4), so that their VMs can move early.

    There is one operation per VM, because each can move separately: an approval, or a
    redeploy by the user, moves it at once. Refused: a host that is down, under maintenance
    or without VMs; less than the notice of a Redeploy.
    """
    check_targets(hosts, "host")
    hosts = _free_hosts(work, hosts)
    members = work.parts.each(hosts, lambda name: _vms_to_tell(work, name))
    least = work.policy.redeploy_notice
    if notice < least:
        raise RefusedError(
            f"a Redeploy needs a notice of at least {describe_duration(least)} (5.1)"
        )
    request = admission.open_request(work, Verb.PREDICT_FAILURE)
    admission.admit(
        work,
        request,
        [
            draft_for(vm, Verb.PREDICT_FAILURE, LEAVING, work.now + notice, wishes)
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


def _free_hosts(work: Work, names: Sequence[str]) -> list[str]:
    """Return the hosts; refuse hosts that are down or in use.

    For a long list of hosts, few open operations are read once, not per host.
    """
    host_lists.complete(work, names)
    operations: list[Operation] | None = None
    moving: list[Vm] | None = None
    if len(names) > READ_ONCE_MAX:
        operations = _all(work, kinds.OPEN_OPERATIONS)
        moving = _all(work, kinds.VMS_MOVING)
    in_use = {each.host for each in operations or ()}
    expecting = {vm.moving_to for vm in moving or ()}

    def free(name: str) -> str:
        if work.host(name).state is HostState.DOWN:
            raise RefusedError(
                f"host {name} is down", hint=f"Run `forewarn restore {name}` first."
            )
        if operations is None or name in in_use:
            _check_not_in_use(work, name)
        if moving is None or name in expecting:
            _check_expects_none(work, name)
        return name

    return work.parts.each(names, free)


def _all(work: Work, query: Query[R]) -> list[R] | None:
    """Return all records of a query; None: there are too many."""
    found = work.tx.select(query, limit=READ_ONCE_MAX + 1)
    return found if len(found) <= READ_ONCE_MAX else None


def _check_not_in_use(work: Work, name: str) -> None:
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, name):
        if operation.is_host_bound:
            raise RefusedError(
                f"host {name} already has operation {operation.operation_id} "
                f"({operation.verb.value}, {operation.state.value})",
                hint=way_out(operation),
            )


def _check_expects_none(work: Work, name: str) -> None:
    for vm in every(work.tx, kinds.VMS_MOVING_TO, name):
        raise RefusedError(
            f"VM {vm.name} is moving to host {name} and would get no notice",
            hint="Try again after the move ends.",
        )


def check_can_be_emptied(work: Work, request: Request, hosts: Sequence[str]) -> None:
    """Raise RefusedError if certainly none of the hosts can be emptied.

    The hosts are emptied one after the other, so capacity for the VMs of one host is
    sufficient. Refused: too little free capacity, or no destination that the rules for
    fault domains and zones allow. Running work on hosts is ignored, because it ends.
    """
    rooms = [
        found
        for name in hosts
        if (found := work.tx.get(Capacity, name)) is not None and found.used
    ]
    if not rooms:
        return
    # One page of hosts is sufficient for a host that needs no more capacity than the
    # page has hosts with free capacity, and for the sums in the message.
    space = work.tx.ranked(kinds.ROOMS_WITH_SPACE, "", limit=PAGE_ROWS)
    own = {each.host: each.free for each in space}
    free = sum(own.values())
    fitting = [each for each in rooms if each.used <= free - own.get(each.host, 0)]
    if len(fitting) > TRIED_MAX:
        return
    reasons: dict[str, AnyBlocker] = {}
    for each in fitting:
        vms = list(every(work.tx, kinds.VMS_ON_HOST, each.host))
        blockers = destinations.find_in_time(work.tx, vms, request=request.request_id)
        if not blockers:
            return
        reasons[each.host] = blockers[0]
    least = min(fitting or rooms, key=lambda each: (each.used, each.host))
    because = reasons.get(least.host)
    raise HinderedError(
        f"none of these {len(hosts)} hosts can be emptied: {_sums(least, space)}",
        because=() if because is None else (because,),
        hint="Empty one host first, or add a host. The hosts of a request are emptied one "
        "after the other.",
    )


def _sums(least: Capacity, space: Sequence[Capacity]) -> str:
    others = [each for each in space if each.host != least.host]
    unlimited = any(each.places == UNLIMITED_PLACES for each in others)
    free = "enough" if unlimited else str(sum(each.free for each in others))
    where = listed(
        [each.host if unlimited else f"{each.host} {each.free}" for each in others]
    )
    places = "1 place" if least.used == 1 else f"{least.used} places"
    return f"{least.host} needs {places}, and other hosts have {free} free" + (
        f" ({where})" if where else ""
    )
