"""Reload the settings while the agent runs (SIGHUP).

This waits until no handler is running, so that each run ends with the settings it
started with. Invalid settings, settings that `refusal_of` refuses, and settings with
which the agent cannot start change nothing. The reason is reported until other settings
are accepted.

A file that was truncated may be valid TOML, and another journal does not know what this
one has prepared. `refusal_of` refuses such changes. A restart accepts any file.
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

ON_PURPOSE = "If this is intended, restart the agent."

Again = Callable[[], Settings]
"""Reads the settings again as at the start; raises CommandFailedError."""


class Renewal:
    """Reloads the settings on request."""

    def __init__(self, again: Again, signals: Signals, in_force: Settings) -> None:
        """Store the parameters."""
        self._again = again
        self._signals = signals
        self._has_waited = False
        self.fault = ""
        """Why the last settings are not in effect; empty: they are."""
        self.in_force = in_force
        """The settings in effect."""
        self.settings: Settings | None = None
        """The last settings that were accepted."""

    def is_due(self, memory: Memory) -> bool:
        """Tell whether to restart with other settings; called after each iteration."""
        if not self._signals.wants_settings:
            return False
        if is_at_work(memory):
            if not self._has_waited:
                logger.info("the settings will be reloaded when no handler is running")
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
        """Keep the settings in effect, and report why the new ones are refused."""
        self.fault = f"the new settings are refused, so the old ones stay in effect: {error.message}"
        logger.error("%s", self.fault)

    def take(self, settings: Settings) -> None:
        """Record that the last settings are in effect."""
        self.in_force = settings
        self.fault = ""
        logger.info("the settings were reloaded")


def is_at_work(memory: Memory) -> bool:
    """Tell whether a handler is running, as far as the agent knows."""
    steps = [step for task in memory.tasks for step in task.steps]
    return any(step.state is StepState.RUNNING for step in (*steps, *memory.restored))


def refusal_of(
    old: Settings, new: Settings, memory: Memory
) -> CommandFailedError | None:
    """Return why the new settings are refused; None: they are accepted.

    `memory` has the work in progress with the old settings.
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
        f"{names} cannot change now: {busy}, and the change would lose it. "
        "Reload when no work is in progress.",
    )


def _lost(old: Settings, new: Settings) -> str:
    """Return what is missing in the new settings, probably by mistake."""
    if old.file and not new.file:
        return f"{old.file} no longer exists, and without it all settings would be the defaults"
    if new.is_blank and not old.is_blank:
        return (
            f"{new.file} is empty, and all settings would be the defaults; was it "
            "truncated?"
        )
    if old.handlers and not new.handlers:
        names = ", ".join(each.name for each in old.handlers)
        return (
            f"{new.file or 'the settings'} no longer has a handler, so the VM would "
            f"not be prepared; was it truncated? In effect: {names}"
        )
    return ""


def _kept(old: Settings, new: Settings) -> list[str]:
    """Return the changed settings that must not change while work is in progress."""
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
