"""The control plane: the door to every decision, and what follows from it.

`Plane` is synchronous and used by one thread. Each order, approval, timer and
driver report is one transaction, and then, in this order:

1. The transaction commits: the decision is durable. A crash before it leaves
   nothing, and whoever asked was not answered.
2. What changed is published to the endpoint. A crash before it is healed by the
   next start, which publishes everything as it was committed.
3. Watchers are told.
4. The driver is told of calls that lost their meaning, then called. A crash
   before the call is healed by the next start, which probes it.
5. Only then does the caller get its answer, and operations that were waiting
   for what has just ended are looked at, each in a transaction of its own.

Time is an argument. Nothing here knows HTTP, threads or files.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from forewarn.control import retention
from forewarn.control.driver_link import DriverLink
from forewarn.control.execution import ending, release
from forewarn.control.requests import (
    admission,
    approvals,
    clock_steps,
    enabling,
    outcome,
    rollouts,
)
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.followups import LEFT_OVER, FollowUps
from forewarn.control.rules.consent import whole_second
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions import publishing
from forewarn.control.transactions.inquiries import Inquirer
from forewarn.control.transactions.publishing import Publication
from forewarn.control.transactions.work import (
    CLOCK,
    DRIVER,
    Effects,
    Who,
    Work,
)
from forewarn.drivers.port import Driver
from forewarn.ids import RandomIds
from forewarn.instants import Micros
from forewarn.protocol.actors import VMS, vm_actor
from forewarn.protocol.operations import (
    CallState,
    Operation,
    OperationState,
)
from forewarn.store import kinds, sequence
from forewarn.store.port import ConflictError, Reader, Store, Transaction

T = TypeVar("T")

STEPS_PER_TURN = 4
"""Maximum transactions of one `advance`, and of what follows from one order. The rest
is done in the next turns of the control thread, between which approvals and orders of
others are taken. A transaction of a follow-up takes some milliseconds."""

LOOKS_PER_TURN = 32
"""Maximum steps of a turn that found nothing to do, and so had no transaction. Each
reads a few rows, which takes some tenths of a millisecond."""

DUE_PER_ROUND = 100
"""Views of one `advance`: they are disabled or rendered with little work."""

FROM_THE_START = 0, ""
"""Where `resume` begins: the first state, and before the first key."""

STALE_TOGETHER = 100
"""Views in one transaction whose documents render otherwise than they were served:
after an upgrade it may be all of them, and a transaction for each takes minutes."""

_UNDER_WAY = frozenset({CallState.ISSUED, CallState.PROBING})
"""States of a call whose time has not passed."""


class Listener(Protocol):
    """Who hears what was committed. It must not call back into the plane."""

    def publish(self, publication: Publication) -> None:
        """Serve what changed from now on."""
        ...

    def changed(self, operations: Sequence[str]) -> None:
        """Tell watchers that these operations changed."""
        ...


class Plane:
    """Decides, makes durable, tells, acts, and feeds the result back."""

    def __init__(
        self,
        *,
        store: Store,
        driver: Driver,
        policy: Policy,
        ids: RandomIds,
        listener: Listener,
        checkpoint: Callable[[str], None] = lambda _place: None,
        inquirer: Inquirer | None = None,
        not_before: Callable[[str, Micros], Micros] = whole_second,
    ) -> None:
        """Join the parts. Without an `inquirer` the driver is asked in the plane's
        own thread, which must not wait. `checkpoint` is called at each place where a crash
        would leave something undone, by its name; tests crash there. A simulation gives
        a `not_before` that remembers what it has rounded."""
        self.store = store
        self.policy = policy
        self._driver = driver
        self._ids = ids
        self._listener = listener
        self._checkpoint = checkpoint
        self._not_before = not_before
        self._link = DriverLink(
            driver,
            inquirer=inquirer,
            store=store,
            run=lambda decide, now: self._run(DRIVER, decide, now=now),
            checkpoint=checkpoint,
        )
        self._tag = ids.short("s")
        self._term = 0
        """Of this service at the store; 0: it has not written yet."""
        self._number = 0
        """Of the last key of this term."""
        self._spans = 0
        self._silent_from: Micros = 0
        """Since when silence counts: the start, or the last step of the clock."""
        self._notices = clock_steps.NoticeClock()
        self._follow_ups = FollowUps(
            store, lambda decide, now: self._run(CLOCK, decide, now=now)
        )
        self._owed_at: Micros | None = None
        self._is_turn_over: Callable[[], bool] = lambda: False
        self._is_due_first = False
        """What follows took the whole last turn."""
        self._left: tuple[int, str] | None = FROM_THE_START
        """What `resume` goes on with: the place of a state in `LEFT_OVER`, and the last
        key that was seen."""

    def bound_turns(self, is_over: Callable[[], bool]) -> None:
        """Leave what follows to the next turn when `is_over` says so.

        Each turn takes at least one step, so that nothing waits for ever.
        """
        self._is_turn_over = is_over

    # Orders

    def order(self, who: Who, decide: Callable[[Work], T], *, now: Micros) -> T:
        """Carry out one order in one transaction, and what follows from it.

        What follows waits for the next turn where something else is owed already: who
        orders does not wait for the rollouts of others.

        `decide` is a verb with its arguments; it may be run more than once.
        Raises what it raises (RefusedError, NotFoundError), and StoreError.
        """
        is_behind = self._is_owing()
        result = self._run(who, decide, now=now)
        # The order is durable: that another program holds the store now must not deny
        # it. What follows stays owed.
        with contextlib.suppress(ConflictError):
            while self._follow_ups.unplanned and not self._is_turn_over():
                self._follow_ups.take_one(now)
            if not is_behind and not self._is_turn_over():
                self._settle(now)
        return result

    @property
    def unplanned(self) -> frozenset[str]:
        """Return the rollouts whose orders are durable, and not answered yet.

        The operations of some of their hosts are not made. They are in later turns.
        """
        return self._follow_ups.unplanned

    def approve(
        self, posts: Sequence[Approval], *, now: Micros
    ) -> tuple[str | None, ...]:
        """Apply the POSTs of VMs in one transaction; None means 200 (3.2, 3.3)."""
        return self.order(
            Who(actor=VMS),
            lambda work: approvals.approve_together(work, posts),
            now=now,
        )

    def enable(self, vm: str, *, now: Micros) -> None:
        """Enable the scope of a VM that asks for its document (7.1)."""
        self.order(
            Who(actor=vm_actor(vm)), lambda work: enabling.enable(work, vm), now=now
        )

    def note_last_seen(self, seen: Mapping[str, Micros], *, now: Micros) -> None:
        """Take over when views were last asked for (7.3)."""
        if seen:
            self._run(CLOCK, lambda work: enabling.note_last_seen(work, seen), now=now)

    # Time

    def read_clocks(self, *, now: Micros, monotonic: float) -> Micros:
        """Compare the wall clock with the monotonic one; return the size of a step.

        A step moves timers, ends delays of enablings, and lets silence count from now.
        After a crash in between, the next start bounds the timers.
        """
        step = self._notices.read(now=now, monotonic=monotonic)
        if step:
            under_way = self.store.read(clock_steps.noticed)
            self._run(CLOCK, lambda work: clock_steps.move_timers(work, step), now=now)
            self._notices.take_step(step, under_way)
            self._silent_from = now
            self._end_delays(now)
        return step

    def start(self, *, now: Micros) -> None:
        """Begin, or begin again, as a whole: `publish`, then `resume` to its end."""
        self.publish(now=now)
        while self.resume(now=now):
            pass

    def publish(self, *, now: Micros) -> None:
        """Publish everything as it is durable; ask no driver.

        Views whose document renders otherwise than it was served raise their
        incarnation first.
        """
        self._silent_from = now
        publish = self._listener.publish
        stale = self.store.read(lambda reader: publishing.publish_all(reader, publish))
        for first in range(0, len(stale), STALE_TOGETHER):
            some = stale[first : first + STALE_TOGETHER]
            self._run(
                CLOCK, lambda work, s=some: _end_delays_of(work, s, until=now), now=now
            )
        self._end_delays(now)

    def resume(self, *, now: Micros) -> bool:
        """Go on with some of what the last process left; tell whether there is more.

        Timers must not run before the end of this.
        """
        if self._left is None:
            return False
        place, after = self._left
        if (place, after) == FROM_THE_START:
            # The clock of the last process may have set timers too far away.
            far = self.store.read(
                lambda reader: clock_steps.too_far(reader, self.policy, now=now)
            )
            if far:
                self._run(CLOCK, lambda work: clock_steps.bound(work, far), now=now)
            self._follow_ups.take_unplanned()
        state = LEFT_OVER[place]
        page = self.store.read(
            lambda reader: reader.select(
                kinds.OPERATIONS_IN_STATE, state.value, after=after, limit=DUE_PER_ROUND
            )
        )
        if state is OperationState.IMPACTING:
            for operation in page:
                late = operation.call_state is CallState.OVERDUE
                if late or operation.call_state in _UNDER_WAY:
                    self._link.ask_after(operation, late=late, now=now)
        else:
            self._follow_ups.take_left_over(page, now)
            self._owe(now)
        self._settle(now)
        if len(page) >= DUE_PER_ROUND:
            self._left = place, page[-1].operation_id
        else:
            self._left = (place + 1, "") if place + 1 < len(LEFT_OVER) else None
        return self._left is not None

    def advance(self, *, now: Micros) -> bool:
        """Do what is due; tell whether there is more to do at once.

        What follows from what was done comes first. If that takes the whole turn, what
        is due comes first in the next, so that neither waits for the end of the other.
        """
        self._link.collect(now=now)
        self._owe(now)
        left, is_due_first = STEPS_PER_TURN, self._is_due_first
        self._is_due_first = False
        if not is_due_first:
            left = self._settle(now)
            if left <= 0:
                self._is_due_first = True
                return True
        due = self.store.read(
            lambda reader: reader.due(kinds.OPERATIONS_DUE, now, limit=STEPS_PER_TURN)
        )
        if is_due_first and not due:
            left = self._settle(now)
        for operation in due:
            if left <= 0:
                break
            self._operation_due(operation, now)
            left = 0 if self._is_turn_over() else self._settle(now, steps=left - 1)
        if left <= 0 or (self._is_owing() and not is_due_first):
            return True
        views = self.store.read(
            lambda reader: reader.due(kinds.VIEWS_DUE, now, limit=DUE_PER_ROUND)
        )
        for view in views:
            self._run(
                CLOCK,
                lambda work, v=view.view_id: enabling.end_delays(work, v, until=now),
                now=now,
            )
            if self._is_turn_over():
                return True
        silent = self._disable_silent(now)
        if max(len(views), silent) >= DUE_PER_ROUND or self._is_owing():
            return True
        # Only who is behind with what is due leaves what is old for later.
        is_old = self.store.read(
            lambda reader: retention.is_due(reader, self.policy, now=now)
        )
        purged = self._run(CLOCK, retention.purge, now=now) if is_old else 0
        return purged >= retention.ROWS_PER_STEP

    def next_due(self) -> Micros | None:
        """Return the instant of the next timer or expected report, or None."""

        def earliest(reader: Reader) -> list[Micros]:
            found = [
                reader.earliest(kinds.OPERATIONS_DUE),
                reader.earliest(kinds.VIEWS_DUE),
            ]
            seen = reader.earliest(kinds.VIEWS_SEEN)
            if seen is not None:
                found.append(max(seen, self._silent_from) + self.policy.disable_after)
            return [instant for instant in found if instant is not None]

        instants = self.store.read(earliest)
        if self._is_owing():
            instants.append(self._owed_at or self._silent_from)
        report = self._driver.next_report_at()
        if report is not None:
            instants.append(report)
        return min(instants, default=None)

    # What follows from a transaction

    def _run(self, who: Who, decide: Callable[[Work], T], *, now: Micros) -> T:
        def attempt(tx: Transaction) -> tuple[T, Effects, int]:
            # A term begins with the first write of the service, in its transaction.
            term = self._term or sequence.raise_term(tx)
            work = Work(
                tx,
                now=now,
                who=who,
                policy=self.policy,
                actions=self._driver.actions(),
                driver=self._driver.kind,
                memory=self._driver.memory,
                ids=self._ids,
                next_key=lambda: self._next_key(term),
                span_id=self._span_id,
                notice_left=self._notices.left,
                not_before=self._not_before,
            )
            result = decide(work)
            return result, work.finish(), term

        result, effects, self._term = self.store.transact(attempt)
        self._checkpoint("committed")
        self._follow(effects, now)
        return result

    def _next_key(self, term: int) -> str:
        self._number += 1
        return sequence.key_of(term, self._number)

    def _span_id(self, now: Micros) -> str:
        self._spans += 1
        return f"{now:017d}.{self._spans:09d}.{self._tag}"

    def _follow(self, effects: Effects, now: Micros) -> None:
        if effects.publication:
            self._listener.publish(effects.publication)
        if effects.changed:
            self._listener.changed(tuple(effects.changed))
        self._checkpoint("published")
        self._link.follow(effects, now)
        self._follow_ups.take(effects)
        self._owe(now)

    def _owe(self, now: Micros) -> None:
        """Remember since when something is owed that is not done."""
        if self._owed_at is None:
            self._owed_at = now

    def _is_owing(self) -> bool:
        """Tell whether something follows from what was committed, and is not done."""
        return self._link.has_more() or bool(self._follow_ups)

    def _settle(self, now: Micros, *, steps: int = STEPS_PER_TURN) -> int:
        """Feed back what came of the calls, and do what follows.

        Take at most `steps` steps with a transaction, and return how many are left in
        this turn.
        """
        looks = LOOKS_PER_TURN
        while steps > 0 and (self._link.has_more() or self._follow_ups):
            if self._link.take_one(now) or self._follow_ups.take_one(now):
                steps -= 1
            else:
                looks -= 1
            if not looks or self._is_turn_over():
                steps = 0
        if not self._is_owing():
            self._owed_at = None
        return steps

    # Timers

    def _operation_due(self, operation: Operation, now: Micros) -> None:
        operation_id = operation.operation_id
        state = operation.state
        is_held_long = operation.routine and now >= release.hold_ends(
            operation, self.policy
        )
        if state is OperationState.PLANNED:
            self._run(
                CLOCK, lambda work: rollouts.waited_long(work, operation_id), now=now
            )
        elif state is OperationState.READY and is_held_long:
            self._run(
                CLOCK, lambda w: admission.ready_or_again(w, operation_id), now=now
            )
        elif state in {OperationState.ANNOUNCED, OperationState.READY}:
            self._follow_ups.recheck(operation_id, now)
        elif state is OperationState.RECOVERING:
            self._run(CLOCK, lambda work: ending.recovered(work, operation_id), now=now)
        elif operation.call_state is CallState.RETRY:
            self._run(
                CLOCK, lambda work: outcome.call_again(work, operation_id), now=now
            )
        else:
            self._link.ask_after(operation, late=True, now=now)

    def _disable_silent(self, now: Micros) -> int:
        """Disable views that nobody asked for long enough (7.3).

        The time before this process began does not count as silence: nobody
        could ask then. Nor does the time before a step of the clock.
        """
        since = now - self.policy.disable_after
        if since < self._silent_from:
            return 0
        silent = self.store.read(
            lambda reader: reader.due(kinds.VIEWS_SEEN, since, limit=DUE_PER_ROUND)
        )
        for key in dict.fromkeys(view.enabling for view in silent):
            self._run(
                CLOCK,
                lambda work, k=key: enabling.disable_if_silent(
                    work, k, silent_since=since
                ),
                now=now,
            )
            if self._is_turn_over():
                return DUE_PER_ROUND
        return len(silent)

    def is_silence_due(self, *, now: Micros) -> bool:
        """Tell whether a view may have been silent long enough to be disabled."""
        since = now - self.policy.disable_after
        if since < self._silent_from:
            return False
        seen = self.store.read(lambda reader: reader.earliest(kinds.VIEWS_SEEN))
        return seen is not None and seen <= since

    def _end_delays(self, now: Micros) -> None:
        """End every delay of an enabling (7.1), a page in each transaction."""
        while self.store.read(lambda reader: reader.earliest(kinds.VIEWS_DUE)):
            self._run(CLOCK, enabling.end_all_delays, now=now)


def _end_delays_of(work: Work, view_ids: Sequence[str], *, until: Micros) -> None:
    for view_id in view_ids:
        enabling.end_delays(work, view_id, until=until)
