"""Release operations: from Announced to Ready and Impacting, as far as allowed.

Called after each event that an operation can wait for: an approval, NotBefore, the end of
other work in a scope. The caller holds the safety rows of the scopes of the operation.
"""

from collections import defaultdict
from collections.abc import Sequence

from forewarn.control.execution import calls, impact
from forewarn.control.redaction import redact
from forewarn.control.rules import consent, holds, obstacles, promising, waits
from forewarn.control.rules.holds import HeldTimes
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.about import subjects_of
from forewarn.control.transactions.work import Work
from forewarn.instants import HOUR, MILLISECOND, MINUTE, Micros
from forewarn.protocol.blockers import (
    AnyBlocker,
    WindowClosed,
    bounded,
    signature,
)
from forewarn.protocol.frozen import changed
from forewarn.protocol.lifecycle import OperationInput
from forewarn.protocol.operations import Operation, OperationState, Promise
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind, Facts

LOOK_AGAIN_AFTER: Micros = MINUTE
"""Time to the first check of a held operation that got no wake-up, before the division
by `speed`."""

LOOK_AGAIN_PART = 4
"""Divisor for the time to the next check, which is a quarter of the time for which the
operation has been held. Wake-ups usually find held operations, and this timer is only
for missed wake-ups. With a thousand held operations, the checks must not occupy the
service."""

LOOK_AGAIN_MAX: Micros = HOUR
"""Maximum time to the next check of a held operation, before the division by `speed`."""

LOOK_AGAIN_MIN: Micros = 100 * MILLISECOND
"""Minimum time to the next check for any `speed`: checks must leave time for other work."""


def start_if_ready(work: Work, operation_id: str) -> None:
    """Advance the operation, and the operations that start with it, as far as the rules
    allow now."""
    operation = work.operation(operation_id)
    if operation.state is OperationState.ANNOUNCED:
        events = obstacles.counting_events(work.tx, operation)
        left = work.notice_left(operation)
        now = min(work.now, operation.not_before - left) if left else work.now
        if not consent.is_released(operation, events, now=now):
            if left and operation.due_at <= work.now:
                # NotBefore has come because of a clock step, and the notice continues.
                due_at = max(operation.not_before, work.now + left)
                work.save_operation(operation, changed(operation, due_at=due_at))
            return
        for companion in _companions(work, operation):
            work.step(companion, OperationInput.RELEASE)
            start_if_allowed(work, companion.operation_id)
    elif operation.state is OperationState.READY:
        if _is_early_again(work, operation):
            wake_at = work.now + work.policy.sped_up(LOOK_AGAIN_AFTER)
            due_at = min(operation.not_before, wake_at)
            work.save_operation(operation, changed(operation, due_at=due_at))
        else:
            start_if_allowed(work, operation_id)


def _is_early_again(work: Work, operation: Operation) -> bool:
    """Return whether NotBefore of a held operation is in the future again (2.7).

    This happens if the clock was set back.
    """
    return work.now < operation.not_before and not consent.is_released(
        operation, obstacles.counting_events(work.tx, operation), now=work.now
    )


def recheck(work: Work, operation_id: str) -> None:
    """Check an operation that may be released or unblocked now."""
    work.lock_scopes(scopes_of(work, operation_id))
    start_if_ready(work, operation_id)


def scopes_of(work: Work, operation_id: str) -> set[str]:
    """Return the scopes whose safety rows a release of the operation must lock."""
    operation = work.operation(operation_id)
    companions = _companions(work, operation)
    return {scope for member in (operation, *companions) for scope in member.scopes}


def _companions(work: Work, operation: Operation) -> list[Operation]:
    """Return the operations that start together, including this one."""
    if not work.request(operation.request).together:
        return [operation]
    siblings = every(work.tx, kinds.OPERATIONS_OF_REQUEST, operation.request)
    return [op for op in siblings if op.state is OperationState.ANNOUNCED]


