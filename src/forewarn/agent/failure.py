"""How the agent's commands fail: the exit status, and the sentence that a person reads."""

from __future__ import annotations

from forewarn.protocol.errors import ForewarnError

FAILED = 1
USAGE = 2
UNREACHABLE = 3

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""


class CommandFailedError(ForewarnError):
    """A command cannot do what it was told, and says why."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        """End with this exit status."""
        super().__init__(message, hint=hint)
        self.status = status
