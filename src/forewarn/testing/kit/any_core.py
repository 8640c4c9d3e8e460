"""The base of a world's core: its loop, its recorded requests, and waits.

Tests run in their own threads and loops. All code that touches a world runs on the
shared loop. A call from another thread takes a fraction of a millisecond.
"""

import asyncio
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import datetime
from typing import Any, TypeVar

from forewarn.instants import Micros
from forewarn.metadata.http import Request
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.sim.faults.player import Player
from forewarn.sim.journal import Journal, Seen
from forewarn.sim.loop import LoopThread
from forewarn.testing.kit.durations import moment_of
from forewarn.testing.kit.ending import Ending
from forewarn.testing.kit.forms import unknown
from forewarn.testing.kit.shared_loop import SHARED_LOOP

T = TypeVar("T")

CLOSED = "Use the world before its `with` block or its test ends."


class Bell(asyncio.Event):
    """Wakes all waits after each change in the world. Used on its loop only."""

    def ring(self) -> None:
        """Wake all waits."""
        self.set()
        self.clear()


class AnyCore(ABC):
    """The core of a world on the shared loop, used by the objects that tests have."""

    def __init__(
        self, loop: LoopThread, *, journal: Journal, faults: Player, ending: Ending
    ) -> None:
        """Use `loop` until the end of the world, and then return its lease. Call it on
        that loop."""
        self._loop = loop
        self.journal = journal
        """Every request of the VMs."""
        self.faults = faults
        """Faults between the VMs and the endpoint."""
        self.bell = Bell()
        self.ending = ending
        """Whether the world has ended, and what must end with it."""
        # Code on the loop must hold no reference to this object: it would never be
        # collected.
        ring = self.bell.ring
        journal.on_seen.append(lambda _seen: ring())
        journal.on_again = ring
        self._abandoned = weakref.finalize(self, ending.abandon, loop)
        self._abandoned.atexit = False

    # From other threads
    def call(self, act: Callable[[], T]) -> T:
        """Run a function on the loop; return its result or raise its exception.

        Raises RefusedError if the world has ended.
        """
        __tracebackhide__ = True
        self.refuse_if_gone()
        try:
            return self._loop.call(act)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; an interrupt of the test cancels it.

        Raises RefusedError if the world has ended or ends during the wait.
        """
        __tracebackhide__ = True
        running = self.begin_running(work)
        try:
            return running.result()
        except ForewarnError as error:
            # Frames of the loop's thread would not help the author of a test.
            raise error.with_traceback(None) from error.__cause__
        except CancelledError:
            raise self._closed_meanwhile() from None
        finally:
            running.cancel()

    def begin_running(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop until it finishes or the world ends."""
        __tracebackhide__ = True
        try:
            self.refuse_if_gone()
        except RefusedError:
            work.close()
            raise
        running = self._loop.submit(work)
        self.ending.add(running)
        return running

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, for a test on another asyncio loop."""
        __tracebackhide__ = True
        running = self.begin_running(work)
        try:
            return await asyncio.wrap_future(running)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.ending.has_ended or (task is not None and task.cancelling()):
                # The test itself was cancelled.
                raise
            raise self._closed_meanwhile() from None

    def end(self) -> None:
        """End the world: stop its listeners, waits and tasks.

        In a forked process, end nothing: the world belongs to the parent process.
        """
        self._abandoned.detach()
        if self.ending.is_forked:
            return
        try:
            self.ending.begin()
            self._loop.wait(self.ending.run())
        finally:
            SHARED_LOOP.give_back()

    def refuse_if_gone(self) -> None:
        """Raise RefusedError if the world has ended or belongs to another process."""
        __tracebackhide__ = True
        if self.ending.has_ended:
            raise RefusedError("this world is closed", hint=CLOSED)
        if self.ending.is_forked:
            raise RefusedError(
                f"this world belongs to process {self.ending.process}, and this is "
                f"process {os.getpid()}, a fork of it",
                hint="Begin another world here, or use its VMs through their URLs.",
            )

    def _closed_meanwhile(self) -> RefusedError:
        return RefusedError("this world was closed while this waited", hint=CLOSED)

    def now(self) -> datetime:
        """Return the world's time in UTC."""
        moment = moment_of(self.instant)
        assert moment is not None, "worlds do not begin in 1970"
        return moment

    # Different in each kind of world

    @property
    @abstractmethod
    def instant(self) -> Micros:
        """Return the world's time as an instant."""

    @abstractmethod
    def addresses(self) -> Mapping[str, Address]:
        """Return the address of each VM's endpoint; call it on the loop."""

    @abstractmethod
    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its ID, or None; call it on the loop."""

    @abstractmethod
    def live_events(self) -> list[StoredEvent]:
        """Return the current events, the oldest first; call it on the loop."""

    @abstractmethod
    def reasons(self, operation_id: str) -> list[str]:
        """Return the reasons why an operation waits, as text; call it on the loop."""

    @abstractmethod
    def kept_back(self, event_id: str) -> tuple[str, Micros]:
        """Return the VM whose approval is withheld, or "", and the time."""

    @abstractmethod
    def leapt(self, event: StoredEvent, until: Micros) -> Micros:
        """Return the time that `advance` skipped between an event and `until`.

        Instants of the machine's clock do not contain it.
        """

    @abstractmethod
    def glance(self, vm: str, request: Request) -> object:
        """Return the immediate answer to a VM, on the loop, without recording it."""

    @abstractmethod
    def advance(self, by: Micros) -> None:
        """Advance the time at once; call it on the loop."""

    @abstractmethod
    def step(self) -> Micros:
        """Advance the time to the next timer, on the loop; return by how much."""

    @abstractmethod
    def pause(self) -> None:
        """Stop all timers until `resume`; call it on the loop."""

    @abstractmethod
    def resume(self) -> None:
        """Continue after a pause; call it on the loop."""

    # On the loop

    def event(self, event_id: str) -> StoredEvent:
        """Return an event, on the loop; raises NotFoundError for an unknown one."""
        found = self.find_event(event_id)
        if found is None:
            known = [each.event_id for each in self.live_events()]
            raise unknown("event", event_id, known)
        return found

    def check_vm(self, name: str) -> None:
        """Raise NotFoundError if there is no such VM; call it on the loop."""
        known = self.addresses()
        if name not in known:
            raise unknown("VM", name, known)

    def requests(self, vms: Sequence[str]) -> list[Seen]:
        """Return the recorded requests of some VMs, or of all; call it on the loop."""
        return [seen for seen in self.journal if not vms or seen.vm in vms]

    async def until(self, ask: Callable[[], T | None], *, seconds: float) -> T | None:
        """Wait on the loop until `ask` returns a value; return None after the timeout.

        `ask` is called now, after each change, and once more at the end.
        """
        try:
            async with asyncio.timeout(seconds):
                while (answer := ask()) is None:
                    await self.bell.wait()
                return answer
        except TimeoutError:
            return ask()
