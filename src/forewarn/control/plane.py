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

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from forewarn.control import (
    approvals,
    calls,
    consent,
    enabling,
    ending,
    obstacles,
    outcome,
    publishing,
    release,
    renotice,
    retention,
    telling,
)
from forewarn.control.approvals import Approval
from forewarn.control.messages import Publication
from forewarn.control.policy import Policy
from forewarn.control.work import (
    CLOCK,
    DRIVER,
    Effects,
    Who,
    Work,
)
from forewarn.drivers.port import (
    Driver,
    DriverError,
    OutcomeUnknownError,
    ProbeState,
    Report,
)
from forewarn.ids import Ids
from forewarn.instants import Micros
from forewarn.protocol.operations import (
    CallState,
    Operation,
    OperationState,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, Transaction, every

T = TypeVar("T")

DUE_PER_ROUND = 100
"""Timers of one `advance`: few enough that an approval never waits long."""


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
        ids: Ids,
        listener: Listener,
        checkpoint: Callable[[str], None] = lambda _place: None,
    ) -> None:
        """Join the parts. `checkpoint` is called at each place where a crash
        would leave something undone, by its name; tests crash there."""
        self.store = store
        self.policy = policy
        self._driver = driver
        self._ids = ids
        self._listener = listener
        self._checkpoint = checkpoint
        self._tag = ids.short("s")
        self._entries = 0
        self._started_at: Micros = 0
        self._told_at: Micros = 0
        self._reports: deque[Report] = deque()
        self._unmade: deque[tuple[str, int, str]] = deque()
        self._unknown: deque[tuple[str, int, str]] = deque()
        self._revisits: deque[str] = deque()
        self._freed: deque[str] = deque()

    # Orders

    def order(self, who: Who, decide: Callable[[Work], T], *, now: Micros) -> T:
        """Carry out one order in one transaction, and what follows from it.

        `decide` is a verb with its arguments; it may be run more than once.
        Raises what it raises (RefusedError, NotFoundError), and StoreError.
        """
        result = self._run(who, decide, now=now)
        self._settle(now)
        return result

    def approve(
        self, posts: Sequence[Approval], *, now: Micros
    ) -> tuple[str | None, ...]:
        """Apply the POSTs of VMs in one transaction; None means 200 (3.2, 3.3)."""
        return self.order(
            Who(actor="vm"),
            lambda work: approvals.approve_together(work, posts),
            now=now,
        )

    def enable(self, vm: str, *, now: Micros) -> None:
        """Enable the scope of a VM that asks for its document (7.1)."""
        self.order(
            Who(actor=f"vm {vm}"), lambda work: enabling.enable(work, vm), now=now
        )

    def note_sightings(self, seen: Mapping[str, Micros], *, now: Micros) -> None:
        """Take over when views were last asked for (7.3)."""
        if seen:
            self._run(CLOCK, lambda work: enabling.note_sightings(work, seen), now=now)

    # Time

    def start(self, *, now: Micros) -> None:
        """Begin, or begin again: publish everything, and ask after driver calls.

        Views whose document renders otherwise than it was served raise their
        incarnation first.
        """
        self._started_at = now
        if self.policy.subscribers:
            self._told_at = self.store.read(
                lambda reader: telling.first_free(reader, now=now)
            )
        publish = self._listener.publish
        stale = self.store.read(
            lambda reader: publishing.publish_all(reader, publish, now=now)
        )
        for view_id in stale:
            self._run(
                CLOCK, lambda work, v=view_id: enabling.show_events(work, v), now=now
            )
        impacting = self.store.read(
            lambda reader: list(
                every(
                    reader,
                    kinds.OPERATIONS_IN_STATE,
                    OperationState.IMPACTING.value,
                )
            )
        )
        for operation in impacting:
            if operation.call_state is CallState.ISSUED:
                self._probe(operation, late=False, now=now)
        for operation_id in self.store.read(lambda reader: _unwoken(reader, now)):
            self._look_again(operation_id, now)
        self._settle(now)

    def advance(self, *, now: Micros) -> bool:
        """Do what is due; tell whether there is more to do at once."""
        self._reports.extend(self._driver.reports(now=now))
        self._settle(now)
        due = self.store.read(
            lambda reader: reader.due(kinds.OPERATIONS_DUE, now, limit=DUE_PER_ROUND)
        )
        for operation in due:
            self._operation_due(operation, now)
            self._settle(now)
        views = self.store.read(
            lambda reader: reader.due(kinds.VIEWS_DUE, now, limit=DUE_PER_ROUND)
        )
        for view in views:
            self._run(
                CLOCK,
                lambda work, v=view.view_id: enabling.show_events(work, v),
                now=now,
            )
        silent = self._disable_silent(now)
        if max(len(due), len(views), silent) >= DUE_PER_ROUND:
            return True
        # Only who is behind with what is due leaves what is old for later.
        return self._purge(now) >= retention.ROWS_PER_STEP

    def next_due(self) -> Micros | None:
        """Return the instant of the next timer or expected report, or None."""

        def earliest(reader: Reader) -> list[Micros]:
            found = [
                reader.earliest(kinds.OPERATIONS_DUE),
                reader.earliest(kinds.VIEWS_DUE),
            ]
            seen = reader.earliest(kinds.VIEWS_SEEN)
            if seen is not None:
                found.append(max(seen, self._started_at) + self.policy.disable_after)
            return [instant for instant in found if instant is not None]

        instants = self.store.read(earliest)
        report = self._driver.next_report_at()
        if report is not None:
            instants.append(report)
        return min(instants, default=None)

    # What follows from a transaction

    def _run(self, who: Who, decide: Callable[[Work], T], *, now: Micros) -> T:
        def attempt(tx: Transaction) -> tuple[T, Effects]:
            work = Work(
                tx,
                now=now,
                who=who,
                policy=self.policy,
                actions=self._driver.actions(),
                driver=self._driver.kind,
                ids=self._ids,
                entry_id=self._entry_id,
                message_id=self._message_id,
            )
            result = decide(work)
            return result, work.finish()

        result, effects = self.store.transact(attempt)
        self._checkpoint("committed")
        self._follow(effects, now)
        return result

    def _entry_id(self, now: Micros) -> str:
        self._entries += 1
        return f"{now:017d}.{self._entries:09d}.{self._tag}"

    def _message_id(self, now: Micros) -> str:
        """As an entry's, but never before another, however the clock is set."""
        self._told_at = max(self._told_at, now)
        return self._entry_id(self._told_at)

    def _follow(self, effects: Effects, now: Micros) -> None:
        if effects.publication:
            self._listener.publish(effects.publication)
        if effects.changed:
            self._listener.changed(effects.changed)
        self._checkpoint("published")
        for operation_id, generation in effects.aborts:
            self._driver.abort(operation_id, generation, now=now)
        for call in effects.calls:
            try:
                self._driver.begin(call, now=now)
            except OutcomeUnknownError as error:
                self._unknown.append(
                    (call.operation_id, call.generation, error.message)
                )
            except DriverError as error:
                self._unmade.append((call.operation_id, call.generation, error.message))
            self._checkpoint("called")
        self._revisits.extend(effects.revisits)
        self._freed.extend(effects.freed_scopes)

    def _settle(self, now: Micros) -> None:
        """Feed back what came of the calls, and wake what was set free."""
        while (
            self._reports
            or self._unmade
            or self._unknown
            or self._revisits
            or self._freed
        ):
            if self._reports:
                self._take_report(self._reports.popleft(), now)
            elif self._unmade:
                operation_id, generation, reason = self._unmade.popleft()
                self._run(
                    DRIVER,
                    lambda work, o=operation_id, g=generation, r=reason: (
                        outcome.call_not_made(work, o, g, r)
                    ),
                    now=now,
                )
            elif self._unknown:
                self._lose_sight(*self._unknown.popleft(), now)
            elif self._revisits:
                self._look_again(self._revisits.popleft(), now)
            else:
                self._wake(self._freed.popleft(), now)

    def _take_report(self, report: Report, now: Micros) -> None:
        operation = self.store.read(
            lambda reader: reader.get(Operation, report.operation_id)
        )
        if operation is None:
            return
        seen = self._driver.observe(
            [move.vm for move in calls.current_moves(operation)]
        )
        self._run(DRIVER, lambda work: outcome.take_report(work, report, seen), now=now)

    def _wake(self, scope: str, now: Micros) -> None:
        """Look at what waits in a scope where something has just ended."""
        ready = self.store.read(
            lambda reader: [
                operation.operation_id
                for operation in every(reader, kinds.OPEN_OPERATIONS_OF_SCOPE, scope)
                if operation.state is OperationState.READY
            ]
        )
        for operation_id in ready:
            self._look_again(operation_id, now)

    def _look_again(self, operation_id: str, now: Micros) -> None:
        self._run(CLOCK, lambda work: release.look_again(work, operation_id), now=now)

    # Timers

    def _operation_due(self, operation: Operation, now: Micros) -> None:
        operation_id = operation.operation_id
        state = operation.state
        if state is OperationState.READY and self._held_too_long(operation, now):
            self._run(CLOCK, lambda work: _let_go_or_anew(work, operation_id), now=now)
        elif state in {OperationState.NOTICED, OperationState.READY}:
            self._look_again(operation_id, now)
        elif state is OperationState.RECOVERING:
            self._run(CLOCK, lambda work: _recovered(work, operation_id), now=now)
        elif operation.call_state is CallState.RETRY:
            self._run(
                CLOCK, lambda work: outcome.call_again(work, operation_id), now=now
            )
        else:
            assert operation.call_state is CallState.ISSUED, operation
            self._probe(operation, late=True, now=now)

    def _held_too_long(self, operation: Operation, now: Micros) -> bool:
        return operation.routine and now >= release.hold_ends(operation, self.policy)

    def _probe(self, operation: Operation, *, late: bool, now: Micros) -> None:
        """Ask the driver what became of a call, after a crash or a time-out."""
        operation_id, generation = operation.operation_id, operation.generation
        kind = self._driver.kind
        if operation.driver not in {"", kind}:
            # To this driver the call was never made. It may go on at the other.
            reason = (
                f"the call was given to the {operation.driver} driver, and the service "
                f"was started with the {kind} one"
            )
            self._lose_sight(operation_id, generation, reason, now)
            return
        probe = self._driver.probe(operation_id, generation, now=now)
        if probe.report is not None:
            self._reports.append(probe.report)
        elif probe.state is ProbeState.NOT_STARTED:
            if late:
                self._unmade.append(
                    (operation_id, generation, "the call timed out unstarted")
                )
            else:
                self._follow(Effects(calls=(calls.call_of(operation),)), now)
        elif probe.state is ProbeState.RUNNING:
            if not late:
                return
            if self._driver.abort(operation_id, generation, now=now):
                self._unmade.append((operation_id, generation, "the call timed out"))
            else:
                reason = "the call timed out and goes on"
                self._lose_sight(operation_id, generation, reason, now)
        else:
            reason = "the driver does not know"
            self._lose_sight(operation_id, generation, reason, now)

    def _lose_sight(
        self, operation_id: str, generation: int, reason: str, now: Micros
    ) -> None:
        self._run(
            DRIVER,
            lambda work: outcome.lose_sight(work, operation_id, generation, reason),
            now=now,
        )

    def _disable_silent(self, now: Micros) -> int:
        """Disable views that nobody asked for long enough (7.3).

        The time before this process began does not count as silence: nobody
        could ask then.
        """
        since = now - self.policy.disable_after
        if since < self._started_at:
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
        return len(silent)

    def _purge(self, now: Micros) -> int:
        """Delete what is older than the retention, a step at a time."""
        if not self.store.read(
            lambda reader: retention.is_due(reader, self.policy, now=now)
        ):
            return 0
        return self._run(CLOCK, retention.purge, now=now)


def _unwoken(reader: Reader, now: Micros) -> list[str]:
    """Return what was let go, and was not looked at before the process ended.

    What is due besides has a timer.
    """
    noticed = OperationState.NOTICED.value
    return [
        operation.operation_id
        for operation in every(reader, kinds.OPERATIONS_IN_STATE, noticed)
        if now < operation.not_before
        and consent.is_released(
            operation, obstacles.counting_events(reader, operation), now=now
        )
    ]


def _recovered(work: Work, operation_id: str) -> None:
    operation = work.operation(operation_id)
    if operation.state is OperationState.RECOVERING:
        work.secure(operation.scopes)
        ending.finish(work, operation)


def _let_go_or_anew(work: Work, operation_id: str) -> None:
    """Start a held operation at the last moment, or tell the tenants again."""
    release.look_again(work, operation_id)
    operation = work.operation(operation_id)
    if operation.state is OperationState.READY and (
        renotice.notice_anew(work, operation) is None
    ):
        work.save_operation(operation, release.sleep(operation, now=work.now))
