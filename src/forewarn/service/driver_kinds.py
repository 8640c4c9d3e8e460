"""The kinds of drivers: how each is opened, checked and asked, in one table.

Nothing else in the service depends on the kind.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forewarn.clock import SystemClock
from forewarn.control.rules.abilities import Abilities
from forewarn.drivers import journal, records
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.journal import FileJournal, Journal, MemoryJournal
from forewarn.drivers.libvirt import commands as libvirt_commands
from forewarn.drivers.libvirt.commands import Connections
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.limited import parse_limited
from forewarn.drivers.port import Driver
from forewarn.drivers.programs import PATH, Programs
from forewarn.drivers.qemu.commands import actions_of, programs_of
from forewarn.drivers.qemu.places import Places
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import parse_fault
from forewarn.instants import SECOND
from forewarn.problems import quoted
from forewarn.protocol.operations import Action
from forewarn.service.inquirer import ThreadedInquirer
from forewarn.service.options import WORKS
from forewarn.service.settings import Settings, impacts, problem
from forewarn.service.settings_model import (
    HostStepSettings,
    step_rules,
    step_time,
)
from forewarn.store.open import companion_file, memory_file

ALL_ACTIONS = frozenset(Action) - {Action.NONE}
"""The actions of a driver that supports every one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverKind:
    """One value of `driver.kind`."""

    open: Callable[[Settings], Driver]
    """Opens the driver. Raises DriverError or SettingsError."""
    memory_of: Callable[[Settings], Path | None]
    """Returns the path of the driver's memory of calls; None if it ends with the
    process."""
    has_calls: Callable[[Path], bool]
    """Returns whether the memory at a path has calls."""
    checks_of: Callable[[Settings], Iterator[Callable[[], object]]] = lambda _: iter(())
    """Yields a check for each thing that the driver needs; nothing is opened. Each
    check raises SettingsError for a missing thing."""
    actions_of: Callable[[Settings], frozenset[Action]]
    """Returns the actions that the driver supports with these settings."""
    can_block: bool = True
    """`probe`, `observe` and `abort` can take time, so threads call them."""


def kind_of(settings: Settings) -> DriverKind:
    """Return the kind of driver that the settings name."""
    return KINDS[settings.driver.kind]


def abilities_of(settings: Settings) -> Abilities:
    """Return what the driver of the settings can do, without opening it."""
    return Abilities(
        actions=kind_of(settings).actions_of(settings),
        host_steps=step_rules(settings),
    )


def inquirer_of(settings: Settings, driver: Driver) -> ThreadedInquirer | None:
    """Return the inquirer of a driver that can block; None for one that cannot."""
    if not kind_of(settings).can_block:
        return None
    return ThreadedInquirer(driver, clock=SystemClock())


# The simulated driver


def _open_simulated(settings: Settings) -> Driver:
    file = _journal_of(settings)
    # If the store ends with this process, so do the simulated VMs.
    memory = MemoryJournal() if file is None else FileJournal(file)
    driver = SimulatedDriver(
        marks=_marks_of(settings),
        impacts=impacts(settings),
        journal=memory,
        steps=step_rules(settings),
        step_time=step_time(settings),
        targets=settings.simulated.target_hosts,
        limited=[parse_limited(text) for text in settings.simulated.limited],
        clock=SystemClock(),
    )
    for text in settings.simulated.faults:
        driver.inject(parse_fault(text))
    return driver


def _marks_of(settings: Settings) -> Journal | None:
    """Return where the simulated VMs keep their marks; None: they keep none."""
    file = companion_file(settings.store.url, "domains")
    if settings.simulated.marks:
        return MemoryJournal() if file is None else FileJournal(file)
    if file is not None:
        # Marks of earlier calls would tell that the calls without marks were not made.
        file.unlink(missing_ok=True)
    return None


def _journal_of(settings: Settings) -> Path | None:
    """Return the file of the simulated driver's memory, next to the store."""
    return companion_file(settings.store.url, "simulated")


# The driver that runs programs


def _open_command(settings: Settings) -> Driver:
    return CommandDriver(
        _programs(settings),
        records=_records_of(settings),
        clock=SystemClock(),
        retention=settings.store.retention,
    )


_QUESTIONS = ("observe", "observe_many", "probe", "marks", "watch", "abilities")
"""The programs that change nothing."""


