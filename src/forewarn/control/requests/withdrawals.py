"""Withdraw all announced work that the brake or a blackout stops, in pages.

Each page is one transaction. Until its page, the brake or the blackout holds the work. A
page decides from the store alone, so after a crash the next start of the service begins
again with the first page.
"""

from dataclasses import dataclass, replace

from forewarn.control.execution.withdrawal import withdraw
from forewarn.control.rules import wide_blackouts
from forewarn.control.transactions.work import Work
from forewarn.protocol.notes import WithdrawnByBrake, WithdrawnForBlackout
from forewarn.protocol.operations import (
    WAITING_STATES,
    Operation,
    OperationState,
)
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.store.records import BRAKE_KEY, Brake

WITHDRAWN_STATES = (OperationState.ANNOUNCED, OperationState.READY)
"""States of announced operations, in the order in which an operation passes them: none is
missed between two pages."""

WITHDRAWN_MAX = 25
"""Maximum operations that one transaction withdraws, so that approvals and requests do not
wait for long."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of announced operations."""

    state: int = 0
    """Place in `WITHDRAWN_STATES`."""
    after: str = ""
    """The last operation of the previous page."""


def is_needed(reader: Reader) -> bool:
    """Return whether something withdraws announced work now."""
    brake = reader.get(Brake, BRAKE_KEY)
    return (brake is not None and brake.withdraws) or bool(
        reader.select(kinds.ALL_BLACKOUTS, limit=1)
    )


def withdraw_page(work: Work, page: Page) -> Page | None:
    """Withdraw a page of announced planned work; return the next page, or None.

    Nothing is withdrawn after the brake was taken off and all blackouts were removed.
    """
    if not is_needed(work.tx):
        return None
    operations = work.tx.select(
        kinds.OPERATIONS_IN_STATE,
        WITHDRAWN_STATES[page.state].value,
        after=page.after,
        limit=WITHDRAWN_MAX,
    )
    stopped = [
        (operation, note)
        for operation in operations
        if (note := why_withdrawn(work, operation)) is not None
    ]
    work.lock_scopes(scope for operation, _ in stopped for scope in operation.scopes)
    for member, note in stopped:
        withdraw(work, work.operation(member.operation_id), note)
    if len(operations) == WITHDRAWN_MAX:
        return replace(page, after=operations[-1].operation_id)
    following = page.state + 1
    return Page(state=following) if following < len(WITHDRAWN_STATES) else None


def why_withdrawn(
    work: Work, operation: Operation
) -> WithdrawnByBrake | WithdrawnForBlackout | None:
    """Return why an announced operation is withdrawn; None: it is not.

    A campaign that the brake halts withdraws its own hosts, and an operator resumes it. A
    blackout withdraws hosts of rollouts, which are planned again after it. It holds OS
    upgrades and reimages, which only a request can repeat.
    """
    if operation.verb not in PLANNED_VERBS or operation.state not in WAITING_STATES:
        return None
    request = work.request(operation.request)
    brake = work.tx.get(Brake, BRAKE_KEY)
    if brake is not None and brake.withdraws and not request.campaign:
        return WithdrawnByBrake()
    if not request.at_once:
        return None
    for blocker in wide_blackouts.stopped_by(work.tx, operation, now=work.now):
        return WithdrawnForBlackout(blackout=blocker.blackout)
    return None


def withdraw_if_stopped(work: Work, operation: Operation) -> bool:
    """Withdraw a released operation that a blackout has overtaken; return whether it was."""
    note = why_withdrawn(work, operation)
    if not isinstance(note, WithdrawnForBlackout):
        return False
    work.lock_scopes(operation.scopes)
    withdraw(work, operation, note)
    return True
