"""Sentences about visits, for the explanations of other things.

A tenant's reader shows no visit.
"""

from collections.abc import Iterator

from forewarn.control.rules import campaign_gate
from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Action, Operation, Request
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import visits


def standing(reader: Reader, visit: Visit, *, now: Micros) -> str:
    """Return the state of a visit, and how an operator ends it if it stands still."""
    campaign = campaign_gate.name_of_open(reader, visit)
    sentence = visits.standing(visit, now=now, campaign=campaign)
    operation = reader.get(Operation, visit.operation)
    if operation is not None and (vms := vms_not_running(reader, visit)):
        is_paused = operation.action is Action.FREEZE
        stopped = (
            visits.waiting_vms(visit, vms, is_paused=is_paused)
            if operation.holds_vms
            else visits.down_vms(visit.host, vms)
        )
        sentence = f"{sentence}; {stopped}"
    is_reboot = operation is not None and operation.action is Action.REBOOT
    if is_reboot and visit.step(StepKind.WORK) is None:
        return f"{sentence}; {visits.NO_HOST_REBOOT}"
    return sentence


def vms_not_running(reader: Reader, visit: Visit) -> tuple[str, ...]:
    """Return the VMs of a failed visit that are kept paused or stopped, or are down."""
    operation = reader.get(Operation, visit.operation)
    if operation is None or visit.state not in STUCK_VISITS:
        return ()
    if operation.holds_vms:
        return operation.vms
    vms = (reader.get(Vm, name) for name in operation.vms)
    return tuple(vm.name for vm in vms if vm is not None and vm.state is VmState.DOWN)


def of_operation(reader: Reader, operation: Operation, *, now: Micros) -> str:
    """Return what the visit of an operation does; empty: it has none.

    The visit can fail after the end of the operation.
    """
    visit = reader.get(Visit, operation.visit) if operation.visit else None
    return "" if visit is None else _told(reader, visit, now=now)


def of_host(reader: Reader, host: str, *, now: Micros) -> Iterator[str]:
    """Yield what the open visits of a host do."""
    for visit in every(reader, kinds.OPEN_VISITS_OF_HOST, host):
        yield _told(reader, visit, now=now)


def counted(reader: Reader, request: Request) -> str:
    """Return how many visits of a request are in each state; empty if it has none."""
    if not request.steps:
        return ""
    return visits.counted(every(reader, kinds.VISITS_OF_REQUEST, request.request_id))


def _told(reader: Reader, visit: Visit, *, now: Micros) -> str:
    return visits.of_host(visit, standing(reader, visit, now=now))
