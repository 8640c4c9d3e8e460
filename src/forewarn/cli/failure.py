"""Exit statuses and errors of commands."""

import enum
from collections.abc import Sequence


class Exit(enum.IntEnum):
    """The exit status of a command."""

    DONE = 0
    FAILED = 1
    """The work failed."""
    USAGE = 2
    """Wrong usage, settings or file."""
    UNREACHABLE = 3
    """The service cannot be reached, or is not available."""
    REFUSED = 4
    """The service refused."""


class CommandError(Exception):
    """A command cannot be executed; the message has the reason."""

    def __init__(
        self,
        status: Exit,
        message: str,
        *,
        hint: str = "",
        lines: Sequence[str] = (),
    ) -> None:
        """Store the texts; `lines` are printed before the message."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.lines = tuple(lines)
