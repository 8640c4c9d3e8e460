"""What waits for the control thread: bounded, put in by the loop, taken in order."""

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
    """The control plane has ended or is ending; ask again after the restart."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__(
            "the service is stopping", hint="ask again when it has started anew"
        )


@dataclass(slots=True, kw_only=True)
class Post:
    """An approval that waits."""

    future: "asyncio.Future[str | None]"
    approval: Approval


@dataclass(slots=True, kw_only=True)
class Enabling:
    """A VM that waits for its first document."""

    future: "asyncio.Future[None]"
    vm: str


@dataclass(slots=True, kw_only=True)
class Order:
    """Anything else, one by one."""

    future: "asyncio.Future[Any]"
    act: Callable[[], Any] = field(repr=False)


T = TypeVar("T", Post, Enabling, Order, Post | Enabling)


def crowded() -> BusyError:
    """Return what somebody is told for whom there is no capacity."""
    return BusyError("too much waits for the control plane", hint="Ask again.")


class Inbox:
    """Three queues and a bell."""

    def __init__(self) -> None:
        """Begin with nothing waiting."""
        self.posts: deque[Post] = deque()
        self.enablings: deque[Enabling] = deque()
        self.orders: deque[Order] = deque()
        self._queues: Mapping[type, deque[Any]] = {
            Post: self.posts,
            Enabling: self.enablings,
            Order: self.orders,
        }
        self._bell = threading.Condition()
        self._has_rung = False
        self._is_closed = False

    def put(self, *tasks: T) -> Sequence[T]:
        """Have the thread do them, and wake it once.

        Return those that there is no room for; raises StoppedError.
        """
        with self._bell:
            if self._is_closed:
                raise StoppedError
            room = max(0, limits.QUEUE_MAX - self.waiting)
            for task in tasks[:room]:
                self._queues[type(task)].append(task)
            self._bell.notify()
        return tasks[room:]

    @property
    def waiting(self) -> int:
        """Return how much waits."""
        return len(self.posts) + len(self.enablings) + len(self.orders)

    @property
    def is_over(self) -> bool:
        """Tell whether it is closed, and nothing waits."""
        return self._is_closed and not self.waiting

    def ring(self) -> None:
        """Wake the thread; from any thread."""
        with self._bell:
            self._has_rung = True
            self._bell.notify()

    def heard(self) -> bool:
        """Tell whether it was rung since the last time."""
        with self._bell:
            rung, self._has_rung = self._has_rung, False
        return rung

    def sleep(self, seconds: float) -> None:
        """Return when something waits, when it is rung or closed, or then."""
        with self._bell:
            if not (self.waiting or self._has_rung or self._is_closed):
                self._bell.wait(seconds)

    def close(self) -> None:
        """Take nothing more; what waits is still done."""
        with self._bell:
            self._is_closed = True
            self._bell.notify()

    def empty(self) -> list[Post | Enabling | Order]:
        """Return everything that waits, in the thread's place, and close."""
        self.close()
        queues = self._queues.values()
        return [queue.popleft() for queue in queues for _ in range(len(queue))]


def settle(
    outcomes: list[tuple["asyncio.Future[Any]", Any, ForewarnError | None]],
) -> None:
    """Tell who waits: a result, or an error."""
    for future, result, error in outcomes:
        # Who does not wait any longer has cancelled it.
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
