"""A command as it was given, and the settings that it is given with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from forewarn.agent import lastgood
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.signals import has_terminal
from forewarn.agent.values import Settings
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.texts import json_text

USUAL_FILE = "/etc/forewarn/agent.toml"
"""What is read where no file is named, if it is there."""


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
        try:
            return self.settings()
        except CommandFailedError as error:
            file = self._file()
            copy = "" if has_terminal() else lastgood.find(file, self.environ)
            if not copy:
                raise
            try:
                found = load_settings(file=copy, environ=self.environ, flags=self.flags)
            except AgentSettingsError:
                # What is wrong is none of the file's, or the copy is no better.
                raise error from None
            told = f"the settings are refused, and the last good ones are in force: {error.message}"
            return replace(
                found, file=file, is_copy=True, warnings=(told, *found.warnings)
            )

    def _file(self) -> str:
        if not self.config and os.path.exists(USUAL_FILE):
            return USUAL_FILE
        return self.config

    def say_json(self, value: Any) -> None:
        """Print one JSON document."""
        self.say(json_text(value, indent=2))
