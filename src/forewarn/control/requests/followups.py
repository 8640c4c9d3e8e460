"""Follow-ups of committed transactions, in steps of one transaction each.

Operations are checked again, operations that wait for something that became free are
woken, lists of hosts become operations, and rollouts announce their next hosts. Pending
steps are in memory only: the next start of the service finds them again in the store,
page by page.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice

from forewarn.control.execution import visits
from forewarn.control.requests import again, campaign_turns, rollouts
from forewarn.control.requests.brake_steps import BrakeSteps
from forewarn.control.rules import consent, obstacles, waits
from forewarn.control.rules.together import count_apart
from forewarn.control.rules.waking import (
    Freed,
    after_call,
    after_look,
    first_names,
    next_waiter,
)
from forewarn.control.transactions import batch
from forewarn.control.transactions.batch import RunSome, Step
from forewarn.control.transactions.work import Effects
from forewarn.instants import Micros
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every, fetch_answers, latest

SOUGHT_TOGETHER = 100
"""Maximum freed names whose waiting operations are searched together."""

LEFT_OVER = (
    OperationState.IMPACTING,
    OperationState.ANNOUNCED,
    OperationState.READY,
    OperationState.PLANNED,
)
"""States whose operations are read at a start, in this order."""


class FollowUps:
    """Pending steps. Each is taken once, even if it was added several times."""

    def __init__(
        self,
        store: Store,
        run: Callable[[Step, Micros], object],
        run_some: RunSome,
    ) -> None:
        """Start without steps. `run` runs a decision in a transaction with its effects,
        and `run_some` the first of some decisions; it returns their number."""
        self._store = store
        self._run, self._run_some = run, run_some
        self._revisits: deque[str] = deque()
        self._freed: dict[str, Freed] = {}
        self._unsought: dict[str, None] = {}
        """Those of which it is not known yet whether an operation waits for them."""
        self._turns: dict[str, None] = {}
        self._pages: dict[str, None] = {}
        self._brake = BrakeSteps(store, run)
        self._visits: dict[str, None] = {}
        self._shares = False

    def __bool__(self) -> bool:
        """Return whether steps are pending."""
        pending = self._revisits, self._freed, self._turns, self._pages, self._visits
        return any(pending) or self._brake.has_page or self._shares

    @property
    def unplanned(self) -> frozenset[str]:
        """Return the rollouts with hosts whose operations are not created yet."""
        return frozenset(self._pages)

    def take(self, effects: Effects) -> None:
        """Add the steps of a committed transaction."""
        self._revisits.extend(effects.revisits)
        self._turns.update(effects.turns)
        self._pages.update(effects.pages)
        self._brake.take(effects)
        self._visits.update(effects.visits)
        self._shares = self._shares or effects.shares
        self._free(effects.freed)

    def next_due(self) -> Micros | None:
        """Return the time of the next timer of the brake, or None."""
        return self._brake.next_due()

    def run_timers(self, now: Micros) -> None:
        """Run the timers of the brake that are due."""
        self._brake.run_timers(now)

    def _free(self, names: Iterable[str]) -> None:
        # A pending name keeps its place, so that the names after it do not starve.
        freed = {name: Freed(name=name) for name in names}
        self._freed.update(freed)
        self._unsought.update(dict.fromkeys(freed))

    def take_unfinished(self) -> None:
        """Add what the last process left unfinished: lists of hosts, visits, and
        announced work that the brake withdraws."""
        self._brake.take_left_over()
        left = latest(self._store, lambda r: list(every(r, kinds.REQUESTS_UNPLANNED)))
        self._pages.update(dict.fromkeys(request.request_id for request in left))
        self._turns.update(
            dict.fromkeys(latest(self._store, campaign_turns.open_rollouts))
        )
        open_visits = latest(self._store, lambda r: list(every(r, kinds.OPEN_VISITS)))
        self._visits.update(dict.fromkeys(visit.visit_id for visit in open_visits))

    def take_due(self, now: Micros) -> None:
        """Add the turns of campaigns whose timer is due."""
        due = latest(self._store, lambda reader: [*campaign_turns.due(reader, now)])
        self._turns.update(dict.fromkeys(due))

    def take_left_over(self, left: Sequence[Operation], now: Micros) -> None:
        """Add the steps for these operations that the last process may have left."""
        for operation in left:
            if operation.state is OperationState.ANNOUNCED:
                if latest(self._store, lambda r, o=operation: _is_unwoken(r, o, now)):
                    self._revisits.append(operation.operation_id)
            elif operation.state is OperationState.PLANNED:
                self._turns[operation.request] = None
                self._free(filter(waits.is_turn, operation.waits_for))
            elif operation.waits_for:
                self._free(operation.waits_for[:1])
            else:
                # The operation was released, or held by a version that stored no names.
                self._revisits.append(operation.operation_id)

    def take_one(self, now: Micros) -> bool:
        """Take a step; return whether it needed a transaction.

        A step that fails, for example because the store is locked, stays pending.
        """
        # The caller waits until the list is complete.
        if self._pages:
            request_id = next(iter(self._pages))
            del self._pages[request_id]
            with _on_failure(lambda: self._pages.setdefault(request_id)):
                self._run(lambda work: rollouts.plan_page(work, request_id), now)
            return True
        if self._brake.has_page:
            self._brake.withdraw_page(now)
            return True
        if self._revisits:
            names = list(islice(self._revisits, batch.TOGETHER_MAX))
            waiting = latest(
                self._store, lambda reader: [reader.get(Operation, it) for it in names]
            )
            steps = [*map(_recheck, names[: count_apart(waiting)])]
            for _ in range(self._run_some(steps, now)):
                self._revisits.popleft()
            return True
        if self._visits:
            visit_id = next(iter(self._visits))
            del self._visits[visit_id]
            with _on_failure(lambda: self._visits.setdefault(visit_id)):
                self._run(lambda work: visits.go_on(work, visit_id), now)
            return True
        if self._unsought:
            self._seek_waiters()
            if not self._freed:
                return False
        if self._freed:
            freed = self._freed.pop(next(iter(self._freed)))
            with _on_failure(lambda: self._freed.setdefault(freed.name, freed)):
                return self._wake(freed, now)
        if not self._turns:
            self._shares = False
            self._run(rollouts.share, now)
            return True
        request_id = next(iter(self._turns))
        del self._turns[request_id]
        with _on_failure(lambda: self._turns.setdefault(request_id)):
            return self._take_turn(request_id, now)

    def _take_turn(self, request_id: str, now: Micros) -> bool:
        """Let a rollout announce its next host; return whether it may have one."""
        if not latest(self._store, lambda reader: rollouts.is_due(reader, request_id)):
            return False
        self._run(lambda work: rollouts.go_on(work, request_id), now)
        return True

    def _seek_waiters(self) -> None:
        """Drop the freed names for which no operation waits: most of them."""
        names = list(islice(self._unsought, SOUGHT_TOGETHER))

        def unwaited(reader: Reader) -> list[str]:
            sought = chain.from_iterable(map(first_names, names))
            fetch_answers(reader, kinds.OPERATIONS_THAT_WAIT, sought)
            return [name for name in names if not next_waiter(reader, Freed(name=name))]

        for name in latest(self._store, unwaited):
            self._freed.pop(name, None)
        for name in names:
            del self._unsought[name]

    def _wake(self, freed: Freed, now: Micros) -> bool:
        """Check one operation that waits for something that became free.

        If another waiting operation may continue, a later step checks it.
        """
        is_turn = waits.is_turn(freed.name)
        operation_id = latest(self._store, lambda reader: next_waiter(reader, freed))
        if not operation_id:
            return False
        is_announced: object = False
        if is_turn:
            is_announced = self._run(
                lambda work: rollouts.call_up(work, operation_id), now
            )
        else:
            self._run(_recheck(operation_id), now)
        follow = after_call if is_turn else after_look
        follows = (
            Freed(name=freed.name)
            if is_announced
            else latest(self._store, lambda reader: follow(reader, freed, operation_id))
        )
        if follows is not None:
            self._freed.setdefault(follows.name, follows)
        return True


def _recheck(operation_id: str) -> Step:
    """Return the decision that starts an operation if nothing blocks it now."""
    return partial(again.recheck, operation_id=operation_id)


def _is_unwoken(reader: Reader, operation: Operation, now: Micros) -> bool:
    """Return whether the operation is released but was not checked before the process
    ended.

    Operations that are due have a timer.
    """
    return now < operation.not_before and consent.is_released(
        operation, obstacles.counting_events(reader, operation), now=now
    )


@contextmanager
def _on_failure(put_back: Callable[[], object]) -> Generator[None]:
    """Put a step back if it fails.

    Another program can lock the store for a while. A lost step would be found only at the
    next start of the service.
    """
    try:
        yield
    except BaseException:
        put_back()
        raise
