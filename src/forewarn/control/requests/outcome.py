"""Process the outcome of driver calls.

A report counts only for the current generation; older and repeated reports are ignored. A
reported success that contradicts an observation is not accepted. A failed call is made
again, up to a maximum number of attempts. Then the operation fails, and VMs that are down
get their own failure event. An unknown outcome waits for an operator; such a call is never
repeated automatically.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from forewarn.control.execution import (
    calls,
    downtime,
    ending,
    impact,
    leaving,
    visits,
)
from forewarn.control.requests import failures, landings
from forewarn.control.rules import destinations
from forewarn.control.transactions.inquiries import ASK_AGAIN_AFTER, ProbeQuestion
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import (
    Observation,
    Report,
    Verdict,
    VmResult,
    VmVerdict,
)
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.problems import listed
from forewarn.protocol.blockers import (
    SAID_CHARACTERS_MAX,
    CallEnd,
    Contradiction,
    VmEnd,
)
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import AnyNote, DriverGaveUp, OperatorSaysFailed
from forewarn.protocol.operations import (
    ASKED_STATES,
    KEEPING_ACTIONS,
    Action,
    CallPart,
    CallState,
    Move,
    Operation,
    OperationState,
)
from forewarn.store.records import AuditKind, Facts

_AWAITED = frozenset(
    {CallState.ISSUED, CallState.PROBING, CallState.OVERDUE, CallState.UNKNOWN}
)
"""States of a call whose end has not been processed."""

NAMED_MAX = 3
"""Maximum VMs that are named in the end of a partly successful call."""


def take_report(
    work: Work, report: Report, observed: Mapping[str, Observation]
) -> None:
    """Process a report of the driver, unless it is outdated."""
    operation = _current(work, report.operation_id, report.generation)
    if operation is None:
        return
    work.lock_scopes(operation.scopes)
    moves = calls.current_moves(operation)
    observed = {
        move.vm: observed.get(move.vm, Observation()).or_else(report.result_of(move.vm))
        for move in moves
    }
    ends = [
        _end_of(work, operation, move, report.result_of(move.vm), observed[move.vm])
        for move in moves
    ]
    left = {end.vm: end for end in ends if end is not None}
    if operation.driver_chooses:
        hosts = {vm: seen.host for vm, seen in observed.items() if vm not in left}
        operation = landings.record(work, operation, hosts)
        moves = calls.current_moves(operation)
    done = tuple(move for move in moves if move.vm not in left)
    failed = [end for end in left.values() if not end.is_unknown]
    unknown = len(left) > len(failed)
    paused = dict(report.paused)
    if len(done) == len(moves):
        text = report.reason[:SAID_CHARACTERS_MAX]
        work.note_operation(AuditKind.DRIVER_DONE, operation, Facts(text=text))
        impact.call_done(work, operation, paused=paused)
        _after_moves(work, operation, done)
        return
    if done:
        # Completed VMs stay completed, whatever happens to the others.
        operation = impact.take_done(work, operation, done, paused=paused)
        _after_moves(work, operation, done)
        operation = work.operation(operation.operation_id)
    end = _call_end(report, left, of=len(moves), is_partial=bool(done) or unknown)
    down = _down(operation, report, observed)
    if unknown:
        _keep_failed(work, operation, {result.vm for result in failed}, down)
        mark_unknown(work, report.operation_id, report.generation, end)
        return
    _call_failed(work, operation, end, down, observed)


def _after_moves(work: Work, operation: Operation, done: Sequence[Move]) -> None:
    """Record what the new hosts of moved VMs mean for them and for other work."""
    failures.fail_after_call(work, _on_down_hosts(work, done))
    if operation.driver_chooses:
        landings.renew_notices(work, done)


def _keep_failed(
    work: Work, operation: Operation, names: Collection[str], down: Sequence[str]
) -> None:
    """Store the VMs for which a call failed, until an operator resolves the others."""
    moves = tuple(
        changed(
            move,
            has_failed=move.vm in names,
            is_down=move.vm in names and move.vm in down,
        )
        for move in operation.moves
    )
    if moves != operation.moves:
        work.save_operation(operation, changed(operation, moves=moves))


def _end_of(
    work: Work,
    operation: Operation,
    move: Move,
    result: VmResult,
    seen: Observation,
) -> VmEnd | None:
    """Return how the call ended for a VM; None: success, as far as observed."""
    if result.verdict is not VmVerdict.DONE:
        return VmEnd(
            vm=move.vm,
            is_unknown=result.verdict is VmVerdict.UNKNOWN,
            said=result.note[:SAID_CHARACTERS_MAX],
        )
    wrong = _contradictions(work, operation, move, seen)
    if operation.driver_chooses and not wrong:
        return landings.why_not_recorded(work.tx, operation.host, move.vm, seen)
    return VmEnd(vm=move.vm, wrong=wrong) if wrong else None


def _call_end(
    report: Report, left: Mapping[str, VmEnd], *, of: int, is_partial: bool
) -> CallEnd:
    """Return why a call did not succeed as a whole."""
    if not is_partial and _is_said_once(report, left):
        if report.verdict is Verdict.DONE:
            return CallEnd(
                wrong=tuple(
                    contradiction
                    for end in left.values()
                    for contradiction in end.wrong
                )
            )
        return CallEnd(said=report.reason[:SAID_CHARACTERS_MAX])
    return CallEnd(
        vms=tuple(left.values())[:NAMED_MAX],
        more=max(0, len(left) - NAMED_MAX),
        of=of if is_partial else 0,
        done=of - len(left),
    )


def _is_said_once(report: Report, left: Iterable[str]) -> bool:
    """Return whether the results of the VMs add nothing to the report's reason."""
    results = (report.result_of(vm) for vm in left)
    return all(result.note == report.reason for result in results)


