"""Decisions about sightings: VMs that stopped, run again or moved without a request.

A VM that stopped fails, unless its user shut it down from inside: that is only recorded,
and lasts until the VM runs again.
A VM that was off before the driver looked, for an unknown reason, does not fail either: a
user can have shut it down. Operators see it among the problems.
A VM that runs is restored only if a sighting or a driver call had failed it: a failure by
an operator lasts until an operator restores it. While a driver call for the VM runs, its
sightings wait.
"""

from dataclasses import replace

from forewarn.control.execution import ending, leaving
from forewarn.control.requests import failures
from forewarn.control.rules.sightings import SightingAct
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Sighting, StopCause
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.operations import Action, Operation, OperationState, Request
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind, Facts


class Meaning(Enumeration):
    """The meaning of a sighting for the records."""

    NOTHING = "nothing"
    """It says what is recorded, or nothing that control acts on."""
    EXPECTED = "expected"
    """The driver works on the VM, so that the result of its call decides. Or the VM is on
    a host with an announced operation, whose events do not name it: it is recorded there
    after that operation."""
    NEWS = "news"
    """Control acts on it when it is confirmed."""


def meaning(
    reader: Reader, sighting: Sighting, acts: frozenset[SightingAct]
) -> Meaning:
    """Return what a sighting means, if `acts` are allowed."""
    vm = reader.get(Vm, sighting.vm)
    if vm is None or vm.state is VmState.DELETED:
        return Meaning.NOTHING
    if sighting.running:
        is_news = bool(_moves(reader, vm, sighting, acts)) or _runs_again(
            reader, vm, sighting, acts
        )
    else:
        is_news = (
            (SightingAct.FAIL in acts or sighting.is_without_reason)
            and vm.state is VmState.RUNNING
            # A VM that its user shut down is off until it runs, also for another cause.
            and not vm.is_off
            # A copy that does not run elsewhere, as after a migration, has not failed.
            and sighting.host in {"", vm.host}
        )
    if not is_news:
        return Meaning.NOTHING
    is_early = _is_worked_on(reader, vm) or _is_announced(reader, vm, sighting)
    return Meaning.EXPECTED if is_early else Meaning.NEWS


def act(work: Work, sighting: Sighting, acts: frozenset[SightingAct]) -> Meaning:
    """Record a confirmed sighting if it is still news; return what it means now."""
    meant = meaning(work.tx, sighting, acts)
    if meant is Meaning.NEWS:
        _record(work, sighting, acts)
    return meant


def _record(work: Work, sighting: Sighting, acts: frozenset[SightingAct]) -> None:
    vm = work.vm(sighting.vm)
    if not sighting.running:
        is_off = sighting.cause is StopCause.SHUT_DOWN
        work.note(
            AuditKind.VM_SHUT_DOWN if is_off else AuditKind.VM_STOPPED,
            (f"vm:{vm.name}", f"host:{vm.host}", f"scope:{vm.scope}"),
            Facts(text=sighting.text),
        )
        if is_off:
            work.save_vm(vm, replace(vm, is_off=True))
        else:
            failures.fail_vm(work, vm.name)
        return
    work.lock_scopes(leaving.scopes_of_vm(work, vm))
    again = _runs_again(work.tx, vm, sighting, acts)
    if host := _moves(work.tx, vm, sighting, acts):
        vm = leaving.move_vm(work, vm, host, is_observed=True)
    if again:
        leaving.vm_runs_again(work, vm)


def _moves(
    reader: Reader, vm: Vm, sighting: Sighting, acts: frozenset[SightingAct]
) -> Host | None:
    """Return the other host that the VM runs on."""
    if SightingAct.MOVE not in acts or sighting.host in {"", vm.host}:
        return None
    host = reader.get(Host, sighting.host)
    return None if host is None or host.state is HostState.DOWN else host


def _is_announced(reader: Reader, vm: Vm, sighting: Sighting) -> bool:
    """Return whether the VM is on another host that has an announced operation."""
    if not sighting.running or sighting.host in {"", vm.host}:
        return False
    return any(
        operation.occupies_host
        for operation in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, sighting.host)
    )


def _runs_again(
    reader: Reader, vm: Vm, sighting: Sighting, acts: frozenset[SightingAct]
) -> bool:
    """Return whether the VM is down or off, and the sighting may restore it."""
    if vm.is_off:
        return True
    if vm.state is not VmState.DOWN or SightingAct.RESTORE not in acts:
        return False
    moved = _moves(reader, vm, sighting, acts)
    host = moved or reader.get(Host, vm.host)
    if host is None or host.state is HostState.DOWN:
        return False
    return all(
        _is_by_driver(reader, operation) or (moved and operation.is_host_bound)
        for operation in every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name)
        if ending.is_failure(operation)
    )


def _is_by_driver(reader: Reader, failure: Operation) -> bool:
    request = reader.get(Request, failure.request)
    return request is not None and request.actor.kind is ActorKind.DRIVER


def _is_worked_on(reader: Reader, vm: Vm) -> bool:
    """Return whether the driver has a call for the VM."""
    started = (reader.get(Operation, operation_id) for operation_id in vm.started)
    return any(
        operation is not None
        and operation.state is OperationState.IMPACTING
        and operation.action is not Action.NONE
        for operation in started
    )
