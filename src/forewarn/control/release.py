"""Letting go: from Noticed over Ready to Impacting, as far as the rules allow.

Called for each thing that may have been waited for: an approval, NotBefore, the
end of something else in a scope. The caller holds the safety rows of the
operation's scopes.
"""

from collections import defaultdict
from dataclasses import replace

from forewarn.control import consent, impact, neutral, obstacles
from forewarn.control.blockers import Blocker
from forewarn.control.policy import Policy
from forewarn.control.work import Work, subjects_of
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.lifecycle import OperationInput
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import every

HELD = "operation held"
"""What the trail's lines say that tell why an operation could not start."""

LOOK_AGAIN_AFTER: Micros = MINUTE
"""How long a held operation sleeps when nothing wakes it. What it waits for
wakes it; this catches what has no wake-up of its own, such as a freed host."""


def let_go(work: Work, operation_id: str) -> None:
    """Take the operation, and those that go with it, as far as allowed now."""
    operation = work.operation(operation_id)
    if operation.state is OperationState.NOTICED:
        events = obstacles.counting_events(work.tx, operation)
        if not consent.is_released(operation, events, now=work.now):
            return
        for companion in _companions(work, operation):
            work.step(companion, OperationInput.RELEASE)
            start_if_allowed(work, companion.operation_id)
    elif operation.state is OperationState.READY:
        start_if_allowed(work, operation_id)


def look_again(work: Work, operation_id: str) -> None:
    """Let an operation go that something may have set free, if it still waits."""
    work.secure(scopes_of(work, operation_id))
    let_go(work, operation_id)


def scopes_of(work: Work, operation_id: str) -> set[str]:
    """Return the scopes whose safety letting the operation go concerns."""
    operation = work.operation(operation_id)
    companions = _companions(work, operation)
    return {scope for each in (operation, *companions) for scope in each.scopes}


def _companions(work: Work, operation: Operation) -> list[Operation]:
    """Return the operations that are let go together, this one among them."""
    request = work.request(operation.request)
    if not request.together:
        return [operation]
    siblings = every(work.tx, kinds.OPERATIONS_OF_REQUEST, operation.request)
    return [op for op in siblings if op.state is OperationState.NOTICED]


def start_if_allowed(work: Work, operation_id: str) -> None:
    """Start a Ready operation, or note when to look at it again."""
    operation = work.operation(operation_id)
    if blockers := obstacles.why_not_start(work.tx, operation):
        _note_held(work, operation, blockers)
        wake_at = work.now + LOOK_AGAIN_AFTER
        if operation.routine:
            wake_at = min(wake_at, hold_ends(operation, work.policy))
        if not work.now < operation.due_at <= wake_at:
            work.save_operation(operation, replace(operation, due_at=wake_at))
    else:
        impact.start(work, operation)


def _note_held(work: Work, operation: Operation, blockers: tuple[Blocker, ...]) -> None:
    """Write into the trail what holds the operation, unless the last line says it.

    The line names the tenants for whom the reasons are others than before, and is
    shown to no other: when something of another tenant's changed is not theirs.
    """
    detail = neutral.JOINT.join(blocker.sentence() for blocker in blockers)
    subject = f"operation:{operation.operation_id}"
    trail = every(work.tx, kinds.AUDIT_OF_SUBJECT, subject)
    said = [entry.detail for entry in trail if entry.what == HELD]
    if said[-1:] != [detail]:
        before = said[-1] if said else ""
        tenants = [
            f"tenant:{tenant}"
            for tenant, own in _subjects_by_tenant(work, operation).items()
            if neutral.told(detail, own) != neutral.told(before, own)
        ]
        work.note(HELD, (*subjects_of(operation), *tenants), detail)


def _subjects_by_tenant(work: Work, operation: Operation) -> dict[str, set[str]]:
    """Return the scopes and VMs of the operation, by whose they are."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in operation.scopes:
        found[work.scope(name).tenant].add(f"scope:{name}")
    for name in operation.vms:
        found[work.vm(name).tenant].add(f"vm:{name}")
    return found


def hold_ends(operation: Operation, policy: Policy) -> Micros:
    """Return when a held routine operation is cancelled and noticed anew."""
    return operation.not_before + policy.hold_bound


def sleep(operation: Operation, *, now: Micros) -> Operation:
    """Return the operation, to be looked at again after a while."""
    return replace(operation, due_at=now + LOOK_AGAIN_AFTER)


def revisit_held(work: Work) -> None:
    """Have held operations looked at: hosts changed, and one may have room now.

    A page of them is enough: more than that waits for its own timer.
    """
    for operation in work.tx.select(
        kinds.OPERATIONS_IN_STATE, OperationState.READY.value
    ):
        work.revisit(operation.operation_id)
