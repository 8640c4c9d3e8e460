"""Handle signals: stop the agent, or reload its settings.

SIGTERM and SIGINT stop the agent, and a second one kills it. SIGHUP reloads the
settings, or stops an agent that was started in a terminal. If SIGHUP was ignored at the
start (`nohup`), it stays ignored.

Reloading waits until no handler is running, so that each run ends with the settings it
started with. Invalid settings, settings that `refuse_loss` refuses, and settings with
which the agent cannot start change nothing. The reason is reported until other settings
are accepted.

A file that was truncated may be valid TOML, and another journal does not know what this
one has prepared. `refuse_loss` refuses such changes. A restart accepts any file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator
from typing import TypeVar

from forewarn.agent.core import steps, underway
from forewarn.agent.core.model import Memory
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.settings_model import Settings
from forewarn.protocol.errors import ForewarnError

T = TypeVar("T")

logger = logging.getLogger("forewarn.agent")

ON_PURPOSE = "If this is intended, restart the agent."

Again = Callable[[], Settings]
"""Reads the settings again as at the start; raises CommandFailedError."""


class Signals:
    """The signals that were received and not handled yet."""

    def __init__(self) -> None:
        """Start without any signal."""
        self.wants_settings = False
        """The settings must be reloaded."""
        self.is_stopping = False
        self._stop: Callable[[], None] | None = None
        """Stops the running agent; None: no agent is running."""
        self._wake: Callable[[], None] | None = None
        """Ends the wait of the running agent; None: no agent is running."""

    @contextlib.contextmanager
    def heard(self) -> Generator[None]:
        """Handle signals during the `with` block."""
        wanted = {signal.SIGTERM: self._end, signal.SIGINT: self._end}
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
            wanted[hangup] = self._end if has_terminal() else self._reload
        before = {number: signal.signal(number, do) for number, do in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def while_running(
        self,
        run: Callable[[], T],
        *,
        stop: Callable[[], None],
        wake: Callable[[], None],
    ) -> T:
        """Run a function to its end; a signal calls `stop` to end it, or `wake`."""
        self._stop, self._wake = stop, wake
        try:
            if self.is_stopping:
                # The signal came before the agent was running.
                stop()
            return run()
        finally:
            self._stop = self._wake = None

    def _end(self, number: int, _frame: object, /) -> None:
        signal.signal(number, signal.SIG_DFL)
        self.is_stopping = True
        if self._stop is not None:
            self._stop()

    def _reload(self, _number: int, _frame: object, /) -> None:
        self.wants_settings = True
        if self._wake is not None:
            self._wake()


def has_terminal() -> bool:
    """Return whether a person started this process in a terminal."""
    return any(
        stream is not None and not stream.closed and stream.isatty()
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


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
        """Return whether to restart with other settings; called after each iteration."""
        if not self._signals.wants_settings:
            return False
        if any(True for _ in steps.running(memory)):
            if not self._has_waited:
                logger.info("the settings will be reloaded when no handler is running")
            self._has_waited = True
            return False
        self._signals.wants_settings = self._has_waited = False
        try:
            settings = self._again()
            refuse_loss(self.in_force, settings, memory)
        except CommandFailedError as error:
            self.refuse(error)
            return False
        self.settings = settings
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


def refuse_loss(old: Settings, new: Settings, memory: Memory) -> None:
    """Raise CommandFailedError if the new settings would lose something.

    `memory` has the work in progress with the old settings.
    """
    if message := _lost(old, new):
        raise CommandFailedError(USAGE, f"{message}. {ON_PURPOSE}")
    changed = " and ".join(_kept(old, new))
    busy = underway.what(memory)
    if changed and busy:
        raise CommandFailedError(
            USAGE,
            f"{changed} cannot change now: {busy}, and the change would lose it. "
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
        names = ", ".join(handler.name for handler in old.handlers)
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
