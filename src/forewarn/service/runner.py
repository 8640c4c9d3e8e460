"""The control thread: the plane's only user, and the ticker.

Work waits in one bounded inbox. The POSTs and the first GETs of VMs that wait
together are applied together, in one transaction each; orders run one by one;
timers run in rounds in between, so that nothing waits long for anything else.

What a transaction changed is handed to the event loop before the answer to
whoever caused it: the loop runs what it is handed in order.

An exception that is not the asker's own fault ends the thread: the plane may be
out of step with the store, and only a new process, which reads the store, heals
that. The service then ends, and its supervisor starts it again.
"""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from forewarn.admin.metrics import Histogram
from forewarn.clock import Clock
from forewarn.control.gateway import BusyError
from forewarn.control.plane import Plane
from forewarn.control.requests import enabling
from forewarn.control.requests.approvals import Approval
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import DriverError
from forewarn.fleet.model import Vm, VmState
from forewarn.instants import SECOND, Micros
from forewarn.protocol.actors import VMS, vm_actor
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits, metric_definitions
from forewarn.service.inbox import (
    Enabling,
    Inbox,
    Order,
    Post,
    StoppedError,
    crowded,
    settle,
)
from forewarn.store.port import ConflictError, StoreError

T = TypeVar("T")
W = TypeVar("W", Post, Enabling, Order)

logger = logging.getLogger("forewarn.service")