def call_not_made(work: Work, operation_id: str, generation: int, end: CallEnd) -> None:
    """Process a call that the driver did not accept."""
    operation = _current(work, operation_id, generation)
    if operation is not None:
        work.lock_scopes(operation.scopes)
        _call_failed(work, operation, end, (), {})


def ask_after(work: Work, operation_id: str, generation: int, *, is_late: bool) -> None:
    """Ask the driver for the outcome of a call, in parallel with other work.

    A call that is not late keeps the time of its timeout, so that restarts do not change
    it.
    """
    operation = _current(work, operation_id, generation)
    if operation is None or operation.call_state is CallState.UNKNOWN:
        return
    work.ask(
        ProbeQuestion(
            call=calls.call_of(operation),
            memory=operation.driver_memory,
            is_late=is_late,
        )
    )
    work.save_operation(
        operation,
        changed(
            operation,
            call_state=CallState.OVERDUE,
            due_at=work.now + ASK_AGAIN_AFTER,
        )
        if is_late
        else changed(operation, call_state=CallState.PROBING),
    )


def go_on(work: Work, question: ProbeQuestion, *, is_begun: bool) -> None:
    """Wait for the report of a running call, or make a call that was not made.

    If the call timed out before the answer came, the driver is asked again at once.
    """
    operation = _current(work, question.operation_id, question.generation)
    if operation is None or operation.call_state not in ASKED_STATES:
        return
    is_late = operation.call_state is CallState.OVERDUE
    due_at = work.now if is_late else operation.due_at
    issued = work.save_operation(
        operation, changed(operation, call_state=CallState.ISSUED, due_at=due_at)
    )
    if is_late:
        return
    vms = {move.vm for move in calls.current_moves(issued)}
    if is_begun:
        return
    if destinations.unfit(work.tx, issued, vms):
        # The call was not started, so this attempt uses other destinations.
        calls.issue(work, issued, attempts=issued.attempts)
    else:
        work.call(calls.call_to_make(work, issued))


def mark_unknown(work: Work, operation_id: str, generation: int, end: CallEnd) -> None:
    """Record that the outcome of a call is unknown, so that an operator must set it."""
    operation = _current(work, operation_id, generation)
    if operation is not None and operation.call_state is not CallState.UNKNOWN:
        work.note_operation(
            AuditKind.DRIVER_OUTCOME_UNKNOWN, operation, Facts(note=end)
        )
        work.save_operation(
            operation,
            changed(
                operation,
                call_state=CallState.UNKNOWN,
                due_at=0,
                note=end,
            ),
        )


