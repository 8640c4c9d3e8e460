"""What the driver's word does to an operation.

A report counts only for the generation that is under way; older and repeated
ones are void. Control believes no success that an observation contradicts. A
failed call is made again, a bounded number of times; then the operation fails,
and VMs that are down get a failure event of their own. What nobody knows waits
for an operator: it is never done again by itself.
"""

from collections.abc import Mapping
from dataclasses import replace

from forewarn.control import calls, downtime, ending, failures, impact, leaving
from forewarn.control.work import Work, subjects_of
from forewarn.drivers.port import Observation, Report, Verdict
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.problems import listed
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    KEEPING_ACTIONS,
    CallState,
    Move,
    Operation,
    OperationState,
)

NOTE_CHARACTERS_MAX = 500
"""Of a driver's reason that is kept: enough for a message, not for a log."""


def take_report(
    work: Work, report: Report, observed: Mapping[str, Observation]
) -> None:
    """Take over a driver's report, unless it is void."""
    operation = _current(work, report.operation_id, report.generation)
    if operation is None:
        return
    work.secure(operation.scopes)
    wrong = _contradictions(work, operation, observed)
    if report.verdict is Verdict.DONE and not wrong:
        said = report.reason[:NOTE_CHARACTERS_MAX]
        work.note("driver done", subjects_of(operation), said)
        impact.call_done(work, operation, paused=dict(report.paused))
        return
    if report.verdict is Verdict.DONE:
        reason = "the driver reported success, but " + "; ".join(wrong)
    else:
        reason = report.reason or "the driver gave no reason"
    _call_failed(work, operation, reason, _down(operation, report, observed), observed)


def call_not_made(work: Work, operation_id: str, generation: int, reason: str) -> None:
    """Note that the driver could not even be asked."""
    operation = _current(work, operation_id, generation)
    if operation is not None:
        work.secure(operation.scopes)
        _call_failed(work, operation, reason, (), {})


def lose_sight(work: Work, operation_id: str, generation: int, reason: str) -> None:
    """Note that nobody knows what became of a call: an operator must say."""
    operation = _current(work, operation_id, generation)
    if operation is not None and operation.call_state is CallState.ISSUED:
        work.note("driver outcome unknown", subjects_of(operation), reason)
        work.save_operation(
            operation,
            replace(
                operation,
                call_state=CallState.UNKNOWN,
                due_at=0,
                note=reason[:NOTE_CHARACTERS_MAX],
            ),
        )


def call_again(work: Work, operation_id: str) -> None:
    """Make the next attempt of a failed call."""
    operation = work.operation(operation_id)
    if operation.call_state is CallState.RETRY:
        calls.issue(work, operation, attempts=operation.attempts + 1)


def resolve(
    work: Work, operation_id: str, *, done: bool, down: tuple[str, ...] = ()
) -> Operation:
    """Settle an operation whose outcome nobody knows, on an operator's word.

    `down` names the VMs that do not run. Raises RefusedError if the outcome is
    not unknown, or a VM is none of the operation's.
    """
    operation = work.operation(operation_id)
    if operation.call_state is not CallState.UNKNOWN:
        raise RefusedError(
            f"the outcome of {operation_id} is not unknown: it is "
            f"{operation.state.value}",
            hint=f"`forewarn explain {operation_id}` says where it stands",
        )
    strangers = sorted(set(down) - set(operation.vms))
    if strangers:
        raise RefusedError(
            f"vm {strangers[0]} is not part of {operation_id}",
            hint=f"it concerns {listed(operation.vms) or 'no VM'}",
        )
    if done and down:
        raise RefusedError("what is done leaves no VM down: say failed")
    work.secure(operation.scopes)
    word = "done" if done else "failed"
    work.note("operation resolved", subjects_of(operation), f"the operator says {word}")
    if done:
        impact.call_done(work, operation)
        # A host that VMs went to may have failed meanwhile, and they with it.
        failures.fail_after_call(work, _on_down_hosts(work, operation))
    else:
        _give_up(work, operation, "an operator says that it failed", down)
    return work.operation(operation_id)


def _current(work: Work, operation_id: str, generation: int) -> Operation | None:
    """Return the operation if this generation's call is the one under way."""
    operation = work.tx.get(Operation, operation_id)
    if (
        operation is None
        or operation.state is not OperationState.IMPACTING
        or operation.generation != generation
        or operation.call_state not in {CallState.ISSUED, CallState.UNKNOWN}
    ):
        return None
    return operation


