"""The verbs for a whole host: maintenance, and a failure that is foreseen (5.2, 5.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.control import admission
from forewarn.control.admission import Draft
from forewarn.control.verbs.order import (
    REPAIRING,
    Wishes,
    check_targets,
    either,
    not_before_of,
)
from forewarn.control.verbs.vms import draft_for
from forewarn.control.work import Work, way_out
from forewarn.fleet.model import Host, HostState
from forewarn.instants import Micros, describe_duration
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import DURATION_UNKNOWN, EventSource, EventType
from forewarn.protocol.operations import Action, Request, TargetKind, Verb
from forewarn.store import kinds
from forewarn.store.port import every

UNDERGOING = "Host server is undergoing maintenance."
MIGRATING = (
    "Virtual machine is being paused because of a memory-preserving Live Migration "
    "operation."
)

FREEZE_SECONDS = 9
"""DurationInSeconds of a freeze, unless the operator says otherwise (5.9)."""
MIGRATION_SECONDS = 5
"""DurationInSeconds of a live migration (5.9)."""


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
    work: Work, hosts: Sequence[str], action: Action, wishes: Wishes
) -> Request:
    """Maintain hosts: one operation for each, one rollout for all.

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
    request = admission.open_request(work, Verb.MAINTAIN, is_rollout=True)
    drafts: list[Draft] = []
    for name in hosts:
        host = work.host(name)
        _check_host(work, host)
        drafts.append(
            Draft(
                verb=Verb.MAINTAIN,
                action=action,
                target_kind=TargetKind.HOST,
                target=name,
                host=name,
                vms=tuple(every(work.tx, kinds.VMS_ON_HOST, name)),
                event_type=usual.event_type,
                source=EventSource.PLATFORM,
                description=either(
                    wishes.description,
                    REPAIRING if wishes.emergency else usual.description,
                ),
                duration_seconds=either(
                    wishes.duration_seconds, usual.duration_seconds
                ),
                routine=True,
                not_before=not_before,
            )
        )
    admission.admit(work, request, drafts)
    return request


def predict_failure(work: Work, name: str, notice: Micros, wishes: Wishes) -> Request:
    """Announce that a host will fail (5.4): each of its VMs can go early.

    There is one operation for each VM, since each may move by itself: an
    approval, or a redeploy of the user's own, moves it at once. Refused: a host
    that is down, under maintenance or without VMs; less than a Redeploy's notice.
    """
    host = work.host(name)
    _check_host(work, host)
    vms = list(every(work.tx, kinds.VMS_ON_HOST, name))
    if not vms:
        raise RefusedError(f"host {name} has no VMs to be told")
    least = work.policy.redeploy_notice
    if notice < least:
        raise RefusedError(
            f"a Redeploy needs a notice of at least {describe_duration(least)} (5.1)"
        )
    request = admission.open_request(work, Verb.PREDICT_FAILURE)
    drafts = [
        draft_for(
            vm,
            Verb.PREDICT_FAILURE,
            action=Action.REDEPLOY,
            event_type=EventType.REDEPLOY,
            source=EventSource.PLATFORM,
            description=REPAIRING,
            not_before=work.now + notice,
            wishes=wishes,
            routine=True,
        )
        for vm in vms
    ]
    admission.admit(work, request, drafts)
    return request


def _check_host(work: Work, host: Host) -> None:
    if host.state is HostState.DOWN:
        raise RefusedError(
            f"host {host.name} is down", hint=f"`forewarn restore {host.name}` first"
        )
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host.name):
        if operation.is_host_bound:
            raise RefusedError(
                f"host {host.name} has {operation.operation_id} "
                f"({operation.verb.value}, {operation.state.value}) under way",
                hint=way_out(operation),
            )
    for vm in every(work.tx, kinds.VMS_MOVING_TO, host.name):
        raise RefusedError(
            f"vm {vm.name} is on its way to host {host.name}: it would get no notice",
            hint="order it again when the VM has arrived",
        )
