"""Invariants of the choices of tenants: later, or now (4.8).

It reads the rows of each commit, and shares no code with what it judges.
"""

from collections.abc import Iterator

from forewarn.instants import DAY, HOUR, SECOND, Micros
from forewarn.protocol.operations import WAITING_STATES, Operation, OperationState
from forewarn.protocol.verbs import Verb
from forewarn.store.records import Choice
from tests.support.moments import Moment

DEFER_MAX: Micros = 7 * DAY + SECOND
"""Maximum time of a deferral, rounded up to a whole second."""
DEFERRALS_MAX = 2
"""Maximum deferrals of the maintenance of a host by a tenant."""
LEAD: Micros = HOUR
"""Time before NotBefore in which nothing is deferred, or half of a shorter notice."""


def s16_deferred_maintenance_is_not_announced(moment: Moment) -> None:
    """4.8: no host is announced for a time before a tenant's latest choice allows it."""
    chosen: dict[tuple[str, str, str], Choice] = {
        (choice.request, choice.scope, choice.vm): choice
        for choice in moment.mirror.table(Choice).values()
    }
    for before, after in moment.changed():
        is_planned = before is None or before.state is OperationState.PLANNED
        if not is_planned or after.state is OperationState.PLANNED:
            continue
        if after.ended_at or after.is_emergency or after.verb is not Verb.MAINTAIN:
            continue
        for vm in after.vms:
            scope = moment.mirror.vms[vm].scope
            keys = [(after.request, scope, ""), (after.request, scope, vm)]
            choices = [chosen[key] for key in keys if key in chosen]
            if choices:
                latest = max(choices, key=lambda choice: (choice.at, choice.vm))
                why = f"4.8: {after} is announced, and deferred: {latest}"
                assert latest.until <= after.not_before, why


def s17_deferrals_withdraw(moment: Moment) -> None:
    """4.8: a deferral leaves nothing announced for a time before, unless that is near."""
    for _, choice in _made(moment):
        for operation in moment.mirror.operations.values():
            if operation.state not in WAITING_STATES or _is_near(moment, operation):
                continue
            is_due = operation.not_before < choice.until
            is_kept = is_due and _is_about(moment, choice, operation)
            assert not is_kept, f"4.8: {operation} stays announced: {choice}"


def s17_deferrals_have_limits(moment: Moment) -> None:
    """4.8: a week at most, each counted, no emergencies, and nothing that is near."""
    for before, choice in _made(moment):
        assert choice.until <= moment.now + DEFER_MAX, (
            f"4.8: more than a week: {choice}"
        )
        counted = choice.deferrals - (before.deferrals if before else 0)
        assert counted == 1, f"4.8: counted as {counted}: {choice}"
        for operation in moment.mirror.operations.values():
            if operation.request == choice.request:
                why = f"4.8: an emergency is deferred: {operation}, {choice}"
                assert not operation.is_emergency, why
        for old, new in moment.changed():
            is_withdrawn = (
                old is not None
                and old.state in WAITING_STATES
                and new.state is OperationState.CANCELLED
                and _is_about(moment, choice, old)
            )
            if old is not None and is_withdrawn:
                why = f"4.8: {old} was too near to defer it: {choice}"
                assert not _is_near(moment, old), why
                again = _count(_again(moment, old), choice.tenant)
                why = f"4.8: {again} deferrals of {old} after another: {choice}"
                assert again == _count(old, choice.tenant) + 1, why


def s17_few_deferrals(moment: Moment) -> None:
    """4.8: a tenant defers the maintenance of a host twice, by whichever VMs there."""
    for _, operation in moment.changed():
        for deferral in operation.deferrals:
            why = f"4.8: deferred {deferral.count} times: {operation}"
            assert deferral.count <= DEFERRALS_MAX, why


def _made(moment: Moment) -> Iterator[tuple[Choice | None, Choice]]:
    """Yield the deferrals of this commit, each with the choice that it replaces."""
    for change in moment.changes:
        before, after = change.before, change.after
        # One that ends now was cleared.
        if isinstance(after, Choice) and after.until > moment.now:
            assert before is None or isinstance(before, Choice)
            yield before, after


def _again(moment: Moment, withdrawn: Operation) -> Operation:
    """Return the operation that the host of a withdrawn one has instead."""
    [found] = [
        operation
        for operation in moment.mirror.operations.values()
        if (operation.request, operation.host) == (withdrawn.request, withdrawn.host)
        and operation.state is OperationState.PLANNED
    ]
    return found


def _count(operation: Operation, tenant: str) -> int:
    """Return how often a tenant has deferred an operation."""
    return sum(
        deferral.count for deferral in operation.deferrals if deferral.tenant == tenant
    )


def _is_about(moment: Moment, choice: Choice, operation: Operation) -> bool:
    if operation.request != choice.request:
        return False
    return any(
        moment.mirror.vms[vm].scope == choice.scope and choice.vm in {"", vm}
        for vm in operation.vms
    )


def _is_near(moment: Moment, operation: Operation) -> bool:
    """Return whether the rest of a notice is too short to defer what it announces."""
    notice = operation.not_before - operation.created
    return moment.now > operation.not_before - min(LEAD, notice // 2)


CHOICES = (
    s16_deferred_maintenance_is_not_announced,
    s17_deferrals_withdraw,
    s17_deferrals_have_limits,
    s17_few_deferrals,
)
"""Asked after every commit."""
