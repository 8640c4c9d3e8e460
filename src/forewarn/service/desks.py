"""What VMs and operators may ask, over the control thread."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from forewarn.clock import Clock
from forewarn.control import reports
from forewarn.control.desk import Health
from forewarn.control.work import Who, Work
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import Micros
from forewarn.metadata import desk as metadata
from forewarn.protocol.errors import ForewarnError
from forewarn.service.runner import Runner
from forewarn.service.watching import Watchers
from forewarn.store.port import Reader, Store

T = TypeVar("T")


class Readings:
    """Reads the store in a few threads of its own, off the event loop."""

    def __init__(self, *, store: Store, threads: Executor) -> None:
        """Read `store` in `threads`."""
        self._store = store
        self._threads = threads

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Return what `ask` returns on a consistent view."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._store.read, ask)


class VmDesk:
    """The metadata endpoint's way to control (metadata.desk.Desk)."""

    def __init__(
        self, *, runner: Runner, readings: Readings, approvals: Counter[str]
    ) -> None:
        """Ask `runner`, read through `readings`, and count answers in `approvals`."""
        self._runner = runner
        self._readings = readings
        self._approvals = approvals

    async def enable(self, vm: str) -> None:
        """Enable what `vm` is served; return after it has been published."""
        try:
            await self._runner.enable(vm)
        except ForewarnError as error:
            raise _busy(error) from error

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        """Approve the events for `vm`: None, or the sentence of a refusal."""
        try:
            refusal = await self._runner.approve(vm, tuple(event_ids))
        except ForewarnError as error:
            self._approvals["unavailable"] += 1
            raise _busy(error) from error
        self._approvals["accepted" if refusal is None else "refused"] += 1
        return refusal

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return what the instance endpoint tells `vm` of itself; None: gone."""
        try:
            return await self._readings.read(
                lambda reader: reports.instance_facts(reader, vm)
            )
        except ForewarnError as error:
            raise _busy(error) from error


class ServiceDesk:
    """The operator API's way to control (control.desk.OperatorDesk)."""

    def __init__(
        self,
        *,
        runner: Runner,
        readings: Readings,
        watchers: Watchers,
        clock: Clock,
        health: Callable[[], Health],
    ) -> None:
        """Join the ways."""
        self._runner = runner
        self._readings = readings
        self._watchers = watchers
        self._clock = clock
        self._health = health

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one order; raises what `decide` raises, and BusyError."""
        return await self._runner.call(
            lambda plane, now: plane.order(who, decide, now=now)
        )

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store, off the plane's thread."""
        return await self._readings.read(ask)

    def now(self) -> Micros:
        """Return the model time."""
        return self._clock.now()

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield ids of operations that changed; an empty tuple: read anew."""
        return self._watchers.watch()

    def health(self) -> Health:
        """Tell whether the ticker and the store work."""
        return self._health()


def _busy(error: ForewarnError) -> metadata.BusyError:
    return metadata.BusyError(error.message, hint=error.hint)
