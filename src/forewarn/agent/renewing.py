"""Settings that are read again while the agent runs (SIGHUP).

They are read when no handler is at work: whoever is, ends by the settings by which it
began. Those that are refused, those that may not take the place of others
(`refusal_of`), and those with which the agent cannot be put together, change nothing;
why is told until others are taken.

A file that was cut short is sound TOML, and another journal knows nothing of what was
prepared by this one. Such a change is refused; a restart takes what it finds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from forewarn.agent.core import underway
from forewarn.agent.core.model import Memory, StepState
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.settings_model import Settings
from forewarn.agent.signals import Signals
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.agent")

ON_PURPOSE = "To have it on purpose, restart the agent."

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


def refusal_of(
    old: Settings, new: Settings, memory: Memory
) -> CommandFailedError | None:
    """Return why the new settings are not taken; None: they are.

    `memory` is what the agent has under way by the old ones.
    """
    message = _lost(old, new)
    if message:
        return CommandFailedError(USAGE, f"{message}. {ON_PURPOSE}")
    changed = _kept(old, new)
    busy = underway.what(memory) if changed else ""
    if not busy:
        return None
    names = " and ".join(changed)
    return CommandFailedError(
        USAGE,
        f"{names} cannot change now: {busy}, and it would be forgotten, or taken for "
        "gone. Reload when nothing is under way.",
    )


def _lost(old: Settings, new: Settings) -> str:
    """Return what the new settings have lost that was not taken away on purpose."""
    if old.file and not new.file:
        return f"{old.file} is gone, and without it all settings would be the defaults"
    if new.is_blank and not old.is_blank:
        return (
            f"{new.file} is empty, and all settings would be the defaults: was it cut "
            "short?"
        )
    if old.handlers and not new.handlers:
        names = ", ".join(each.name for each in old.handlers)
        return (
            f"{new.file or 'the settings'} has no handler any more, and nothing would "
            f"be prepared: was it cut short? In force: {names}"
        )
    return ""


def _kept(old: Settings, new: Settings) -> list[str]:
    """Return the settings that differ, and may not while something is under way."""
    before, after = old.watch, new.watch
    differs = {
        "state": os.path.realpath(before.state) != os.path.realpath(after.state),
        "endpoint": before.endpoint != after.endpoint,
        "name": before.name != after.name,
        "scale_set_names": before.scale_set_names != after.scale_set_names,
        # A dry run has no journal.
        "dry_run": after.dry_run and not before.dry_run,
    }
    return [name for name, is_other in differs.items() if is_other]
