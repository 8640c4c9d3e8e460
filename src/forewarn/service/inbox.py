"""The bounded queue of tasks for the control thread."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forewarn.control.gateway import BusyError
from forewarn.control.requests.approvals import Approval
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits


class StoppedError(ForewarnError):
    """The control plane has ended or is ending; callers can retry after the restart."""

    def __init__(self) -> None:
        """Create the error."""
        super().__init__(
            "the service is stopping", hint="Try again after the service has restarted."
        )


@dataclass(slots=True, kw_only=True)
class Post:
    """A waiting approval."""

    future: "asyncio.Future[str | None]"
    approval: Approval


@dataclass(slots=True, kw_only=True)
class Enabling:
    """A VM waiting for its first document."""

    future: "asyncio.Future[None]"
    vm: str


@dataclass(slots=True, kw_only=True)
class Order:
    """Any other task; these run one by one."""

    future: "asyncio.Future[Any]"
    act: Callable[[], Any] = field(repr=False)


T = TypeVar("T", Post, Enabling, Order, Post | Enabling)


def crowded() -> BusyError:
    """Return the error for a task that finds the inbox full."""
    return BusyError("too many requests are waiting", hint="Try again later.")


class Inbox:
    """Three queues, and a condition that wakes the thread."""

    def __init__(self) -> None:
        """Start with empty queues."""
        self.posts: deque[Post] = deque()
        self.enablings: deque[Enabling] = deque()
        self.orders: deque[Order] = deque()
        self._queues: Mapping[type, deque[Any]] = {
            Post: self.posts,
            Enabling: self.enablings,
            Order: self.orders,
        }
        self._wakeup = threading.Condition()
        self._is_woken = False
        self._is_closed = False

    def put(self, *tasks: T) -> Sequence[T]:
        """Queue tasks, and wake the thread once.

        Return the tasks that exceed the capacity; raises StoppedError.
        """
        with self._wakeup:
            if self._is_closed:
                raise StoppedError
            room = max(0, limits.QUEUE_MAX - self.waiting)
            for task in tasks[:room]:
                self._queues[type(task)].append(task)
            self._wakeup.notify()
        return tasks[room:]

    @property
    def waiting(self) -> int:
        """Return the number of waiting tasks."""
        return len(self.posts) + len(self.enablings) + len(self.orders)

    @property
    def is_over(self) -> bool:
        """Return whether the inbox is closed and empty."""
        return self._is_closed and not self.waiting

    def wake(self) -> None:
        """Wake the thread; any thread can call this."""
        with self._wakeup:
            self._is_woken = True
            self._wakeup.notify()

    def take_wakeup(self) -> bool:
        """Return whether `wake` was called since the last call."""
        with self._wakeup:
            woken, self._is_woken = self._is_woken, False
        return woken

    def sleep(self, seconds: float) -> None:
        """Wait for a task, `wake`, `close` or the end of `seconds`."""
        with self._wakeup:
            if not (self.waiting or self._is_woken or self._is_closed):
                self._wakeup.wait(seconds)

    def close(self) -> None:
        """Accept no more tasks; waiting tasks are still done."""
        with self._wakeup:
            self._is_closed = True
            self._wakeup.notify()

    def empty(self) -> list[Post | Enabling | Order]:
        """Close, and return all waiting tasks; only the thread calls this."""
        self.close()
        queues = self._queues.values()
        return [queue.popleft() for queue in queues for _ in range(len(queue))]


def resolve(
    outcomes: list[tuple["asyncio.Future[Any]", Any, ForewarnError | None]],
) -> None:
    """Resolve futures, each with a result or an error."""
    for future, result, error in outcomes:
        # A caller that no longer waits has cancelled its future.
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
