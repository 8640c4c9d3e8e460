"""Settings that are read again while the agent runs (SIGHUP).

They are read when no handler is at work: whoever is, ends by the settings by which it
began. Those that are refused, those that may not take the place of others
(`replacing`), and those with which the agent cannot be put together, change nothing;
why is told until others are taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from forewarn.agent.core.model import Memory, StepState
from forewarn.agent.failure import CommandFailedError
from forewarn.agent.replacing import refusal_of
from forewarn.agent.settings_model import Settings
from forewarn.agent.signals import Signals
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.agent")

Again = Callable[[], Settings]
"""Reads the settings as the command that began did; raises CommandFailedError."""


class Renewal:
    """Reads the settings again when that was asked for."""

    def __init__(self, again: Again, signals: Signals, in_force: Settings) -> None:
        """Read nothing yet."""
        self._again = again
        self._signals = signals
        self._has_waited = False
        self.fault = ""
        """Why the settings that were read last are not in force; empty: they are."""
        self.in_force = in_force
        """By which the agent works."""
        self.settings: Settings | None = None
        """Those that were read last and were not refused."""

    def is_due(self, memory: Memory) -> bool:
        """Tell whether there are other settings to begin anew with; call it each turn."""
        if not self._signals.wants_settings:
            return False
        if is_at_work(memory):
            if not self._has_waited:
                logger.info("the settings are read again when no handler is at work")
            self._has_waited = True
            return False
        self._signals.wants_settings = self._has_waited = False
        try:
            found = self._again()
        except CommandFailedError as error:
            self.refuse(error)
            return False
        refusal = refusal_of(self.in_force, found, memory)
        if refusal is not None:
            self.refuse(refusal)
            return False
        self.settings = found
        return True

    def refuse(self, error: ForewarnError) -> None:
        """Leave the settings in force as they are, and say why."""
        self.fault = f"the settings are refused, and stay as they were: {error.message}"
        logger.error("%s", self.fault)

    def take(self, settings: Settings) -> None:
        """Note that these settings are in force, which were read last."""
        self.in_force = settings
        self.fault = ""
        logger.info("the settings were read again")


def is_at_work(memory: Memory) -> bool:
    """Tell whether a handler is at work, as far as is known."""
    steps = [step for task in memory.tasks for step in task.steps]
    return any(step.state is StepState.RUNNING for step in (*steps, *memory.restored))
