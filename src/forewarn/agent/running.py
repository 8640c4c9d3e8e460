"""Run one agent until it is stopped.

The agent restarts within the process when its settings were reloaded (SIGHUP), and when
a journal that failed at the start can be opened. Work in progress continues: the memory
is in the journal, and running handlers are found again.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping

from forewarn.agent import lastgood
from forewarn.agent.assembly import Ending, Parts
from forewarn.agent.failure import FAILED, USAGE, CommandFailedError
from forewarn.agent.observability.server import Listeners
from forewarn.agent.renewing import Again, Renewal, Signals
from forewarn.agent.secrets import masked
from forewarn.agent.settings_model import Settings
from forewarn.agent.watcher import Watched
from forewarn.clock import SystemClock
from forewarn.logs import logging_to
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.agent")


def run(settings: Settings, *, environ: Mapping[str, str], again: Again) -> int:
    """Run the agent and return the exit status; raises CommandFailedError.

    `again` reads the settings again. If the first settings turn out to be wrong when
    they are used, the status is 2, as for wrong usage. If the agent cannot start on
    this machine, for example because another agent runs, it is 1. Later settings that
    are wrong change nothing.
    """
    signals = Signals()
    renewal = Renewal(again, signals, settings)
    good = settings
    known: Watched | None = None
    ending = Ending.REOPENED
    with signals.heard(), contextlib.closing(Listeners()) as listeners:
        while ending is not Ending.STOPPED and not signals.is_stopping:
            log = settings.log
            with logging_to(
                sys.stderr, form=log.format, level=log.level, shown=masked
            ) as lines:
                for warning in settings.warnings:
                    logger.warning("%s", warning)
                try:
                    parts = Parts(
                        settings,
                        environ=environ,
                        clock=SystemClock(),
                        log=lines,
                        renewal=renewal,
                        known=known if is_same_endpoint(settings, good) else None,
                        listeners=listeners,
                    )
                except ForewarnError as error:
                    if settings is good:
                        raise _failed(error) from error
                    renewal.refuse(error)
                    settings = good
                    continue
                # The remaining sockets are for addresses of older settings.
                listeners.close()
                if settings is not good:
                    renewal.take(settings)
                good = settings
                lastgood.keep(settings, environ)
                try:
                    ending = signals.while_running(
                        parts.run, stop=parts.stop, wake=parts.wake
                    )
                finally:
                    parts.close()
                known = parts.watched
            if ending is Ending.RENEWED and renewal.settings is not None:
                settings = renewal.settings
    return 0


def is_same_endpoint(one: Settings, other: Settings) -> bool:
    """Return whether both settings mean the same endpoint and VM."""
    first, second = (
        (watch.endpoint, watch.ca_file, watch.name, watch.scale_set_names)
        for watch in (one.watch, other.watch)
    )
    return first == second


def _failed(error: ForewarnError) -> CommandFailedError:
    # A running agent has unloaded the modules for settings.
    from forewarn.agent.settings import AgentSettingsError  # noqa: PLC0415

    status = USAGE if isinstance(error, AgentSettingsError) else FAILED
    return CommandFailedError(status, error.message, hint=error.hint)
