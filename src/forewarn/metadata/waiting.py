"""Requests that wait for a change of a view, with their deadlines.

A waiter is called when the document of its VM may have changed, and at its deadline. It
then rechecks whether there is a response, so that an unnecessary call is safe. It stays
registered until it leaves.

This module has no sockets, no timers and no clock; `timers.Wakeups` is the shell that rechecks
the called waiters. Times are seconds of I/O time.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from forewarn.metadata.http import Response
from forewarn.metadata.limits import WAITERS_MAX, WAITERS_PER_VM_MAX
from forewarn.metadata.reader import Received

TICKS_PER_SECOND = 10
"""Waits end in groups, ten times a second: one timer then serves any number of them, and
a delay of a tenth of a second does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Handle the request again when the VM's document may have changed."""

    vm: str
    view_id: str
    seconds: int
    otherwise: Response
    """The response if nothing has changed by then."""


class WaitingClient(Protocol):
    """The connection of a waiting request."""

    def recheck(self, waiter: "Waiter") -> None:
        """Respond and leave, or continue to wait."""
        ...


class Waiter:
    """One waiting request."""

    __slots__ = (
        "client",
        "is_called",
        "is_gone",
        "is_over",
        "received",
        "tick",
        "view_id",
        "vm",
    )

    def __init__(
        self, client: WaitingClient, received: Received, wait: Wait, *, tick: int
    ) -> None:
        """Wait for `wait` until this tick of the timer."""
        self.client = client
        self.received = received
        self.vm = wait.vm
        self.view_id = wait.view_id
        self.tick = tick
        self.is_called = False
        self.is_over = False
        """The deadline has passed: respond even without a change."""
        self.is_gone = False


class Waits:
    """All waiting requests, by view, by VM and by deadline."""

    def __init__(
        self,
        *,
        longest_seconds: int = 0,
        waiters_max: int = WAITERS_MAX,
        per_vm: int = WAITERS_PER_VM_MAX,
    ) -> None:
        """Limit waits to `longest_seconds`; 0: no request waits."""
        self.longest_seconds = longest_seconds
        self.on_called: Callable[[], None] = lambda: None
        """Called when the queue of called waiters was empty and gets its first one."""
        self._waiters_max = waiters_max
        self._per_vm = per_vm
        self._count = 0
        self._by_view: dict[str, set[Waiter]] = {}
        self._by_vm: dict[str, set[Waiter]] = {}
        self._by_tick: dict[int, set[Waiter]] = {}
        self._ticks: list[int] = []
        """The keys of `_by_tick`, as a heap."""
        self._called: deque[Waiter] = deque()

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return self._count

    @property
    def views(self) -> Iterable[str]:
        """Return the views with waiting requests."""
        return self._by_view.keys()

    def enter(
        self, client: WaitingClient, received: Received, wait: Wait, *, monotonic: float
    ) -> Waiter | None:
        """Register a waiting request; None: there are too many."""
        of_vm = self._by_vm.get(wait.vm, ())
        if self._count >= self._waiters_max or len(of_vm) >= self._per_vm:
            return None
        tick = math.ceil((monotonic + wait.seconds) * TICKS_PER_SECOND)
        waiter = Waiter(client, received, wait, tick=tick)
        self._count += 1
        self._file(waiter)
        if tick not in self._by_tick:
            heapq.heappush(self._ticks, tick)
        self._by_tick.setdefault(tick, set()).add(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter that got its response or was disconnected."""
        if waiter.is_gone:
            return
        waiter.is_gone = True
        self._count -= 1
        self._take_out(waiter)
        # The set of a past tick no longer exists.
        if (ending := self._by_tick.get(waiter.tick)) is not None:
            ending.discard(waiter)

    def stay(self, waiter: Waiter, wait: Wait) -> bool:
        """Continue to wait for `wait`; False: the deadline has passed."""
        if waiter.is_over:
            return False
        if (waiter.vm, waiter.view_id) != (wait.vm, wait.view_id):
            # The caller's address now belongs to another VM, or the VM has another
            # view.
            self._take_out(waiter)
            waiter.vm, waiter.view_id = wait.vm, wait.view_id
            self._file(waiter)
        return True

    # Calls

    def call_view(self, view_id: str) -> None:
        """Call all waiters of a view."""
        self._call(self._by_view.get(view_id, ()))

    def call_vm(self, vm: str) -> None:
        """Call all waiters of a VM."""
        self._call(self._by_vm.get(vm, ()))

    def call_all(self) -> None:
        """Call all waiters, because the server stops."""
        for waiting in self._by_view.values():
            self._call(waiting)

    def call_due(self, *, monotonic: float) -> None:
        """Call the waiters whose deadline has passed."""
        while self._ticks and self._ticks[0] <= monotonic * TICKS_PER_SECOND:
            ending = self._by_tick.pop(heapq.heappop(self._ticks))
            for waiter in ending:
                waiter.is_over = True
            self._call(ending)

    def next_due(self) -> float | None:
        """Return the next deadline; None: there is none."""
        return self._ticks[0] / TICKS_PER_SECOND if self._ticks else None

    def take(self, limit: int) -> list[Waiter]:
        """Remove up to `limit` called waiters from the queue, and return them."""
        taken: list[Waiter] = []
        while self._called and len(taken) < limit:
            waiter = self._called.popleft()
            waiter.is_called = False
            if not waiter.is_gone:
                taken.append(waiter)
        return taken

    @property
    def has_called(self) -> bool:
        """Return whether the queue has called waiters."""
        return bool(self._called)

    def _call(self, waiters: Iterable[Waiter]) -> None:
        had_called = self.has_called
        for waiter in waiters:
            if not waiter.is_called:
                waiter.is_called = True
                self._called.append(waiter)
        if self._called and not had_called:
            self.on_called()

    def _file(self, waiter: Waiter) -> None:
        self._by_view.setdefault(waiter.view_id, set()).add(waiter)
        self._by_vm.setdefault(waiter.vm, set()).add(waiter)

    def _take_out(self, waiter: Waiter) -> None:
        for filed, key in (
            (self._by_view, waiter.view_id),
            (self._by_vm, waiter.vm),
        ):
            filed[key].discard(waiter)
            if not filed[key]:
                del filed[key]
