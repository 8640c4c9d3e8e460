"""A command as it was given, and the settings that it is given with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from forewarn.agent import lastgood
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import Settings
from forewarn.agent.signals import has_terminal
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.texts import json_text

USUAL_FILE = "/etc/forewarn/agent.toml"
"""What is read where no file is named, if it is there."""


def tell_stderr(line: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")


@frozen_dataclass
class Order:
    """A command as it was given."""

    say: Callable[[str], None]
    environ: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings that were given as flags, by their whole names."""
    config: str = ""
    """The file that was named; empty: none was."""
    is_json: bool = False
    program: tuple[str, ...] = ()
    """The words that start the agent, with absolute paths."""
    tell: Callable[[str], None] = tell_stderr
    """Says beside the answer what a person should know of it."""

    def settings(self) -> Settings:
        """Return the settings in force; raises CommandFailedError."""
        try:
            return load_settings(
                file=self._file(), environ=self.environ, flags=self.flags
            )
        except AgentSettingsError as error:
            raise CommandFailedError(USAGE, error.message, hint=error.hint) from error

    def settings_to_run(self) -> Settings:
        """Return the settings to run with; raises CommandFailedError.

        Where the file is refused and nobody sits before it, they are those of the copy
        with which the agent last began: a VM without an agent is not prepared at all.
        """
        return self.settings() if has_terminal() else self._sound_or_last_good()

    def settings_of_running(self) -> Settings:
        """Return those by which a running agent is found; raises CommandFailedError.

        Where the file is refused, they are those of the copy: an agent that goes on
        with them can be looked at, and be given an order. That is told.
        """
        found = self._sound_or_last_good()
        if found.is_copy:
            for line in found.warnings[0].splitlines():
                self.tell(f"forewarn: {line}")
        return found

    def _sound_or_last_good(self) -> Settings:
        try:
            found = self.settings()
        except CommandFailedError as error:
            # Where what is wrong is none of the file's, the copy is no better.
            copy = self._last_good()
            if copy is None:
                raise
            return _copied(copy, error.message)
        # A file that was emptied is sound, and says nothing.
        copy = self._last_good() if found.is_blank else None
        if copy is None:
            return found
        return _copied(copy, f"{found.file} is empty: was it cut short?")

    def _last_good(self) -> Settings | None:
        file = self._file()
        copy = lastgood.find(file, self.environ, self.flags)
        if not copy:
            return None
        try:
            found = load_settings(file=copy, environ=self.environ, flags=self.flags)
        except AgentSettingsError:
            return None
        return replace(found, file=file)

    def _file(self) -> str:
        if not self.config and os.path.exists(USUAL_FILE):
            return USUAL_FILE
        return self.config

    def say_json(self, value: Any) -> None:
        """Print one JSON document."""
        self.say(json_text(value, indent=2))


def _copied(settings: Settings, why: str) -> Settings:
    """Return the last good settings, with why they are in force."""
    told = f"the settings are refused, and the last good ones are in force: {why}"
    return replace(settings, is_copy=True, warnings=(told, *settings.warnings))