class Runner:
    """Runs the plane in a thread of its own, on behalf of one event loop."""

    def __init__(
        self,
        *,
        plane: Plane,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        take_last_seen: Callable[[], Mapping[str, Micros]],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Run nothing yet. `take_last_seen` and `on_failure` run on the loop."""
        self._plane = plane
        self._clock = clock
        self._loop = loop
        self._take_last_seen = take_last_seen
        self._on_failure = on_failure
        self.clock_steps: Counter[str] = Counter()
        """Steps of the wall clock since the start, by direction."""
        self.turn_seconds = Histogram(metric_definitions.TURN_SECONDS.buckets)
        """Lengths of the turns since the start, without the sleep between them."""
        self._inbox = Inbox()
        self._gathered: list[Post | Enabling] = []
        self._under_way: Sequence[Post | Enabling | Order] = ()
        self._is_ticking = False
        self._next_due: Micros | None = None
        self._beat = self._ticked = self._worked = clock.monotonic()
        self.is_held = False
        """Whether another program held the store when it was last written."""
        self.failure: BaseException | None = None
        """What ended the thread before its time."""
        self._parts = deque(
            (self._approve_together, self._enable_together, self._order)
        )
        """What a turn is made of beside timers, the next to be done first."""
        self._thread = threading.Thread(target=self._main, name="forewarn-control")
        plane.bound_turns(self._is_turn_over)

    # Used on the loop

    def start(self) -> None:
        """Start the thread; timers run only after `tick`."""
        self._beat = self._clock.monotonic()
        self._thread.start()

    def tick(self) -> None:
        """Have timers run from now on: everything is published."""
        self._worked = self._clock.monotonic()
        self._is_ticking = True
        self.wake()

    def approve(
        self, vm: str, event_ids: tuple[str, ...]
    ) -> "asyncio.Future[str | None]":
        """Approve for a VM, together with whoever else waits; see Plane.approve."""
        verdict: asyncio.Future[str | None] = self._loop.create_future()
        approval = Approval(vm=vm, event_ids=event_ids)
        self._gather(Post(future=verdict, approval=approval))
        return verdict

    async def enable(self, vm: str) -> None:
        """Enable what a VM is served, together with whoever else waits."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._gather(Enabling(future=future, vm=vm))
        await future

    async def call(self, act: Callable[[Plane, Micros], T]) -> T:
        """Return what `act` returns when the thread gives it the plane."""
        future: asyncio.Future[T] = self._loop.create_future()
        plane = self._plane
        order = Order(future=future, act=lambda: act(plane, self._now()))
        if self._inbox.put(order):
            raise crowded()
        return await future

    def _gather(self, task: Post | Enabling) -> None:
        """Hand over what comes in one turn of the loop together.

        To wake the thread costs more than to approve.
        """
        if not self._gathered:
            self._loop.call_soon(self._hand_in)
        self._gathered.append(task)

    def _hand_in(self) -> None:
        tasks, self._gathered = self._gathered, []
        try:
            refused, error = self._inbox.put(*tasks), crowded()
        except StoppedError as stopped:
            refused, error = tasks, stopped
        settle([(task.future, None, error) for task in refused])

    def wake(self) -> None:
        """Look at the clock now; may be called from any thread."""
        self._inbox.ring()

    def is_alive(self) -> bool:
        """Tell whether the thread runs, and does its work or tries to.

        A store that another program holds is no reason to be started again: the
        thread tries until it lets go, and a new process could do no more.
        """
        return (
            self._thread.is_alive()
            and self.silent_seconds() < limits.STUCK_SECONDS
            and (self.is_held or self.idle_seconds() < limits.STUCK_SECONDS)
        )

    def silent_seconds(self) -> float:
        """Return how long ago the thread gave its last sign of life."""
        return self._clock.monotonic() - self._beat

    def idle_seconds(self) -> float:
        """Return how long ago timers last ran with a store that could be written."""
        return self._clock.monotonic() - self._worked if self._is_ticking else 0

    def overdue_seconds(self) -> float:
        """Return how long the next timer has been due."""
        due = self._next_due
        if due is None or not self._is_ticking:
            return 0
        return max(0, self._clock.now() - due) / SECOND

    @property
    def waiting(self) -> int:
        """Return how much waits for the thread."""
        return self._inbox.waiting

    async def stop(self) -> bool:
        """Finish what waits, then end; tell whether the thread has ended."""
        self._inbox.close()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, limits.THREAD_SECONDS)
        return not self._thread.is_alive()

    # Used in the thread

    def _main(self) -> None:
        try:
            while not self._inbox.is_over:
                began = self._beat = self._clock.monotonic()
                is_behind = self._turn()
                self._beat = self._clock.monotonic()
                self.turn_seconds.observe(self._beat - began)
                if not is_behind:
                    self._inbox.sleep(self._pause())
        except (StoreError, DriverError) as error:
            # The machine's fault. Where it was met is of no use to who mends that.
            logger.critical("the control thread ended: %s", _in_words(error))
            logger.debug("where the control thread ended", exc_info=True)
            self._fail(error)
        except BaseException as error:
            logger.critical("the control thread ended", exc_info=True)
            self._fail(error)
        rest = [*self._under_way, *self._inbox.empty()]
        self._resolve([(task.future, None, StoppedError()) for task in rest])

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._hand_over(self._on_failure, error)

    def _turn(self) -> bool:
        """Do a little of everything that waits; tell whether there is more at once.

        What a long turn leaves out is the first in the next one.
        """
        has_worked = False
        for _ in range(len(self._parts)):
            has_done = self._parts[0]()
            has_worked |= has_done
            self._parts.rotate(-1)
            if has_done and self._is_turn_over():
                break
        return self._is_ticking and self._tick(has_worked=has_worked)

    def _is_turn_over(self) -> bool:
        most = limits.SHARED_TURN_SECONDS if self.waiting else limits.TURN_SECONDS
        return self._clock.monotonic() - self._beat >= most

    def _order(self) -> bool:
        orders = self._take(self._inbox.orders, 1)
        for order in orders:
            self._answer([order], order.act)
        return bool(orders)

    def _approve_together(self) -> bool:
        posts = self._take(self._inbox.posts, limits.APPROVALS_TOGETHER_MAX)
        if not posts:
            return False
        verdicts, _ = self._attempt(self._approving(*posts))
        if verdicts is not None:
            pairs = zip(posts, verdicts, strict=True)
            self._resolve([(post.future, verdict, None) for post, verdict in pairs])
            return True
        # One by one, so that only the guilty fail.
        for post in posts:
            approve = self._approving(post)
            self._answer([post], lambda approve=approve: approve()[0])
        return True

    def _approving(self, *posts: Post) -> Callable[[], tuple[str | None, ...]]:
        approvals = [post.approval for post in posts]
        return lambda: self._plane.approve(approvals, now=self._now())

    def _enable_together(self) -> bool:
        tasks = self._take(self._inbox.enablings, limits.ENABLINGS_TOGETHER_MAX)
        if not tasks:
            return False
        vms = dict.fromkeys(task.vm for task in tasks)

        def enable_all(work: Work) -> None:
            for name in vms:
                vm = work.tx.get(Vm, name)
                if vm is not None and vm.state is not VmState.DELETED:
                    work.who = Who(actor=vm_actor(name))
                    enabling.enable(work, name)

        def order() -> None:
            self._plane.order(Who(actor=VMS), enable_all, now=self._now())

        self._answer(tasks, order)
        return True

    def _answer(
        self, tasks: Sequence[Post | Enabling | Order], act: Callable[[], Any]
    ) -> None:
        """Give everybody who waits for it the result of `act`, or its error."""
        outcome = self._attempt(act)
        self._resolve([(task.future, *outcome) for task in tasks])

    def _attempt(self, act: Callable[[], T]) -> tuple[T | None, ForewarnError | None]:
        """Return the result of `act`, or what those who asked are told instead.

        Raises an error that concerns more than who asked.
        """
        try:
            return act(), None
        except ConflictError:
            self.is_held = True
            busy = BusyError("another program writes to the store", hint="Ask again.")
            return None, busy
        except StoreError:
            raise
        except ForewarnError as error:
            return None, error

    def _take(self, queue: deque[W], most: int) -> list[W]:
        # The loop only appends, so what is there now can be taken.
        taken = [queue.popleft() for _ in range(min(most, len(queue)))]
        self._under_way = taken
        return taken

    # Timers

    def _now(self) -> Micros:
        """Read both clocks, have the plane take over a step, and return the time."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        step = self._plane.read_clocks(now=now, monotonic=monotonic)
        if step:
            direction = "forward" if step > 0 else "back"
            self.clock_steps[direction] += 1
            logger.warning(
                "the wall clock was set %s by %.3f s. Timers move with it; notices "
                "under way last until they have passed on the monotonic clock too",
                direction,
                abs(step) / SECOND,
            )
        return now

    def _tick(self, *, has_worked: bool) -> bool:
        """Run the timers that are due; tell whether there is more at once."""
        is_called = self._inbox.heard()
        monotonic = self._clock.monotonic()
        try:
            now = self._now()
            if has_worked:
                self._next_due = self._plane.next_due()
            is_due = self._next_due is not None and self._next_due <= now
            is_late = monotonic - self._ticked >= limits.HEARTBEAT_SECONDS
            if not (is_called or is_due or is_late):
                return False
            self._ticked = monotonic
            if self._plane.is_silence_due(now=now):
                self._collect_last_seen()
            more = self._plane.advance(now=now)
            self._next_due = self._plane.next_due()
            if self.is_held:
                # What was due may have needed no write: only one that succeeds
                # tells that the other program has let go.
                self._plane.store.transact(lambda _: None)
                self.is_held = False
        except ConflictError as conflict:
            # Another program writes to the file; the timers stay due.
            logger.warning("timers wait: %s", conflict.message)
            self._next_due = None
            self.is_held = True
            return False
        self._worked = self._clock.monotonic()
        return more

    def _pause(self) -> float:
        """Return the seconds until the next timer, within bounds."""
        if self._next_due is None or not self._is_ticking:
            return limits.HEARTBEAT_SECONDS
        seconds = (self._next_due - self._clock.now()) / SECOND
        return max(limits.ROUND_SECONDS_MIN, min(seconds, limits.HEARTBEAT_SECONDS))

    def _collect_last_seen(self) -> None:
        """Take over what the endpoint has seen, before silence is judged."""
        taken: list[Mapping[str, Micros]] = []
        handed = threading.Event()

        def hand() -> None:
            taken.append(self._take_last_seen())
            handed.set()

        self._hand_over(hand)
        if handed.wait(limits.SIGHTINGS_WAIT_SECONDS):
            self._plane.note_last_seen(taken[0], now=self._now())

    # Answers

    def _resolve(
        self, outcomes: list[tuple["asyncio.Future[Any]", Any, ForewarnError | None]]
    ) -> None:
        if outcomes:
            self._hand_over(settle, outcomes)

    def _hand_over(self, act: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *arguments)
        except RuntimeError:
            # The loop is closed: nobody is left to be told.
            logger.debug("the event loop has gone")


def _in_words(error: ForewarnError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message
