"""A command with its parameters and settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from forewarn.agent import lastgood
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.renewing import has_terminal
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import Settings
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.texts import json_text

USUAL_FILE = "/etc/forewarn/agent.toml"
"""The default settings file, if it exists."""


def tell_stderr(line: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")


@frozen_dataclass
class Order:
    """A command with its parameters."""

    say: Callable[[str], None]
    environ: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings from flags, by their full names."""
    config: str = ""
    """The settings file; empty: none was named."""
    is_json: bool = False
    program: tuple[str, ...] = ()
    """The command that starts the agent, with absolute paths."""
    tell: Callable[[str], None] = tell_stderr
    """Writes warnings to the user."""

    def settings(self) -> Settings:
        """Return the settings; raises CommandFailedError."""
        try:
            return load_settings(
                file=self._file(), environ=self.environ, flags=self.flags
            )
        except AgentSettingsError as error:
            raise CommandFailedError(USAGE, error.message, hint=error.hint) from error

    def settings_to_run(self) -> Settings:
        """Return the settings to run with; raises CommandFailedError.

        If the file is refused and no user is at a terminal, these are the settings of
        the last good copy. A VM without an agent would not be prepared at all.
        """
        return self.settings() if has_terminal() else self._sound_or_last_good()

    def settings_of_running(self) -> Settings:
        """Return the settings for finding a running agent; raises CommandFailedError.

        If the file is refused, these are the settings of the last good copy, with a
        warning: an agent that runs with them can still be checked and get requests.
        """
        settings = self._sound_or_last_good()
        if settings.is_copy:
            for line in settings.warnings[0].splitlines():
                self.tell(f"forewarn: {line}")
        return settings

    def _sound_or_last_good(self) -> Settings:
        try:
            settings = self.settings()
        except CommandFailedError as error:
            # If the error is not in the file, the copy does not help.
            copy = self._last_good()
            if copy is None:
                raise
            return _copied(copy, error.message)
        # A file that was emptied is valid, but contains no settings.
        copy = self._last_good() if settings.is_blank else None
        if copy is None:
            return settings
        return _copied(copy, f"{settings.file} is empty; was it truncated?")

    def _last_good(self) -> Settings | None:
        file = self._file()
        copy = lastgood.find(file, self.environ, self.flags)
        if not copy:
            return None
        try:
            settings = load_settings(file=copy, environ=self.environ, flags=self.flags)
        except AgentSettingsError:
            return None
        return replace(settings, file=file)

    def _file(self) -> str:
        if not self.config and os.path.exists(USUAL_FILE):
            return USUAL_FILE
        return self.config

    def say_json(self, value: Any) -> None:
        """Print one JSON document."""
        self.say(json_text(value, indent=2))


def _copied(settings: Settings, why: str) -> Settings:
    """Return the last good settings, with the reason for using them."""
    sentence = f"the settings are refused, so the last good ones are in effect: {why}"
    return replace(settings, is_copy=True, warnings=(sentence, *settings.warnings))