def _checks_of_command(settings: Settings) -> Iterator[Callable[[], object]]:
    for name in (*WORKS, *_QUESTIONS):
        yield lambda name=name: _program(settings, name)
    for step in settings.host_step:
        yield lambda step=step: _step_program(settings, step)
    yield lambda: _check_works(settings)
    yield lambda: _check_observers(settings)
    yield lambda: _check_records(settings)


def _check_works(settings: Settings) -> None:
    has_any = any(getattr(settings.command, name) for name in WORKS)
    if not has_any and not settings.host_step:
        raise problem(
            settings, "driver.kind", "[driver.command] names no program for any action"
        )


def _check_observers(settings: Settings) -> None:
    if settings.command.observe and settings.command.observe_many:
        raise problem(
            settings,
            "driver.command.observe_many",
            "observe is set too, and only one of them can be asked: remove observe",
        )


def _check_records(settings: Settings) -> None:
    directory = _records_of(settings).absolute().parent
    # The default directory is next to the store, and the check of the store reports its
    # problems.
    if settings.command.records and not directory.is_dir():
        raise problem(
            settings,
            "driver.command.records",
            f"the directory {directory} does not exist",
        )


def _programs(settings: Settings) -> Programs:
    """Return the operator's programs with absolute paths."""
    command = settings.command
    _check_works(settings)
    _check_observers(settings)
    programs = {
        action: _program(settings, name)
        for name, action in WORKS.items()
        if getattr(command, name)
    }
    return Programs(
        actions=programs,
        abortable=frozenset(WORKS[name] for name in command.abortable),
        timeouts={
            action: getattr(command, f"{name}_timeout") or command.timeout
            for name, action in WORKS.items()
        },
        steps={step.name: _step_program(settings, step) for step in settings.host_step},
        step_rules=step_rules(settings),
        observe=_program(settings, "observe"),
        observe_many=_program(settings, "observe_many"),
        probe=_program(settings, "probe"),
        marks=_program(settings, "marks"),
        watch=_program(settings, "watch"),
        abilities=_program(settings, "abilities"),
        parallel=command.parallel,
        grace=command.grace,
    )


def _actions_of_command(settings: Settings) -> frozenset[Action]:
    return frozenset(
        action for name, action in WORKS.items() if getattr(settings.command, name)
    )


def _program(settings: Settings, name: str) -> tuple[str, ...]:
    command: tuple[str, ...] = getattr(settings.command, name)
    return _with_path(settings, f"driver.command.{name}", command) if command else ()


def _step_program(settings: Settings, step: HostStepSettings) -> tuple[str, ...]:
    return _with_path(settings, f"host_step.{step.name}.program", step.program)


def _with_path(
    settings: Settings, key: str, command: tuple[str, ...]
) -> tuple[str, ...]:
    """Return a program with its absolute path; raises SettingsError."""
    program = shutil.which(command[0], path=PATH)
    if program is None:
        where = "" if "/" in command[0] else f" in {PATH}"
        message = f"there is no executable program {quoted(command[0])}{where}"
        raise problem(settings, key, message)
    return program, *command[1:]


def _records_of(settings: Settings) -> Path:
    """Return the directory of the command driver's memory."""
    if settings.command.records:
        return Path(settings.command.records)
    return _memory_beside_store(settings, "command")


def _memory_beside_store(settings: Settings, kind: str) -> Path:
    """Return the directory of the memory of a kind of driver, next to the store."""
    return memory_file(settings.store.url, kind)


# The driver for QEMU


def _open_qemu(settings: Settings) -> Driver:
    places = _places(settings)
    return CommandDriver(
        programs_of(
            places,
            steps={
                step.name: _step_program(settings, step) for step in settings.host_step
            },
            step_rules=step_rules(settings),
            parallel=settings.qemu.parallel,
        ),
        records=_memory_beside_store(settings, "qemu"),
        clock=SystemClock(),
        retention=settings.store.retention,
        kind="qemu",
    )


def _checks_of_qemu(settings: Settings) -> Iterator[Callable[[], object]]:
    yield lambda: _places(settings)
    for step in settings.host_step:
        yield lambda step=step: _step_program(settings, step)


