"""What must hold of the choices of tenants: later, or now (4.8).

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
"""Maximum deferrals of a VM in a request."""
LEAD: Micros = HOUR
"""Time before NotBefore in which nothing is deferred, or half of a shorter notice."""


def s16_deferred_maintenance_is_not_announced(moment: Moment) -> None:
    """4.8: no host is announced for a time before a tenant's latest choice allows it."""
    chosen: dict[tuple[str, str, str], Choice] = {
        (each.request, each.scope, each.vm): each
        for each in moment.mirror.table(Choice).values()
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
            made = [chosen[key] for key in keys if key in chosen]
            if made:
                latest = max(made, key=lambda each: (each.at, each.vm))
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
    """4.8: a week at most, twice a request, no emergencies, and nothing that is near."""
    for before, choice in _made(moment):
        assert choice.until <= moment.now + DEFER_MAX, (
            f"4.8: more than a week: {choice}"
        )
        counted = choice.deferrals - (before.deferrals if before else 0)
        assert counted == 1, f"4.8: counted as {counted}: {choice}"
        for times in _deferrals(moment, choice):
            assert times <= DEFERRALS_MAX, f"4.8: deferred {times} times: {choice}"
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


def _made(moment: Moment) -> Iterator[tuple[Choice | None, Choice]]:
    """Yield the deferrals of this commit, each with the choice that it replaces."""
    for change in moment.changes:
        before, after = change.before, change.after
        if isinstance(after, Choice) and after.until:
            assert before is None or isinstance(before, Choice)
            yield before, after


def _deferrals(moment: Moment, choice: Choice) -> Iterator[int]:
    """Yield how often each VM of a choice was deferred: itself, or with its scope."""
    of_scope, of_vms = 0, [0]
    for each in moment.mirror.table(Choice).values():
        if (each.request, each.scope) != (choice.request, choice.scope):
            continue
        if not each.vm:
            of_scope = each.deferrals
        elif choice.vm in {"", each.vm}:
            of_vms.append(each.deferrals)
    for times in of_vms:
        yield of_scope + times


def _is_about(moment: Moment, choice: Choice, operation: Operation) -> bool:
    if operation.request != choice.request:
        return False
    return any(
        moment.mirror.vms[vm].scope == choice.scope and choice.vm in {"", vm}
        for vm in operation.vms
    )


def _is_near(moment: Moment, operation: Operation) -> bool:
    """Tell whether the rest of a notice is too short to defer what it announces."""
    notice = operation.not_before - operation.created
    return moment.now > operation.not_before - min(LEAD, notice // 2)


CHOICES = (
    s16_deferred_maintenance_is_not_announced,
    s17_deferrals_withdraw,
    s17_deferrals_have_limits,
)
"""Asked after every commit."""
