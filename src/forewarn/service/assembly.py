"""The front door: a service to start in one's own loop, or a whole process.

`Service` has no globals and touches neither logging nor signals, so that many may
run in one process. `run` is the process of `forewarn serve`.
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

from forewarn.admin.limits import FLEET_BYTES_MAX
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
from forewarn.supervisor import Supervisor

__all__ = ["Service", "StartError", "read_fleet_text", "run"]

logger = logging.getLogger("forewarn.service")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

NOBODY = Supervisor()
"""Where nobody wants to hear of the service."""


SWITCH_SECONDS = 0.001
"""How long the control thread may keep the interpreter from the thread that answers
VMs. Python's own 5 ms would be seen in every GET that meets a long transaction."""

GARBAGE_OBJECTS = 20_000
"""New objects, not counting those that have gone, after which garbage is looked for:
some 3 MiB at most. Python's own 700 are 14 approvals, and nearly all that an order
or an approval makes is kept: to search it again and again is a fifth of their cost,
and at times a pause that is seen in the slowest answers."""


OWNER_ONLY = 0o077
"""The file mode creation mask: only the service's user may read what the service and
the programs of its driver create. The systemd unit sets the same."""


def run(
    settings: Settings,
    *,
    fleet: Path | None = None,
    supervisor: Supervisor = NOBODY,
) -> int:
    """Run a service until a signal stops it; return the exit status.

    Raises ForewarnError if it cannot start: SettingsError and FleetFileError for
    what its files say, others for what the machine says; and what the machine says
    if it cannot go on. A status of 1 means that the program is at fault. After
    either the service is to be started again.
    """
    text = None if fleet is None else _fleet_of(fleet)
    mask = os.umask(OWNER_ONLY)
    open_files.allow()
    sys.setswitchinterval(SWITCH_SECONDS)
    thresholds = gc.get_threshold()
    # Until the start is over, hardly anything that is made is rubbish.
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
            service = Service(settings, api_apart=True)
            service.metrics.lines_dropped = lambda: log.dropped
            return runner.run(_serve(service, text, supervisor))
    finally:
        os.umask(mask)
        gc.set_threshold(*thresholds)
        gc.enable()


def _fleet_of(file: Path) -> FleetText | FleetFileError:
    """Return the text of the file, or what is wrong with it.

    A file that cannot be used ends the start only if no fleet is stored, which is not
    known before the store is open.
    """
    try:
        text = read_fleet_text(file)
        if len(text.text) <= limits.READ_HERE_CHARACTERS_MAX:
            text.read()
    except FleetFileError as error:
        return error
    return text


def read_fleet_text(file: Path) -> FleetText:
    """Return the text of a fleet file; raises FleetFileError if it has none."""
    try:
        # Decoded as a whole: a file that is read in parts loses count of its lines.
        text = read_file(file, most=FLEET_BYTES_MAX).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FleetFileError([unreadable(error, file=str(file))]) from error
    return FleetText(name=str(file), text=text)


async def _serve(
    service: Service,
    fleet: FleetText | FleetFileError | None,
    supervisor: Supervisor = NOBODY,
) -> int:
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def stop(number: signal.Signals) -> None:
        if told.done():
            _end_now(number)
        told.set_result(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    await service.start(fleet=fleet)
    # What a fleet is made of lives as long as the service: not to be searched for
    # garbage again and again, which at 100,000 VMs stops everything for a second.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()
    _greet(service)
    supervisor.tell("READY=1")
    telling = asyncio.create_task(
        keep_telling(supervisor, lambda: service.health().alive, service.status)
    )
    failure = asyncio.create_task(service.wait_failed())
    await asyncio.wait({told, failure}, return_when=asyncio.FIRST_COMPLETED)
    if told.done():
        logger.info("stopping")
    failure.cancel()
    telling.cancel()
    supervisor.tell("STOPPING=1", "STATUS=stopping")
    await _stop(service)
    return 0 if service.failure is None else 1


async def keep_telling(
    supervisor: Supervisor, is_alive: Callable[[], bool], status: Callable[[], str]
) -> None:
    """Keep the supervisor's watchdog quiet as long as the service is alive.

    It is fed only while the control thread gives signs of life, from the event loop:
    if either of them stands still, the service is killed and started anew on what is
    durable.
    """
    while True:
        if is_alive():
            supervisor.tell("WATCHDOG=1", f"STATUS={status()}")
        else:
            logger.error("no sign of life: the watchdog is not fed")
        await asyncio.sleep(supervisor.pause)


async def _stop(service: Service) -> None:
    """Stop the service; raise the machine's fault that ended it, as the last word.

    A fault of the program has been told with its traceback, and is named again.
    """
    try:
        await service.stop()
    except ForewarnError:
        # What follows from its failure, such as a file that cannot be closed.
        if service.failure is None:
            raise
    if isinstance(service.failure, ForewarnError):
        raise service.failure
    if service.failure is not None:
        logger.critical(
            "the service ends by a fault of its own, please report it: %r",
            service.failure,
        )


def _end_now(number: signal.Signals) -> None:
    """End at once, as who sends a second signal wishes; the store stays whole."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _greet(service: Service) -> None:
    guests = dict(service.addresses())
    if (shared := guests.pop("", None)) is not None:
        logger.info("serving VMs, each known by its address, at %s", url_of(shared))
    for vm, address in guests.items():
        logger.info("serving VM %s at %s", vm, url_of(address))
    logger.info("serving operators at %s", service.admin_url)
    logger.info("ready; the store is %s", without_password(service.settings.store.url))