def start_if_allowed(work: Work, operation_id: str) -> None:
    """Start a Ready operation, or set the time of its next check."""
    operation = calls.renew_chooser(work, work.operation(operation_id))
    times = obstacles.times_of(work.tx, operation, now=work.now)
    why = obstacles.why_not_start(work.tx, operation, now=work.now, times=times)
    if blockers := bounded(why):
        names = waits.names_for(blockers, obstacles.own_domains(work.tx, operation))
        is_news = signature(blockers) != signature(operation.held_by)
        if is_news:
            _note_held(work, operation, blockers)
        wake_at = next_look(work, operation, opens=holds.opening(blockers))
        is_due_in_time = work.now < operation.due_at <= wake_at
        promises = _promises(work, operation, blockers, times)
        is_same = (names, promises) == (operation.waits_for, operation.promises)
        if is_news or not is_same or not is_due_in_time:
            held = changed(
                operation,
                held_by=blockers,
                waits_for=names,
                promises=promises,
                due_at=operation.due_at if is_due_in_time else wake_at,
            )
            work.save_operation(operation, held)
    else:
        impact.start(work, operation)


def _promises(
    work: Work,
    operation: Operation,
    blockers: Sequence[AnyBlocker],
    times: HeldTimes,
) -> tuple[Promise, ...]:
    """Return the openings that an operation is promised, if it waits for windows."""
    if not any(isinstance(blocker, WindowClosed) for blocker in blockers):
        return operation.promises
    vms = obstacles.vms_of(work.tx, operation)
    return promising.promises_of(work.tx, operation, vms, times, work.now)


def next_look(work: Work, operation: Operation, *, opens: Micros = 0) -> Micros:
    """Return the time of the next check of a held operation that nothing wakes.

    `opens` is the opening of its maintenance windows, if it waits for one.
    """
    sped_up = work.policy.sped_up
    held = (work.now - operation.not_before) // LOOK_AGAIN_PART
    asleep = min(max(sped_up(LOOK_AGAIN_AFTER), held), sped_up(LOOK_AGAIN_MAX))
    wake_at = opens or work.now + max(asleep, LOOK_AGAIN_MIN)
    ends = hold_ends(operation, work.policy)
    return min(wake_at, ends) if operation.routine and work.now < ends else wake_at


def look_again_at_most(policy: Policy) -> Micros:
    """Return the maximum time to the next check of a held operation."""
    return max(policy.sped_up(LOOK_AGAIN_MAX), LOOK_AGAIN_MIN)


def _note_held(
    work: Work, operation: Operation, blockers: tuple[AnyBlocker, ...]
) -> None:
    """Store an audit entry about the current reasons that hold the operation.

    The entry names the tenants whose redacted reasons have changed; other tenants do not
    see it. The cost does not depend on the length of the history, because the previous
    reasons are stored in the operation.
    """
    scopes: defaultdict[str, set[str]] = defaultdict(set)
    vms: defaultdict[str, set[str]] = defaultdict(set)
    for name in operation.scopes:
        scopes[work.scope(name).tenant].add(name)
    for name in operation.vms:
        vms[work.vm(name).tenant].add(name)

    def seen_by(tenant: str, reasons: Sequence[AnyBlocker]) -> tuple[AnyBlocker, ...]:
        return redact.for_tenant(reasons, scopes=scopes[tenant], vms=vms[tenant])

    tenants = [
        f"tenant:{tenant}"
        for tenant in sorted({*scopes, *vms})
        if seen_by(tenant, blockers) != seen_by(tenant, operation.held_by)
    ]
    work.note(
        AuditKind.OPERATION_HELD,
        (*subjects_of(operation), *tenants),
        Facts(blockers=blockers),
        operation=operation.operation_id,
    )


def hold_ends(operation: Operation, policy: Policy) -> Micros:
    """Return the time at which a held routine operation is announced again."""
    return operation.not_before + policy.hold_max
