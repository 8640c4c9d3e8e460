"""Fleet files: counted, planned and applied, without holding up the VMs.

A small file is read here, and compared with what is in the transaction that applies
it. A large one is looked at by a process of its own (`planner`), while VMs are
answered and orders taken; only what differs comes back, and is applied in one
transaction as ever.

Meanwhile the fleet may change. If a write `concerns_plans`, the file is compared
again, this time in the control thread's turn: nothing is written until that is done,
and the plan is true. Answers to VMs go on; orders and approvals wait for a second or
two, and only if somebody moved or deleted a VM in just those seconds.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, fleet_conflicts
from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Who
from forewarn.fleet.changes import MergePlan
from forewarn.fleet.file import FleetText
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits
from forewarn.service.observed import Change, Listener
from forewarn.service.planner import Planner, Planning
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner

T = TypeVar("T")

logger = logging.getLogger("forewarn.service")


class FleetWrites(Listener):
    """Hears of commits, and tells whether plans may have become wrong."""

    def __init__(self) -> None:
        """Begin with nobody who plans."""
        self._plans: list[threading.Event] = []

    def committed(self, changes: Sequence[Change]) -> None:
        """Take what a transaction wrote, in the thread that wrote."""
        if self._plans and any(
            fleet_changes.concerns_plans(change.before, change.after)
            for change in changes
        ):
            for stale in self._plans:
                stale.set()

    @contextlib.contextmanager
    def planning(self) -> Generator[threading.Event]:
        """Watch what is written from now on; it is set when plans may be wrong."""
        stale = threading.Event()
        # Put in another's place, not changed: the writer's thread may go through it.
        self._plans = [*self._plans, stale]
        try:
            yield stale
        finally:
            self._plans = [each for each in self._plans if each is not stale]


class Fleets:
    """What is done with fleet files; used on one event loop."""

    def __init__(
        self,
        *,
        runner: Runner | None,
        readings: Readings,
        writes: FleetWrites,
        planner: Planner | None,
        count_vms: Callable[[], int],
    ) -> None:
        """Join the ways. Without a `planner` there is no file for another process.

        Without a `runner` files are counted and planned, and not applied.
        """
        self._runner = runner
        self._readings = readings
        self._writes = writes
        self._planner = planner
        self._count_vms = count_vms
        self.refusal = ""
        """Why the file of the start was refused; empty after one that was not."""

    async def count(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a file has; raises FleetFileError."""
        if self._planner is None or _is_short(text):
            return (await asyncio.to_thread(text.read)).count()
        async with self._planner.planning(text) as planning:
            return await asyncio.to_thread(planning.count)

    async def merge(
        self, text: FleetText, *, who: Who | None, once: Once | None = None
    ) -> MergePlan:
        """Apply a file for `who`; for nobody it is only planned."""
        plan = await self._merge(text, who, once)
        if who is not None:
            self.refusal = ""
        return plan

    async def _merge(
        self, text: FleetText, who: Who | None, once: Once | None
    ) -> MergePlan:
        is_small = _is_short(text) and self._count_vms() <= limits.PLANNED_HERE_VMS_MAX
        if self._planner is None or is_small:
            return await self._merge_here(text, who, once)
        async with self._planner.planning(text) as planning:
            if who is None:
                merged = await asyncio.to_thread(planning.plan)
                await self._readings.read(
                    lambda reader: fleet_conflicts.check(reader, merged)
                )
                return merged
            return await self._merge_there(text, who, planning, once)

    def refused(self, name: str, error: ForewarnError) -> None:
        """Note that the file of the start was refused: the stored fleet is served."""
        self.refusal = (
            f"the fleet file {name} was refused, and the stored fleet is served: "
            f"{error.message}"
        )
        logger.error("%s", self.refusal)

    def close(self) -> None:
        """Give up what is looked at by another process."""
        if self._planner is not None:
            self._planner.close()

    async def _merge_here(
        self, text: FleetText, who: Who | None, once: Once | None
    ) -> MergePlan:
        # Others want answers meanwhile.
        wanted = await asyncio.to_thread(text.read)
        if who is None:
            return await self._readings.read(
                lambda reader: fleet_changes.preview(reader, wanted)
            )
        digest = text.digest()
        assert self._runner is not None, "nothing can be applied here"
        return await self._runner.call(
            lambda plane, now: plane.order(
                who,
                lambda work: fleet_changes.apply(
                    work, wanted, digest=digest, once=once
                ),
                now=now,
            )
        )

    async def _merge_there(
        self, text: FleetText, who: Who, planning: Planning, once: Once | None
    ) -> MergePlan:
        # Hashing lets go of the interpreter.
        digest = await asyncio.to_thread(text.digest)
        with self._writes.planning() as stale:
            first = await asyncio.to_thread(planning.plan)

            def act(plane: Plane, now: Micros) -> MergePlan:
                plan = first
                if stale.is_set():
                    logger.info(
                        "the fleet changed under %s: comparing again", text.name
                    )
                    plan = planning.plan()
                return plane.order(
                    who,
                    lambda work: fleet_changes.carry_out(
                        work, plan, digest=digest, once=once
                    ),
                    now=now,
                )

            assert self._runner is not None, "nothing can be applied here"
            return await self._runner.call(act)


def _is_short(text: FleetText) -> bool:
    return len(text.text) <= limits.READ_HERE_CHARACTERS_MAX
