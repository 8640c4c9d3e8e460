"""Jumps in a simulation on the wall clock.

NotBefore must agree with the clocks of clients. So a jump of ten minutes does not change
the clock. It brings everything pending ten minutes nearer: operations, their events, the
driver's work, and the last-seen times of views. Documents that show a new NotBefore
change, and their incarnation rises (clause 2.10). A pause is the opposite: everything
pending is postponed by its length.
"""

from collections import OrderedDict
from dataclasses import replace

from forewarn.control.transactions.work import Work
from forewarn.instants import SECOND, Micros, round_up_to_second
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import WAITING_STATES, Operation
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import every

ENDS_MAX = 10_000
"""Maximum number of operations whose notice ends are stored, some 200 bytes each. The
notice of an older operation ends at its NotBefore."""


class NoticeEnds:
    """The ends of notices by operation, before they are rounded up to NotBefore.

    NotBefore is a full second (clause 2.7), up to a second after the end of the notice. A
    test that lets the length of a notice pass at once expects the notice to be over,
    whatever the fraction of a second. These values exist in a simulation only.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._ends: OrderedDict[str, Micros] = OrderedDict()

    def not_before(self, operation_id: str, ends: Micros) -> Micros:
        """Return NotBefore for a notice that ends at `ends`, and store the end.

        The first end is kept while NotBefore is the same.
        """
        not_before = round_up_to_second(ends)
        known = self._ends.get(operation_id)
        if known is None or round_up_to_second(known) != not_before:
            self._ends[operation_id] = ends
            if len(self._ends) > ENDS_MAX:
                self._ends.popitem(last=False)
        return not_before

    def move(self, operation_id: str, ends: Micros) -> None:
        """Store a new end of a notice."""
        self._ends[operation_id] = ends

    def of(self, operation: Operation) -> Micros:
        """Return the end of an operation's notice, or NotBefore if it is not stored."""
        ends = self._ends.get(operation.operation_id, operation.not_before)
        is_known = round_up_to_second(ends) == operation.not_before
        return ends if is_known else operation.not_before


def bring_nearer(work: Work, by: Micros, ends: NoticeEnds) -> None:
    """Bring everything pending nearer by `by`; a negative value postpones it.

    `ends` has the ends of notices and is updated. NotBefore is rounded from them each
    time, because rounding NotBefore again would lose a fraction of a second per jump.
    """
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS)):
        bring_operation_nearer(work, operation, by, ends=ends.of(operation))
        if operation.state in WAITING_STATES:
            ends.move(operation.operation_id, ends.of(operation) - by)
    for view in list(every(work.tx, kinds.ALL_VIEWS)):
        _bring_view_nearer(work, view, by)


def bring_operation_nearer(
    work: Work, operation: Operation, by: Micros, *, ends: Micros
) -> None:
    """Bring the next step of one operation and the NotBefore of its events nearer.

    `ends` is the end of its notice. Nothing becomes due in the past: it is due now
    instead.
    """
    waits = operation.state in WAITING_STATES
    not_before = operation.not_before
    if waits:
        nearer = ends - by
        # If it is due now, use the current full second, so that it does not wait for
        # the next one.
        not_before = (
            round_up_to_second(nearer)
            if nearer > work.now
            else work.now - work.now % SECOND
        )
    due_at = operation.due_at
    if due_at:
        due_at = (
            not_before
            if waits and due_at == operation.not_before
            else _nearer(due_at, by, now=work.now)
        )
    work.save_operation(
        operation, replace(operation, not_before=not_before, due_at=due_at)
    )
    if not_before == operation.not_before:
        return
    for event in work.events_of(operation):
        if event.status is EventStatus.SCHEDULED:
            work.save_event(event, replace(event, not_before=not_before))


def _bring_view_nearer(work: Work, view: View, by: Micros) -> None:
    moved = replace(
        view,
        last_seen=max(1, view.last_seen - by) if view.last_seen else 0,
        ready_at=_nearer(view.ready_at, by, now=work.now) if view.ready_at else 0,
        events_from=(
            _nearer(view.events_from, by, now=work.now) if view.events_from else 0
        ),
        due_at=_nearer(view.due_at, by, now=work.now) if view.due_at else 0,
    )
    if moved != view:
        work.publish_view(work.tx.replace(view, moved))


def _nearer(instant: Micros, by: Micros, *, now: Micros) -> Micros:
    return max(now, instant - by)
