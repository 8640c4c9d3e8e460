"""A jump in a simulation that runs by the wall clock.

NotBefore must stay true to the clocks of those who read it. So a jump of ten
minutes leaves the clock alone and brings everything that is pending ten minutes
nearer: operations, their events, the driver's work, the silence of views. Documents
that show it change, and so their incarnation rises (clause 2.10).
A pause is the same in the other direction: what waited is put off by its length.
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
"""Maximum number of operations whose notices are remembered, some 200 bytes each. The
notice of an older operation ends at its NotBefore."""


class NoticeEnds:
    """The ends of notices by operation, before they are rounded up to NotBefore.

    NotBefore is a whole second (clause 2.7), up to a second after the end of the notice.
    Somebody who lets the length of a notice pass at once expects the notice to be over,
    at whatever part of a second the order was given. It is memory of a simulation only.
    """

    def __init__(self) -> None:
        """Know none."""
        self._ends: OrderedDict[str, Micros] = OrderedDict()

    def not_before(self, operation_id: str, ends: Micros) -> Micros:
        """Return NotBefore for a notice that ends at `ends`, and remember the end.

        The first end stays for as long as NotBefore is the same.
        """
        not_before = round_up_to_second(ends)
        known = self._ends.get(operation_id)
        if known is None or round_up_to_second(known) != not_before:
            self._ends[operation_id] = ends
            if len(self._ends) > ENDS_MAX:
                self._ends.popitem(last=False)
        return not_before

    def move(self, operation_id: str, ends: Micros) -> None:
        """Remember that a notice ends at another instant."""
        self._ends[operation_id] = ends

    def of(self, operation: Operation) -> Micros:
        """Return the end of an operation's notice; NotBefore if no end is known."""
        ends = self._ends.get(operation.operation_id, operation.not_before)
        is_known = round_up_to_second(ends) == operation.not_before
        return ends if is_known else operation.not_before


def bring_nearer(work: Work, by: Micros, ends: NoticeEnds) -> None:
    """Bring everything that is pending nearer by `by`; a negative one puts it off.

    `ends` has the ends of notices, and is changed as they are: NotBefore is rounded
    anew from them, since a rest of a second would be lost in each jump.
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
    """Bring one operation's next step nearer, and its events' NotBefore with it.

    `ends` is the end of its notice. Nothing becomes due before this instant: what
    should have been is due now.
    """
    waits = operation.state in WAITING_STATES
    not_before = operation.not_before
    if waits:
        nearer = ends - by
        # What is due now is due at a second that has begun, and need not wait for
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
        work.tell_view(work.tx.replace(view, moved))


def _nearer(instant: Micros, by: Micros, *, now: Micros) -> Micros:
    return max(now, instant - by)