def call_again(work: Work, operation_id: str) -> None:
    """Make the next attempt of a call that failed or lacked a destination."""
    operation = work.operation(operation_id)
    if operation.call_state is not CallState.RETRY:
        return
    work.lock_scopes(operation.scopes)
    attempts = operation.attempts + 1
    is_last = attempts >= work.policy.driver_attempts
    if calls.issue(work, operation, attempts=attempts) or not is_last:
        return
    # The last call left these VMs down.
    current = work.operation(operation_id)
    assert current.note is not None, "the note has the reason"
    _give_up(work, current, current.note, downtime.left_down(work, current))


def resolve(
    work: Work,
    operation_id: str,
    *,
    done: bool,
    down: tuple[str, ...] = (),
    moved: tuple[str, ...] = (),
) -> Operation:
    """Set the unknown outcome of an operation for an operator.

    `down` names the VMs that do not run. `moved` has the hosts that VMs are on now, as
    VM=HOST, if the driver chose them. Known results of single VMs are kept: a VM for
    which the call failed gets another attempt, as after any failed call. Raises
    RefusedError if the outcome is not unknown or a VM is not part of the operation.
    """
    operation = work.operation(operation_id)
    if operation.call_state is not CallState.UNKNOWN:
        raise RefusedError(
            f"cannot resolve {operation_id}: its outcome is not unknown (state "
            f"{operation.state.value})",
            hint=f"Run `forewarn explain {operation_id}` to see its status.",
        )
    others = sorted(set(down) - set(operation.vms))
    if others:
        raise RefusedError(
            f"VM {others[0]} is not part of {operation_id}",
            hint=f"Use its VMs: {listed(operation.vms) or 'it has none'}.",
        )
    if done and down:
        raise RefusedError(
            "outcome done cannot be combined with VMs that are down; use failed"
        )
    hosts = landings.hosts_told(work, operation, moved, done=done)
    work.lock_scopes(operation.scopes)
    work.note_operation(AuditKind.OPERATION_RESOLVED, operation, Facts(is_done=done))
    known_down = tuple(move.vm for move in operation.moves if move.is_down)
    if done:
        operation = landings.record(work, operation, hosts)
        _resolved_as_done(work, operation, known_down)
    else:
        down = tuple(dict.fromkeys((*down, *known_down)))
        _give_up(work, operation, OperatorSaysFailed(), down)
    return work.operation(operation_id)


def _resolved_as_done(
    work: Work, operation: Operation, known_down: tuple[str, ...]
) -> None:
    """Record the success of a call, except for VMs with a known failure."""
    moves = calls.current_moves(operation)
    failed = tuple(move.vm for move in moves if move.has_failed)
    done = tuple(move for move in moves if not move.has_failed)
    if failed:
        impact.take_done(work, operation, done)
    else:
        impact.call_done(work, operation)
    # A destination host can have failed meanwhile, together with its VMs.
    _after_moves(work, operation, done)
    if failed:
        current = work.operation(operation.operation_id)
        _call_failed(work, current, CallEnd(failed_vms=failed), known_down, {})


def _current(work: Work, operation_id: str, generation: int) -> Operation | None:
    """Return the operation if the call of this generation is running."""
    operation = work.tx.get(Operation, operation_id)
    if (
        operation is None
        or operation.state is not OperationState.IMPACTING
        or operation.generation != generation
        or operation.call_state not in _AWAITED
    ):
        return None
    return operation


def _contradictions(
    work: Work,
    operation: Operation,
    move: Move,
    seen: Observation,
) -> tuple[Contradiction, ...]:
    """Return the observations and reports that contradict a success."""
    wrong: list[Contradiction] = []
    gone = operation.action is Action.DELETE
    # If the destination failed meanwhile, the VM is there but does not run.
    is_stranded = move.to_host != "" and _is_down(work, move.to_host)
    if (
        seen.running is (gone or operation.call_action is Action.STOP)
        # A paused VM can be seen either way.
        and operation.call_action is not Action.PAUSE
        and not is_stranded
        and not _was_down(work, operation, move)
    ):
        wrong.append(Contradiction(vm=move.vm, runs=seen.running))
    if move.to_host and seen.host not in {None, move.to_host}:
        wrong.append(
            Contradiction(vm=move.vm, host=seen.host or "", wanted_host=move.to_host)
        )
    return tuple(wrong)


