"""Repeat the inventory of [inventory]: run its program, and merge what it prints.

One run is at a time: a thread runs the program with a deadline, a process of its own reads
the output, and the fleet file is applied as `fleet apply --inventory` does. So neither VMs
nor control wait for another system. A run that fails changes nothing. Its reason is a
problem of the service until a run succeeds, and so are the hosts that the program could
not read.

If the service is killed: before the fleet file is applied, nothing has changed, and the
next start runs the program again. The file is applied in one transaction, so it is applied
whole or not at all, and the repeat changes nothing.
"""

import asyncio
import logging
import pickle
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Protocol

from forewarn.admin.meters import Reading
from forewarn.clock import Clock
from forewarn.control.transactions.work import Who
from forewarn.drivers.discovery import Discovery
from forewarn.drivers.libvirt import commands
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import SECOND, format_instant
from forewarn.problems import listed
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits, metric_definitions, planning_process
from forewarn.service.inventory_process import FoundFleet, Printed
from forewarn.service.settings_model import Settings

logger = logging.getLogger("forewarn.inventory")


class Merge(Protocol):
    """Applies a fleet file; raises a ForewarnError and then changes nothing."""

    def __call__(self, text: FleetText, *, who: Who) -> Awaitable[MergePlan]:
        """Return what was changed."""
        ...


class InventoryRunError(ForewarnError):
    """A run failed for a reason that is not the inventory's."""


class Inventory:
    """The repeated runs of one service; used on its event loop."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        """Prepare the runs; nothing runs before `begin`."""
        self._settings = settings.inventory
        self._words = words_of(settings)
        self._clock = clock
        self._running: _Run | None = None
        self._main: asyncio.Task[None] | None = None
        self._trouble = ""
        self._outcomes: Counter[str] = Counter()
        self._good_since = clock.monotonic()

    def begin(self, merge: Merge) -> None:
        """Start to repeat the inventory, at once for the first time."""
        if self._words:
            self._main = asyncio.create_task(self._repeat(merge))

    async def end(self) -> None:
        """Start no further run, and kill the program of the present one."""
        if self._main is None:
            return
        if self._running is not None:
            self._running.end()
        self._main.cancel()
        await asyncio.gather(self._main, return_exceptions=True)

    def troubles(self) -> Sequence[str]:
        """Return why the last run failed, for operators."""
        return (self._trouble,) if self._trouble else ()

    def readings(self) -> list[Reading]:
        """Return the number of runs by outcome, and the age of the last good one."""
        age = self._clock.monotonic() - self._good_since if self._words else 0.0
        return [
            Reading(
                metric_definitions.INVENTORY_RUNS,
                {
                    outcome: self._outcomes[outcome]
                    for outcome in metric_definitions.INVENTORY_OUTCOMES
                },
            ),
            Reading(metric_definitions.INVENTORY_AGE, age),
        ]

    async def _repeat(self, merge: Merge) -> None:
        while True:
            began = self._clock.monotonic()
            await self._run(merge)
            spent = self._clock.monotonic() - began
            rest = self._settings.every / SECOND - spent
            await asyncio.sleep(max(rest, limits.INVENTORY_PAUSE_SECONDS))

    async def _run(self, merge: Merge) -> None:
        at = format_instant(self._clock.now())
        run = self._running = _Run(
            self._words, seconds=self._settings.timeout / SECOND, clock=self._clock
        )
        try:
            fleet = await asyncio.to_thread(run.fleet)
            text = FleetText(
                name=f"the inventory of {run.name}",
                text=fleet.text,
                removals_max=self._settings.removals_max,
                unknown_hosts=fleet.unknown_hosts,
            )
            plan = await merge(text, who=Who(actor=service_part("inventory")))
        except ForewarnError as error:
            self._fail(at, error)
        except Exception as error:
            logger.exception("a run of the inventory has a bug")
            self._fail(at, InventoryRunError(f"a bug in forewarn: {error}"))
        else:
            self._succeed(plan, text.unknown_hosts)
        finally:
            self._running = None

    def _succeed(self, plan: MergePlan, unknown_hosts: tuple[str, ...]) -> None:
        self._outcomes["applied" if plan.changes else "unchanged"] += 1
        self._good_since = self._clock.monotonic()
        before, self._trouble = self._trouble, ""
        if unknown_hosts:
            self._trouble = (
                f"the inventory could not read {listed(unknown_hosts)}. Hosts that it "
                "lacks, and their VMs, stay as they are."
            )
        if self._trouble and self._trouble != before:
            logger.warning("%s", self._trouble)
        elif before and not self._trouble:
            logger.info("the inventory is merged again")
        if plan.changes:
            logger.info("the inventory has made %d changes", len(plan.changes))

    def _fail(self, at: str, error: ForewarnError) -> None:
        self._outcomes["failed"] += 1
        lines = error.message.splitlines()
        first, rest = lines[:_LINES_MAX], len(lines) - _LINES_MAX
        more = f"; and {rest:,} more" if rest > 0 else ""
        message = f"{'; '.join(first)}{more}" + (
            f". {error.hint}" if error.hint else ""
        )
        if not self._trouble.endswith(message):
            logger.warning("the inventory was not merged: %s", message)
        self._trouble = f"the inventory was not merged at {at}: {message}"


_LINES_MAX = 3
"""Maximum problems of an inventory that are shown: `fleet discover` shows all."""


def words_of(settings: Settings) -> tuple[str, ...]:
    """Return the program of the inventory and its arguments; empty: there is none."""
    inventory = settings.inventory
    if not inventory.libvirt:
        return inventory.program
    return commands.discovery_words(
        settings.libvirt.python, inventory.libvirt, seconds=inventory.timeout / SECOND
    )


class _Run:
    """One run of the program; `fleet` blocks, and `end` may be called meanwhile."""

    def __init__(
        self, command: tuple[str, ...], *, seconds: float, clock: Clock
    ) -> None:
        self._discovery = Discovery(command, seconds=seconds, clock=clock)
        self._reading = planning_process.RequestProcess(
            "forewarn.service.inventory_process",
            Path(),
            seconds_max=limits.PLANNING_SECONDS_MAX,
        )

    @property
    def name(self) -> str:
        """Return the program, for messages."""
        return self._discovery.name

    def fleet(self) -> FoundFleet:
        """Return the inventory as a fleet file; raises a ForewarnError."""
        printed = Printed(name=self.name, output=self._discovery.run())
        try:
            answer = self._reading.answer(pickle.dumps(printed))
        except OSError as error:
            raise InventoryRunError(
                f"cannot start a process to read the inventory: {error.strerror}"
            ) from error
        if isinstance(answer, ForewarnError):
            raise answer
        if answer is None and self._reading.has_ended:
            raise InventoryRunError("the service is stopping")
        if answer is None:
            raise InventoryRunError(
                f"the process that reads the inventory {self._reading.end_text}",
                hint="Check the free memory: the process takes about 10 KiB per VM.",
            )
        assert isinstance(answer, FoundFleet), answer
        return answer

    def end(self) -> None:
        """Kill what runs, and start nothing more."""
        self._discovery.end()
        self._reading.end()
