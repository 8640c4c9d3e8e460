"""Count, plan and apply fleet files without delaying the VMs.

The service reads a small file itself, and compares it with the fleet in the transaction
that applies it. A separate process (`planning`) reads a large file, while the service
answers VMs and operators. The process returns only the differences, which the service
applies in one transaction. One process runs at a time, since each takes hundreds of MiB.
It ends with its request or with the service.

The fleet can change meanwhile. If a write `concerns_plans`, the process compares the
file again while the control thread waits for it. Nothing is written during that time, so
the new plan is valid. VMs still get their documents. Requests and approvals wait for a
second or two, and only if a VM was moved or deleted in those seconds.
"""

import asyncio
import contextlib
import functools
import logging
import pickle
import subprocess
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from typing import TypeAlias, TypeVar

from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, fleet_conflicts
from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.fleet import merge
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.service import limits, planning_process
from forewarn.service.observed import Changes, Listener
from forewarn.service.planning import Message, Question
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner
from forewarn.store.snapshot import Source


class PlanningError(ForewarnError):
    """A fleet file could not be read or compared; nothing was changed."""


class Planning:
    """The process for one file; its methods block."""

    def __init__(self, store: Source, text: FleetText) -> None:
        """Prepare the process for `text`."""
        self._store = store
        self._text = text
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Start the process and send it the text; raises PlanningError."""
        with self._guard:
            if self._has_ended:
                raise PlanningError("the service is stopping")
            try:
                self._process = planning_process.begin(
                    "forewarn.service.planning", self._store
                )
            except OSError as error:
                raise PlanningError(
                    f"cannot start a process to read {self._text.name}: "
                    f"{error.strerror}"
                ) from error
        with self._talking() as process:
            _send(process, self._text)

    def count(self) -> dict[str, int]:
        """Return how many objects of each kind the file has."""
        [counts] = self._ask(Question.COUNT)
        assert isinstance(counts, dict), counts
        return counts

    def plan(self) -> MergePlan:
        """Return the changes that applying the file would make now.

        Raises FleetFileError, and RefusedError as `fleet_changes.plan` does.
        """
        changes: list[merge.Change] = []
        for message in self._ask(Question.PLAN):
            assert isinstance(message, tuple), message
            changes += message
        return MergePlan(changes=tuple(changes))

    def end(self) -> None:
        """Kill the process; running calls raise PlanningError."""
        with self._guard:
            self._has_ended = True
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _ask(self, question: Question) -> Iterator[Message]:
        """Yield the parts of an answer, or raise its error."""
        with self._talking() as process:
            assert process.stdout is not None
            _send(process, question)
            while (message := pickle.load(process.stdout)) is not None:  # noqa: S301
                if isinstance(message, FleetFileError | RefusedError):
                    raise message
                if isinstance(message, ForewarnError):
                    raise PlanningError(message.message, hint=message.hint)
                yield message

    @contextlib.contextmanager
    def _talking(self) -> Generator["subprocess.Popen[bytes]"]:
        """Limit the time of an exchange; raises PlanningError if the process ends."""
        process = self._process
        assert process is not None, "it has not begun"
        with planning_process.TimeLimit(process, limits.PLANNING_SECONDS_MAX) as limit:
            try:
                yield process
            except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
                if self._has_ended:
                    raise PlanningError("the service is stopping") from error
                raise PlanningError(
                    f"the process that reads {self._text.name} {limit.end}",
                    hint="Check the free memory and the load of the machine: the "
                    "process takes about 3 KiB and 50 µs per VM.",
                ) from error


class Planner:
    """Starts a process for one file at a time; used on one event loop."""

    def __init__(self, store: Source) -> None:
        """Compare files with snapshots of `store`."""
        self._store = store
        self._turn = asyncio.Lock()
        self._planning: Planning | None = None

    @contextlib.asynccontextmanager
    async def planning(self, text: FleetText) -> AsyncGenerator[Planning]:
        """Start a process for the file when earlier ones have ended."""
        async with self._turn:
            planning = self._planning = Planning(self._store, text)
            try:
                await asyncio.to_thread(planning.begin)
                yield planning
            finally:
                planning.end()

    def close(self) -> None:
        """End the running process, if there is one."""
        if self._planning is not None:
            self._planning.end()


def _send(process: "subprocess.Popen[bytes]", message: object) -> None:
    assert process.stdin is not None
    pickle.dump(message, process.stdin)
    process.stdin.flush()


T = TypeVar("T")

logger = logging.getLogger("forewarn.service")


Apply: TypeAlias = Callable[[Work, WantedFleet | MergePlan], MergePlan]
"""Applies a file, or a plan for it, in a transaction."""


class FleetWrites(Listener):
    """Watches commits for writes that can invalidate plans (observed.Listener)."""

    def __init__(self) -> None:
        """Start without plans."""
        self._plans: list[threading.Event] = []

    def committed(self, changes: Changes) -> None:
        """Check the changes of a transaction, in the thread that wrote."""
        if self._plans and any(
            fleet_changes.concerns_plans(change.before, change.after)
            for change in changes
        ):
            for stale in self._plans:
                stale.set()

    @contextlib.contextmanager
    def planning(self) -> Generator[threading.Event]:
        """Yield an event that is set when a write can make the new plan invalid."""
        stale = threading.Event()
        # Replace the list: the writing thread can be iterating over the old one.
        self._plans = [*self._plans, stale]
        try:
            yield stale
        finally:
            self._plans = [plan for plan in self._plans if plan is not stale]


class Fleets:
    """Counts, plans and applies fleet files; used on one event loop."""

    def __init__(
        self,
        *,
        runner: Runner | None,
        readings: Readings,
        writes: FleetWrites,
        planner: Planner | None,
        count_vms: Callable[[], int],
    ) -> None:
        """Use these components. Without a `planner`, all files are read in this process.

        Without a `runner`, files can be counted and planned, but not applied.
        """
        self._runner = runner
        self._readings = readings
        self._writes = writes
        self._planner = planner
        self._count_vms = count_vms
        self.refusal = ""
        """Why the file of the start was refused; empty after the next applied file."""

    async def count(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a file has; raises FleetFileError."""
        if self._planner is None or _is_short(text):
            return (await asyncio.to_thread(text.read)).count()
        async with self._planner.planning(text) as planning:
            return await asyncio.to_thread(planning.count)

    async def merge(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,
    ) -> MergePlan:
        """Apply a file for `who`; without `who`, only plan it.

        `check` is called in the transaction that applies it.
        """
        # Hash in a thread, since hashing releases the interpreter lock.
        digest = None
        if who is not None and text.removals_max is None:
            digest = await asyncio.to_thread(text.digest)
        apply = functools.partial(
            fleet_changes.apply, digest=digest, once=once, check=check
        )
        plan = await self._merge(text, who, apply)
        if digest is not None:
            self.refusal = ""
        return plan

    async def _merge(self, text: FleetText, who: Who | None, apply: Apply) -> MergePlan:
        is_small = _is_short(text) and self._count_vms() <= limits.PLANNED_HERE_VMS_MAX
        if self._planner is None or is_small:
            return await self._merge_here(text, who, apply)
        async with self._planner.planning(text) as planning:
            if who is None:
                merged = await asyncio.to_thread(planning.plan)
                await self._readings.read(
                    lambda reader: fleet_conflicts.check(reader, merged)
                )
                return merged
            return await self._merge_there(text, who, planning, apply)

    def refused(self, name: str, error: ForewarnError) -> None:
        """Record that the file of the start was refused, so the stored fleet is used."""
        self.refusal = (
            f"the fleet file {name} was refused, and the stored fleet is used: "
            f"{error.message}"
        )
        logger.error("%s", self.refusal)

    def close(self) -> None:
        """End the planner's process, if it runs."""
        if self._planner is not None:
            self._planner.close()

    async def _merge_here(
        self, text: FleetText, who: Who | None, apply: Apply
    ) -> MergePlan:
        # Read in a thread, so that the event loop is not blocked.
        wanted = await asyncio.to_thread(text.read)
        if who is None:
            return await self._readings.read(
                lambda reader: fleet_changes.preview(reader, wanted)
            )
        assert self._runner is not None, "nothing can be applied here"
        return await self._runner.call(
            lambda plane, now: plane.order(
                who, lambda work: apply(work, wanted), now=now
            )
        )

    async def _merge_there(
        self, text: FleetText, who: Who, planning: Planning, apply: Apply
    ) -> MergePlan:
        with self._writes.planning() as stale:
            first = await asyncio.to_thread(planning.plan)

            def act(plane: Plane, now: Micros) -> MergePlan:
                plan = first
                if stale.is_set():
                    logger.info(
                        "the fleet changed while %s was compared: comparing again",
                        text.name,
                    )
                    plan = planning.plan()
                return plane.order(who, lambda work: apply(work, plan), now=now)

            assert self._runner is not None, "nothing can be applied here"
            return await self._runner.call(act)


def _is_short(text: FleetText) -> bool:
    return len(text.text) <= limits.READ_HERE_CHARACTERS_MAX