def _places(settings: Settings) -> Places:
    """Return what the driver's programs need; raises SettingsError."""
    qemu = settings.qemu
    if not qemu.monitor:
        raise problem(settings, "driver.qemu.monitor", "is needed by the qemu driver")
    if qemu.events == qemu.monitor:
        message = (
            "must be another monitor than that for commands: each serves one client"
        )
        raise problem(settings, "driver.qemu.events", message)
    if qemu.receive and not qemu.migration:
        raise problem(
            settings, "driver.qemu.migration", "is needed with driver.qemu.receive"
        )
    return Places(
        monitor=qemu.monitor,
        events=qemu.events,
        migration=qemu.migration,
        start=_program_of_qemu(settings, "start"),
        receive=_program_of_qemu(settings, "receive"),
        freeze=qemu.freeze / SECOND,
        shutdown=qemu.shutdown_timeout / SECOND,
        downtime=qemu.downtime / SECOND,
    )


def _program_of_qemu(settings: Settings, name: str) -> tuple[str, ...]:
    command: tuple[str, ...] = getattr(settings.qemu, name)
    return _with_path(settings, f"driver.qemu.{name}", command) if command else ()


# The driver for libvirt


def _open_libvirt(settings: Settings) -> Driver:
    connections, libvirt = _connections(settings), settings.libvirt
    return LibvirtDriver(
        libvirt_commands.programs_of(
            libvirt.python,
            connections,
            can_reimage=libvirt.reimage,
            steps={
                step.name: _step_program(settings, step) for step in settings.host_step
            },
            step_rules=step_rules(settings),
            timeout=libvirt.timeout,
            parallel=libvirt.parallel,
        ),
        python=libvirt.python,
        connections=connections,
        records=_memory_beside_store(settings, "libvirt"),
        clock=SystemClock(),
        retention=settings.store.retention,
    )


def _checks_of_libvirt(settings: Settings) -> Iterator[Callable[[], object]]:
    yield lambda: _connections(settings)
    yield lambda: check_module(settings)
    for step in settings.host_step:
        yield lambda step=step: _step_program(settings, step)


def _connections(settings: Settings) -> Connections:
    """Return what the driver's workers need; raises SettingsError."""
    libvirt = settings.libvirt
    if not libvirt.uri:
        message = (
            "is needed by the libvirt driver, such as qemu+ssh://root@{host}/system"
        )
        raise problem(settings, "driver.libvirt.uri", message)
    _with_path(settings, "driver.libvirt.python", (libvirt.python,))
    exceptions = (uri.partition("=") for uri in libvirt.uris)
    return Connections(
        uri=libvirt.uri,
        uris={host: uri for host, _, uri in exceptions},
        peer_uri=libvirt.peer_uri,
        data_uri=libvirt.data_uri,
        migration=libvirt.migration,
        freeze=libvirt.freeze / SECOND,
        shutdown=libvirt.shutdown_timeout / SECOND,
        pause=libvirt.pause,
        connect=libvirt.connect_timeout / SECOND,
    )


def check_module(settings: Settings) -> None:
    """Refuse a Python that has no module `libvirt`."""
    if trouble := libvirt_commands.module_problem(settings.libvirt.python):
        raise problem(settings, "driver.libvirt.python", trouble)


KINDS: Mapping[str, DriverKind] = {
    "simulated": DriverKind(
        open=_open_simulated,
        memory_of=_journal_of,
        has_calls=journal.has_calls,
        actions_of=lambda _: ALL_ACTIONS,
        can_block=False,
    ),
    "command": DriverKind(
        open=_open_command,
        memory_of=_records_of,
        has_calls=records.has_calls,
        checks_of=_checks_of_command,
        actions_of=_actions_of_command,
    ),
    "qemu": DriverKind(
        open=_open_qemu,
        memory_of=lambda settings: _memory_beside_store(settings, "qemu"),
        has_calls=records.has_calls,
        checks_of=_checks_of_qemu,
        actions_of=lambda settings: actions_of(_places(settings)),
    ),
    "libvirt": DriverKind(
        open=_open_libvirt,
        memory_of=lambda settings: _memory_beside_store(settings, "libvirt"),
        has_calls=records.has_calls,
        checks_of=_checks_of_libvirt,
        actions_of=lambda settings: libvirt_commands.actions_of(
            can_reimage=settings.libvirt.reimage
        ),
    ),
}
"""Each kind of driver by its name, which is a value of the setting `driver.kind`."""