def _contradictions(
    work: Work, operation: Operation, observed: Mapping[str, Observation]
) -> list[str]:
    """Return what was seen that a success cannot leave behind."""
    wrong: list[str] = []
    for move in calls.current_moves(operation):
        seen = observed.get(move.vm, Observation())
        gone = operation.action.value == "delete"
        if seen.running is gone and not _was_down(work, operation, move):
            wrong.append(f"vm {move.vm} {'runs' if gone else 'does not run'}")
        if not move.to_host:
            continue
        if seen.host not in {None, move.to_host}:
            wrong.append(f"vm {move.vm} is on {seen.host}, not on {move.to_host}")
        if _is_down(work, move.to_host):
            wrong.append(f"host {move.to_host}, where vm {move.vm} went, is down")
    return wrong


def _was_down(work: Work, operation: Operation, move: Move) -> bool:
    """Tell whether the VM was known to be down, and the action leaves it so."""
    vm = work.tx.get(Vm, move.vm)
    return (
        vm is not None
        and vm.state is VmState.DOWN
        and operation.action in KEEPING_ACTIONS
    )


def _down(
    operation: Operation, report: Report, observed: Mapping[str, Observation]
) -> tuple[str, ...]:
    """Return the VMs of the call that do not run, by report or by sight."""
    if operation.action.value == "delete":
        return ()
    return tuple(
        move.vm
        for move in calls.current_moves(operation)
        if move.vm in report.down
        or observed.get(move.vm, Observation()).running is False
    )


def _call_failed(
    work: Work,
    operation: Operation,
    reason: str,
    down: tuple[str, ...],
    observed: Mapping[str, Observation],
) -> None:
    note = reason[:NOTE_CHARACTERS_MAX]
    work.note("driver failed", subjects_of(operation), note)
    for move in calls.current_moves(operation):
        vm = work.tx.get(Vm, move.vm)
        if vm is not None and vm.name not in down:
            downtime.taken_off(work, operation, vm)
    again = operation.attempts < work.policy.driver_attempts
    if again and not _is_destination_lost(work, operation):
        work.save_operation(
            operation,
            replace(
                operation,
                call_state=CallState.RETRY,
                due_at=work.now + work.policy.retry_delay,
                note=note,
            ),
        )
        return
    for move in calls.current_moves(operation):
        _settle_where_seen(work, operation, move, observed)
    current = work.operation(operation.operation_id)
    stranded = _on_down_hosts(work, current)
    often = "once" if operation.attempts == 1 else f"{operation.attempts} times"
    _give_up(work, current, f"the driver failed {often}: {note}", (*down, *stranded))


def _is_destination_lost(work: Work, operation: Operation) -> bool:
    """Tell whether a host that VMs are being moved to has gone down meanwhile."""
    destinations = {move.to_host for move in calls.current_moves(operation)} - {""}
    return any(_is_down(work, name) for name in destinations)


def _on_down_hosts(work: Work, operation: Operation) -> tuple[str, ...]:
    """Return the VMs of the call that ended up where nothing runs."""
    vms = (work.tx.get(Vm, move.vm) for move in calls.current_moves(operation))
    return tuple(vm.name for vm in vms if vm is not None and _is_down(work, vm.host))


def _is_down(work: Work, name: str) -> bool:
    host = work.tx.get(Host, name)
    return host is None or host.state is HostState.DOWN


def _settle_where_seen(
    work: Work, operation: Operation, move: Move, observed: Mapping[str, Observation]
) -> None:
    """Take over the place of a VM that moved although its call failed."""
    vm = work.tx.get(Vm, move.vm)
    seen = observed.get(move.vm, Observation())
    if vm is None or vm.state is VmState.DELETED or seen.host in {None, vm.host}:
        return
    host = work.tx.get(Host, seen.host or "")
    if host is not None:
        moved = leaving.move_vm(work, vm, host, besides=operation.operation_id)
        if moved.state is VmState.DOWN and seen.running is not False:
            leaving.vm_runs_again(work, moved)


def _give_up(
    work: Work, operation: Operation, note: str, down: tuple[str, ...]
) -> None:
    ending.fail(work, operation, note=note)
    failures.fail_after_call(work, down)
