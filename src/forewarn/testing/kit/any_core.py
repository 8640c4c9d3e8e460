"""What the handles of one world share: its loop, its requests, and how to wait for it.

Tests run in threads and loops of their own. Everything that touches a world runs on
the shared loop; from outside, a call takes a fraction of a millisecond.
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

CLOSED = "ask before its `with` or its test ends"


class Bell(asyncio.Event):
    """Rings whenever something in the world has changed. Used on its loop."""

    def ring(self) -> None:
        """Wake everybody who waits."""
        self.set()
        self.clear()


class AnyCore(ABC):
    """A world on the shared loop, as its handles use it."""

    def __init__(
        self, loop: LoopThread, *, journal: Journal, faults: Player, ending: Ending
    ) -> None:
        """Stand on `loop`, which is given back in the end. Made on that loop."""
        self._loop = loop
        self.journal = journal
        """Every request that VMs have sent."""
        self.faults = faults
        """What goes wrong between VMs and the endpoint."""
        self.bell = Bell()
        self.ending = ending
        """What ends with it, and whether it has ended."""
        # What runs on the loop must not hold this: nobody would miss it if it did.
        ring = self.bell.ring
        journal.on_seen.append(lambda _seen: ring())
        journal.on_again = ring
        self._forsaken = weakref.finalize(self, ending.forsake, loop)
        self._forsaken.atexit = False

    # From outside

    def call(self, act: Callable[[], T]) -> T:
        """Run a function on the loop; return its result or raise its exception.

        Raises RefusedError once the world has ended.
        """
        __tracebackhide__ = True
        self.refuse_if_gone()
        try:
            return self._loop.call(act)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; an interrupt of the test ends it.

        Raises RefusedError once the world has ended, also while it waits.
        """
        __tracebackhide__ = True
        running = self.begin_running(work)
        try:
            return running.result()
        except ForewarnError as error:
            # What the loop's thread did to find out is of no use to a test's author.
            raise error.with_traceback(None) from error.__cause__
        except CancelledError:
            raise self._closed_meanwhile() from None
        finally:
            running.cancel()

    def begin_running(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop, until it is over or the world ends."""
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
        """Run a coroutine on the loop, for a test on an asyncio loop of its own."""
        __tracebackhide__ = True
        running = self.begin_running(work)
        try:
            return await asyncio.wrap_future(running)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.ending.has_ended or (task is not None and task.cancelling()):
                # It is the test that waits no longer.
                raise
            raise self._closed_meanwhile() from None

    def end(self) -> None:
        """End the world: nothing of it listens, waits or runs any more.

        A fork only forgets it: it is the world of the process that began it.
        """
        self._forsaken.detach()
        if self.ending.is_forked:
            return
        try:
            self.ending.begin()
            self._loop.wait(self.ending.run())
        finally:
            SHARED_LOOP.give_back()

    def refuse_if_gone(self) -> None:
        """Refuse: nothing happens in a world that has ended, so no wait would end."""
        __tracebackhide__ = True
        if self.ending.has_ended:
            raise RefusedError("this world is closed", hint=CLOSED)
        if self.ending.is_forked:
            raise RefusedError(
                f"this world belongs to process {self.ending.process}, and this is "
                f"process {os.getpid()}, a fork of it",
                hint="begin another world here, or reach its VMs by their URLs",
            )

    def _closed_meanwhile(self) -> RefusedError:
        return RefusedError("this world was closed while this waited", hint=CLOSED)

    def now(self) -> datetime:
        """Return the world's time."""
        moment = moment_of(self.instant)
        assert moment is not None, "worlds do not begin in 1970"
        return moment

    # What kind of world it is

    @property
    @abstractmethod
    def instant(self) -> Micros:
        """Return the world's time as an instant."""

    @abstractmethod
    def addresses(self) -> Mapping[str, Address]:
        """Return where each VM is served, on the loop."""

    @abstractmethod
    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its id, on the loop."""

    @abstractmethod
    def live_events(self) -> list[StoredEvent]:
        """Return the events that documents show, the oldest first, on the loop."""

    @abstractmethod
    def reasons(self, operation_id: str) -> list[str]:
        """Return every reason that holds an operation, in sentences, on the loop."""

    @abstractmethod
    def kept_back(self, event_id: str) -> tuple[str, Micros]:
        """Return who approved an event and was kept back, and when, or ""."""

    @abstractmethod
    def leapt(self, event: StoredEvent, until: Micros) -> Micros:
        """Return what was let pass since an event was made, and is in no instant."""

    @abstractmethod
    def glance(self, vm: str, request: Request) -> object:
        """Return what a VM would be answered at once, on the loop; nobody notes it."""

    @abstractmethod
    def advance(self, by: Micros) -> None:
        """Let time pass at once, on the loop."""

    @abstractmethod
    def step(self) -> Micros:
        """Let time pass until something is due, on the loop; return how much did."""

    @abstractmethod
    def pause(self) -> None:
        """Have nothing fall due until `resume`, on the loop."""

    @abstractmethod
    def resume(self) -> None:
        """Go on after a pause, on the loop."""

    # On the loop

    def event(self, event_id: str) -> StoredEvent:
        """Return an event, on the loop; refuse one that is not known any more."""
        found = self.find_event(event_id)
        if found is None:
            known = [each.event_id for each in self.live_events()]
            raise unknown("event", event_id, known)
        return found

    def check_vm(self, name: str) -> None:
        """Refuse a name of no VM, on the loop."""
        known = self.addresses()
        if name not in known:
            raise unknown("VM", name, known)

    def requests(self, vms: Sequence[str]) -> list[Seen]:
        """Return what is remembered of the requests of VMs, or of all, on the loop."""
        return [seen for seen in self.journal if not vms or seen.vm in vms]

    async def until(self, ask: Callable[[], T | None], *, seconds: float) -> T | None:
        """Wait on the loop until `ask` returns something; None: it never did.

        `ask` is called now, after each ring of the bell, and once more at the end.
        """
        try:
            async with asyncio.timeout(seconds):
                while (answer := ask()) is None:
                    await self.bell.wait()
                return answer
        except TimeoutError:
            return ask()
