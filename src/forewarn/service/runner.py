"""The control thread: it alone uses the plane, and it runs the timers.

Work waits in one bounded inbox. Waiting POSTs of VMs are applied together in one
transaction, and so are waiting first GETs. Other requests run one by one. Timers run in
rounds in between, so that no work waits long for other work.

The thread passes the changes of a transaction to the event loop before it passes the
response to the caller. The loop handles both in this order.

An exception that the caller did not cause ends the thread: the plane may be inconsistent
with the store, and only a new process, which reads the store, fixes that. The service
then exits, and its supervisor restarts it.
"""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from forewarn.admin.meters import Histogram
from forewarn.clock import Clock
from forewarn.control.gateway import BusyError
from forewarn.control.plane import Plane
from forewarn.control.requests import enabling
from forewarn.control.requests.approvals import Approval
from forewarn.control.rules.sightings import Seen
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
    resolve,
)
from forewarn.store.port import (
    InterruptedWorkError,
    NoSpaceError,
    StoreError,
    StoreGoneError,
    UnwrittenError,
)

T = TypeVar("T")
W = TypeVar("W", Post, Enabling, Order)

logger = logging.getLogger("forewarn.service")


LATER = "Try again later."

AWAY = "the database does not answer"


class Runner:
    """Runs the plane in a separate thread, for one event loop."""

    def __init__(
        self,
        *,
        plane: Plane,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        take_last_seen: Callable[[], Mapping[str, Micros]],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Prepare the thread. The loop calls `take_last_seen` and `on_failure`."""
        self._plane = plane
        self._clock = clock
        self._loop = loop
        self._take_last_seen = take_last_seen
        self._on_failure = on_failure
        self.clock_steps: Counter[str] = Counter()
        """Steps of the wall clock since the start, by direction."""
        self.turn_seconds = Histogram(metric_definitions.TURN_SECONDS.buckets)
        """Lengths of the iterations since the start, without the sleep between them."""
        self._inbox = Inbox()
        self._gathered: list[Post | Enabling] = []
        self._under_way: Sequence[Post | Enabling | Order] = ()
        self._is_ticking = False
        self._share_began = self._share = 0.0
        """When the requests or timers of this iteration began, and the time that timers
        get at least, even if callers wait."""
        self._next_due: Micros | None = None
        self._beat = self._ticked = self._worked = clock.monotonic()
        self.held_by = ""
        """Why the store took no write at the last attempt; empty: it took it."""
        self.failure: BaseException | None = None
        """The exception that ended the thread, if any."""
        self._parts = deque(
            (self._approve_together, self._enable_together, self._order)
        )
        """The steps of an iteration, except timers, in the order of execution."""
        self._thread = threading.Thread(target=self._main, name="forewarn-control")
        plane.bound_turns(self._is_turn_over)

    # Called on the loop

    def start(self) -> None:
        """Start the thread; timers run only after `tick`."""
        self._beat = self._clock.monotonic()
        self._thread.start()

    def tick(self) -> None:
        """Start the timers; call it when everything is published."""
        self._worked = self._clock.monotonic()
        self._is_ticking = True
        self.wake()

    def approve(
        self, vm: str, event_ids: tuple[str, ...]
    ) -> "asyncio.Future[str | None]":
        """Approve for a VM, together with other waiting approvals; see Plane.approve."""
        verdict: asyncio.Future[str | None] = self._loop.create_future()
        approval = Approval(vm=vm, event_ids=event_ids)
        self._gather(Post(future=verdict, approval=approval))
        return verdict

    async def enable(self, vm: str) -> None:
        """Enable the scopes of a VM, together with other waiting VMs."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._gather(Enabling(future=future, vm=vm))
        await future

    async def call(self, act: Callable[[Plane, Micros], T]) -> T:
        """Call `act` with the plane in the thread; return its result."""
        future: asyncio.Future[T] = self._loop.create_future()
        plane = self._plane
        order = Order(future=future, act=lambda: act(plane, self._now()))
        if self._inbox.put(order):
            raise crowded()
        return await future

    def _gather(self, task: Post | Enabling) -> None:
        """Collect the tasks of one iteration of the loop, and pass them on together.

        Waking the thread costs more than an approval.
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
        resolve([(task.future, None, error) for task in refused])

    def wake(self) -> None:
        """Check the timers now; any thread can call this."""
        self._inbox.wake()

    def seen(self) -> Seen:
        """Return what is seen of VMs and not recorded."""
        return self._plane.seen()

    def is_alive(self) -> bool:
        """Return whether the thread runs and makes progress.

        If another program locks the store, or its disk is full, the thread counts as
        alive: it retries until it can write, and a new process could not do more.
        """
        return (
            self._thread.is_alive()
            and self.silent_seconds() < limits.STUCK_SECONDS
            and (bool(self.held_by) or self.idle_seconds() < limits.STUCK_SECONDS)
        )

    def silent_seconds(self) -> float:
        """Return the time since the last heartbeat of the thread."""
        return self._clock.monotonic() - self._beat

    def idle_seconds(self) -> float:
        """Return the time since timers last ran with a writable store."""
        return self._clock.monotonic() - self._worked if self._is_ticking else 0

    def overdue_seconds(self) -> float:
        """Return how long the next timer has been overdue."""
        due = self._next_due
        if due is None or not self._is_ticking:
            return 0
        return max(0, self._clock.now() - due) / SECOND

    @property
    def waiting(self) -> int:
        """Return the number of waiting tasks."""
        return self._inbox.waiting

    async def stop(self, seconds: float = limits.THREAD_SECONDS) -> bool:
        """Finish the waiting tasks, then end; return whether the thread has ended.

        It waits for the thread for so many seconds.
        """
        self._inbox.close()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    # Called in the thread

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
            # The machine caused the error, so the traceback does not help the operator.
            logger.critical("the control thread ended: %s", _in_words(error))
            logger.debug("traceback of the control thread", exc_info=True)
            self._fail(error)
        except BaseException as error:
            logger.critical("the control thread ended", exc_info=True)
            self._fail(error)
        rest = [*self._under_way, *self._inbox.empty()]
        is_gone = isinstance(self.failure, StoreGoneError)
        why = _refusal(AWAY) if is_gone else StoppedError()
        self._resolve([(task.future, None, why) for task in rest])

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._hand_over(self._on_failure, error)

    def _turn(self) -> bool:
        """Run one iteration; return whether there is more work now.

        If an iteration takes too long, its skipped steps are the first of the next one.
        """
        has_worked = False
        self._share_began, self._share = self._beat, 0.0
        for _ in range(len(self._parts)):
            has_done = self._parts[0]()
            has_worked |= has_done
            self._parts.rotate(-1)
            if has_done and self._is_turn_over():
                break
        if not self._is_ticking:
            return False
        self._share_began = self._clock.monotonic()
        # Requests that keep coming must not leave the work that they order undone.
        self._share = self._share_began - self._beat
        return self._tick(has_worked=has_worked)

    def _is_turn_over(self) -> bool:
        """Return whether the requests, or the timers, of this iteration had their time."""
        least = limits.SHARED_TURN_SECONDS if self.waiting else limits.TURN_SECONDS
        limit = min(max(self._share, least), limits.TURN_SECONDS)
        return self._clock.monotonic() - self._share_began >= limit

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
        # Retry one by one, so that only the invalid ones fail.
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
        """Resolve the tasks with the result of `act` or its error."""
        outcome = self._attempt(act)
        self._resolve([(task.future, *outcome) for task in tasks])

    def _attempt(self, act: Callable[[], T]) -> tuple[T | None, ForewarnError | None]:
        """Return the result of `act`, or the error for its callers.

        Raises errors that affect the whole service.
        """
        try:
            return act(), None
        except UnwrittenError as error:
            self.held_by = _holder(error)
            is_full = isinstance(error, NoSpaceError)
            hint = f"{error.hint} Then try again." if is_full else LATER
            return None, _refusal(self.held_by, hint)
        except StoreError:
            raise
        except ForewarnError as error:
            return None, error

    def _take(self, queue: deque[W], limit: int) -> list[W]:
        # Safe without a lock: the loop only appends.
        taken = [queue.popleft() for _ in range(min(limit, len(queue)))]
        self._under_way = taken
        return taken

    # Timers

    def _now(self) -> Micros:
        """Read both clocks, tell the plane about a step, and return the time."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        step = self._plane.read_clocks(now=now, monotonic=monotonic)
        if step:
            direction = "forward" if step > 0 else "back"
            self.clock_steps[direction] += 1
            logger.warning(
                "the wall clock was set %s by %.3f s. Timers move with it; running notices "
                "also last until they have passed on the monotonic clock",
                direction,
                abs(step) / SECOND,
            )
        return now

    def _tick(self, *, has_worked: bool) -> bool:
        """Run the due timers; return whether there is more work now."""
        is_called = self._inbox.take_wakeup()
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
            if self.held_by:
                # The timers may have written nothing. Only a successful write shows
                # that the store takes writes again.
                self._plane.store.transact(lambda _: None)
                self.held_by = ""
        except UnwrittenError as error:
            # The timers stay due.
            logger.warning("timers wait: %s", _in_words(error))
            self._next_due = None
            self.held_by = _holder(error)
            return False
        self._worked = self._clock.monotonic()
        return more

    def _pause(self) -> float:
        """Return the seconds until the next timer, within limits."""
        if self._next_due is None or not self._is_ticking:
            return limits.HEARTBEAT_SECONDS
        seconds = (self._next_due - self._clock.now()) / SECOND
        return max(limits.ROUND_SECONDS_MIN, min(seconds, limits.HEARTBEAT_SECONDS))

    def _collect_last_seen(self) -> None:
        """Pass current last-seen times to the plane before it disables scopes."""
        taken: list[Mapping[str, Micros]] = []
        handed = threading.Event()

        def hand() -> None:
            taken.append(self._take_last_seen())
            handed.set()

        self._hand_over(hand)
        if handed.wait(limits.LAST_SEEN_WAIT_SECONDS):
            self._plane.note_last_seen(taken[0], now=self._now())

    # Answers

    def _resolve(
        self, outcomes: list[tuple["asyncio.Future[Any]", Any, ForewarnError | None]]
    ) -> None:
        if outcomes:
            self._hand_over(resolve, outcomes)

    def _hand_over(self, act: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *arguments)
        except RuntimeError:
            # The loop is closed, so no caller is left.
            logger.debug("the event loop is closed")


def _refusal(why: str, hint: str = LATER) -> BusyError:
    """Return the answer to a request that cannot be written.

    The error of the store names its place, which tenants may not know.
    """
    return BusyError(f"the store cannot be written: {why}", hint=hint)


def _holder(error: UnwrittenError) -> str:
    """Return why the store takes no write, for anybody."""
    if isinstance(error, NoSpaceError):
        return "its disk is full"
    if isinstance(error, InterruptedWorkError):
        return AWAY
    return "another program locks it"


def _in_words(error: ForewarnError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message


def runner_problem(runner: Runner | None) -> str:
    """Return the problem of the control thread, or an empty text."""
    if runner is not None and runner.failure is not None:
        return f"the control thread ended: {runner.failure}"
    idle = runner is not None and runner.idle_seconds() >= limits.IDLE_SECONDS
    if runner is not None and idle and runner.held_by:
        return f"the store cannot be written: {runner.held_by}"
    if runner is None or not runner.is_alive():
        return "the control thread has no heartbeat"
    return "timers do not run: the control thread is busy or hangs" if idle else ""
