"""The process of `forewarn serve`.

`Service` has no global state and touches neither logging nor signals, so that several
can run in one process. `run` adds everything that belongs to the process.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText
from forewarn.logs import logging_to
from forewarn.problems import unreadable
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits, open_files, secret_files
from forewarn.service.listening import StartError, url_of
from forewarn.service.options import without_password
from forewarn.service.service import Service
from forewarn.service.settings import Settings
from forewarn.settings.files import read_file
from forewarn.store.postgres.url import is_url as is_database
from forewarn.supervisor import Supervisor

__all__ = ["Service", "StartError", "read_fleet_text", "run"]

logger = logging.getLogger("forewarn.service")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

NO_SUPERVISOR = Supervisor()
"""No supervisor."""


SWITCH_SECONDS = 0.001
"""Maximum time that the control thread keeps the interpreter lock while VMs wait. With
Python's default of 5 ms, a long transaction would delay every GET."""

GARBAGE_OBJECTS = 20_000
"""New objects, minus freed ones, after which Python collects garbage: at most 3 MiB.
Python's default of 700 is reached after 14 approvals. Most objects of a request or
approval stay alive, so collecting that often takes a fifth of its time and causes
pauses in the slowest responses."""


OWNER_ONLY = 0o077
"""The umask: only the service's user can read files that the service and its driver's
programs create. The systemd unit sets the same value."""


def run(
    settings: Settings,
    *,
    fleet: Path | None = None,
    supervisor: Supervisor = NO_SUPERVISOR,
) -> int:
    """Run a service until a signal stops it; return the exit status.

    Raises ForewarnError if the service cannot start: SettingsError and FleetFileError
    for its files, other classes for problems of the machine. It also raises problems of
    the machine that end a running service. Status 1 means a bug in forewarn. In both
    cases, the supervisor must restart the service.
    """
    text = None if fleet is None else _fleet_of(fleet)
    mask = os.umask(OWNER_ONLY)
    open_files.allow()
    sys.setswitchinterval(SWITCH_SECONDS)
    thresholds = gc.get_threshold()
    # Nearly all objects created during the start stay alive.
    gc.disable()
    try:
        with (
            logging_to(
                sys.stderr, form=settings.log.format, level=settings.log.level
            ) as log,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            for warning in (
                *settings.warnings,
                *secret_files.open_files(settings),
                *secret_files.open_doors(settings),
            ):
                logger.warning("%s", warning)
            service = service_of(settings)
            service.metrics.lines_dropped = lambda: log.dropped
            return runner.run(_serve(service, text, supervisor))
    finally:
        os.umask(mask)
        gc.set_threshold(*thresholds)
        gc.enable()


def service_of(settings: Settings) -> Service:
    """Return the service for a process of its own: a replica, if others can share its
    store."""
    if not is_database(settings.store.url):
        return Service(settings, api_apart=True)
    # A service with another store does not load the client of PostgreSQL.
    from forewarn.service.cluster.postgres import PostgresBackend  # noqa: PLC0415
    from forewarn.service.replicated import ReplicatedService  # noqa: PLC0415

    backend = PostgresBackend(settings.store.url)
    return ReplicatedService(settings, backend, api_apart=True)


def _fleet_of(file: Path) -> FleetText | FleetFileError:
    """Return the text of the file, or its error.

    An invalid file prevents the start only if the store has no fleet, which is unknown
    until the store is open.
    """
    try:
        text = read_fleet_text(file)
        if len(text.text) <= limits.READ_HERE_CHARACTERS_MAX:
            text.read()
    except FleetFileError as error:
        return error
    return text


def read_fleet_text(file: Path) -> FleetText:
    """Return the text of a fleet file; raises FleetFileError if it cannot be read."""
    try:
        # Decode the whole file, so that an error has the right line number.
        text = read_file(file, bytes_max=limits.FLEET_FILE_BYTES_MAX).decode(
            "utf-8-sig"
        )
    except (OSError, UnicodeDecodeError) as error:
        raise FleetFileError([unreadable(error, file=str(file))]) from error
    return FleetText(name=str(file), text=text)


async def _serve(
    service: Service,
    fleet: FleetText | FleetFileError | None,
    supervisor: Supervisor = NO_SUPERVISOR,
) -> int:
    loop = asyncio.get_running_loop()
    signaled: asyncio.Future[int] = loop.create_future()

    def stop(number: signal.Signals) -> None:
        if signaled.done():
            _end_now(number)
        signaled.set_result(number)

    def hang_up() -> None:
        if not signaled.done():
            signaled.set_result(signal.SIGHUP)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    # Under nohup, the service outlives its terminal.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # A terminal that is closed sends the signal twice: the second one is ignored.
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    await service.start(fleet=fleet)
    # The objects of the fleet live as long as the service. Without `freeze`, each full
    # collection would stop a service with 100,000 VMs for a second.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()
    _log_addresses(service)
    supervisor.notify("READY=1")
    feeding = asyncio.create_task(
        feed_watchdog(supervisor, lambda: service.health().alive, service.status)
    )
    failure = asyncio.create_task(service.wait_failed())
    await asyncio.wait({signaled, failure}, return_when=asyncio.FIRST_COMPLETED)
    if signaled.done():
        logger.info("stopping")
    failure.cancel()
    feeding.cancel()
    supervisor.notify("STOPPING=1", "STATUS=stopping")
    await _stop(service)
    return 0 if service.failure is None else 1


async def feed_watchdog(
    supervisor: Supervisor, is_alive: Callable[[], bool], status: Callable[[], str]
) -> None:
    """Feed the supervisor's watchdog as long as the service is alive.

    The event loop feeds it, and only while the control thread has a heartbeat. If either
    hangs, the supervisor kills and restarts the service, which resumes from its store.
    """
    while True:
        if is_alive():
            supervisor.notify("WATCHDOG=1", f"STATUS={status()}")
        else:
            logger.error("the control thread hangs, so the watchdog is not notified")
        await asyncio.sleep(supervisor.pause)


async def _stop(service: Service) -> None:
    """Stop the service; raise the problem of the machine that ended it, if any.

    A bug has been logged with its traceback; it is logged again as the last line.
    """
    try:
        await service.stop()
    except ForewarnError:
        # A consequence of the first failure, such as a file that cannot be closed.
        if service.failure is None:
            raise
    if isinstance(service.failure, ForewarnError):
        raise service.failure
    if service.failure is not None:
        logger.critical(
            "the service ends because of a bug in forewarn, please report it: %r",
            service.failure,
        )


def _end_now(number: signal.Signals) -> None:
    """Exit at once after a second signal; the store stays consistent."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _log_addresses(service: Service) -> None:
    guests = dict(service.addresses())
    if (shared := guests.pop("", None)) is not None:
        logger.info("serving VMs by source address at %s", url_of(shared))
    for vm, address in guests.items():
        logger.info("serving VM %s at %s", vm, url_of(address))
    logger.info("serving operators at %s", service.admin_url)
    logger.info("ready; the store is %s", without_password(service.settings.store.url))
