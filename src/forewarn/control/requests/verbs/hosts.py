"""The verbs for a whole host: maintenance, and a failure that is foreseen (5.2, 5.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.control.execution import clearing
from forewarn.control.requests import admission, host_lists, rollouts
from forewarn.control.requests.admission import Draft
from forewarn.control.requests.host_lists import Turn
from forewarn.control.requests.verbs.order import (
    REPAIRING,
    OrderOptions,
    check_targets,
    either,
    not_before_of,
)
from forewarn.control.requests.verbs.vms import Change, draft_for
from forewarn.control.transactions.work import Work, way_out
from forewarn.fleet.model import HostState, Vm
from forewarn.instants import Micros, describe_duration
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import DURATION_UNKNOWN, EventSource, EventType
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
from forewarn.store.port import Record, every

R = TypeVar("R", bound=Record)

UNDERGOING = "Host server is undergoing maintenance."
MIGRATING = (
    "Virtual machine is being paused because of a memory-preserving Live Migration "
    "operation."
)

FREEZE_SECONDS = 9
"""DurationInSeconds of a freeze, unless the operator says otherwise (5.9)."""
MIGRATION_SECONDS = 5
"""DurationInSeconds of a live migration (5.9)."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """How a host is maintained, and what table 5.9 says about it."""

    event_type: EventType
    duration_seconds: int
    description: str


MAINTENANCE = {
    Action.FREEZE: Maintenance(
        event_type=EventType.FREEZE,
        duration_seconds=FREEZE_SECONDS,
        description=UNDERGOING,
    ),
    Action.LIVE_MIGRATE: Maintenance(
        event_type=EventType.FREEZE,
        duration_seconds=MIGRATION_SECONDS,
        description=MIGRATING,
    ),
    Action.REBOOT: Maintenance(
        event_type=EventType.REBOOT,
        duration_seconds=DURATION_UNKNOWN,
        description=UNDERGOING,
    ),
    Action.REDEPLOY: Maintenance(
        event_type=EventType.REDEPLOY,
        duration_seconds=DURATION_UNKNOWN,
        description=UNDERGOING,
    ),
}


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
    notice = work.policy.notice_for(usual.event_type)
    not_before = not_before_of(work, wishes, notice, usual.event_type)
    at_once = either(wishes.at_once, work.policy.hosts_at_once)
    description = either(
        wishes.description, REPAIRING if wishes.emergency else usual.description
    )
    duration_seconds = either(wishes.duration_seconds, usual.duration_seconds)
    hosts = _free_hosts(work, hosts)
    request = admission.open_request(
        work, Verb.MAINTAIN, is_rollout=True, at_once=at_once, hosts=len(hosts)
    )
    if len(hosts) > 1:
        if action in MOVING_ACTIONS:
            clearing.check_hosts(work, request, hosts)
        turn = Turn(
            action=action,
            description=description,
            duration_seconds=duration_seconds,
            ordered=work.now,
            earliest=not_before,
            is_timed=wishes.not_before is not None,
        )
        host_lists.plan(work, request, hosts, turn)
        rollouts.go_on(work, request.request_id)
        return request
    (name,) = hosts
    admission.admit(
        work,
        request,
        [
            Draft(
                verb=Verb.MAINTAIN,
                action=action,
                target_kind=TargetKind.HOST,
                target=name,
                host=name,
                vms=tuple(every(work.tx, kinds.VMS_ON_HOST, name)),
                event_type=usual.event_type,
                source=EventSource.PLATFORM,
                description=description,
                duration_seconds=duration_seconds,
                routine=True,
                not_before=not_before,
                is_timed=wishes.not_before is not None,
            )
        ],
    )
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
