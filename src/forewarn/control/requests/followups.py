"""What follows from committed transactions, in steps of one transaction each.

Operations are looked at again, the waiters of what became free are woken, lists of
hosts become operations, and rollouts announce their next hosts. What is not done yet is in memory only: the next
start of the service finds it again in the store, a page at a time.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from forewarn.control.execution import release
from forewarn.control.requests import host_lists, rollouts
from forewarn.control.rules import consent, obstacles, waits
from forewarn.control.rules.waking import Freed, after_call, after_look, next_waiter
from forewarn.control.transactions.work import Effects, Work
from forewarn.instants import Micros
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every

Decide: TypeAlias = Callable[[Work], object]

LEFT_OVER = (
    OperationState.IMPACTING,
    OperationState.ANNOUNCED,
    OperationState.READY,
    OperationState.PLANNED,
)
"""States whose operations are looked through at a start, in this order."""


class FollowUps:
    """Steps that are owed. Each is taken once, however often it was asked for."""

    def __init__(self, store: Store, run: Callable[[Decide, Micros], object]) -> None:
        """Owe nothing. `run` runs a decision in a transaction, and takes its effects."""
        self._store = store
        self._run = run
        self._revisits: deque[str] = deque()
        self._freed: dict[str, Freed] = {}
        self._turns: dict[str, None] = {}
        self._pages: dict[str, None] = {}

    def __bool__(self) -> bool:
        """Tell whether something is owed."""
        return bool(self._revisits or self._freed or self._turns or self._pages)

    @property
    def unplanned(self) -> frozenset[str]:
        """Return the rollouts with hosts whose operations are not made yet."""
        return frozenset(self._pages)

    def take(self, effects: Effects) -> None:
        """Take over what a transaction that was committed owes."""
        self._revisits.extend(effects.revisits)
        self._turns.update(effects.turns)
        self._pages.update(effects.pages)
        self._free(effects.freed)

    def _free(self, names: Iterable[str]) -> None:
        # A name that is owed already keeps its place: else those behind it starve.
        self._freed.update({name: Freed(name=name) for name in names})

    def take_unplanned(self) -> None:
        """Owe the lists of hosts that the last process left unfinished."""
        left = self._store.read(lambda r: list(every(r, kinds.REQUESTS_UNPLANNED)))
        self._pages.update(dict.fromkeys(request.request_id for request in left))

    def take_left_over(self, left: Sequence[Operation], now: Micros) -> None:
        """Owe what the last process may not have done about these operations."""
        for operation in left:
            if operation.state is OperationState.ANNOUNCED:
                if self._store.read(lambda r, o=operation: _is_unwoken(r, o, now)):
                    self._revisits.append(operation.operation_id)
            elif operation.state is OperationState.PLANNED:
                self._turns[operation.request] = None
                self._free(filter(waits.is_turn, operation.waits_for))
            elif operation.waits_for:
                self._free(operation.waits_for[:1])
            else:
                # It was let go, or held by a program that kept no names.
                self._revisits.append(operation.operation_id)

    def take_one(self, now: Micros) -> bool:
        """Take a step; tell whether it needed a transaction.

        A step that fails, as while another program holds the store, stays owed.
        """
        # Who ordered waits until the list is whole.
        if self._pages:
            request_id = next(iter(self._pages))
            del self._pages[request_id]
            with _on_failure(lambda: self._pages.setdefault(request_id)):
                self._run(lambda work: host_lists.plan_page(work, request_id), now)
            return True
        if self._revisits:
            operation_id = self._revisits.popleft()
            with _on_failure(lambda: self._revisits.appendleft(operation_id)):
                self.recheck(operation_id, now)
            return True
        if self._freed:
            freed = self._freed.pop(next(iter(self._freed)))
            with _on_failure(lambda: self._freed.setdefault(freed.name, freed)):
                return self._wake(freed, now)
        request_id = next(iter(self._turns))
        del self._turns[request_id]
        with _on_failure(lambda: self._turns.setdefault(request_id)):
            return self._take_turn(request_id, now)

    def _take_turn(self, request_id: str, now: Micros) -> bool:
        """Have a rollout announce its next host; tell whether it may have one."""
        if not self._store.read(lambda reader: rollouts.is_due(reader, request_id)):
            return False
        self._run(lambda work: rollouts.go_on(work, request_id), now)
        return True

    def recheck(self, operation_id: str, now: Micros) -> None:
        """Let an operation start if nothing is in its way now."""
        self._run(lambda work: release.recheck(work, operation_id), now)

    def _wake(self, freed: Freed, now: Micros) -> bool:
        """Look at one who waits for what has become free.

        The next one follows in a later step, if there may be one who can go on.
        """
        is_turn = waits.is_turn(freed.name)
        operation_id = self._store.read(lambda reader: next_waiter(reader, freed))
        if not operation_id:
            return False
        look = rollouts.call_up if is_turn else release.recheck
        is_announced = self._run(lambda work: look(work, operation_id), now)
        follow = after_call if is_turn else after_look
        follows = (
            Freed(name=freed.name)
            if is_announced
            else self._store.read(lambda reader: follow(reader, freed, operation_id))
        )
        if follows is not None:
            self._freed.setdefault(follows.name, follows)
        return True


def _is_unwoken(reader: Reader, operation: Operation, now: Micros) -> bool:
    """Tell whether it was let go, and not looked at before the process ended.

    What is due besides has a timer.
    """
    return now < operation.not_before and consent.is_released(
        operation, obstacles.counting_events(reader, operation), now=now
    )


@contextmanager
def _on_failure(put_back: Callable[[], object]) -> Generator[None]:
    """Have what was taken be owed again if it could not be done.

    The store may be held by another program for a while. A step that is forgotten then
    would be found at the next start of the service only.
    """
    try:
        yield
    except BaseException:
        put_back()
        raise
