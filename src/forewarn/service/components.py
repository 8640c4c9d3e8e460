"""Create the components of a service from its settings."""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from forewarn.clock import SystemClock
from forewarn.control.transactions.publishing import Publication
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.journal import FileJournal, MemoryJournal
from forewarn.drivers.port import Driver
from forewarn.drivers.programs import PATH, Programs
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import parse_fault
from forewarn.instants import SECOND
from forewarn.metadata.waiting import Waits
from forewarn.problems import quoted
from forewarn.service.fleets import Planner
from forewarn.service.inquirer import ThreadedInquirer
from forewarn.service.options import WORKS
from forewarn.service.settings import Settings, impacts, problem
from forewarn.store.open import open_store, path_of
from forewarn.store.port import Store


class Outbound:
    """The plane's listener: passes everything to the event loop, in order."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        publish: Callable[[Publication], None],
        changed: Callable[[Sequence[str]], None],
    ) -> None:
        """Call `publish` and `changed` on `loop`."""
        self._loop = loop
        self._publish = publish
        self._changed = changed

    def publish(self, publication: Publication) -> None:
        """Pass changed documents to the endpoint."""
        self._loop.call_soon_threadsafe(self._publish, publication)

    def changed(self, operations: Sequence[str]) -> None:
        """Pass the IDs of changed operations to the watchers."""
        self._loop.call_soon_threadsafe(self._changed, operations)


def open_store_of(settings: Settings) -> Store:
    """Open the store; raises StoreError or SettingsError."""
    try:
        return open_store(settings.store.url)
    except ValueError as error:
        raise problem(settings, "store.url", str(error)) from error


def planner_of(settings: Settings) -> Planner | None:
    """Return the planner for large fleet files; None if the store is in memory."""
    path = path_of(settings.store.url)
    return Planner(path) if path is not None else None


def open_driver_of(settings: Settings) -> Driver:
    """Open the driver, with its memory next to the store.

    Raises DriverError or SettingsError.
    """
    if settings.driver.kind == "command":
        return CommandDriver(
            _programs(settings),
            records=records_of(settings),
            clock=SystemClock(),
            retention=settings.store.retention,
        )
    store = path_of(settings.store.url)
    # If the store ends with this process, so do the simulated VMs.
    journal = MemoryJournal() if store is None else FileJournal(journal_of(store))
    driver = SimulatedDriver(impacts=impacts(settings), journal=journal)
    for text in settings.simulated.faults:
        driver.inject(parse_fault(text))
    return driver


def inquirer_of(settings: Settings, driver: Driver) -> ThreadedInquirer | None:
    """Return the inquirer of a driver that can block; None for one that cannot."""
    if settings.driver.kind != "command":
        return None
    return ThreadedInquirer(driver, clock=SystemClock())


def driver_looks(settings: Settings) -> Iterator[Callable[[], object]]:
    """Yield a check for each thing that the driver needs; nothing is opened.

    Each check raises SettingsError for a missing thing.
    """
    if settings.driver.kind != "command":
        return
    for name in (*WORKS, "observe", "probe"):
        yield lambda name=name: _program(settings, name)
    yield lambda: _check_works(settings)
    yield lambda: _check_records(settings)


def _check_works(settings: Settings) -> None:
    if not any(getattr(settings.command, name) for name in WORKS):
        raise problem(
            settings, "driver.kind", "[driver.command] names no program for any action"
        )


def _check_records(settings: Settings) -> None:
    folder = records_of(settings).absolute().parent
    # The default directory is next to the store, and the check of the store reports its
    # problems.
    if settings.command.records and not folder.is_dir():
        raise problem(
            settings, "driver.command.records", f"the directory {folder} does not exist"
        )


def journal_of(store: Path) -> Path:
    """Return the file of the simulated driver's memory, next to the store."""
    return store.with_name(f"{store.name}.simulated")


def _programs(settings: Settings) -> Programs:
    """Return the operator's programs with absolute paths."""
    command = settings.command
    _check_works(settings)
    found = {
        action: _program(settings, name)
        for name, action in WORKS.items()
        if getattr(command, name)
    }
    return Programs(
        actions=found,
        abortable=frozenset(WORKS[name] for name in command.abortable),
        timeouts={
            action: getattr(command, f"{name}_timeout") or command.timeout
            for name, action in WORKS.items()
        },
        observe=_program(settings, "observe"),
        probe=_program(settings, "probe"),
        parallel=command.parallel,
        grace=command.grace,
    )


def _program(settings: Settings, name: str) -> tuple[str, ...]:
    words: tuple[str, ...] = getattr(settings.command, name)
    if not words:
        return ()
    program = shutil.which(words[0], path=PATH)
    if program is None:
        where = "" if "/" in words[0] else f" in {PATH}"
        message = f"there is no executable program {quoted(words[0])}{where}"
        raise problem(settings, f"driver.command.{name}", message)
    return program, *words[1:]


def records_of(settings: Settings) -> Path:
    """Return the directory of the command driver's memory."""
    if settings.command.records:
        return Path(settings.command.records)
    store = path_of(settings.store.url)
    if store is None:
        return Path("forewarn.command")
    return store.with_name(f"{store.name}.command")


def waits_of(settings: Settings) -> Waits:
    """Return the registry of requests that wait for a change, if push is enabled."""
    metadata = settings.metadata
    return Waits(
        longest_seconds=metadata.push_longest_wait // SECOND if metadata.push else 0
    )
