"""One agent at work until it is told to stop, for whoever gave the command.

It begins anew, in the same process, where its settings were read again (SIGHUP), and
where it had to begin without its journal and has it now. What is under way goes on:
memory is in the journal, and programs of handlers are found again.
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
from forewarn.agent.renewing import Again, Renewal
from forewarn.agent.secrets import masked
from forewarn.agent.settings_model import Settings
from forewarn.agent.signals import Signals
from forewarn.agent.watcher import Watched
from forewarn.clock import SystemClock
from forewarn.logs import logging_to
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.agent")


def run(settings: Settings, *, environ: Mapping[str, str], again: Again) -> int:
    """Return the exit status at the end; raises CommandFailedError.

    `again` reads the settings once more. Settings that turn out wrong when they are
    first used end it as wrong usage does, with 2; a machine on which it cannot start,
    also since another agent runs there, with 1. Later ones change nothing then.
    """
    signals = Signals()
    renewal = Renewal(again, signals, settings)
    good = settings
    known: Watched | None = None
    ending = Ending.ANEW
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
                # What is left there now is for addresses of older settings.
                listeners.close()
                if settings is not good:
                    renewal.take(settings)
                good = settings
                lastgood.keep(settings, environ)
                try:
                    ending = signals.while_running(parts.run, stop=parts.stop)
                finally:
                    parts.close()
                known = parts.watched
            if ending is Ending.RENEWED and renewal.settings is not None:
                settings = renewal.settings
    return 0


def is_same_endpoint(one: Settings, other: Settings) -> bool:
    """Tell whether what is known of the endpoint by one is true of the other, too."""
    first, second = (
        (watch.endpoint, watch.ca_file, watch.name, watch.scale_set_names)
        for watch in (one.watch, other.watch)
    )
    return first == second


def _failed(error: ForewarnError) -> CommandFailedError:
    # What reads settings is not kept in a running agent.
    from forewarn.agent.settings import AgentSettingsError  # noqa: PLC0415

    status = USAGE if isinstance(error, AgentSettingsError) else FAILED
    return CommandFailedError(status, error.message, hint=error.hint)