def _was_down(work: Work, operation: Operation, move: Move) -> bool:
    """Return whether the VM was known to be down and the action keeps its state."""
    vm = work.tx.get(Vm, move.vm)
    return (
        vm is not None
        and vm.state is VmState.DOWN
        and operation.action in KEEPING_ACTIONS
    )


def _down(
    operation: Operation, report: Report, observed: Mapping[str, Observation]
) -> tuple[str, ...]:
    """Return the VMs of the call that do not run, by report or observation."""
    if operation.action is Action.DELETE:
        return ()
    return tuple(
        move.vm
        for move in calls.current_moves(operation)
        if report.result_of(move.vm).running is False
        or observed.get(move.vm, Observation()).running is False
    )


def _call_failed(
    work: Work,
    operation: Operation,
    end: CallEnd,
    down: tuple[str, ...],
    observed: Mapping[str, Observation],
) -> None:
    work.note_operation(AuditKind.DRIVER_FAILED, operation, Facts(note=end))
    for move in calls.current_moves(operation):
        vm = work.tx.get(Vm, move.vm)
        if vm is not None and vm.name not in down:
            downtime.taken_off(work, operation, vm)
    again = operation.attempts < work.policy.driver_attempts
    if again and not _is_seen_stranded(work, operation, observed):
        work.save_operation(
            operation,
            changed(
                operation,
                call_state=CallState.RETRY,
                due_at=work.now + work.policy.retry_delay,
                note=end,
            ),
        )
        return
    for move in calls.current_moves(operation):
        _settle_where_seen(work, operation, move, observed)
    current = work.operation(operation.operation_id)
    stranded = _on_down_hosts(work, calls.current_moves(current))
    note = DriverGaveUp(attempts=operation.attempts, end=end)
    _give_up(work, current, note, (*down, *stranded))


def _is_seen_stranded(
    work: Work, operation: Operation, observed: Mapping[str, Observation]
) -> bool:
    """Return whether a VM was observed on its destination, which is down now.

    Such a VM is recorded there. Others get a new destination at the next call.
    """
    return any(
        move.to_host
        and observed.get(move.vm, Observation()).host == move.to_host
        and _is_down(work, move.to_host)
        for move in calls.current_moves(operation)
    )


def _on_down_hosts(work: Work, moves: Sequence[Move]) -> tuple[str, ...]:
    """Return the VMs that are on hosts that are down."""
    vms = (work.tx.get(Vm, move.vm) for move in moves)
    return tuple(vm.name for vm in vms if vm is not None and _is_down(work, vm.host))


def _is_down(work: Work, name: str) -> bool:
    host = work.tx.get(Host, name)
    return host is None or host.state is HostState.DOWN


def _settle_where_seen(
    work: Work, operation: Operation, move: Move, observed: Mapping[str, Observation]
) -> None:
    """Record the host of a VM that moved although its call failed."""
    vm = work.tx.get(Vm, move.vm)
    observation = observed.get(move.vm, Observation())
    if vm is None or vm.state is VmState.DELETED or observation.host in {None, vm.host}:
        return
    host = work.tx.get(Host, observation.host or "")
    if host is not None:
        moved = leaving.move_vm(
            work,
            vm,
            host,
            besides=operation.operation_id,
            is_observed=host.name != move.to_host,
        )
        if moved.state is VmState.DOWN and observation.running is not False:
            leaving.vm_runs_again(work, moved)


def _give_up(
    work: Work, operation: Operation, note: AnyNote, down: tuple[str, ...]
) -> None:
    if operation.part is CallPart.DOWN:
        visits.not_taken_down(work, operation, note)
        return
    ending.fail(work, operation, note=note, down=down)
    failures.fail_after_call(work, down)
