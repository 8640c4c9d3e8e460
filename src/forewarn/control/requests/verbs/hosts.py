"""The verbs for a whole host: maintenance, and a failure that is foreseen (5.2, 5.4)."""

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
from forewarn.control.transactions.work import Work, way_out
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
"""What a predicted failure does to each VM of the host."""

READ_ONCE_MAX = 100
"""Open operations, or VMs that move, that are read to learn that a host has none. To
ask for a single host takes about as long as to read one of them."""


TRIED_MAX = 4
"""Hosts for which places are searched. If there are more, and none of these can be
emptied, the order is taken: to search for a thousand would hold up the service."""


def maintain(
    work: Work, hosts: Sequence[str], action: Action, wishes: OrderOptions
) -> Request:
    """Maintain hosts: one operation for each, one rollout for all.

    A single host is announced at once. Several are announced one after the other.
    Refused: an unknown host, one that is down, or under other maintenance; an
    impact that maintenance does not have; a NotBefore with less than the least
    notice (5.1).
    """
    check_targets(hosts, "host")
    usual = MAINTENANCE.get(action)
    if usual is None:
        raise RefusedError(f"maintenance has no impact {action.value}")
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
    """Announce that hosts will fail (5.4): each of their VMs can go early.

    There is one operation for each VM, since each may move by itself: an
    approval, or a redeploy of the user's own, moves it at once. Refused: a host
    that is down, under maintenance or without VMs; less than a Redeploy's notice.
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
        raise RefusedError(f"host {host} has no VMs to be told")
    return vms


def _free_hosts(work: Work, names: Sequence[str]) -> list[str]:
    """Return the hosts; refuse those that are down or in use.

    Where little is under way, it is read once, and not for each host of a long list.
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
                f"host {name} is down", hint=f"`forewarn restore {name}` first"
            )
        if operations is None or name in in_use:
            _check_not_in_use(work, name)
        if moving is None or name in expecting:
            _check_expects_none(work, name)
        return name

    return work.parts.each(names, free)


def _all(work: Work, query: Query[R]) -> list[R] | None:
    """Return everything that a question finds, or None where it is much."""
    found = work.tx.select(query, limit=READ_ONCE_MAX + 1)
    return found if len(found) <= READ_ONCE_MAX else None


def _check_not_in_use(work: Work, name: str) -> None:
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, name):
        if operation.is_host_bound:
            raise RefusedError(
                f"host {name} has {operation.operation_id} "
                f"({operation.verb.value}, {operation.state.value}) under way",
                hint=way_out(operation),
            )


def _check_expects_none(work: Work, name: str) -> None:
    for vm in every(work.tx, kinds.VMS_MOVING_TO, name):
        raise RefusedError(
            f"vm {vm.name} is on its way to host {name}: it would get no notice",
            hint="order it again when the VM has arrived",
        )


def check_can_be_emptied(work: Work, request: Request, hosts: Sequence[str]) -> None:
    """Raise RefusedError if it is sure that none of the hosts can be emptied.

    The hosts are emptied one after the other, so the room of one is enough. It is sure
    if there are too few places, or the rules for fault domains and zones leave none.
    What works on hosts now is ignored, since it ends.
    """
    rooms = [
        found
        for name in hosts
        if (found := work.tx.get(Capacity, name)) is not None and found.used
    ]
    if not rooms:
        return
    # Whoever does not need more places than one page has hosts with a free one is
    # served by this page, and so is every sum that is told.
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
        hint="empty one host first, or add one: the hosts of an order are emptied one "
        "after the other",
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
