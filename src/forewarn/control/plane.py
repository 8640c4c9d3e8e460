"""The control plane: the entry point of all decisions, and their effects.

`Plane` is synchronous and used by one thread. Each request or approval is one transaction.
Timers, driver reports and checks share one as far as `rules.together` admits. Then:

1. The transaction commits, and the decision is durable. A crash before the commit leaves
   nothing, and the caller got no response.
2. The changes are published to the endpoint. After a crash before this step, the next
   start publishes everything that was committed.
3. Watchers are notified.
4. Obsolete driver calls are stopped, then new calls are made when `call_gate` lets them.
   After a crash before a call, the next start probes it.
5. The caller gets its response. Operations that waited for what just ended are checked.

Time is an argument. Nothing here knows HTTP, threads or files.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from forewarn.checks.board import NO_CHECKS, Board
from forewarn.control import retention
from forewarn.control.call_gate import OPEN, CallGate
from forewarn.control.driver_link import DriverLink
from forewarn.control.requests import approvals, clock_steps, enabling
from forewarn.control.requests.due_steps import first_steps
from forewarn.control.requests.followups import LEFT_OVER, FollowUps
from forewarn.control.rules.consent import whole_second
from forewarn.control.rules.policy import Policy
from forewarn.control.rules.sightings import Seen
from forewarn.control.transactions import batch, publishing
from forewarn.control.transactions.inquiries import Inquirer
from forewarn.control.transactions.who import CLOCK, DRIVER, Who
from forewarn.control.transactions.work import Effects, Work
from forewarn.drivers.port import Driver
from forewarn.ids import RandomIds
from forewarn.instants import Micros, sortable
from forewarn.protocol.actors import VMS, vm_actor
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.operations import CallState, Operation, OperationState
from forewarn.store import kinds, port, sequence
from forewarn.store.port import Reader, Store, Transaction, latest

T = TypeVar("T")

STEPS_PER_TURN = 4
"""Maximum transactions of one `advance`, and of the follow-ups of one request. The rest
runs in the next iterations of the control thread, which takes approvals and requests in
between. A follow-up transaction takes a few milliseconds."""

LOOKS_PER_TURN = 32
"""Maximum steps of an iteration that find nothing to do, so they need no transaction.
Each reads a few rows, which takes a few tenths of a millisecond."""

DUE_PER_ROUND = 100
"""Maximum views of one `advance`. Disabling or rendering one is little work."""

FROM_THE_START = 0, ""
"""Start of `resume`: the first state, before the first key."""

STALE_TOGETHER = 100
"""Maximum views per transaction whose documents render differently than before. After an
upgrade this can be all views, and one transaction for each would take minutes."""

_UNDER_WAY = frozenset({CallState.ISSUED, CallState.PROBING})
"""States of a call that has not timed out."""


class Listener(Protocol):
    """Receives committed changes. It must not call the plane."""

    def publish(self, publication: publishing.Publication) -> None:
        """Serve these changes from now on."""
        ...

    def changed(self, operations: Sequence[str]) -> None:
        """Notify watchers that these operations changed."""
        ...


class Plane:
    """Decides, makes durable, publishes, acts, and takes the results."""

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
        checks: Board = NO_CHECKS,
        gate: CallGate = OPEN,
    ) -> None:
        """Create the plane. Without an `inquirer`, its thread asks the driver, which must
        not block. `checkpoint` is called with a name at each place where a crash would
        leave work undone; tests crash there. A simulation passes a `not_before` that
        remembers the times that it rounded."""
        self.store, self.policy, self.checks = store, policy, checks
        self._driver = driver
        self._ids, self._listener = ids, listener
        self._checkpoint, self._not_before = checkpoint, not_before
        self._link = DriverLink(
            driver,
            inquirer=inquirer,
            store=store,
            policy=policy,
            run=lambda decide, now: self._run(DRIVER, decide, now=now),
            run_some=lambda steps, now: self._run_some(DRIVER, steps, now=now),
            checkpoint=checkpoint,
            gate=gate,
        )
        self.abilities = self._link.abilities
        self._tag = ids.short("s")
        self._term = 0
        """Term of this service at the store; 0: it has not written yet."""
        self._numbers = sequence.Numbers()
        self._spans = 0
        self._silent_from: Micros = 0
        """Since when views can be silent: the start, or the last clock step."""
        self._notices = clock_steps.NoticeClock()
        self._follow_ups = FollowUps(
            store,
            lambda decide, now: self._run(CLOCK, decide, now=now),
            lambda steps, now: self._run_some(CLOCK, steps, now=now),
        )
        self._owed_at: Micros | None = None
        self._is_turn_over: Callable[[], bool] = lambda: False
        self._is_due_first = False  # Whether follow-ups used the whole last iteration.
        self._left: tuple[int, str] | None = FROM_THE_START
        """Place of `resume`: a state in `LEFT_OVER`, and the last key; None: finished."""

    def bound_turns(self, is_over: Callable[[], bool]) -> None:
        """Leave follow-ups to the next iteration when `is_over` returns true.

        Each iteration takes at least one step, so that nothing waits indefinitely.
        """
        self._is_turn_over = is_over

    def seen(self) -> Seen:
        """Return what is seen of VMs and not recorded; any thread may call this."""
        return self._link.seen()

    # Requests

    def order(self, who: Who, decide: Callable[[Work], T], *, now: Micros) -> T:
        """Carry out one request in one transaction, and its follow-ups.

        If other follow-ups are pending, those of this request wait for the next
        iteration, so that its caller does not wait for other rollouts.

        `decide` is a verb with its arguments; it can run more than once. Raises its
        errors (RefusedError, NotFoundError) and StoreError.
        """
        is_behind = self._is_owing()
        try:
            result = self._run(who, decide, now=now)
        except HinderedError as error:
            if not who.is_dry_run:
                self.abilities.want_after(error)
            raise
        # The request is durable, so a locked store must not make it fail now. The
        # follow-ups stay pending.
        with contextlib.suppress(port.UnwrittenError):
            while self._follow_ups.unplanned and not self._is_turn_over():
                self._follow_ups.take_one(now)
            if not is_behind and not self._is_turn_over():
                self._settle(now)
        return result

    @property
    def unplanned(self) -> frozenset[str]:
        """Return durable, unanswered rollouts whose operations are not all created."""
        return self._follow_ups.unplanned

    def approve(
        self, posts: Sequence[approvals.Approval], *, now: Micros
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
        """Store when views were last requested (7.3)."""
        if seen:
            self._run(CLOCK, lambda work: enabling.note_last_seen(work, seen), now=now)

    # Time

    def read_clocks(self, *, now: Micros, monotonic: float) -> Micros:
        """Compare the wall clock with the monotonic clock; return the size of a step.

        A step moves timers, ends delays after enabling, and restarts the time without
        requests. After a crash in between, the next start limits the timers.
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
        """Start completely: `publish`, then `resume` to its end."""
        self.publish(now=now)
        while self.resume(now=now):
            pass

    def publish(self, *, now: Micros, stale: Sequence[str] | None = None) -> None:
        """Publish everything that is durable; do not ask the driver.

        Views whose document renders differently than before raise their incarnation
        first. If all but these are published already, `stale` has them.
        """
        give = self._listener.publish
        if stale is None:
            stale = self.store.read(lambda it: publishing.publish_all(it, give))
        self._silent_from = now
        for first in range(0, len(stale), STALE_TOGETHER):
            some = stale[first : first + STALE_TOGETHER]
            self._run(
                CLOCK,
                lambda work, s=some: enabling.end_all_of(work, s, until=now),
                now=now,
            )
        self._end_delays(now)

    def resume(self, *, now: Micros) -> bool:
        """Continue some work of the last process; return whether there is more.

        Timers must not run before this has finished.
        """
        if self._left is None:
            return False
        place, after = self._left
        if (place, after) == FROM_THE_START:
            # The clock of the last process can have set timers too far in the future.
            far = latest(
                self.store,
                lambda reader: clock_steps.too_far(reader, self.policy, now=now),
            )
            if far:
                self._run(CLOCK, lambda work: clock_steps.bound(work, far), now=now)
            self._follow_ups.take_unfinished()
            self._link.resume(now=now)
        state = LEFT_OVER[place]
        page = latest(
            self.store,
            lambda reader: reader.select(
                kinds.OPERATIONS_IN_STATE, state.value, after=after, limit=DUE_PER_ROUND
            ),
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
        """Run due timers; return whether there is more to do at once.

        Follow-ups of earlier work come first. If they use the whole iteration, due timers
        come first in the next one, so that neither waits for the other to end.
        """
        self._link.collect(now=now)
        self._follow_ups.run_timers(now)
        self._follow_ups.take_due(now)
        self._owe(now)
        left, is_due_first = STEPS_PER_TURN, self._is_due_first
        self._is_due_first = False
        if not is_due_first:
            left = self._settle(now)
            if left <= 0:
                self._is_due_first = True
                return True
        due = latest(
            self.store,
            lambda reader: reader.due(
                kinds.OPERATIONS_DUE, now, limit=batch.TOGETHER_MAX
            ),
        )
        if is_due_first and not due:
            left = self._settle(now)
        is_full = len(due) >= batch.TOGETHER_MAX
        while due and left > 0:
            due = due[self._take_due(due, now) :]
            left = 0 if self._is_turn_over() else self._settle(now, steps=left - 1)
        if left <= 0 or is_full or (self._is_owing() and not is_due_first):
            return True
        views = latest(
            self.store,
            lambda reader: reader.due(kinds.VIEWS_DUE, now, limit=DUE_PER_ROUND),
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
        # Old data is purged only when no other work is due.
        is_old = latest(
            self.store, lambda reader: retention.is_due(reader, self.policy, now=now)
        )
        purged = self._run(CLOCK, retention.purge, now=now) if is_old else 0
        return purged >= retention.ROWS_PER_STEP

    def next_due(self) -> Micros | None:
        """Return the time of the next timer or expected report, or None."""

        def earliest(reader: Reader) -> list[Micros]:
            instants = [
                reader.earliest(kinds.OPERATIONS_DUE),
                reader.earliest(kinds.CAMPAIGNS_DUE),
                reader.earliest(kinds.VIEWS_DUE),
                reader.earliest(kinds.VISITS_DUE),
            ]
            last_seen = reader.earliest(kinds.VIEWS_SEEN)
            if last_seen is not None:
                instants.append(
                    max(last_seen, self._silent_from) + self.policy.disable_after
                )
            return [instant for instant in instants if instant is not None]

        instants = latest(self.store, earliest)
        if self._is_owing():
            instants.append(self._owed_at or self._silent_from)
        others = self._link.next_due(), self._follow_ups.next_due()
        instants.extend(instant for instant in others if instant is not None)
        return min(instants, default=None)

    # Effects of a transaction

    def _run(self, who: Who, decide: Callable[[Work], T], *, now: Micros) -> T:
        result, effects = self._commit(who, decide, now=now)
        self._checkpoint("committed")
        self._follow(effects, now)
        return result

    def _commit(
        self, who: Who, decide: Callable[[Work], T], *, now: Micros
    ) -> tuple[T, Effects]:
        def attempt(tx: Transaction) -> tuple[T, Effects, int]:
            # A term starts with the first write of the service, in its transaction.
            term = self._term or sequence.raise_term(tx)
            work = Work(
                tx,
                now=now,
                who=who,
                policy=self.policy,
                abilities=self._link.supported(),
                driver=self._driver.kind,
                memory=self._driver.memory,
                ids=self._ids,
                next_key=lambda: self._numbers.key(term),
                next_epoch=lambda: self._numbers.epoch(term),
                span_id=self._span_id,
                notice_left=self._notices.left,
                not_before=self._not_before,
                checks=self.checks,
            )
            result = decide(work)
            return result, work.finish(), term

        result, effects, self._term = self.store.transact(attempt)
        return result, effects

    def _run_some(self, who: Who, steps: Sequence[batch.Step], *, now: Micros) -> int:
        """Take the first of some steps in one transaction; return how many it took.

        If one of them fails, the first is taken alone: none waits for one behind it.
        """
        decide = batch.first_of(steps, is_time_over=self._is_turn_over)
        try:
            taken, effects = self._commit(who, decide, now=now)
        except Exception as error:
            if isinstance(error, port.StoreError) or len(steps) == 1:
                raise
            return self._run_some(who, steps[:1], now=now)
        self._checkpoint("committed")
        self._follow(effects, now)
        return taken

    def _span_id(self, now: Micros) -> str:
        self._spans += 1
        return f"{sortable(now)}.{self._spans:09d}.{self._tag}"

    def _follow(self, effects: Effects, now: Micros) -> None:
        if effects.publication:
            self._listener.publish(effects.publication)
        if effects.changed:
            self._listener.changed(tuple(effects.changed))
        self._checkpoint("published")
        self._link.follow(effects, now, term=self._term)
        self._follow_ups.take(effects)
        self._owe(now)

    def _owe(self, now: Micros) -> None:
        """Remember since when follow-ups are pending."""
        if self._owed_at is None:
            self._owed_at = now

    def _is_owing(self) -> bool:
        """Return whether follow-ups are pending."""
        return self._link.has_more() or bool(self._follow_ups)

    def _settle(self, now: Micros, *, steps: int = STEPS_PER_TURN) -> int:
        """Take results of driver calls, and run follow-ups.

        Take at most `steps` steps with a transaction. Return the number of steps that are
        left in this iteration.
        """
        looks = LOOKS_PER_TURN
        while steps > 0 and (self._link.has_more() or self._follow_ups):
            first = self._link if self._link.has_more() else self._follow_ups
            if first.take_one(now):
                steps -= 1
            else:
                looks -= 1
            if not looks or self._is_turn_over():
                steps = 0
        if not self._is_owing():
            self._owed_at = None
        return steps

    # Timers

    def _take_due(self, due: Sequence[Operation], now: Micros) -> int:
        """Process the first operations of `due` in one transaction; return their number."""
        if steps := first_steps(due):
            return self._run_some(CLOCK, steps, now=now)
        self._link.ask_after(due[0], late=True, now=now)
        return 1

    def _disable_silent(self, now: Micros) -> int:
        """Disable views without requests for `disable_after` (7.3).

        The time before the start of this process does not count, because requests were
        not possible. Neither does the time before a clock step.
        """
        since = now - self.policy.disable_after
        if since < self._silent_from:
            return 0
        silent = latest(
            self.store,
            lambda reader: reader.due(kinds.VIEWS_SEEN, since, limit=DUE_PER_ROUND),
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
        """Return whether a view can have been without requests for long enough."""
        since = now - self.policy.disable_after
        if since < self._silent_from:
            return False
        last_seen = latest(self.store, lambda reader: reader.earliest(kinds.VIEWS_SEEN))
        return last_seen is not None and last_seen <= since

    def _end_delays(self, now: Micros) -> None:
        """End all delays after enabling (7.1), one page per transaction."""
        while latest(self.store, lambda reader: reader.earliest(kinds.VIEWS_DUE)):
            self._run(CLOCK, enabling.end_all_delays, now=now)
