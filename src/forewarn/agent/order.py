"""A command as it was given, and the settings that it is given with."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.values import Settings
from forewarn.texts import json_text

USUAL_FILE = "/etc/forewarn/agent.toml"
"""What is read where no file is named, if it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        file = self.config
        if not file and os.path.exists(USUAL_FILE):
            file = USUAL_FILE
        try:
            return load_settings(file=file, environ=self.environ, flags=self.flags)
        except AgentSettingsError as error:
            raise CommandFailedError(USAGE, error.message, hint=error.hint) from error

    def say_json(self, value: Any) -> None:
        """Print one JSON document."""
        self.say(json_text(value, indent=2))
